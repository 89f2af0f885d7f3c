"""Sums up the rows of one run, or of each group of it: counts, pass rate, scores, latency, tokens and cost.

It keeps eight bytes per answer: the durations, for percentiles. Every mean comes with the number of answers it is over;
what was not graded or not measured counts in none.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from agenteval.statistics.intervals import bounds, clustered_rate_interval, wilson
from agenteval.statistics.samples import commonest, pass_at, pass_exp
from agenteval.wire.records import GraderResult, Interval
from agenteval.wire.row import Attempt, Number, Row

MEASURED = ("input_tokens", "output_tokens", "cached_tokens", "cost_usd")
COST = "cost_usd"
NO_GROUP = "(none)"
MOST_GROUPS = 1000
OTHER_GROUPS = "(others)"


class Mean(msgspec.Struct):
    """A sum and how many it is over."""

    total: float = 0.0
    count: int = 0

    def add(self, value: Number | None) -> None:
        """Adds a value, unless it is not known."""
        if value is not None:
            self.total += value
            self.count += 1

    @property
    def value(self) -> float:
        """The mean; there must be a value."""
        return self.total / self.count


class Grades(msgspec.Struct):
    """How many grades pass, and their mean score."""

    passed: int = 0
    score: Mean = msgspec.field(default_factory=Mean)

    def add(self, grade: GraderResult) -> None:
        """Adds a grade."""
        self.passed += grade.pass_
        self.score.add(grade.score)

    def add_alike(self, passed: int, count: int) -> None:
        """Adds grades of which it is only known how many pass: they score 1, the others 0."""
        self.passed += passed
        self.score = Mean(self.score.total + passed, self.score.count + count)

    @property
    def count(self) -> int:
        """How many grades there are."""
        return self.score.count

    @property
    def failed(self) -> int:
        """How many do not pass."""
        return self.count - self.passed

    @property
    def rate(self) -> float | None:
        """The share that passes; None if there is no grade."""
        return self.passed / self.count if self.count else None

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of that share, if the grades are independent."""
        return None if self.rate is None else wilson(self.rate, self.count)


class PassEstimate(NamedTuple):
    """An unbiased estimate of pass@k or pass^k, with its interval and the number of prompts it is over."""

    name: str
    value: float
    interval: Interval | None
    prompts: int


class TrialPrompts:
    """Prompts of trials, counted by how many of their trials are graded and pass."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[int, int, int]] = Counter()  # k, graded, passed

    def add(self, row: Row) -> None:
        """Adds a prompt; a trial whose agent failed has not passed."""
        self.counts[row.k, row.graded or row.failed, row.passed] += 1

    def add_alike(self, k: int, graded: int, passed: int, prompts: int) -> None:
        """Adds so many prompts with so many graded trials each, of which so many passed."""
        self.counts[k, graded, passed] += prompts

    @property
    def prompts(self) -> int:
        """How many prompts there are."""
        return self.counts.total()

    @property
    def graded(self) -> int:
        """How many trials are graded."""
        return sum(graded * many for (_, graded, _), many in self.counts.items())

    @property
    def passed(self) -> int:
        """How many trials passed."""
        return sum(passed * many for (_, _, passed), many in self.counts.items())

    @property
    def k(self) -> int:
        """The k of the run, of the prompts with a graded trial; 0 if there is none."""
        ks = [k for (k, graded, _), many in self.counts.items() for _ in range(many) if graded]
        return commonest(ks) if ks else 0

    def interval(self) -> Interval | None:
        """The interval of the share of trials that pass: those of a prompt are a cluster."""
        found = [(graded, passed) for (_, graded, passed), many in self.counts.items() for _ in range(many) if graded]
        return bounds(clustered_rate_interval([passed for _, passed in found], [graded for graded, _ in found]))

    def estimate(self, sign: str, j: int) -> PassEstimate | None:
        """pass@j or pass^j, unbiased, over the prompts that have j graded trials; None if none has."""
        of = pass_at if sign == "@" else pass_exp
        values = [
            value
            for (_, graded, passed), many in self.counts.items()
            if graded and (value := of(graded, passed, j)) is not None
            for _ in range(many)
        ]
        if not values:
            return None
        interval = bounds(clustered_rate_interval(values, [1] * len(values)))
        return PassEstimate(f"pass{sign}{j}", sum(values) / len(values), interval, len(values))

    def estimates(self) -> list[PassEstimate]:
        """pass@1, pass@k and pass^k; only those that some prompt has enough trials for."""
        wanted = [("@", 1), ("@", self.k), ("^", self.k)]
        found = [self.estimate(*one) for one in (wanted if self.k > 1 else wanted[: self.k])]
        return [one for one in found if one is not None]


class RunSummary(msgspec.Struct):
    """The sums over all results added so far."""

    prompts: int = 0
    records: int = 0  # answers: one of a result, several of a prompt's trials
    trials: TrialPrompts | None = None  # if they are trials
    grades: Grades = msgspec.field(default_factory=Grades)
    graders: dict[str, Grades] = msgspec.field(default_factory=dict)
    ungraded: int = 0
    grader_errors: int = 0
    agent_failures: int = 0
    graded_failures: int = 0  # of these, the ones with a score
    ungraded_failures: int = 0  # of these, the ones without a score, which count as 0 if anything is graded
    tool_errors: int = 0
    clocks_set_back: int = 0  # records whose duration is negative: it is not known
    durations: array[float] = msgspec.field(default_factory=lambda: array("d"))
    measured: dict[str, Mean] = msgspec.field(default_factory=lambda: {name: Mean() for name in MEASURED})

    def add(self, row: Row) -> None:
        """Adds a result, or all trials of a prompt."""
        self.prompts += 1
        for attempt in row.attempts:
            self._add_attempt(attempt)
            if attempt.grader_error or not row.has_only_rate:
                self._add_grades(attempt)
        if row.has_only_rate:
            self.grades.add_alike(row.passed, row.graded)
            self.graded_failures += row.failed
        if row.is_trials:
            self.trials = self.trials or TrialPrompts()
            self.trials.add(row)

    def _add_attempt(self, attempt: Attempt) -> None:
        self.records += 1
        self.agent_failures += attempt.agent_failed
        self.tool_errors += bool(attempt.tool_errors)
        timing = attempt.timing
        if (duration := timing.duration) is not None:
            self.durations.append(duration)
        else:
            self.clocks_set_back += timing.clock_set_back
        for name, mean in self.measured.items():
            mean.add(getattr(timing, name))

    def _add_grades(self, attempt: Attempt) -> None:
        score = attempt.score
        if attempt.grader_error:
            self.grader_errors += 1
        elif score is not None:
            self.grades.add(score)
            self.graded_failures += attempt.agent_failed
        elif attempt.agent_failed:
            self.ungraded_failures += 1
        else:
            self.ungraded += 1
        for name, grade in (attempt.scores or {}).items():
            grades = self.graders.setdefault(name, Grades())
            if not attempt.is_grader_error(grade):
                grades.add(grade)

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the pass rate; the trials of a prompt are a cluster."""
        return self.trials.interval() if self.trials else self.overall().interval

    def overall(self) -> Grades:
        """The grades of all records; an agent that failed has not passed, with score 0, if anything is graded."""
        if not self.grades.count:
            return self.grades
        scores = self.grades.score
        return Grades(self.grades.passed, Mean(scores.total, scores.count + self.ungraded_failures))


def add_to_groups(groups: dict[str, RunSummary], names: Iterable[str], row: Row, most: int = MOST_GROUPS) -> None:
    """Adds a row to the summaries of these groups; when there are too many, to that of all others."""
    for name in names:
        known = name if name in groups or len(groups) < most else OTHER_GROUPS
        groups.setdefault(known, RunSummary()).add(row)
