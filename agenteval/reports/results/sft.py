"""sft: chat messages with tool calls to fine-tune a model: the answers that passed (--all: every one)"""

from collections import Counter
from collections.abc import Iterator

from agenteval.reports.conversation import NO_REPLY, REASONS, chat_of, say_left_out
from agenteval.reports.forms import ReportContext
from agenteval.reports.reader import RowReader
from agenteval.streams.jsonl import encode
from agenteval.wire.row import PASS


def render(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """Yields a line per answer that is taken, as it comes."""
    taken, left_out = 0, Counter[str]()
    for answer in results.answers():
        chat = chat_of(answer, context.reader)
        if answer.status != PASS and not context.every:
            left_out[REASONS[answer.status]] += 1
        elif not chat.complete:
            left_out[NO_REPLY] += 1
        else:
            taken += 1
            yield encode({"messages": chat.messages} | ({"tools": chat.tools} if chat.tools else {})) + b"\n"
    say_left_out(f"{taken:,} of {taken + left_out.total():,} answers written", left_out, context)
