"""csv: for spreadsheets (RFC 4180): id, input, hint, output, tool_errors, duration_ms,
and graded: pass, score, reasoning; of trials a row each (ID#N) and passRate of the prompt
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agenteval.reports.forms import ReportContext
from agenteval.reports.reader import RowReader
from agenteval.streams.text import visible_bytes
from agenteval.wire.records import AGENT_FAILED
from agenteval.wire.row import Attempt, Number, Row

COLUMNS = ("id", "input", "hint", "output", "tool_errors", "duration_ms")
GRADED = ("pass", "score", "reasoning")
RATE = "passRate"  # of the prompt, in a file of trials

TextCell = Callable[[str | None], str]

# What a spreadsheet takes for a formula: it drops blanks and invisible characters before the sign,
# and reads full-width signs as plain ones.
_FORMULA = re.compile("[\\s\u200b-\u200f\u2060\ufeff]*[=+\\-@＝＋－＠]|[\t\r\n]")


def render(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the header, then a line per answer, as it comes."""
    graded, write = results.may_be_graded(), RAW if context.raw_csv else SAFE
    columns = COLUMNS + GRADED if graded else COLUMNS
    trials: bool | None = None  # whether the first record is one of trials
    for row in results.rows(Row):
        if trials is None:
            trials = row.is_trials
            yield write.line((*columns, RATE) if trials else columns)
        for attempt in row.attempts:
            cells = plain_cells(row, attempt, write.text) + (graded_cells(attempt, write.text) if graded else ())
            yield write.line((*cells, number_cell(row.pass_rate)) if trials else cells)
    if trials is None:
        yield write.line(columns)


def plain_cells(row: Row, attempt: Attempt, text: TextCell) -> tuple[str, ...]:
    """The columns that every answer has."""
    return (
        text(row.name_of(attempt)),
        text(row.turns(" | ")),
        text(row.hint),
        text(attempt.output),
        flag_cell(attempt.tool_errors),
        number_cell(attempt.duration),
    )


def graded_cells(attempt: Attempt, text: TextCell) -> tuple[str, ...]:
    """The grade; only the reason if the grader erred: a 0 would count in the mean of the column."""
    if attempt.agent_failed:
        return "false", "0.0", text(f"{AGENT_FAILED}{attempt.failures[0]}")
    grade = attempt.grade
    if grade is None:
        return "", "", text(attempt.why_not_graded)
    return flag_cell(grade.pass_), number_cell(grade.score), text(grade.reasoning)


def flag_cell(value: bool | None) -> str:
    """true or false; empty if it is not known."""
    return "" if value is None else "true" if value else "false"


def number_cell(value: Number | None) -> str:
    """The number as it came; empty if it is not known."""
    return "" if value is None else repr(value)


def text_cell(text: str | None) -> str:
    """The text in quotes, with an apostrophe before what a spreadsheet would run as a formula."""
    if not text:
        return ""
    text = text.replace('"', '""') if '"' in text else text
    if text[0].isalnum():
        return f'"{text}"'
    return f'"\'{text}"' if _FORMULA.match(text) else f'"{text}"'


def raw_text_cell(text: str | None) -> str:
    """The text in quotes, as it is."""
    return '"' + text.replace('"', '""') + '"' if text else ""


def line_of(cells: tuple[str, ...]) -> bytes:
    """One line; control characters are replaced: they are not part of CSV, and some readers stop at a NUL."""
    return visible_bytes(",".join(cells) + "\r\n")


def raw_line_of(cells: tuple[str, ...]) -> bytes:
    """One line as it is, for programs."""
    return (",".join(cells) + "\n").encode(errors="surrogatepass")


class Writing(NamedTuple):
    """How cells and lines are written."""

    text: TextCell
    line: Callable[[tuple[str, ...]], bytes]


SAFE, RAW = Writing(text_cell, line_of), Writing(raw_text_cell, raw_line_of)
