"""The top of the page of a comparison: verdicts, differences with intervals, and each run; figures are the report's.

Differences and ratios are shown as the later run against the earlier one: right of the line means more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agenteval.comparison.figures import GRADED, PAGE, PASS_RATE, Pair, Report, Unit, measures, ratios
from agenteval.comparison.verdicts import change
from agenteval.reports.figures import (
    dollars,
    duration_text,
    number,
    percent,
    percent_interval,
    percent_span,
    signed,
    whole,
)
from agenteval.reports.page.comparison_rows import FlippedIds
from agenteval.reports.page.overview import Tile, tile
from agenteval.statistics.intervals import bounds
from agenteval.wire.comparison import TrialsComparisonReport
from agenteval.wire.differences import Difference, Ratio
from agenteval.wire.records import Interval, Record

MOST_CATEGORIES = 40
SHOW: dict[Unit, Callable[[Any], str]] = {
    "rate": percent,
    "score": number,
    "count": whole,
    "ms": duration_text,
    "tokens": whole,
    "usd": lambda value: dollars(value, 2),
}


def flipped(report: Report) -> FlippedIds:
    """The prompts that changed sides between the first run and another."""
    first = report.meta.runs[0] if report.meta.runs else ""
    pairs = [pair.flips for pair in report.statistics.pairs if pair.run_a == first]
    return FlippedIds(
        frozenset(id for flips in pairs for id in flips.only_a), frozenset(id for flips in pairs for id in flips.only_b)
    )


def winners(report: Report) -> dict[str, str | None]:
    """The run that won each prompt."""
    prompts = report.per_prompt if isinstance(report, TrialsComparisonReport) else report.head_to_head.prompts
    return {prompt.id: prompt.winner for prompt in prompts}


def comparison_data(report: Report, flips: FlippedIds) -> Record:
    """What the top of the page shows."""
    runs = report.meta.runs
    return {
        "title": " → ".join(runs),
        "labels": runs,
        "tiles": [*run_tiles(report), *flip_tiles(flips, len(runs))],
        "verdicts": [verdict(pair) for pair in report.statistics.pairs],
        "differences": list(differences(report)),
        "ratios": list(ratio_bars(report)),
        "wins": wins(report),
        "table": run_table(report),
        "groups": [],
        "graders": [],
        "scores": None,
        "durations": None,
        "tokens": None,
    }


# --- tiles --------------------------------------------------------------------------------------


def run_tiles(report: Report) -> Iterator[Tile]:
    """The pass rate of each run."""
    for label in report.meta.runs:
        rate, interval = PASS_RATE.value(report, label), bounds(PASS_RATE.interval_of(report, label))
        n = GRADED.value(report, label)
        over = f"over {n:,}; 95% interval {percent_span(interval)}" if interval else "nothing is graded"
        yield tile(f"{label}: pass rate", None if rate is None else percent(rate), over, interval, rate)


def flip_tiles(flips: FlippedIds, runs: int) -> list[Tile]:
    """How many prompts changed sides."""
    note = "from the first run to the second" if runs == 2 else "from the first run to any other"
    return [
        tile("Passed before, does not pass now", whole(len(flips.lost)), note),
        tile("Did not pass before, passes now", whole(len(flips.gained)), note),
    ]


# --- pairs --------------------------------------------------------------------------------------


def verdict(pair: Pair) -> Record:
    """The outcome for two runs, in sentences."""
    found = {"a": pair.run_a, "b": pair.run_b, "better": pair.better, "verdict": pair.verdict, "n": pair.n}
    return {**found, "sentences": pair.sentences}


def differences(report: Report) -> Iterator[Record]:
    """Every difference with its interval: pass rates, scores, pass^k, then pass rates by category."""
    for pair in report.statistics.pairs:
        for measure in sorted(measures(pair), key=lambda measure: measure.name.startswith("pass^")):
            yield difference_bar(measure.name, "", measure.difference)
    for category, group in list((report.by_category or {}).items())[:MOST_CATEGORIES]:
        for difference in group.pairs:
            yield difference_bar("Pass rate", category, difference)


def difference_bar(name: str, category: str, found: Difference) -> Record:
    """One line of the forest plot, as B minus A."""
    return plot_bar(name, found, found.n, *change(found), signed, category=category, better=found.better)


def plot_bar(
    name: str, pair: Any, n: int, value: Any, interval: Interval | None, show: Callable[[float], str], **more: Any
) -> Record:
    """One line of a plot: a value with its interval."""
    sure = f"{show(interval[0])} to {show(interval[1])}" if interval else ""
    figures = {"value": value, "interval": interval, "shown": show(value), "sure": sure, "n": n}
    return {"name": name, "category": "", "a": pair.run_a, "b": pair.run_b, **figures, "better": None, **more}


def ratio_bars(report: Report) -> Iterator[Record]:
    """Time, tokens and cost of B as a multiple of A's."""
    for pair in report.statistics.pairs:
        for name, _, found in sorted(ratios(pair), key=lambda ratio: ratio[0] != "Time"):
            yield ratio_bar(name, pair, found, found.ratio or 1.0)


def ratio_bar(name: str, pair: Any, found: Ratio, ratio: float) -> Record:
    """One line of the plot of ratios, as B divided by A."""
    low, high = bounds(found.interval) or (0.0, 0.0)
    interval = (1 / high, 1 / low) if low > 0 and high > 0 else None
    shown = f"{number(1 / ratio, 2)} ×"
    return plot_bar(name, pair, found.n, 1 / ratio, interval, lambda value: number(value, 2), shown=shown)


def wins(report: Report) -> list[Record]:
    """Prompts won by each of two runs."""
    if isinstance(report, TrialsComparisonReport):
        found: Sequence[Any] = report.head_to_head.overall
    else:
        found = report.head_to_head.quality or report.head_to_head.pairwise
    return [
        {"a": pair.run_a, "b": pair.run_b, "aWins": pair.a_wins, "bWins": pair.b_wins, "ties": pair.ties}
        for pair in found
    ]


# --- runs ---------------------------------------------------------------------------------------


def run_table(report: Report) -> Record:
    """Each run in a line: pass rate, score, time, tokens and cost."""
    heads = ["Run"]
    for figure in PAGE:
        heads += [figure.title, "95% interval"] if figure.unit == "rate" else [figure.title]
    rows = []
    for label in report.meta.runs:
        cells = [label]
        for figure in PAGE:
            cells.append(SHOW[figure.unit](figure.value(report, label)))
            if figure.unit == "rate":
                cells.append(percent_interval(figure.interval_of(report, label)))
        rows.append(cells)
    return {"heads": heads, "rows": rows}
