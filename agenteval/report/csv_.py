"""CSV as RFC 4180 has it, for spreadsheets: one row per record, as it comes."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from agenteval.report import Page
from agenteval.report.rows import Row, Rows
from agenteval.report.text import visible

COLUMNS = ("id", "input", "hint", "output", "tool_errors", "duration_ms")
GRADED = ("pass", "score", "reasoning")

# What a spreadsheet takes for a formula: also behind blanks and invisible characters, which it drops,
# and with the full-width signs, which it reads as the plain ones.
_FORMULA = re.compile("[\\s\u200b-\u200f\u2060\ufeff]*[=+\\-@＝＋－＠]|[\t\r\n]")


class _Echo:
    """A file that hands back what is written to it: csv.writer then returns each line."""

    def write(self, line: str) -> str:
        """The line."""
        return line


def render(rows: Rows, _page: Page) -> Iterator[bytes]:
    """The header, then one line per record."""
    graded = rows.may_be_graded()
    line = csv.writer(_Echo(), lineterminator="\r\n").writerow
    yield str(line((*COLUMNS, *GRADED) if graded else COLUMNS)).encode()
    for row in rows:
        yield str(line((*plain_cells(row), *graded_cells(row)) if graded else plain_cells(row))).encode()


def plain_cells(row: Row) -> tuple[object, ...]:
    """What every record has; what is missing is empty."""
    return (
        text_cell(row.id),
        text_cell(row.turns(" | ")),
        text_cell(row.hint),
        text_cell(row.output),
        flag_cell(row.tool_errors),
        row.duration,
    )


def graded_cells(row: Row) -> tuple[object, ...]:
    """The verdict; where the grader failed, only why: a 0 that nobody gave would spoil the column's mean."""
    reasoning = text_cell(row.score and row.score.reasoning)
    return (flag_cell(row.grade.pass_), row.grade.score, reasoning) if row.grade else ("", "", reasoning)


def flag_cell(value: bool | None) -> str:
    """true, false, or nothing."""
    return "" if value is None else "true" if value else "false"


def text_cell(text: str | None) -> str:
    """The text, with an apostrophe before what a spreadsheet would run, and no control characters."""
    if not text:
        return ""
    text = visible(text)
    return "'" + text if _FORMULA.match(text) else text
