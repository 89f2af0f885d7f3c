"""Runs side by side: the figures that a form of ae-compare shows of each run, as columns of text."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agenteval.comparison.figures import RANKING, Report, RunFigure, Unit
from agenteval.reports.figures import UNKNOWN, dollars, duration_text, number, percent, whole
from agenteval.wire.comparison import RunRanking
from agenteval.wire.differences import ConfidenceInterval

INTERVAL = "95% interval"
SHOW: dict[Unit, Callable[[Any], str]] = {
    "rate": percent,
    "score": number,
    "count": whole,
    "ms": duration_text,
    "tokens": whole,
    "usd": dollars,
    "steps": lambda value: number(value, 1),
    "rank": lambda places: "–".join(str(place) for place in dict.fromkeys(places or UNKNOWN)),
}


def run_columns(
    report: Report, shown: Sequence[RunFigure], labels: Sequence[str] | None = None
) -> tuple[list[str], list[list[str]]]:
    """The titles and a row for each run: each figure that any of them has, with its interval if it has one."""
    labels = report.meta.runs if labels is None else labels
    titles, rows = ["Run"], [[label] for label in labels]
    for figure in shown:
        values = [figure.value(report, label) for label in labels]
        if labels and all(value is None for value in values):
            continue
        titles += [figure.title, INTERVAL] if figure.interval else [figure.title]
        for label, value, cells in zip(labels, values, rows, strict=True):
            cells.append(SHOW[figure.unit](value))
            if figure.interval:
                cells.append(interval_text(figure.interval_of(report, label), figure.unit))
    return titles, rows


class RankingTable(NamedTuple):
    """The ranking as text: titles, and a row for each run, the best first; columns that no run has are left out."""

    titles: list[str]
    rows: list[list[str]]
    estimated: bool  # whether a cost with an asterisk is estimated


def ranking_table(ranking: RunRanking) -> RankingTable:
    """The ranking as text; the costs that are estimated have an asterisk."""
    unit: Unit = "score" if ranking.measure == "Score" else "rate"
    titles, rows = ["Rank", "Run"], [[SHOW["rank"](one.rank), one.run] for one in ranking.runs]
    estimated = False
    for figure in RANKING[1:]:
        values = [getattr(one, figure.field) for one in ranking.runs]
        if all(value is None for value in values):
            continue
        titles += [ranking.measure, INTERVAL] if figure.interval else [figure.title]
        for one, value, cells in zip(ranking.runs, values, rows, strict=True):
            mark = "*" if figure.unit == "usd" and value is not None and one.cost_estimated else ""
            estimated = estimated or bool(mark)
            cells.append(SHOW[unit if figure.interval else figure.unit](value) + mark)
            if figure.interval:
                cells.append(interval_text(one.interval, unit))
    return RankingTable(titles, rows, estimated)


def interval_text(found: ConfidenceInterval | tuple[float, float] | None, unit: Unit) -> str:
    """An interval, low to high, in a unit."""
    if found is None:
        return UNKNOWN
    low, high = (found.low, found.high) if isinstance(found, ConfidenceInterval) else found
    return f"{SHOW[unit](low)} to {SHOW[unit](high)}"
