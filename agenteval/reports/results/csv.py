"""csv: for spreadsheets (RFC 4180): id, input, hint, output, tool_errors, duration_ms,
and graded: pass, score, reasoning
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agenteval.reports.forms import ReportContext
from agenteval.reports.result_reader import ResultReader
from agenteval.streams.text import visible
from agenteval.wire.records import AGENT_FAILED
from agenteval.wire.result_view import Number, ResultView

COLUMNS = ("id", "input", "hint", "output", "tool_errors", "duration_ms")
GRADED = ("pass", "score", "reasoning")

# What a spreadsheet takes for a formula: it drops blanks and invisible characters before the sign,
# and reads full-width signs as plain ones.
_FORMULA = re.compile("[\\s\u200b-\u200f\u2060\ufeff]*[=+\\-@＝＋－＠]|[\t\r\n]")


def render(results: ResultReader, _context: ReportContext) -> Iterator[bytes]:
    """Yields the header, then a line per record, as it comes."""
    graded = results.may_be_graded()
    yield line_of(COLUMNS + GRADED if graded else COLUMNS)
    for row in results.views(ResultView):
        yield line_of(plain_cells(row) + graded_cells(row) if graded else plain_cells(row))


def line_of(cells: tuple[str, ...]) -> bytes:
    """One row; control characters are replaced: they are not part of CSV, and some readers stop at a NUL."""
    return visible(",".join(cells) + "\r\n").encode()


def plain_cells(row: ResultView) -> tuple[str, ...]:
    """The columns that every record has."""
    return (
        text_cell(row.id),
        text_cell(row.turns(" | ")),
        text_cell(row.hint),
        text_cell(row.output),
        flag_cell(row.tool_errors),
        number_cell(row.duration),
    )


def graded_cells(row: ResultView) -> tuple[str, ...]:
    """The grade; only the reason if the grader erred: a 0 would count in the mean of the column."""
    if row.grade is None:
        failed = f"{AGENT_FAILED}{row.failures[0]}" if row.agent_failed else None
        return "false" if failed else "", "0.0" if failed else "", text_cell(row.why_not_graded or failed)
    score = row.score
    return flag_cell(row.grade.pass_), number_cell(row.grade.score), text_cell(score.reasoning if score else None)


def flag_cell(value: bool | None) -> str:
    """true or false; empty if it is not known."""
    return "" if value is None else "true" if value else "false"


def number_cell(value: Number | None) -> str:
    """The number as it came; empty if it is not known."""
    return "" if value is None else repr(value)


def text_cell(text: str | None) -> str:
    """The text in quotes, needed or not: csv.writer takes ten times as long to find out."""
    if not text:
        return ""
    text = text.replace('"', '""')
    return f'"\'{text}"' if _FORMULA.match(text) else f'"{text}"'
