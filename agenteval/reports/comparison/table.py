"""table: for a terminal: better, worse or cannot tell, and by how much; the ranking of three or more runs"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from agenteval.comparison.figures import COST, ESTIMATED, PRICE, TERMINAL, Pair, Report
from agenteval.comparison.ranking import by_names, difference_of, separating
from agenteval.comparison.verdicts import (
    BETTER,
    CANNOT_TELL,
    EQUAL,
    WORSE,
    capitalized,
    claim,
    details,
    dropped,
    prompts_compared,
    standing,
)
from agenteval.reports.figures import number, percent
from agenteval.reports.forms import ReportContext
from agenteval.reports.run_columns import INTERVAL, ranking_table, run_columns
from agenteval.reports.terminal import BOLD, DIM, GREEN, RED, YELLOW, hanging, paint, wrap
from agenteval.streams.text import GAP, as_lines, clip, counted, first_few, in_columns, one_line, pad, width
from agenteval.wire.comparison import RankedPrompt, RunRanking, Separation
from agenteval.wire.row import ERROR, FAIL, PASS

COLORS = {BETTER: GREEN, WORSE: RED, EQUAL: YELLOW, CANNOT_TELL: YELLOW}
DROPPED = (PRICE.title, "Time", "Score", INTERVAL, "Cost", "Tokens")  # in this order, where a terminal is narrow
MIN_NAME, NARROW_NAME, MAX_NAME = 10, 16, 30
PER_PASS = "Per pass"  # short for the cost of a pass
DRAWN = 14  # columns of an interval that is drawn
NAME = 2  # the column of a run's name in the ranking
BLOCKS = "▁▂▃▄▅▆▇█"
IDS_NAMED = 5
IDS_SHOWN = 20
INDENT = "  "
COLUMN = 14  # where the text of a detail begins


def render(report: Report, context: ReportContext) -> Iterator[bytes]:
    """Yields the verdict, a line per run, then what is behind the verdict; of three runs or more the ranking."""
    if report.ranking:
        lines = ranking_lines(report, report.ranking, context)
    else:
        [pair] = report.statistics.pairs
        lines = [*headline(pair, context), "", *run_lines(report, context), "", *pair_lines(pair, report, context)]
    if report.prompts:
        lines += ["", *prompt_lines(report.prompts, context)]
    yield as_lines(lines)


def _clean(text: str) -> str:
    return one_line(text, 4000)


def _name(label: str) -> str:
    """The name of a run, without anything that could move the cursor, and not too long."""
    shown = one_line(label, MAX_NAME)
    return shown if width(shown) <= MAX_NAME else shown[: MAX_NAME - 1] + "…"


# --- the verdict --------------------------------------------------------------------------------


def headline(pair: Pair, context: ReportContext) -> list[str]:
    """Better, worse or cannot tell, and what that means."""
    word = standing(pair).upper()
    text = _clean(claim(pair)).removeprefix(f"{CANNOT_TELL} ")
    first, *more = wrap(f"{word}  {text}.", context.width)
    return [paint(word, COLORS[standing(pair)] + BOLD, context.color) + first.removeprefix(word), *more]


# --- each run -----------------------------------------------------------------------------------


def run_lines(report: Report, context: ReportContext) -> list[str]:
    """A line per run: pass rate with its interval, score, tokens, cost and time."""
    titles, rows = run_columns(report, TERMINAL)
    for row in rows:
        for at, title in enumerate(titles):
            if title in (COST.title, PRICE.title) and ESTIMATED.value(report, row[0]):
                row[at] += "*"
        row[0] = _name(row[0])
    sizes = [max(width(title), *(width(row[at]) for row in rows)) for at, title in enumerate(titles)]
    for title in DROPPED:
        if _total(sizes) > context.width and title in titles:
            sizes[titles.index(title)] = 0
    sizes[0] = max(min(MIN_NAME, sizes[0]), sizes[0] - max(0, _total(sizes) - context.width))
    right = set(range(1, len(titles)))
    shown, *lines = [in_columns(row, sizes, right) for row in ([title.upper() for title in titles], *rows)]
    if any(cell.endswith("*") and size for row in rows for cell, size in zip(row, sizes, strict=True)):
        lines += wrap("* estimated at list prices, not billed", context.width)
    return [paint(shown, BOLD, context.color), *lines]


def _total(sizes: Sequence[int]) -> int:
    return sum(size + len(GAP) for size in sizes if size) - len(GAP)


# --- each pair ----------------------------------------------------------------------------------


def pair_lines(pair: Pair, report: Report, context: ReportContext) -> list[str]:
    """What is behind the verdict, and the prompts that changed sides."""
    title = f"{_name(pair.run_b)} against {_name(pair.run_a)}, {prompts_compared(pair, report)}"
    lines = [paint(line, BOLD, context.color) for line in wrap(title, context.width)]
    flips = [("Pass lost", pair.flips.only_a), ("Passes now", pair.flips.only_b)]
    shown = [
        (name, f"{len(ids):,}: {first_few([one_line(id, 60) for id in ids], IDS_SHOWN)}") for name, ids in flips if ids
    ]
    for name, text in [*details(pair, report), *shown]:
        start = INDENT + name
        first, *more = hanging(start, _clean(text), COLUMN, context.width)
        lines += [paint(start, DIM, context.color) + first.removeprefix(start), *more]
    return lines


# --- three runs or more -------------------------------------------------------------------------


def ranking_lines(report: Report, ranking: RunRanking, context: ReportContext) -> list[str]:
    """The ranking, each against each, and the prompts as a strip of blocks: ten runs in fifty lines."""
    lines = wrap(f"{_clean(capitalized(ranking.headline))}.", context.width)
    lines = [paint(line, BOLD, context.color) for line in lines]
    lines += ["", *place_lines(ranking, context)]
    lines += ["", *matrix_lines(report, ranking, context)]
    lines += ["", *strip_lines(ranking, context)]
    adjusted = f"Verdicts are adjusted for {counted(len(report.statistics.pairs), 'pair')} (Holm). "
    return [*lines, "", *wrap(f"{adjusted}Two runs in full: --pair A B.", context.width)]


def place_lines(ranking: RunRanking, context: ReportContext) -> list[str]:
    """A line per run with its number, its places, its value and what it takes."""
    titles, rows, estimated = ranking_table(ranking)
    titles, rows = ["", *titles], [[str(at), *row] for at, row in enumerate(rows, 1)]
    titles = [PER_PASS if title == PRICE.title else title for title in titles]
    for row in rows:
        row[NAME] = _name(row[NAME])
    drawn = drawn_intervals(ranking)
    if INTERVAL in titles:
        at = titles.index(INTERVAL)
        for row, line in zip([titles, *rows], drawn, strict=True):
            row.insert(at, line)
    sizes = [max(width(title), *(width(row[at]) for row in rows)) for at, title in enumerate(titles)]
    longest, sizes[NAME] = sizes[NAME], min(sizes[NAME], NARROW_NAME)
    for title in (INTERVAL, "p50", PER_PASS, "n", drawn[0], COST.title):
        if _total(sizes) > context.width and title in titles:
            sizes[titles.index(title)] = 0
    sizes[NAME] = min(longest, max(MIN_NAME, sizes[NAME] + context.width - _total(sizes)))
    right = {0, *range(NAME + 1, len(titles))}
    title, *lines = [in_columns(row, sizes, right) for row in ([title.upper() for title in titles], *rows)]
    front = ranking.front
    notes = []
    if COST.title in titles and sizes[titles.index(COST.title)]:
        of_trials = any(prompt.rates for prompt in islice(ranking.prompts, 1))
        notes.append(f"Cost: mean per {'trial' if of_trials else 'prompt'}")
        notes += ["* estimated at list prices, not billed"] if estimated else []
    if front and len(front.runs) < len(front.amounts):
        places = [str(at) for at, one in enumerate(ranking.runs, 1) if one.run in front.runs]
        notes.append(f"Pareto front of quality and {front.against}: {', '.join(places)}")
    return [paint(title, BOLD, context.color), *lines, *(wrap(f"{'; '.join(notes)}.", context.width) if notes else [])]


def drawn_intervals(ranking: RunRanking) -> list[str]:
    """A scale, and for each run its interval on it, with a mark at its value."""
    bounds = [bound for one in ranking.runs if one.interval for bound in (one.interval.low, one.interval.high)]
    low, high = min(bounds, default=0.0), max(bounds, default=1.0)

    def place(value: float) -> int:
        return round((value - low) / ((high - low) or 1.0) * (DRAWN - 1))

    first_text, last_text = (f"{bound:.2f}" if ranking.measure == "Score" else f"{bound:.0%}" for bound in (low, high))
    lines = [f"{first_text:<{DRAWN // 2}}{last_text:>{DRAWN - DRAWN // 2}}"]
    for one in ranking.runs:
        cells = [" "] * DRAWN
        if one.interval and one.value is not None:
            first, last = place(one.interval.low), place(one.interval.high)
            cells[first : last + 1] = "─" * (last + 1 - first)
            cells[min(max(place(one.value), 0), DRAWN - 1)] = "●"
        lines.append("".join(cells))
    return lines


def matrix_lines(report: Report, ranking: RunRanking, context: ReportContext) -> list[str]:
    """All pairs: points, row minus column, with an asterisk where one is shown to be better."""
    runs, pairs = [one.run for one in ranking.runs], by_names(report.statistics.pairs)
    cells = {
        (row, column): difference_text(*difference_of(pairs, row, column))
        for row in runs
        for column in runs
        if row != column
    }
    number = len(str(len(runs)))
    size = max(map(width, cells.values()))
    names = max(
        MIN_NAME, min(max(width(_name(run)) for run in runs), context.width - number - 2 - len(runs) * (size + 1))
    )
    shown = max(1, min(len(runs), (context.width - number - 1 - names) // (size + 1)))
    title = f"All pairs: points of {ranking.measure.lower()}, row minus column; * where shown."
    lines = [paint(line, BOLD, context.color) for line in wrap(title, context.width)]
    lines.append(" " * (number + 1 + names) + "".join(f" {at:>{size}}" for at in range(1, shown + 1)))
    for at, row in enumerate(runs, 1):
        line = f"{at:>{number}} {pad(clip(_name(row), names), names)}"
        for column in runs[:shown]:
            text = cells.get((row, column), "·")
            better = None if row == column else difference_of(pairs, row, column)[1]
            color = GREEN if better == row else RED
            line += " " * (1 + size - width(text)) + paint(text, color, context.color and better is not None)
        lines.append(line)
    if shown < len(runs):
        lines += wrap(
            f"The terminal has no room for {len(runs) - shown} more columns: use -f html or json.", context.width
        )
    return lines


def difference_text(difference: float | None, better: str | None) -> str:
    """A difference in points with its sign; an asterisk where it is shown."""
    return ("–" if difference is None else f"{difference * 100:+z.0f}") + "*" * (better is not None)


def strip_lines(ranking: RunRanking, context: ReportContext) -> list[str]:
    """A line per run: the share of prompts that passes, the hardest on the left, a block for some prompts each."""
    graded = [prompt for prompt in ranking.prompts if prompt.pass_rate is not None]
    if not graded:
        return []
    number = len(str(len(ranking.runs)))
    names = min(max(width(_name(one.run)) for one in ranking.runs), NARROW_NAME)
    columns = max(1, min(len(graded), context.width - number - names - 3))
    bounds = [round(at * len(graded) / columns) for at in range(columns + 1)]
    parts = [graded[low:high] for low, high in pairwise(bounds)]
    a_block = (
        f"a block is {counted(1, 'prompt')}"
        if columns == len(graded)
        else f"a block is about {counted(round(len(graded) / columns), 'prompt')}"
    )
    title = f"Prompts, the hardest on the left ({a_block})."
    lines = [paint(line, BOLD, context.color) for line in wrap(title, context.width)]
    for at, one in enumerate(ranking.runs, 1):
        line = "".join(
            block([rate for prompt in part if (rate := passed_share(prompt, one.run)) is not None]) for part in parts
        )
        lines.append(f"{at:>{number}} {pad(clip(_name(one.run), names), names)}  {line}")
    never, always = (sum(prompt.pass_rate == rate for prompt in graded) for rate in (0, 1))
    telling = first_few([one_line(prompt.id, 40) for prompt in separating(ranking, IDS_NAMED)], IDS_NAMED)
    text = f"Passed by every run: {always:,}, by no run: {never:,}" + (
        f"; these separate the runs most: {telling}" if telling else ""
    )
    return [*lines, *wrap(f"{text}.", context.width)]


def passed_share(prompt: RankedPrompt, run: str) -> float | None:
    """The pass rate of a prompt in a run; None if it is not graded in it."""
    if prompt.rates is not None:
        return prompt.rates.get(run)
    return {PASS: 1.0, FAIL: 0.0, ERROR: 0.0}.get(prompt.statuses[run])


def block(rates: Sequence[float]) -> str:
    """A block as high as the mean of the rates; a dot if nothing is graded."""
    return BLOCKS[round(sum(rates) / len(rates) * (len(BLOCKS) - 1))] if rates else "·"


# --- prompts ------------------------------------------------------------------------------------


def prompt_lines(found: Separation, context: ReportContext) -> list[str]:
    """The prompts that tell most, with their pass rate over all runs, and those that tell nothing."""
    rows = [["Prompt", "Pass rate", "Information"]]
    rows += [
        [one_line(one.id, 60), percent(one.pass_rate), number(one.information, 2)] for one in found.prompts[:IDS_SHOWN]
    ]
    sizes = [max(width(row[at]) for row in rows) for at in range(3)]
    title, *lines = [in_columns(row, sizes, {1, 2}) for row in rows]
    if len(found.prompts) > IDS_SHOWN:
        lines.append(f"and {len(found.prompts) - IDS_SHOWN:,} more (-f json has all)")
    lines += wrap(dropped(found), context.width)
    for name, ids in (("Never pass", found.never_pass), ("Always pass", found.always_pass)):
        if ids:
            shown = first_few([one_line(id, 60) for id in ids], IDS_SHOWN)
            lines += hanging(INDENT + name, shown, COLUMN + 1, context.width)
    return [paint(title.upper(), BOLD, context.color), *lines]
