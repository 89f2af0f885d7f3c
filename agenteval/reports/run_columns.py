"""Runs side by side: the figures that a form of ae-compare shows of each run, as columns of text."""

from collections.abc import Callable, Sequence
from typing import Any

from agenteval.comparison.figures import Report, RunFigure, Unit
from agenteval.reports.figures import UNKNOWN, dollars, duration_text, number, percent, whole
from agenteval.wire.differences import ConfidenceInterval

INTERVAL = "95 % interval"
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


def interval_text(found: ConfidenceInterval | tuple[float, float] | None, unit: Unit) -> str:
    """An interval, low to high, in a unit."""
    if found is None:
        return UNKNOWN
    low, high = (found.low, found.high) if isinstance(found, ConfidenceInterval) else found
    return f"{SHOW[unit](low)} to {SHOW[unit](high)}"
