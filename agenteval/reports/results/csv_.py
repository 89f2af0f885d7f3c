"""CSV as RFC 4180 has it, for spreadsheets: one row per record, as it comes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agenteval.reports import ReportContext
from agenteval.reports.passes import Rows
from agenteval.streams.text import visible
from agenteval.wire.result_view import Number, ResultView

COLUMNS = ("id", "input", "hint", "output", "tool_errors", "duration_ms")
GRADED = ("pass", "score", "reasoning")

# What a spreadsheet takes for a formula: also behind blanks and invisible characters, which it drops,
# and with the full-width signs, which it reads as the plain ones.
_FORMULA = re.compile("[\\s\u200b-\u200f\u2060\ufeff]*[=+\\-@＝＋－＠]|[\t\r\n]")


def render(rows: Rows, _page: ReportContext) -> Iterator[bytes]:
    """The header, then one line per record."""
    graded = rows.may_be_graded()
    yield line_of(COLUMNS + GRADED if graded else COLUMNS)
    for row in rows:
        yield line_of(plain_cells(row) + graded_cells(row) if graded else plain_cells(row))


def line_of(cells: tuple[str, ...]) -> bytes:
    """One row, in one piece; control characters are no part of CSV, and some readers end at a NUL."""
    return visible(",".join(cells) + "\r\n").encode()


def plain_cells(row: ResultView) -> tuple[str, ...]:
    """What every record has."""
    return (
        text_cell(row.id),
        text_cell(row.turns(" | ")),
        text_cell(row.hint),
        text_cell(row.output),
        flag_cell(row.tool_errors),
        number_cell(row.duration),
    )


def graded_cells(row: ResultView) -> tuple[str, ...]:
    """The verdict; where the grader failed, only why: a 0 that nobody gave would spoil the column's mean."""
    reasoning = text_cell(row.score.reasoning if row.score else None)
    if row.grade is None:
        return "", "", reasoning
    return flag_cell(row.grade.pass_), number_cell(row.grade.score), reasoning


def flag_cell(value: bool | None) -> str:
    """true, false, or nothing where it is not known."""
    return "" if value is None else "true" if value else "false"


def number_cell(value: Number | None) -> str:
    """The number as it came, or nothing."""
    return "" if value is None else repr(value)


def text_cell(text: str | None) -> str:
    """The text in quotes, always: csv.writer takes ten times as long to find out whether it needs them."""
    if not text:
        return ""
    text = text.replace('"', '""')
    return f'"\'{text}"' if _FORMULA.match(text) else f'"{text}"'
