"""The top of the page: what was run, tiles, rates by category and by grader, histograms; all figures are computed here.

The script of the page shows them and computes none, so that every report of the suite has the same figures.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from agenteval.comparison.trial_rows import TrialRow, trial_row
from agenteval.reports.figures import breakdown, duration_text, number, percent, percent_span, whole
from agenteval.reports.page.rows import (
    FLAKY,
    PageResult,
    PageRow,
    PageTrial,
    group_of,
    result_row,
    result_text,
    trials_row,
    trials_status,
    trials_text,
)
from agenteval.reports.run_summary import COST, Grades, Mean, RunSummary, TrialPrompts
from agenteval.statistics.samples import percentile
from agenteval.streams.text import clip, counted, first_few, one_line
from agenteval.wire.records import Interval, Record
from agenteval.wire.result_view import Measured, Number

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


class TrialCounts:
    """Trials by how they ended, and prompts by how many of their trials pass."""

    def __init__(self) -> None:
        self.trials = self.failed = self.grader_errors = 0
        self.prompts = TrialPrompts()

    def add(self, row: TrialRow) -> None:
        """Adds a prompt."""
        self.trials += row.trials
        self.failed += row.failed
        self.grader_errors += row.grader_errors
        self.prompts.add_prompt(row.k, row.graded, row.passed, 1)


class TrialsOverview(Overview[TrialCounts]):
    """The overview of a file of trials."""

    kind = "trials"
    noun = "prompt"

    def __init__(self, by: str) -> None:
        super().__init__(by, TrialCounts)
        self._used, self._cost = Mean(), Mean()

    def add(self, record: PageTrial) -> PageRow:
        """Adds a prompt with its trials; returns its row."""
        row = trial_row(record)
        group, sums = self.count(record.metadata, trials_status(row))
        for counts in sums:
            counts.add(row)
        trials = record.trials or ()
        self.facts.add(record.metadata, [trial.timing for trial in trials])
        for trial in trials:
            tokens = trial.timing.tokens if trial.timing else None
            self.add_measured(trial.milliseconds, tokens)
            self._used.add(tokens)
            self._cost.add(trial.timing.cost_usd if trial.timing else None)
        for score in row.scores:
            self.add_score(score)
        return trials_row(record, row, group)

    def text(self, record: PageTrial) -> str:
        """What the quick search finds the prompt by."""
        return trials_text(record)

    def tiles(self) -> list[Tile]:
        """The tiles of trials."""
        sums, used = self.sums, self._used
        ungraded = sums.trials - sums.prompts.graded - sums.grader_errors
        mean = f"mean {whole(used.value)} over {used.count:,}" if used.count else "not reported"
        return [
            *self._rate_tiles(sums.prompts),
            tile("Agents failed", whole(sums.failed), f"of {counted(sums.trials, 'trial')}"),
            ungraded_tile(ungraded, sums.grader_errors, "trial"),
            tile("Tokens", whole(used.total) if used.count else None, mean),
            cost_tile(self._cost),
        ]

    def _rate_tiles(self, prompts: TrialPrompts) -> list[Tile]:
        rate = rate_tile(prompts.passed, prompts.graded, counted(prompts.graded, "trial"), prompts.interval())
        if not prompts.graded:
            return [rate]
        k = prompts.k
        at, every = (prompts.estimate(sign, k) for sign in "@^")
        over = f"over {counted(at.prompts if at else 0, 'prompt')}"
        return [
            rate,
            tile(f"pass@{k}", percent(at.value if at else None), f"at least one of {k} passes, {over}"),
            tile(f"pass^{k}", percent(every.value if every else None), f"all {k} pass, {over}"),
            tile("Flaky prompts", whole(self.statuses[FLAKY]), f"of {counted(prompts.prompts, 'prompt')}"),
        ]

    def group_bar(self, name: str, group: TrialCounts) -> Record:
        """The pass rate of the trials of one category, with its interval."""
        prompts = group.prompts
        bar = rate_bar(name, prompts.passed, prompts.graded, prompts.interval())
        return {**bar, "records": prompts.prompts, "errors": group.failed}


BINS = 24
WIDE = 50  # a largest value so many times the smallest is shown on a log scale


class Histogram(NamedTuple):
    """The counts of the bins and the edges between them, one more than there are bins."""

    edges: list[float]
    counts: list[int]
    log: bool


def histogram(values: Sequence[float], bins: int = BINS) -> Histogram | None:
    """The histogram of finite values that are not negative; None if there is none."""
    if not values:
        return None
    low, high = min(values), max(values)
    positive = low if low > 0 else min((value for value in values if value > 0), default=0.0)
    log = positive > 0 and high / positive > WIDE
    if low == high:
        bins = 1
    edges = _log_edges(positive, high, bins) if log else [low + (high - low) * (at / bins) for at in range(bins + 1)]
    counts = [0] * bins
    for value in values:
        counts[_bin(value, edges, log)] += 1
    return Histogram(edges, counts, log)


def _log_edges(low: float, high: float, bins: int) -> list[float]:
    step = math.log(high / low) / bins
    return [low * math.exp(step * at) for at in range(bins)] + [high]


def _bin(value: float, edges: list[float], log: bool) -> int:
    bins, low, high = len(edges) - 1, edges[0], edges[-1]
    if value <= low or low == high:
        return 0
    share = math.log(value / low) / math.log(high / low) if log else (value - low) / (high - low)
    return min(int(share * bins), bins - 1)


MOST_VALUES = 100  # different values of one fact that are kept
SHOWN_VALUES = 4
LONGEST_FACT = 80
FACTS = {
    "Agent": ("agent",),
    "Model": ("model", "modelName", "model_name"),
    "Agent version": ("agentVersion", "agent_version", "version"),
}
LATEST = 253_402_300_799_000  # the end of the year 9999, in milliseconds: the last that can be written as a date


class RunFacts:
    """Gathers facts from the metadata and the times of records; memory does not grow with their number."""

    def __init__(self) -> None:
        self._values: dict[str, Counter[str]] = {name: Counter() for name in FACTS}
        self._start: Number | None = None
        self._end: Number | None = None

    def add(self, metadata: Record | None, timings: Iterable[Measured | None]) -> None:
        """Adds one record."""
        notes = metadata or {}
        for name, keys in FACTS.items() if notes else ():
            value = next((found for key in keys if isinstance(found := notes.get(key), str) and found), None)
            counter = self._values[name]
            if value is not None and (value in counter or len(counter) < MOST_VALUES):
                counter[value[: 2 * LONGEST_FACT]] += 1
        for timing in timings:
            if timing is None:
                continue
            if timing.start is not None and 0 < timing.start < LATEST:
                self._start = timing.start if self._start is None else min(self._start, timing.start)
            if timing.end is not None and 0 < timing.end < LATEST:
                self._end = timing.end if self._end is None else max(self._end, timing.end)

    def agent(self) -> str:
        """The agent that most records name; "" if none does."""
        most = self._values["Agent"].most_common(1)
        return one_line(most[0][0], LONGEST_FACT)[:LONGEST_FACT] if most else ""

    def shown(self) -> list[tuple[str, str]]:
        """Names and values for the top of the page."""
        facts = []
        for name, counter in self._values.items():
            values = [one_line(value, LONGEST_FACT)[:LONGEST_FACT] for value, _ in counter.most_common()]
            if values:
                facts.append((name + ("s" if len(values) > 1 else ""), first_few(values, SHOWN_VALUES)))
        if self._start is not None:
            facts.append(("Started", utc(self._start)))
        if self._end is not None:
            facts.append(("Ended", utc(self._end)))
        return facts


def utc(milliseconds: Number) -> str:
    """A time in UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(milliseconds / 1000))
