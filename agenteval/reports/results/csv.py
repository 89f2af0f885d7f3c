"""csv: for spreadsheets (RFC 4180): id, input, hint, output, tool_errors, duration_ms;
for graded records pass, score, reasoning; for trials a row each (ID#N), with the prompt's passRate;
then status, category, model, tokens, cost_usd, label
"""

import re
from collections.abc import Callable, Iterator, Sequence

from agenteval.reports.answers import ReportedAnswer
from agenteval.reports.forms import ReportContext
from agenteval.reports.reader import RowReader
from agenteval.streams.rows import groups_at
from agenteval.streams.text import visible_bytes
from agenteval.wire.records import AGENT_FAILED
from agenteval.wire.row import LABEL, Attempt, Number, Row, first_text

COLUMNS = ("id", "input", "hint", "output", "tool_errors", "duration_ms")
GRADED = ("pass", "score", "reasoning")
RATE = "passRate"  # of the prompt, in a file of trials
FACTS = ("status", "category", "model", "tokens", "cost_usd", "label")

# What a spreadsheet takes for a formula: it drops blanks and invisible characters before the sign,
# and reads full-width signs as plain ones.
_FORMULA = re.compile("[\\s\u200b-\u200f\u2060\ufeff]*[=+\\-@＝＋－＠]|[\t\r\n]")


def render(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the header, then a line per answer, as it comes."""
    graded = results.may_be_graded()
    text, line = (_raw_text, _raw_line) if context.raw_csv else (_text, _line)
    columns = COLUMNS + GRADED if graded else COLUMNS
    trials: bool | None = None  # whether the first record is one of trials
    for row in results.rows(Row):
        if trials is None:
            trials = row.is_trials
            yield line((*columns, *([RATE] if trials else []), *FACTS))
        for attempt in filter(lambda attempt: context.lists(attempt.status), row.attempts):
            cells = [text(row.name_of(attempt)), text(row.turns(" | ")), text(row.hint), text(attempt.output)]
            cells += [_flag(attempt.tool_errors), _number(attempt.duration)]
            cells += _grade(attempt, text) if graded else ()
            cells += [_number(row.pass_rate)] if trials else ()
            answer, timing = ReportedAnswer(row, attempt), attempt.timing
            names = (attempt.status, ", ".join(groups_at(row.metadata, "category")), answer.model)
            cells += [*map(text, names), _number(timing.tokens), _number(timing.cost_usd)]
            yield line([*cells, text(first_text(answer.metadata, LABEL))])
    if trials is None:
        yield line((*columns, *FACTS))


def _grade(attempt: Attempt, text: Callable[[str | None], str]) -> tuple[str, ...]:
    """The grade; only the reason if the grader erred: a 0 would count in the mean of the column."""
    if attempt.agent_failed:
        return "false", "0.0", text(f"{AGENT_FAILED}{attempt.failures[0]}")
    grade = attempt.grade
    if grade is None:
        return "", "", text(attempt.why_not_graded)
    return _flag(grade.pass_), _number(grade.score), text(grade.reasoning)


def _flag(value: bool | None) -> str:
    return "" if value is None else "true" if value else "false"


def _number(value: Number | None) -> str:
    return "" if value is None else repr(value)


def _text(text: str | None) -> str:
    """The text in quotes, with an apostrophe before what a spreadsheet would run as a formula."""
    if text and not text[0].isalnum() and _FORMULA.match(text):
        text = f"'{text}"
    return _raw_text(text)


def _raw_text(text: str | None) -> str:
    return '"' + text.replace('"', '""') + '"' if text else ""


def _line(cells: Sequence[str]) -> bytes:
    """One line; control characters are replaced: they are not part of CSV, and some readers stop at a NUL."""
    return visible_bytes(",".join(cells) + "\r\n")


def _raw_line(cells: Sequence[str]) -> bytes:
    """One line as it is, for programs."""
    return (",".join(cells) + "\n").encode(errors="surrogatepass")
