"""The top of the page: tiles, rates by category and by grader, histograms; all figures are computed here.

The script of the page shows them and computes none, so that every report of the suite has the same figures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from agenteval.reports.figures import breakdown, duration_text, number, percent, percent_span, whole
from agenteval.reports.page.histogram import histogram
from agenteval.reports.page.rows import PageResult, PageRow, group_of, result_row, result_text
from agenteval.reports.page.run_facts import RunFacts
from agenteval.reports.run_summary import COST, Grades, Mean, RunSummary
from agenteval.statistics.samples import percentile
from agenteval.streams.text import clip, counted
from agenteval.wire.records import Interval, Record
from agenteval.wire.result_view import Number

MOST_GROUPS = 200
OTHER_GROUPS = "(others)"
LONGEST_VALUE = 28
SCORE_BINS = 20  # from 0 to 1
Tile = dict[str, Any]
S = TypeVar("S")


class Overview(ABC, Generic[S]):
    """What the top of the page shows of a file; S has the sums over its records, or over those of one category."""

    kind: ClassVar[str]
    noun: ClassVar[str]

    def __init__(self, by: str, no_sums: Callable[[], S]) -> None:
        self.records = 0
        self.facts = RunFacts()
        self.statuses: Counter[str] = Counter()
        self.sums = no_sums()
        self._by, self._no_sums = by, no_sums
        self._groups: dict[str, S] = {}
        self._scores = [0] * SCORE_BINS
        self._durations: array[float] = array("d")  # of all runs of the agent, eight bytes each
        self._tokens: array[float] = array("d")

    @abstractmethod
    def add(self, record: Any) -> PageRow:
        """Adds a record; returns its row."""

    @abstractmethod
    def text(self, record: Any) -> str:
        """What the quick search finds the record by."""

    @abstractmethod
    def tiles(self) -> list[Tile]:
        """The tiles, but for that of the durations."""

    @abstractmethod
    def group_bar(self, name: str, group: S) -> Record:
        """The pass rate of one category, with its interval, and how many records it has."""

    def grader_bars(self) -> list[Record]:
        """The pass rate of each grader, if there are several."""
        return []

    def page_data(self) -> Record:
        """All figures, for the script."""
        return {
            "tiles": [*self.tiles(), latency_tile(self._durations)],
            "graders": self.grader_bars(),
            "groups": [self.group_bar(name, group) for name, group in sorted(self._groups.items())],
            "scores": self._scores if any(self._scores) else None,
            "durations": plot(self._durations, duration_text),
            "tokens": plot(self._tokens, whole),
        }

    def count(self, metadata: Record | None, status: str) -> tuple[str, tuple[S, S]]:
        """Counts a record; returns its category, and the sums to which it is to be added."""
        self.records += 1
        self.statuses[status] += 1
        group = group_of(metadata, self._by)
        name = group if group in self._groups or len(self._groups) < MOST_GROUPS else OTHER_GROUPS
        return group, (self.sums, self._groups.setdefault(name, self._no_sums()))

    def add_score(self, score: float) -> None:
        """Adds a score to the histogram, whose last bin includes 1."""
        self._scores[min(int(score * SCORE_BINS), SCORE_BINS - 1)] += 1

    def add_measured(self, duration: Number | None, tokens: Number | None) -> None:
        """Adds what is known of one run of the agent."""
        if duration is not None:
            self._durations.append(duration)
        if tokens is not None and tokens >= 0:
            self._tokens.append(tokens)


class ResultsOverview(Overview[RunSummary]):
    """The overview of a file of results."""

    kind = "results"
    noun = "record"

    def __init__(self, by: str) -> None:
        super().__init__(by, RunSummary)

    def add(self, record: PageResult) -> PageRow:
        """Adds a result; returns its row."""
        group, summaries = self.count(record.metadata, record.status)
        for summary in summaries:
            summary.add(record)
        self.facts.add(record.metadata, [record.timing])
        self.add_measured(record.duration, record.tokens)
        if record.grade is not None:
            self.add_score(record.grade.score)
        return result_row(record, group)

    def text(self, record: PageResult) -> str:
        """What the quick search finds the result by."""
        return result_text(record)

    def tiles(self) -> list[Tile]:
        """The tiles of results."""
        grades, failed = self.sums.overall(), self.sums.agent_failures
        return [
            rate_tile(grades.passed, grades.count, f"{grades.count:,}", grades.interval),
            tile("Agents failed", whole(failed), f"of {counted(self.records, 'record')}"),
            ungraded_tile(self.sums.ungraded, self.sums.grader_errors, "record"),
            self._tokens_tile(),
            cost_tile(self.sums.measured[COST]),
        ]

    def grader_bars(self) -> list[Record]:
        """The pass rate of each grader."""
        return [grade_bar(name, grades) for name, grades in self.sums.graders.items()]

    def group_bar(self, name: str, group: RunSummary) -> Record:
        """The pass rate of one category, with its interval, and how many records it has."""
        return {**grade_bar(name, group.overall()), "records": group.records, "errors": group.agent_failures}

    def _tokens_tile(self) -> Tile:
        sums = {what: self.sums.measured[f"{what}put_tokens"] for what in ("in", "out")}
        known = {what: mean for what, mean in sums.items() if mean.count}
        if not known:
            return tile("Tokens", None, "not reported")
        split = ", ".join(f"{whole(mean.total)} {what}" for what, mean in known.items())
        over = f"over {max(mean.count for mean in known.values()):,}"
        return tile("Tokens", whole(sum(mean.total for mean in known.values())), f"{split} {over}")


# --- tiles --------------------------------------------------------------------------------------


def tile(name: str, value: str | None, note: str = "", interval: Interval | None = None, rate: Any = None) -> Tile:
    """A tile; its value is None if it is not known."""
    value = None if value is None else clip(value, LONGEST_VALUE)  # an agent may report 1e308 tokens
    return {"name": name, "value": value, "note": note, "interval": interval, "rate": rate}


def rate_tile(passed: int, count: int, of: str, interval: Interval | None) -> Tile:
    """The pass rate with its interval; `of` is the count with its noun."""
    if not count:
        return tile("Pass rate", None, "nothing is graded")
    note = f"{passed:,} of {of} passed; 95% interval {percent_span(interval)}"
    return tile("Pass rate", percent(passed / count), note, interval, passed / count)


def ungraded_tile(ungraded: int, grader_errors: int, noun: str) -> Tile:
    """How many have no grade, and why."""
    errors = "grader error" if grader_errors == 1 else "grader errors"
    reasons = breakdown((ungraded, "not graded"), (grader_errors, errors)).strip(" ()")
    return tile("Ungraded", whole(ungraded + grader_errors), reasons or f"every {noun} has a grade")


def cost_tile(cost: Mean) -> Tile:
    """The sum and the mean of the costs; None if no agent reports them."""
    if not cost.count:
        return tile("Cost", None, "not reported")
    return tile("Cost", f"${cost.total:,.2f}", f"mean ${cost.value:,.4f} over {cost.count:,}")


def latency_tile(durations: Sequence[float]) -> Tile:
    """The median and the 90th percentile of the durations."""
    ordered = sorted(durations)
    if not ordered:
        return tile("Latency", None, "no times recorded")
    p50, p90 = (duration_text(percentile(ordered, p) or 0) for p in (0.5, 0.9))
    return tile("Latency p50 / p90", f"{p50} / {p90}", f"over {len(ordered):,}")


# --- bars and histograms ------------------------------------------------------------------------


def grade_bar(name: str, grades: Grades) -> Record:
    """The pass rate of one grader or category, with its interval."""
    mean = number(grades.score.value) if grades.count else ""
    return rate_bar(name, grades.passed, grades.count, grades.interval, mean)


def rate_bar(name: str, passed: int, count: int, interval: Interval | None, mean: str = "") -> Record:
    """A pass rate with its interval, and the mean score."""
    rate = passed / count if count else None
    return {
        "name": name,
        "passed": passed,
        "count": count,
        "rate": rate,
        "interval": interval,
        "mean": mean,
        "shown": percent(rate) if count else "not graded",
        "sure": percent_span(interval) if interval else "",
    }


def plot(values: array[float], shown: Callable[[float], str]) -> Record | None:
    """A histogram with its edges as text."""
    found = histogram(values)
    if found is None:
        return None
    ordered = sorted(values)
    marks = [(name, percentile(ordered, p) or 0) for name, p in (("p50", 0.5), ("p90", 0.9))]
    return {
        "edges": found.edges,
        "labels": [clip(shown(edge), LONGEST_VALUE) for edge in found.edges],
        "counts": found.counts,
        "log": found.log,
        "marks": [{"name": name, "value": value, "shown": clip(shown(value), LONGEST_VALUE)} for name, value in marks],
    }


def status_counts(statuses: Counter[str], order: Sequence[str]) -> list[tuple[str, int]]:
    """How many records have each status, in the order in which they are looked at."""
    return [(status, statuses[status]) for status in order if statuses[status]]
