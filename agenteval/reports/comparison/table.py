"""table: for a terminal: better, worse or cannot tell, and by how much, on one screen"""

from collections.abc import Iterator, Sequence

from agenteval.comparison.figures import COST, ESTIMATED, PRICE, TERMINAL, Pair, Report
from agenteval.comparison.verdicts import (
    BETTER,
    CANNOT_TELL,
    EQUAL,
    WORSE,
    against_first,
    claim,
    details,
    dropped,
    standing,
)
from agenteval.reports.figures import number, percent
from agenteval.reports.forms import ReportContext
from agenteval.reports.run_columns import INTERVAL, run_columns
from agenteval.reports.terminal import BOLD, DIM, GREEN, RED, YELLOW, hanging, paint, wrap
from agenteval.streams.text import GAP, as_lines, counted, first_few, in_columns, one_line, width
from agenteval.wire.comparison import Separation

COLORS = {BETTER: GREEN, WORSE: RED, EQUAL: YELLOW, CANNOT_TELL: YELLOW}
DROPPED = (PRICE.title, "Time", "Score", INTERVAL, "Cost", "Tokens")  # in this order, where a terminal is narrow
MIN_NAME, MAX_NAME = 10, 30
IDS_SHOWN = 20
INDENT = "  "
COLUMN = 14  # where the text of a detail begins


def render(report: Report, context: ReportContext) -> Iterator[bytes]:
    """Yields the verdict, a line per run, then what is behind each verdict."""
    pairs, others = against_first(report)
    lines = [line for pair in pairs for line in headline(pair, context)]
    lines += ["", *run_lines(report, context)]
    for pair in pairs:
        lines += ["", *pair_lines(pair, report, context)]
    if others:
        lines.append("")
        lines += [line for pair in others for line in wrap(_clean(claim(pair)), context.width)]
    if report.prompts:
        lines += ["", *prompt_lines(report.prompts, context)]
    if len(report.statistics.pairs) > 1:
        lines += ["", *wrap("Verdicts and intervals are adjusted for the number of pairs (Holm).", context.width)]
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
        lines += wrap("* estimated by the list price of the model, not a bill", context.width)
    return [paint(shown, BOLD, context.color), *lines]


def _total(sizes: Sequence[int]) -> int:
    return sum(size + len(GAP) for size in sizes if size) - len(GAP)


# --- each pair ----------------------------------------------------------------------------------


def pair_lines(pair: Pair, report: Report, context: ReportContext) -> list[str]:
    """What is behind the verdict, and the prompts that changed sides."""
    title = f"{_name(pair.run_b)} against {_name(pair.run_a)}, {counted(pair.n, 'prompt')} graded in both"
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
