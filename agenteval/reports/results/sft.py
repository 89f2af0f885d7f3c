"""sft: chat messages with tool calls to fine-tune a model: the answers that passed (--all: every one)"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from agenteval.reports.answers import ReportedAnswer
from agenteval.reports.conversation import NO_REPLY, REASONS, Chat, chat_of, say_left_out
from agenteval.reports.forms import ReportContext
from agenteval.reports.reader import RowReader
from agenteval.streams.jsonl import encode
from agenteval.wire.records import Record
from agenteval.wire.row import PASS


def render(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """Yields a line per answer that is taken, as it comes."""
    taken, left_out = 0, Counter[str]()
    for answer in results.answers():
        chat = chat_of(answer, context.reader)
        if why := why_not(answer, chat, context):
            left_out[why] += 1
            continue
        taken += 1
        yield encode(example(chat)) + b"\n"
    say_left_out(f"{taken:,} of {taken + left_out.total():,} answers written", left_out, context)


def why_not(answer: ReportedAnswer, chat: Chat, context: ReportContext) -> str | None:
    """Why an answer is left out; None if it is taken."""
    if answer.status != PASS and not context.every:
        return REASONS[answer.status]
    return None if chat.complete else NO_REPLY


def example(chat: Chat) -> Record:
    """One example; `tools` is left out if none was called."""
    return {"messages": chat.messages} | ({"tools": chat.tools} if chat.tools else {})
