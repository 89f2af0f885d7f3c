"""table: for a terminal: summary, then a line per record, or per group (--group-by)"""

from collections.abc import Iterator

from agenteval.comparison.run_summary import RunSummary
from agenteval.reports.answer_groups import AnswerGroup, AnswerGroups, Categories, ids_text
from agenteval.reports.answers import ReportedAnswer, answers_in, story
from agenteval.reports.figures import dollars, duration_text, group_name, number, whole
from agenteval.reports.forms import ReportContext
from agenteval.reports.reader import RowReader
from agenteval.reports.run_summary import grade_facts, group_cells, group_titles, pass_rate, run_facts
from agenteval.reports.terminal import BOLD, DIM, GREEN, RED, YELLOW, paint
from agenteval.reports.timeline import OUTCOMES
from agenteval.streams.rows import CROSS, NO_GROUP, key_parts
from agenteval.streams.text import GAP, as_lines, clip, in_columns, one_line, pad, width
from agenteval.wire.row import UNGRADED, Row

TITLES = ("RESULT", "ID", "CATEGORY", "SCORE", "CHECKS", "TIME", "TOKENS", "COST", "OUTPUT, OR WHY IT DID NOT PASS")
ID, CATEGORY, NUMBERS = 1, 2, {3, 4, 5, 6, 7}
MIN_ID, MIN_TEXT, GOOD_TEXT, MAX_NAME, MAX_GROUP = 8, 12, 24, 24, 40

VERDICTS = OUTCOMES | {UNGRADED: "-"}
COLORS = {"pass": GREEN, "FAIL": RED, "error": RED, "no grade": YELLOW, "-": DIM}


def render(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the summary of all records, then a line for each answer, or for each group of them."""
    categories, groups = Categories(context), AnswerGroups(context.group_by)
    widest = [0] * (len(TITLES) - 1)
    for row in results.rows(Row, twice=True):
        categories.add(row)
        for answer in filter(lambda answer: context.lists(answer.status), answers_in(row)):
            if context.group_by:
                groups.add(answer)
            for at, cell in enumerate(_cells(answer, context)):
                widest[at] = max(widest[at], width(cell))
    summary = categories.whole
    yield as_lines([*_head(summary, context), *_category_lines(categories.found(), context)])
    if context.group_by:
        yield as_lines(_group_lines(groups.largest_first(), context))
    elif summary.records:
        columns = layout(widest, context.width)
        titles = (*TITLES[:CATEGORY], _key_title(context.by), *TITLES[CATEGORY + 1 :])
        yield as_lines([paint(in_columns(titles, columns, NUMBERS), BOLD, context.color)])
        for answer in filter(lambda answer: context.lists(answer.status), results.answers_again()):
            shown = (*_cells(answer, context), one_line(story([answer.attempt]), context.width))
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


def _key_title(by: str) -> str:
    return clip(
        CROSS.join(one_line(part.removeprefix("metadata."), MAX_NAME) for part in key_parts(by)).upper(), MAX_NAME
    )


def _category_lines(categories: dict[str, RunSummary], context: ReportContext) -> list[str]:
    if not categories:
        return []
    figures = group_titles(categories.values())
    named = ((one_line(name, context.width) or NO_GROUP, found) for name, found in categories.items())
    rows = [(name, *group_cells(found, figures)) for name, found in named]
    titles = (_key_title(context.by), *figures.values())
    sizes = [max(map(width, column)) for column in zip(titles, *rows, strict=True)]
    sizes[0] = min(sizes[0], MAX_GROUP)
    for at in (5, 4, 3):
        if sum(size + len(GAP) for size in sizes if size) - len(GAP) > context.width:
            sizes[at] = 0
    title, *lines = [in_columns(cells, sizes, set(range(1, len(sizes)))) for cells in (titles, *rows)]
    return [paint(title, BOLD, context.color), *lines, ""]


def _group_lines(groups: list[AnswerGroup], context: ReportContext) -> list[str]:
    """A line per group: how many answers, what they share, and the first ids."""
    titles = ("COUNT", _key_title(context.group_by), "RECORDS")
    rows = [(whole(group.count), one_line(group.text, context.width), ids_text(group)) for group in groups]
    sizes = [max(map(width, column)) for column in zip(titles, *rows, strict=True)]
    sizes[2] = min(sizes[2], max(context.width - sum(sizes[:2]) - 2 * len(GAP), context.width // 3))
    sizes[1] = min(sizes[1], context.width - sizes[0] - sizes[2] - 2 * len(GAP))
    rows = [(*row[:2], ids_text(group, sizes[2])) for row, group in zip(rows, groups, strict=True)]
    title, *lines = [in_columns(cells, sizes, {0}) for cells in (titles, *rows)]
    return [paint(title, BOLD, context.color), *lines]


def _cells(answer: ReportedAnswer, context: ReportContext) -> tuple[str, ...]:
    """All columns but the last; a value that is not known is empty."""
    attempt = answer.attempt
    grade, duration, tokens = attempt.grade, attempt.duration, attempt.tokens
    return (
        VERDICTS[attempt.status],
        one_line(answer.id, context.width),
        clip(group_name(answer.row.metadata, context.by), MAX_NAME),
        number(grade.score) if grade else "",
        f"{sum(one.passes for one in checks)}/{len(checks)}" if (checks := attempt.checks) else "",
        "" if duration is None else duration_text(duration),
        "" if tokens is None else whole(tokens),
        "" if context.sort != "cost" or attempt.cost is None else dollars(attempt.cost),
    )


def layout(widest: list[int], total: int) -> list[int]:
    """The size of each column; 0 leaves out one that is empty or that a narrow terminal has no room for."""
    columns = [max(size, len(title)) if size else 0 for size, title in zip(widest, TITLES, strict=False)]
    if _room(columns, total) - columns[ID] - len(GAP) < GOOD_TEXT:
        columns[CATEGORY] = 0
    for at in sorted(NUMBERS, reverse=True):
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
