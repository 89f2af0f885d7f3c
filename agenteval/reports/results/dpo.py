"""dpo: for preference training: pairs of an answer that passed and one that did not, from trials or
with --against FILE
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

from agenteval.errors import BadRecord, UserError
from agenteval.reports.answers import ReportedAnswer, answers_in
from agenteval.reports.conversation import NO_REPLY, REASONS, Chat, chat_of, say_left_out
from agenteval.reports.forms import ReportContext
from agenteval.reports.reader import RowReader
from agenteval.streams.jsonl import encode
from agenteval.streams.rows import parse_row
from agenteval.streams.spool import Spool
from agenteval.streams.text import counted
from agenteval.wire.records import Record
from agenteval.wire.row import ERROR, FAIL, PASS, RowWithSteps

OTHER_PROMPT = "whose prompt differs in the other file"
SAME = "whose answers are the same, although one passed and the other did not"
NOTHING = "no prompt has both an answer that passed and one that did not: there are no pairs to write"
OTHER_TURNS = "with different turns before the last one, which OpenAI's API does not accept"
ONE_ANSWER = "results have one answer per prompt, and a pair needs two: give trials, or another run with --against FILE"


def render(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """Yields a line per pair, prompt by prompt as they come; the answers of --against wait in a temporary file."""
    left_out = Counter[str]()
    other = OtherRun(context.against) if context.against else None
    pairs = prompts = 0

    def parse(line: bytes) -> RowWithSteps:
        row = parse_row(line, RowWithSteps)
        if other is None and not row.is_trials:
            raise BadRecord(ONE_ANSWER) if prompts else UserError(ONE_ANSWER)  # after trials, it costs only itself
        return row

    for row in results.lines(parse):
        both = [*answers_in(row), *(other.answers(row.id) if other else ())]
        prompts += 1
        for good, bad in product(*judged(both, context, left_out)):
            if good.messages == bad.messages:
                left_out[SAME] += 1
                continue
            if context.reader == "openai" and good.prompt != bad.prompt:
                left_out[OTHER_TURNS] += 1
                continue
            yield encode(pair(good, bad, context.reader)) + b"\n"
            pairs += 1
        results.seen(row.id)
    if not pairs and not left_out:
        context.say(NOTHING)
    say_left_out(f"{counted(pairs, 'pair')} of {counted(prompts, 'prompt')} written", left_out, context)


def judged(
    answers: Sequence[ReportedAnswer], context: ReportContext, left_out: Counter[str]
) -> tuple[list[Chat], list[Chat]]:
    """The answers to the first one's prompt that passed, and those that did not.

    --all adds what agents that failed have left to the latter.
    """
    good, bad = list[Chat](), list[Chat]()
    for answer in answers:
        chat = chat_of(answer, context.reader)
        if answer.status not in (PASS, FAIL) and not (answer.status == ERROR and context.every):
            left_out[REASONS[answer.status]] += 1
        elif answer.row.input != answers[0].row.input:
            left_out[OTHER_PROMPT] += 1
        elif not chat.complete:
            left_out[NO_REPLY] += 1
        else:
            (good if answer.status == PASS else bad).append(chat)
    return good, bad


def pair(good: Chat, bad: Chat, reader: str) -> Record:
    """One pair; the prompt is all that the two sessions have in common up to the last turn, or else the first turn."""
    if good.prompt != bad.prompt:
        good, bad = good._replace(before=1), bad._replace(before=1)
    tools = {definition["function"]["name"]: definition for definition in [*good.tools, *bad.tools]}
    shown: Record = {"tools": list(tools.values())} if tools else {}
    if reader == "openai":
        given = {"messages": good.prompt, **shown}
        return {"input": given, "preferred_output": good.reply, "non_preferred_output": bad.reply}
    return {"prompt": good.prompt, "chosen": good.reply, "rejected": bad.reply, **shown}


class OtherRun:
    """The answers of another file, by prompt: its lines in a temporary file, and where they are there by id."""

    def __init__(self, results: RowReader) -> None:
        spool = Spool()
        self._places: dict[str, list[tuple[int, int]]] = {}
        end = 0
        for prompt_id, line in results.lines(lambda line: (parse_row(line, RowWithSteps).id, line)):
            spool.keep(line)
            self._places.setdefault(prompt_id, []).append((end, len(line)))
            end += len(line)
        self._file = spool.rewind()

    def answers(self, prompt_id: str) -> Iterator[ReportedAnswer]:
        """The answers to that prompt."""
        for offset, size in self._places.get(prompt_id, ()):
            self._file.seek(offset)
            yield from answers_in(parse_row(self._file.read(size), RowWithSteps))
