"""The top of the page: tiles, rates by category and by grader, histograms; all figures are computed here.

The script of the page shows them and computes none, so that every report of the suite has the same figures.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Any

from agenteval.comparison.statistics import percentile, wilson
from agenteval.reports.figures import breakdown, duration_text, number, percent, percent_span, whole
from agenteval.reports.page.histogram import count_score, histogram, score_counts
from agenteval.reports.page.rows import STATUSES, PageResult, group_of, result_row, result_status, result_text
from agenteval.reports.page.run_facts import RunFacts
from agenteval.reports.run_summary import COST, Grades, RunSummary
from agenteval.streams.text import clip, counted
from agenteval.wire.records import Interval, Record
from agenteval.wire.result_view import Measured, Number

MOST_GROUPS = 200
OTHER_GROUPS = "(others)"
LONGEST_VALUE = 28
Tile = dict[str, Any]


class Measurements:
    """Durations and tokens of all runs of the agent, eight bytes each."""

    def __init__(self) -> None:
        self.durations: array[float] = array("d")
        self.tokens: array[float] = array("d")

    def add(self, duration: Number | None, tokens: Number | None) -> None:
        """Adds what is known of one run."""
        if duration is not None:
            self.durations.append(duration)
        if tokens is not None and tokens >= 0:
            self.tokens.append(tokens)

    def plots(self) -> dict[str, Any]:
        """The histograms, with the percentiles as text."""
        return {
            "durations": plot(self.durations, duration_text),
            "tokens": plot(self.tokens, whole),
        }

    def latency_tile(self) -> Tile:
        """The tile of the durations."""
        ordered = sorted(self.durations)
        if not ordered:
            return tile("Latency", None, "no times recorded")
        p50, p90 = (duration_text(percentile(ordered, p) or 0) for p in (0.5, 0.9))
        return tile("Latency p50 / p90", f"{p50} / {p90}", f"over {len(ordered):,}")


class ResultsOverview:
    """The overview of a file of results."""

    kind = "results"
    noun = "record"

    def __init__(self, by: str) -> None:
        self.records = 0
        self.facts = RunFacts()
        self.statuses: Counter[str] = Counter()
        self._by = by
        self._summary = RunSummary()
        self._measured = Measurements()
        self._scores = score_counts()
        self._groups: dict[str, RunSummary] = {}

    def add(self, record: PageResult) -> list[Any]:
        """Adds a result; returns its row."""
        self.records += 1
        group = group_of(record.metadata, self._by)
        self._summary.add(record)
        grouped(self._groups, group).add(record)
        self.statuses[result_status(record)] += 1
        self.facts.add(record.metadata, [record.timing])
        self._measured.add(record.duration, record.tokens)
        if record.grade is not None:
            count_score(self._scores, record.grade.score)
        return result_row(record, group)

    def text(self, record: PageResult) -> str:
        """What the quick search finds the result by."""
        return result_text(record)

    def page_data(self) -> Record:
        """All figures, for the script."""
        summary = self._summary
        return {
            "tiles": [
                rate_tile(summary.overall()),
                tile("Agents failed", whole(summary.agent_failures), f"of {counted(summary.records, 'record')}"),
                ungraded_tile(summary),
                *usage_tiles(summary),
                self._measured.latency_tile(),
            ],
            "graders": [grade_bar(name, grades) for name, grades in summary.graders.items()],
            "groups": [group_bar(name, group) for name, group in sorted(self._groups.items())],
            "scores": self._scores if any(self._scores) else None,
            **self._measured.plots(),
        }


# --- tiles --------------------------------------------------------------------------------------


def tile(name: str, value: str | None, note: str = "", interval: Interval | None = None, rate: Any = None) -> Tile:
    """A tile; its value is None if it is not known."""
    value = None if value is None else clip(value, LONGEST_VALUE)  # an agent may report 1e308 tokens
    return {"name": name, "value": value, "note": note, "interval": interval, "rate": rate}


def rate_tile(grades: Grades) -> Tile:
    """The pass rate with its interval."""
    if not grades.count:
        return tile("Pass rate", None, "nothing is graded")
    rate, interval = grades.passed / grades.count, wilson(grades.passed, grades.count)
    note = f"{grades.passed:,} of {grades.count:,} passed; 95% interval {percent_span(interval)}"
    return tile("Pass rate", percent(rate), note, interval, rate)


def ungraded_tile(summary: RunSummary) -> Tile:
    """How many records have no grade, and why."""
    errors = "grader error" if summary.grader_errors == 1 else "grader errors"
    waiting = summary.ungraded + summary.grader_errors
    reasons = breakdown((summary.ungraded, "not graded"), (summary.grader_errors, errors)).strip(" ()")
    return tile("Ungraded", whole(waiting), reasons or "every record has a grade")


def usage_tiles(summary: RunSummary) -> list[Tile]:
    """Tokens and cost; None if no agent reports them."""
    tokens = [summary.measured[name] for name in ("input_tokens", "output_tokens")]
    known = [mean for mean in tokens if mean.count]
    cost = summary.measured[COST]
    split = ", ".join(
        f"{whole(mean.total)} {what}" for mean, what in zip(tokens, ("in", "out"), strict=True) if mean.count
    )
    over = f" over {max((mean.count for mean in known), default=0):,}"
    return [
        tile(
            "Tokens",
            whole(sum(mean.total for mean in known)) if known else None,
            split + over if known else "not reported",
        ),
        tile(
            "Cost",
            f"${cost.total:,.2f}" if cost.count else None,
            f"mean ${cost.value:,.4f} over {cost.count:,}" if cost.count else "not reported",
        ),
    ]


# --- bars and histograms ------------------------------------------------------------------------


def grade_bar(name: str, grades: Grades) -> Record:
    """The pass rate of one grader or category, with its interval."""
    rate = grades.passed / grades.count if grades.count else None
    interval = wilson(grades.passed, grades.count) if grades.count else None
    mean = number(grades.score.value) if grades.count else ""
    return {
        "name": name,
        "passed": grades.passed,
        "count": grades.count,
        "rate": rate,
        "interval": interval,
        "mean": mean,
        "shown": percent(rate) if grades.count else "not graded",
        "sure": percent_span(interval) if interval else "",
    }


def group_bar(name: str, summary: RunSummary) -> Record:
    """The pass rate of one category, with its interval, and how many records it has."""
    return {**grade_bar(name, summary.overall()), "records": summary.records, "errors": summary.agent_failures}


def grouped(groups: dict[str, RunSummary], name: str) -> RunSummary:
    """The summary of one category; beyond MOST_GROUPS categories, that of all others."""
    if name not in groups and len(groups) >= MOST_GROUPS:
        name = OTHER_GROUPS
    return groups.setdefault(name, RunSummary())


def plot(values: array[float], shown: Any) -> Record | None:
    """A histogram with its edges as text."""
    found = histogram(values)
    if found is None:
        return None
    ordered = sorted(values)
    marks = [(name, percentile(ordered, p)) for name, p in (("p50", 0.5), ("p90", 0.9))]
    return {
        "edges": found.edges,
        "labels": [clip(shown(edge), LONGEST_VALUE) for edge in found.edges],
        "counts": found.counts,
        "log": found.log,
        "marks": [
            {"name": name, "value": value, "shown": clip(shown(value or 0), LONGEST_VALUE)} for name, value in marks
        ],
    }


def status_counts(statuses: Counter[str]) -> list[tuple[str, int]]:
    """How many records have each status, in the order in which they are looked at."""
    return [(status, statuses[status]) for status in STATUSES if statuses[status]]


def timings_of(trials: Iterable[Any]) -> list[Measured | None]:
    """The times of trials."""
    return [trial.timing for trial in trials]
