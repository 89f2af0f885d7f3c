"""csv: for spreadsheets (RFC 4180): id, input, hint, output, tool_errors, duration_ms,
and graded: pass, score, reasoning; of trials a row each (ID#N) and passRate of the prompt
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agenteval.reports.forms import ReportContext
from agenteval.reports.result_reader import ResultReader
from agenteval.streams.text import visible_bytes
from agenteval.wire.records import AGENT_FAILED
from agenteval.wire.result_view import Number, ResultView, TrialView

COLUMNS = ("id", "input", "hint", "output", "tool_errors", "duration_ms")
GRADED = ("pass", "score", "reasoning")
RATE = "passRate"  # of the prompt, if the record is one of its trials

TextCell = Callable[[str | None], str]

# What a spreadsheet takes for a formula: it drops blanks and invisible characters before the sign,
# and reads full-width signs as plain ones.
_FORMULA = re.compile("[\\s\u200b-\u200f\u2060\ufeff]*[=+\\-@＝＋－＠]|[\t\r\n]")


def render(results: ResultReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the header, then a line per record, as it comes."""
    graded, write = results.may_be_graded(), RAW if context.raw_csv else SAFE
    columns = COLUMNS + GRADED if graded else COLUMNS
    started = False
    for row in results.views(ResultView):
        if not started:
            yield write.line((*columns, RATE) if isinstance(row, TrialView) else columns)
            started = True
        cells = plain_cells(row, write.text) + (graded_cells(row, write.text) if graded else ())
        yield write.line((*cells, number_cell(row.pass_rate)) if isinstance(row, TrialView) else cells)
    if not started:
        yield write.line(columns)


def line_of(cells: tuple[str, ...]) -> bytes:
    """One row; control characters are replaced: they are not part of CSV, and some readers stop at a NUL."""
    return visible_bytes(",".join(cells) + "\r\n")


def raw_line_of(cells: tuple[str, ...]) -> bytes:
    """One row as it is, for programs."""
    return (",".join(cells) + "\n").encode(errors="surrogatepass")


def plain_cells(row: ResultView, text: TextCell | None = None) -> tuple[str, ...]:
    """The columns that every record has."""
    text = text or text_cell
    return (
        text(row.id),
        text(row.turns(" | ")),
        text(row.hint),
        text(row.output),
        flag_cell(row.tool_errors),
        number_cell(row.duration),
    )


def graded_cells(row: ResultView, text: TextCell | None = None) -> tuple[str, ...]:
    """The grade; only the reason if the grader erred: a 0 would count in the mean of the column."""
    text = text or text_cell
    if row.grade is None:
        failed = f"{AGENT_FAILED}{row.failures[0]}" if row.agent_failed else None
        return "false" if failed else "", "0.0" if failed else "", text(row.why_not_graded or failed)
    score = row.score
    return flag_cell(row.grade.pass_), number_cell(row.grade.score), text(score.reasoning if score else None)


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
    text = text.replace('"', '""') if '"' in text else text
    if text[0].isalnum():
        return f'"{text}"'
    return f'"\'{text}"' if _FORMULA.match(text) else f'"{text}"'


def raw_text_cell(text: str | None) -> str:
    """The text in quotes, as it is."""
    return '"' + text.replace('"', '""') + '"' if text else ""


class Writing(NamedTuple):
    """How cells and lines are written."""

    text: TextCell
    line: Callable[[tuple[str, ...]], bytes]


SAFE, RAW = Writing(text_cell, line_of), Writing(raw_text_cell, raw_line_of)
