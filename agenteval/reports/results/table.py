"""A table for a terminal: a summary, then a line per record, as wide as the window."""

from __future__ import annotations

from collections.abc import Iterator

from agenteval.reports import ReportContext
from agenteval.reports.passes import Rows
from agenteval.reports.results.summary import RunSummary, grade_facts, pass_rate, run_facts, seconds
from agenteval.streams.text import clip, one_line, pad, width
from agenteval.wire.result_view import ResultView

TITLES = ("RESULT", "ID", "SCORE", "TIME", "TOKENS", "OUTPUT, OR WHY IT FAILED")
ID, RIGHT, LAST = 1, {2, 3, 4}, 5  # numbers are set to the right
GAP = "  "
MIN_ID, MIN_TEXT, MAX_NAME = 8, 12, 24

GREEN, RED, YELLOW, BOLD, DIM, PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[1m", "\x1b[2m", "\x1b[0m"
COLORS = {"pass": GREEN, "FAIL": RED, "error": RED, "no grade": YELLOW, "-": DIM}


def render(rows: Rows, page: ReportContext) -> Iterator[bytes]:
    """The summary of all records, then a line for each."""
    summary, widest = RunSummary(), [0] * (len(TITLES) - 1)
    for row in rows.first_pass():
        summary.add(row)
        for at, cell in enumerate(cells(row, page.width)):
            widest[at] = max(widest[at], width(cell))
    yield "".join(f"{line}\n" for line in head(summary, page)).encode()
    if summary.records:
        columns = layout(widest, page.width)
        yield paint(line_of(TITLES, columns), BOLD, page.color).encode() + b"\n"
        for row in rows.second_pass():
            yield record_line(row, columns, page).encode() + b"\n"


# --- the top ------------------------------------------------------------------------------------


def head(summary: RunSummary, page: ReportContext) -> list[str]:
    """The summary, one fact a line; with several graders, a line for each."""
    lines = grade_facts(summary)
    if len(summary.graders) > 1:
        for name, grades in summary.graders.items():
            told = f"{pass_rate(grades)}, average {grades.score.value:.3f}" if grades.count else "no grade"
            lines.append(("- " + clip(one_line(name, page.width), MAX_NAME), told))
    lines += run_facts(summary)
    column = max(width(name) for name, _ in lines)
    shown = [f"{paint(pad(name, column), BOLD, page.color)}  {value}" for name, value in lines]
    return [*shown, ""] if summary.records else shown


# --- one record ---------------------------------------------------------------------------------


def verdict(row: ResultView) -> str:
    """One word for what became of a record."""
    if row.grader_error:
        return "no grade"
    if row.score is None:
        return "error" if row.failures else "-"
    return "pass" if row.score.pass_ else "FAIL"


def cells(row: ResultView, limit: int) -> tuple[str, ...]:
    """All columns but the last; a number nobody measured is empty."""
    return (
        verdict(row),
        one_line(row.id, limit),
        f"{row.grade.score:.3f}" if row.grade else "",
        "" if row.duration is None else seconds(row.duration),
        "" if row.tokens is None else f"{row.tokens:,.0f}",
    )


def story(row: ResultView) -> str:
    """Why it failed, where it did and somebody said so; else the output."""
    if row.failures:
        return row.failures[0]
    if row.score is not None and row.score.reasoning and (row.grader_error or not row.score.pass_):
        return row.score.reasoning
    return row.output


def record_line(row: ResultView, columns: list[int], page: ReportContext) -> str:
    """One record on one line."""
    told = (*cells(row, page.width), one_line(story(row), page.width))
    line = line_of(told, columns)
    return paint(line[: columns[0]], COLORS[told[0]], page.color) + line[columns[0] :]


# --- columns ------------------------------------------------------------------------------------


def layout(widest: list[int], total: int) -> list[int]:
    """How wide each column is, 0 for one left out: an empty one, and what a narrow page has no room for."""
    columns = [max(size, len(title)) if size else 0 for size, title in zip(widest, TITLES, strict=False)]
    for at in (LAST - 1, LAST - 2, LAST - 3):
        if room_for_id(columns, total) < MIN_ID:
            columns[at] = 0
    room = room_for_id(columns, total)
    shared = min(columns[ID], max(MIN_ID, room * 2 // 5))
    rest = room - shared - len(GAP)
    if rest < MIN_TEXT:
        shared, rest = min(columns[ID], max(MIN_ID, room)), 0
    return [*columns[:ID], shared, *columns[ID + 1 :], rest]


def room_for_id(columns: list[int], total: int) -> int:
    """What the columns of fixed width leave."""
    return total - sum(size + len(GAP) for at, size in enumerate(columns) if size and at != ID)


def line_of(told: tuple[str, ...], columns: list[int]) -> str:
    """The cells in their columns, without blanks at the end."""
    set_cells = (placed(cell, at, size) for at, (cell, size) in enumerate(zip(told, columns, strict=True)) if size)
    return GAP.join(set_cells).rstrip()


def placed(cell: str, at: int, size: int) -> str:
    """A cell, cut or filled to its column's width; the last needs no filling."""
    fits = clip(cell, size)
    if at in RIGHT:
        return " " * (size - width(fits)) + fits
    return fits if at == LAST else pad(fits, size)


def paint(text: str, color: str, wanted: bool) -> str:
    """The text in that colour, where colours are wanted."""
    return f"{color}{text}{PLAIN}" if wanted and text else text
