"""table: for a terminal: summary, then a line per record"""

from collections.abc import Iterator

from agenteval.comparison.run_summary import NO_GROUP, RunSummary, add_to_groups
from agenteval.reports.answers import ReportedAnswer, answers_in, story
from agenteval.reports.figures import duration_text, number, whole
from agenteval.reports.forms import ReportContext
from agenteval.reports.reader import RowReader
from agenteval.reports.run_summary import GROUP_TITLES, grade_facts, group_cells, pass_rate, run_facts
from agenteval.reports.terminal import BOLD, DIM, GREEN, RED, YELLOW, paint
from agenteval.reports.timeline import OUTCOMES
from agenteval.streams.rows import groups_at
from agenteval.streams.text import GAP, as_lines, clip, in_columns, one_line, pad, width
from agenteval.wire.row import UNGRADED, Row

TITLES = ("RESULT", "ID", "SCORE", "CHECKS", "TIME", "TOKENS", "OUTPUT, OR WHY IT DID NOT PASS")
ID, NUMBERS, LAST = 1, {2, 3, 4, 5}, 6
MIN_ID, MIN_TEXT, MAX_NAME, MAX_GROUP = 8, 12, 24, 40

VERDICTS = OUTCOMES | {UNGRADED: "-"}
COLORS = {"pass": GREEN, "FAIL": RED, "error": RED, "no grade": YELLOW, "-": DIM}


def render(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the summary of all records, then a line for each answer."""
    summary, groups = RunSummary(), dict[str, RunSummary]()
    widest = [0] * (len(TITLES) - 1)
    for row in results.rows(Row, twice=True):
        summary.add(row)
        if context.grouped:
            add_to_groups(groups, groups_at(row.metadata, context.by) or [NO_GROUP], row)
        for answer in filter(lambda answer: context.lists(answer.status), answers_in(row)):
            for at, cell in enumerate(_cells(answer, context.width)):
                widest[at] = max(widest[at], width(cell))
    yield as_lines([*_head(summary, context), *_group_lines(groups, context)])
    if summary.records:
        columns = layout(widest, context.width)
        yield as_lines([paint(in_columns(TITLES, columns, NUMBERS), BOLD, context.color)])
        for answer in filter(lambda answer: context.lists(answer.status), results.answers_again()):
            shown = (*_cells(answer, context.width), one_line(story([answer.attempt]), context.width))
            line = in_columns(shown, columns, NUMBERS)
            verdict = paint(line[: columns[0]], COLORS[shown[0]], context.color)
            yield as_lines([verdict + line[columns[0] :]])


def _head(summary: RunSummary, context: ReportContext) -> list[str]:
    """The summary, one fact a line; with several graders, a line for each."""
    lines = grade_facts(summary)
    if len(summary.graders) > 1:
        for name, grades in summary.graders.items():
            rate = f"{pass_rate(grades, grades.interval)}, average {number(grades.score.value)}" if grades.count else ""
            lines.append(("- " + clip(one_line(name, context.width), MAX_NAME), rate or "no grade"))
    lines += run_facts(summary)
    column = max(width(name) for name, _ in lines)
    shown = [f"{paint(pad(name, column), BOLD, context.color)}  {value}" for name, value in lines]
    return [*shown, ""] if summary.records else shown


def _group_lines(groups: dict[str, RunSummary], context: ReportContext) -> list[str]:
    if not groups:
        return []
    name = one_line(context.by.removeprefix("metadata."), MAX_NAME).upper()
    rows = [(one_line(group, context.width) or NO_GROUP, *group_cells(found)) for group, found in groups.items()]
    titles = (name, *GROUP_TITLES.values())
    sizes = [max(map(width, column)) for column in zip(titles, *rows, strict=True)]
    sizes[0] = min(sizes[0], MAX_GROUP)
    for at in (5, 4, 3):
        if sum(size + len(GAP) for size in sizes if size) - len(GAP) > context.width:
            sizes[at] = 0
    title, *lines = [in_columns(cells, sizes, set(range(1, 6))) for cells in (titles, *sorted(rows))]
    return [paint(title, BOLD, context.color), *lines, ""]


def _cells(answer: ReportedAnswer, limit: int) -> tuple[str, ...]:
    """All columns but the last; a value that is not known is empty."""
    attempt = answer.attempt
    grade, duration, tokens = attempt.grade, attempt.duration, attempt.tokens
    return (
        VERDICTS[attempt.status],
        one_line(answer.id, limit),
        number(grade.score) if grade else "",
        f"{sum(one.passes for one in checks)}/{len(checks)}" if (checks := attempt.checks) else "",
        "" if duration is None else duration_text(duration),
        "" if tokens is None else whole(tokens),
    )


def layout(widest: list[int], total: int) -> list[int]:
    """The size of each column; 0 leaves out one that is empty or that a narrow terminal has no room for."""
    columns = [max(size, len(title)) if size else 0 for size, title in zip(widest, TITLES, strict=False)]
    for at in (LAST - 1, LAST - 2, LAST - 3, LAST - 4):
        if _room(columns, total) < MIN_ID:
            columns[at] = 0
    room = _room(columns, total)
    shared = min(columns[ID], max(MIN_ID, room * 2 // 5))
    rest = room - shared - len(GAP)
    if rest < MIN_TEXT:
        shared, rest = min(columns[ID], max(MIN_ID, room)), 0
    return [*columns[:ID], shared, *columns[ID + 1 :], rest]


def _room(columns: list[int], total: int) -> int:
    """The columns of the terminal that are left for the id and the text."""
    return total - sum(size + len(GAP) for at, size in enumerate(columns) if size and at != ID)
