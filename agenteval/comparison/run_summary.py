"""Sums up the rows of one run, or of each group of it: counts, pass rate, scores, latency, tokens and cost.

It keeps eight bytes per answer: the durations, for percentiles. Every mean comes with the number of answers it is over;
what was not graded or not measured counts in none.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from agenteval.statistics.intervals import LEVEL, bounds, clustered_rate_interval, prompt_rate_interval
from agenteval.statistics.samples import MOST_PROMPTS, commonest, pass_at, pass_exp
from agenteval.streams.text import counted
from agenteval.wire.records import SHOULD_TRIGGER, SKILL_TRIGGERED, GraderResult, Interval
from agenteval.wire.row import Attempt, Number, Row

MEASURED = ("input_tokens", "output_tokens", "cached_tokens", "cost_usd")
COST = "cost_usd"
MOST_GROUPS = 1000
OTHER_GROUPS = "(others)"


class Mean(msgspec.Struct):
    """A sum and how many it is over."""

    total: float = 0.0
    count: int = 0

    def add(self, value: Number) -> None:
        """Adds a value."""
        self.total += value
        self.count += 1

    @property
    def value(self) -> float:
        """The mean; there must be a value."""
        return self.total / self.count


class Grades(msgspec.Struct):
    """How many grades pass, the mean score of the prompts, and how many of each prompt's grades pass."""

    passed: int = 0
    count: int = 0
    score: Mean = msgspec.field(default_factory=Mean)
    prompts: Counter[tuple[int, int]] = msgspec.field(default_factory=Counter)  # by their grades and passes

    def add(self, passed: int, scores: Sequence[float]) -> None:
        """Adds the grades of a prompt: one of a result, one for each trial; nothing if there are none."""
        if scores:
            self.passed += passed
            self.count += len(scores)
            self.score.add(math.fsum(scores) / len(scores))
            self.prompts[len(scores), passed] += 1

    @property
    def failed(self) -> int:
        """How many do not pass."""
        return self.count - self.passed

    @property
    def rate(self) -> float | None:
        """The mean of the prompts' pass rates; None if there is no grade."""
        rates = [many * passed / graded for (graded, passed), many in self.prompts.items()]
        return math.fsum(rates) / self.prompts.total() if rates else None

    @property
    def interval(self) -> Interval | None:
        """The 95% interval of that rate."""
        return self.interval_at(LEVEL)

    def interval_at(self, level: float) -> Interval | None:
        """The interval of that rate: the trials of a prompt are a cluster."""
        found = [prompt for prompt, many in self.prompts.items() for _ in range(many)]
        passed, graded = [passed for _, passed in found], [graded for graded, _ in found]
        return bounds(prompt_rate_interval(passed, graded, level=level))


class PassEstimate(NamedTuple):
    """An unbiased estimate of pass@k or pass^k, over `prompts` of the `graded` ones: those with k graded trials.

    It has no interval if they are fewer than nine in ten: the others may be harder.
    """

    name: str
    value: float
    interval: Interval | None
    prompts: int
    graded: int

    @property
    def over(self) -> str:
        """How many prompts it is over."""
        of = f"{self.prompts:,} of " if self.prompts < self.graded else ""
        return f"over {of}{counted(self.graded, 'prompt')}"


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
    def k(self) -> int:
        """The k of the run, of the prompts with a graded trial; 0 if there is none."""
        ks = [k for (k, graded, _), many in self.counts.items() for _ in range(many) if graded]
        return commonest(ks) if ks else 0

    def estimate(self, sign: str, j: int, level: float = LEVEL) -> PassEstimate | None:
        """pass@j or pass^j, unbiased, over the prompts that have j graded trials; None if none has."""
        of = pass_at if sign == "@" else pass_exp
        prompts = [(graded, passed) for (_, graded, passed), many in self.counts.items() for _ in range(many) if graded]
        values = [value for graded, passed in prompts if (value := of(graded, passed, j)) is not None]
        if not values:
            return None
        if j == 1:  # the pass rate
            found = prompt_rate_interval(
                [passed for _, passed in prompts], [graded for graded, _ in prompts], level=level
            )
        else:
            found = clustered_rate_interval(values, [1] * len(values), level=level)
        interval = bounds(found) if len(values) >= MOST_PROMPTS * len(prompts) else None
        return PassEstimate(f"pass{sign}{j}", sum(values) / len(values), interval, len(values), len(prompts))

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
    with_failures: Grades = msgspec.field(default_factory=Grades)  # agents that failed score 0, if anything is graded
    graders: dict[str, Grades] = msgspec.field(default_factory=dict)
    ungraded: int = 0
    grader_errors: int = 0
    labelled: int = 0  # by a person, whose verdict counts
    overruled: int = 0  # of these, the ones where the graders had said something else
    agent_failures: int = 0
    graded_failures: int = 0  # of these, the ones with a score
    triggers: Counter[tuple[bool, bool]] = msgspec.field(default_factory=Counter)  # should a skill be loaded, was it
    tool_errors: int = 0
    clocks_set_back: int = 0  # records whose duration is negative: it is not known
    durations: array[float] = msgspec.field(default_factory=lambda: array("d"))
    measured: dict[str, Mean] = msgspec.field(default_factory=lambda: {name: Mean() for name in MEASURED})

    def add(self, row: Row) -> None:
        """Adds a result, or all trials of a prompt."""
        self.prompts += 1
        should = (row.metadata or {}).get(SHOULD_TRIGGER)
        for attempt in row.attempts:
            self._add_attempt(attempt)
            if isinstance(should, bool):
                self._add_trigger(attempt, should)
        if row.has_only_rate:
            scores = [1.0] * row.passed + [0.0] * (row.graded - row.passed)  # known is only how many pass
            self.grades.add(row.passed, scores)
            self.with_failures.add(row.passed, scores)
            self.graded_failures += row.failed
            self.grader_errors += row.grader_errors
        else:
            self._add_grades(row.attempts)
        if row.is_trials:
            self.trials = self.trials or TrialPrompts()
            self.trials.add(row)

    def _add_attempt(self, attempt: Attempt) -> None:
        self.records += 1
        self.agent_failures += attempt.agent_failed
        self.tool_errors += bool(attempt.tool_errors)
        if attempt.human_verdict is not None:
            self.labelled += 1
            self.overruled += attempt.human_verdict.overrules is not None
        timing = attempt.timing
        if (duration := timing.duration) is not None:
            self.durations.append(duration)
        else:
            self.clocks_set_back += timing.clock_set_back
        for name, mean in self.measured.items():
            if (value := getattr(timing, name)) is not None:
                mean.add(value)

    def _add_trigger(self, attempt: Attempt, should: bool) -> None:
        verdicts = filter(None, (attempt.score, *(attempt.scores or {}).values()))
        outcomes = (verdict.outcome or {} for verdict in verdicts)
        found = [outcome[SKILL_TRIGGERED] for outcome in outcomes if SKILL_TRIGGERED in outcome]
        if found:
            self.triggers[should, found[0] is True] += 1

    def _add_grades(self, attempts: Sequence[Attempt]) -> None:
        known: list[GraderResult] = []
        failures = 0
        by_grader: dict[str, list[GraderResult]] = {}
        for attempt in attempts:
            if attempt.grader_error:
                self.grader_errors += 1
            elif attempt.score is not None:
                known.append(attempt.score)
                self.graded_failures += attempt.agent_failed
            elif attempt.agent_failed:
                failures += 1
            else:
                self.ungraded += 1
            for name, grade in attempt.scores.items() if attempt.scores else ():
                grades = by_grader.setdefault(name, [])
                if not attempt.is_grader_error(grade):
                    grades.append(grade)
        passed, scores = sum([grade.pass_ for grade in known]), [grade.score for grade in known]
        self.grades.add(passed, scores)
        self.with_failures.add(passed, scores + [0.0] * failures)
        for name, grades in by_grader.items():
            self.graders.setdefault(name, Grades()).add(
                sum(grade.pass_ for grade in grades), [grade.score for grade in grades]
            )

    @property
    def interval(self) -> Interval | None:
        """The 95% interval of the pass rate."""
        return self.overall().interval

    def trigger_rates(self) -> dict[str, tuple[int, int]]:
        """Precision and recall of loading a skill: how many are right, of how many."""
        right = self.triggers[True, True]
        return {
            "precision": (right, right + self.triggers[False, True]),
            "recall": (right, right + self.triggers[True, False]),
        }

    def overall(self) -> Grades:
        """The grades of all records; an agent that failed has not passed, with score 0, if anything is graded."""
        return self.with_failures if self.grades.count else self.grades


def add_to_groups(groups: dict[str, RunSummary], names: Iterable[str], row: Row, most: int = MOST_GROUPS) -> None:
    """Adds a row to the summaries of these groups; when there are too many, to that of all others."""
    for name in names:
        known = name if name in groups or len(groups) < most else OTHER_GROUPS
        groups.setdefault(known, RunSummary()).add(row)
