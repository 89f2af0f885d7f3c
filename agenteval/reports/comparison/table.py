"""table: for a terminal: better, worse or cannot tell, and by how much, on one screen"""

from collections.abc import Callable, Iterator, Sequence

from agenteval.comparison.figures import COST, ESTIMATED, TERMINAL, Pair, Report, Unit, measures, ratios
from agenteval.comparison.pairing import FEWEST
from agenteval.comparison.verdicts import (
    BETTER,
    CANNOT_TELL,
    WORSE,
    against_first,
    change,
    claim,
    p_text,
    points,
    standing,
)
from agenteval.reports.figures import UNKNOWN, dollars, duration_text, number, percent, percent_interval, whole
from agenteval.reports.forms import ReportContext
from agenteval.reports.terminal import BOLD, DIM, GREEN, RED, YELLOW, hanging, paint, wrap
from agenteval.streams.text import GAP, as_lines, counted, first_few, in_columns, one_line, width
from agenteval.wire.differences import Difference, PreferredRun, Ratio

COLORS = {BETTER: GREEN, WORSE: RED, CANNOT_TELL: YELLOW}
SHOW: dict[Unit, Callable[[float | None], str]] = {
    "rate": percent,
    "score": number,
    "count": whole,
    "ms": duration_text,
    "tokens": whole,
    "usd": dollars,
}
RATE_INTERVAL = "95% interval"
DROPPED = ("Time", "Score", RATE_INTERVAL, "Cost", "Tokens")  # in this order, where a terminal is narrow
MIN_NAME, MAX_NAME = 10, 30
IDS_SHOWN = 20
INDENT = "  "
COLUMN = 14  # where the text of a detail begins


Detail = tuple[str, str]
"""One line below a pair: its title and text."""


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
    if len(report.statistics.pairs) > 1:
        lines += ["", *wrap("Verdicts are adjusted for the number of tests (Holm).", context.width)]
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
    found, a, b = standing(pair), _name(pair.run_a), _name(pair.run_b)
    if pair.better is None:
        text = f"{b} and {a}: {_clean(pair.verdict)}."
    else:
        text = f"{b} is {found} than {a}."
    word = found.upper()
    first, *more = wrap(f"{word}  {text}", context.width)
    return [paint(word, COLORS[found] + BOLD, context.color) + first.removeprefix(word), *more]


# --- each run -----------------------------------------------------------------------------------


def run_lines(report: Report, context: ReportContext) -> list[str]:
    """A line per run: pass rate with its interval, score, tokens, cost and time."""
    first, *others = TERMINAL
    titles = ["Run", first.title, RATE_INTERVAL, *(figure.title for figure in others)]
    rows = []
    for label in report.meta.runs:
        cells = [SHOW[figure.unit](figure.value(report, label)) for figure in TERMINAL]
        if ESTIMATED.value(report, label):
            cells[TERMINAL.index(COST)] += "*"
        rows.append([_name(label), cells[0], percent_interval(first.interval_of(report, label)), *cells[1:]])
    sizes = [
        max(width(title), *(width(row[at]) for row in rows)) if any(row[at] != UNKNOWN for row in rows) else 0
        for at, title in enumerate(titles)
    ]
    for title in DROPPED:
        if _total(sizes) > context.width:
            sizes[titles.index(title)] = 0
    sizes[0] = max(min(MIN_NAME, sizes[0]), sizes[0] - max(0, _total(sizes) - context.width))
    right = set(range(1, len(titles)))
    shown, *lines = [in_columns(row, sizes, right) for row in ([title.upper() for title in titles], *rows)]
    cost = titles.index(COST.title)
    if any("*" in row[cost] for row in rows) and sizes[cost]:
        lines += wrap("* estimated by the list price of the model, not a bill", context.width)
    return [paint(shown, BOLD, context.color), *lines]


def _total(sizes: Sequence[int]) -> int:
    return sum(size + len(GAP) for size in sizes if size) - len(GAP)


# --- each pair ----------------------------------------------------------------------------------


def pair_lines(pair: Pair, report: Report, context: ReportContext) -> list[str]:
    """By how much, how sure, what would settle it, tokens and cost, and the prompts that changed sides."""
    found = pair.pass_rate
    title = f"{_name(pair.run_b)} against {_name(pair.run_a)}, {counted(found.n, 'prompt')} graded in both"
    lines = [paint(line, BOLD, context.color) for line in wrap(title, context.width)]
    for name, text in details(pair, report):
        start = INDENT + name
        shown = hanging(start, text, COLUMN, context.width)
        lines += [paint(start, DIM, context.color) + shown[0].removeprefix(start), *shown[1:]]
    return lines


def details(pair: Pair, report: Report) -> Iterator[Detail]:
    """What is behind the verdict on two runs, the later one against the earlier."""
    passes = pair.pass_rate
    for name, unit, measured in measures(pair):
        if measured.n and name != "pass^1":
            yield name, before_and_after(measured, in_points=unit == "rate")
    if pair.better is None and passes.n:
        yield "To settle", to_settle(passes)
    for name, unit, ratio in ratios(pair):
        yield name, times(ratio, unit, "prompt" if pair.mcnemar else "trial")
    for found in report.preference.pairs if report.preference else ():
        if (found.run_a, found.run_b) == (pair.run_a, pair.run_b):
            yield "Preferred", preferred(found)
    for title, ids in (("Pass lost", pair.flips.only_a), ("Passes now", pair.flips.only_b)):
        if ids:
            yield title, f"{len(ids):,}: {first_few([one_line(id, 60) for id in ids], IDS_SHOWN)}"


def before_and_after(found: Difference, *, in_points: bool) -> str:
    """Both means, the change from the earlier to the later run, its interval and p value."""
    show = points if in_points else "{:+z.3f}".format
    mean = percent if in_points else number
    value, bounds = change(found)
    text = f"{mean(found.mean_a)} → {mean(found.mean_b)}, {show(value or 0.0)}"
    if bounds is not None:
        low, high = (show(bound).removesuffix(" points") for bound in bounds)
        text += f" (95% interval {low} to {high})"
    p = found.adjusted_p if found.adjusted_p is not None else found.p
    return text + (f", {p_text(p)}" if p is not None else "")


def to_settle(found: Difference) -> str:
    """How many prompts would show a difference of this size, and what these many show."""
    least, needed = found.minimum_detectable_difference, found.prompts_needed
    if least is None and found.mean_difference and found.n < FEWEST:
        return f"{counted(found.n, 'prompt')} cannot tell, even if all change alike: at least {FEWEST} are needed"
    if least is None and found.mean_difference:
        return "every prompt or cluster changed alike: more of them would show it"
    if least is None:
        return "every prompt has the same outcome in both: only other or harder prompts can tell them apart"
    shows = f"{counted(found.n, 'prompt')} show {least * 100:.1f} points or more 4 times in 5"
    if needed is None:
        close = "too close for any number of prompts" if found.mean_difference else "equal"
        return f"the pass rates are {close}; {shows}"
    if needed <= found.n:
        return shows
    return f"about {counted(needed, 'prompt')} would show a difference of this size 4 times in 5; {shows}"


def times(found: Ratio, unit: Unit, noun: str) -> str:
    """Both means, and how many times the earlier run's the later run's is."""
    show = SHOW[unit]
    text = f"{show(found.mean_a)} → {show(found.mean_b)} a {noun}, {1 / (found.ratio or 1):.2f} x"
    if found.interval and found.interval.low > 0:
        text += f" (95% interval {1 / found.interval.high:.2f} to {1 / found.interval.low:.2f})"
    return text + (", estimated by list price" if found.estimated else "")


def preferred(found: PreferredRun) -> str:
    """How often the comparison grader preferred each."""
    a, b = _name(found.run_a), _name(found.run_b)
    counts = f"{b} on {found.b_wins}, {a} on {found.a_wins} of {counted(found.n, 'prompt')}"
    return f"{counts}, {counted(found.ties, 'tie')} ({p_text(found.adjusted_p)}): {_clean(found.verdict)}"
