"""ae-gate: the rows of a run → the figures that a threshold can be set for, and whether each threshold is met.

Each figure has its 95% interval where it is an estimate; the trials of a prompt are a cluster. A figure of grades
also has the share of records that it is known for: what is not known cannot pass.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from agenteval.comparison.run_summary import COST, RunSummary
from agenteval.statistics.intervals import (
    LEVEL,
    bounds,
    clustered_rate_interval,
    percentile_interval,
    rate_interval,
    score_interval,
)
from agenteval.statistics.samples import percentile, plug_in_pass_at_k, plug_in_pass_exp_k
from agenteval.streams.text import counted
from agenteval.wire.records import Interval
from agenteval.wire.row import Attempt, Row

OF_TRIALS = re.compile(r"pass([@^])(K|[1-9][0-9]{0,5})")
OLD_NAME = re.compile(r"pass(At|Exp)([1-9][0-9]{0,5})")  # of an unbiased estimate, beside passAtK, which is none
NOT_GRADED = "nothing is graded"
NOT_TRIALS = "these are results, not trials"
GRADED_RATE = "gradedRate"
COST_NAME = "costUsd"
NOT_REPORTED = "no agent reported it"
ROUNDING = 1e-9  # a mean of ten scores of 0.7 is 0.6999999999999998


class GateFigure(NamedTuple):
    """A value, its interval if it is an estimate, and what it is over; or why it is not known."""

    value: float | None
    over: str
    interval: Interval | None = None
    estimate: bool = True  # whether the value would differ in another run; a total is what it is
    known: float = 1.0  # of a figure of grades: the share of records, or of prompts, that it is known for


class RunFigures:
    """The figures of the results or trials added so far: sums, counts, and 8 bytes for each score and duration."""

    def __init__(self) -> None:
        self.level = LEVEL  # of intervals
        self.summary = RunSummary()
        self._prompts = 0
        self._scores = array("d")  # the mean of each prompt
        self._timed = array("q")  # the prompt of each duration: trials of one are a cluster
        # Prompts, counted by how many records they have and for how many of those a flag holds.
        self._flags: dict[str, Counter[tuple[int, int]]] = {name: Counter() for name in FLAGS}
        self._recorded: dict[str, array[float]] = {name: array("d") for name in RECORDED}
        self._failed_prompts = 0  # of trials: prompts whose agents all failed

    def add(self, row: Row) -> None:
        """Adds a result, or all trials of a prompt."""
        self.summary.add(row)
        prompt = self._prompts
        self._prompts += 1
        scores = []
        for name, holds in FLAGS.items() if row.attempts else ():
            self._flags[name][len(row.attempts), sum(map(holds, row.attempts))] += 1
        for attempt in row.attempts:
            if attempt.grade is not None or attempt.agent_failed:
                scores.append(attempt.grade.score if attempt.grade is not None else 0.0)
            if attempt.timing.duration is not None:
                self._timed.append(prompt)
        if scores:
            self._scores.append(sum(scores) / len(scores))
        if row.is_trials:
            self._failed_prompts += bool(row.attempts) and row.failed == len(row.attempts) and not row.graded
            for name, of_row in RECORDED.items():
                if (value := of_row(row)) is not None:
                    self._recorded[name].append(value)

    @property
    def graded(self) -> int:
        """How many records count as graded."""
        return self.summary.overall().count

    @property
    def graded_share(self) -> float:
        """The share of records that count as graded; 0 if there are none."""
        return self.graded / self.summary.records if self.summary.records else 0.0

    def graded_text(self) -> str:
        """How many records are graded, and by name why the others are not."""
        summary, graded = self.summary, self.graded
        if graded == summary.records:
            return "all graded"
        missing = [
            (summary.ungraded, "ungraded"),
            (summary.grader_errors, "grader error" if summary.grader_errors == 1 else "grader errors"),
            (summary.agent_failures - summary.graded_failures if not graded else 0, "failed"),
        ]
        names = ", ".join(f"{count:,} {name}" for count, name in missing if count)
        return f"{graded:,} of {summary.records:,} graded: {names}"

    def figure(self, name: str) -> GateFigure:
        """The figure of that name, which must be one of NAMES or pass@j or pass^j of trials."""
        if found := OF_TRIALS.fullmatch(name):
            return self._of_trials(found[1], found[2])
        if name in RECORDED:
            return self._recorded_mean(name)
        return FIGURES[name](self)

    # --- each figure ---

    def pass_rate(self) -> GateFigure:
        """The share of graded records that passed; of trials, the mean of the prompts' pass rates."""
        grades = self.summary.overall()
        if not grades.count:
            return GateFigure(None, NOT_GRADED)
        over = f"{grades.passed:,} of {grades.count:,} passed, {self.graded_text()}"
        return GateFigure(grades.rate, over, grades.interval_at(self.level), known=self.graded_share)

    def score(self) -> GateFigure:
        """The mean score."""
        grades = self.summary.overall()
        if not grades.count:
            return GateFigure(None, NOT_GRADED)
        interval = bounds(score_interval(self._scores, level=self.level))
        over = f"mean of {grades.count:,}, {self.graded_text()}"
        return GateFigure(grades.score.value, over, interval, known=self.graded_share)

    def graded_rate(self) -> GateFigure:
        """The share of records that are graded: a fact about this file, not an estimate."""
        if not self.summary.records:
            return GateFigure(None, "there are no records")
        return GateFigure(self.graded_share, self.graded_text(), estimate=False)

    def share(self, name: str, count: int, what: str) -> GateFigure:
        """The share of all records for which a flag holds."""
        records = self.summary.records
        if not records:
            return GateFigure(None, "there are no records")
        if self.summary.trials is None:
            interval = rate_interval(count, records, self.level)
        else:  # the trials of a prompt are a cluster
            prompts = [prompt for prompt, many in self._flags[name].items() for _ in range(many)]
            sums, sizes = [held for _, held in prompts], [size for size, _ in prompts]
            interval = clustered_rate_interval(sums, sizes, level=self.level)
        return GateFigure(count / records, f"{count:,} of {records:,} {what}", bounds(interval))

    def count(self, count: int) -> GateFigure:
        """A number of records."""
        return GateFigure(count, f"of {counted(self.summary.records, 'record')}", estimate=False)

    def latency(self, p: float) -> GateFigure:
        """A percentile of the durations, in milliseconds."""
        durations = self.summary.durations
        if not durations:
            return GateFigure(None, "no times recorded")
        clusters = self._timed if self.summary.trials else None
        interval = bounds(percentile_interval(durations, p, clusters, self.level))
        return GateFigure(percentile(sorted(durations), p), f"over {len(durations):,}", interval)

    def total(self, *names: str) -> GateFigure:
        """The sum of what agents reported."""
        known = [self.summary.measured[name] for name in names if self.summary.measured[name].count]
        if not known:
            return GateFigure(None, NOT_REPORTED)
        over = f"total, reported by {max(mean.count for mean in known):,} of {self.summary.records:,}"
        return GateFigure(sum(mean.total for mean in known), over, estimate=False)

    def _of_trials(self, sign: str, number: str) -> GateFigure:
        """Unbiased pass@j or pass^j, over the prompts that have j graded trials; K is the k of the run."""
        trials = self.summary.trials
        if trials is None:
            return GateFigure(None, NOT_TRIALS)
        if not trials.k or not self.graded:
            return GateFigure(None, NOT_GRADED)
        j = trials.k if number == "K" else int(number)
        found = trials.estimate(sign, j, self.level)
        if found is None:
            return GateFigure(None, f"no prompt has {counted(j, 'graded trial')}")
        return self._over_prompts(found.value, found.interval, found.prompts, f"with {counted(j, 'graded trial')}")

    def _recorded_mean(self, name: str) -> GateFigure:
        """The mean of passAtK or passExpK as the records have it; if anything is graded, failed agents count as 0."""
        if self.summary.trials is None:
            return GateFigure(None, NOT_TRIALS)
        if not self._recorded[name]:
            return GateFigure(None, NOT_GRADED)
        values = [*self._recorded[name], *[0.0] * self._failed_prompts]
        interval = bounds(clustered_rate_interval(values, [1] * len(values), level=self.level))
        return self._over_prompts(sum(values) / len(values), interval, len(values), "graded")

    def _over_prompts(self, value: float, interval: Interval | None, prompts: int, which: str) -> GateFigure:
        """A mean over the prompts for which it is known."""
        share = prompts / self._prompts
        over = f"over {counted(prompts, 'prompt')}" if share == 1 else f"over {prompts:,} of {self._prompts:,} prompts"
        over = f"{over} {which}, {self.graded_text()}" if share < 1 else f"{over}, {self.graded_text()}"
        return GateFigure(value, over, interval, known=min(share, self.graded_share))


FLAGS: dict[str, Callable[[Attempt], bool]] = {
    "errorRate": lambda attempt: attempt.agent_failed,
    "toolErrorRate": lambda attempt: bool(attempt.tool_errors),
    "graderErrorRate": lambda attempt: bool(attempt.grader_error),
    "ungradedRate": lambda attempt: attempt.grade is None and not attempt.agent_failed,
}


RECORDED: dict[str, Callable[[Row], float | None]] = {
    "passAtK": lambda row: recorded_rate(row, row.pass_at_k, plug_in_pass_at_k),
    "passExpK": lambda row: recorded_rate(row, row.pass_exp_k, plug_in_pass_exp_k),
}


def recorded_rate(row: Row, recorded: float | None, of: Callable[[float, int], float]) -> float | None:
    """The rate as it is recorded, else the same plug-in value of the trials; None if none of them is graded."""
    if row.pass_rate is None:
        return None
    return of(row.pass_rate, row.k) if recorded is None else recorded


def _ungraded(run: RunFigures) -> int:
    """Records without a grade, those whose grader erred among them; an agent that failed has one where any has."""
    summary = run.summary
    return summary.ungraded + summary.grader_errors


FIGURES: dict[str, Callable[[RunFigures], GateFigure]] = {
    "passRate": RunFigures.pass_rate,
    "score": RunFigures.score,
    "errorRate": lambda run: run.share("errorRate", run.summary.agent_failures, "agents failed"),
    "toolErrorRate": lambda run: run.share("toolErrorRate", run.summary.tool_errors, "had tool errors"),
    "graderErrorRate": lambda run: run.share("graderErrorRate", run.summary.grader_errors, "had grader errors"),
    "ungradedRate": lambda run: run.share("ungradedRate", _ungraded(run), "are not graded"),
    "errors": lambda run: run.count(run.summary.agent_failures),
    "graderErrors": lambda run: run.count(run.summary.grader_errors),
    "ungraded": lambda run: run.count(_ungraded(run)),
    "graded": lambda run: run.count(run.graded),
    GRADED_RATE: RunFigures.graded_rate,
    "p50": lambda run: run.latency(0.5),
    "p90": lambda run: run.latency(0.9),
    "p99": lambda run: run.latency(0.99),
    COST_NAME: lambda run: run.total(COST),
    "tokens": lambda run: run.total("input_tokens", "output_tokens"),
}
TIMES = ("p50", "p90", "p99")
NAMES = (*FIGURES, "pass@1, pass@2, … pass@K", "pass^1, pass^2, … pass^K", *RECORDED)
AT_MOST_ONE = ("passRate", "score", "errorRate", "toolErrorRate", "graderErrorRate", "ungradedRate", GRADED_RATE)


def is_known(name: str) -> bool:
    """Whether there is a figure of that name."""
    return name in FIGURES or name in RECORDED or OF_TRIALS.fullmatch(name) is not None


def is_rate(name: str) -> bool:
    """Whether a figure is between 0 and 1."""
    return name in AT_MOST_ONE or name in RECORDED or OF_TRIALS.fullmatch(name) is not None


# --- conditions ---------------------------------------------------------------------------------


class Threshold(NamedTuple):
    """A figure, and the least or most that it may be."""

    name: str
    limit: float
    least: bool


class Checked(NamedTuple):
    """A condition, the figure it is on, and whether it holds; `group` is a category, "" for the whole run."""

    group: str
    condition: Threshold
    figure: GateFigure
    holds: bool
    bound: str = ""  # which bound of the interval is compared, if it is one


class GateRule(NamedTuple):
    """How strict a gate is: `confident` and `shown` ask the interval, and each figure must be known for a share."""

    confident: bool = False
    shown: bool = False
    min_graded: float = 0.0


def check_run(
    whole: RunFigures, groups: Mapping[str, RunFigures], conditions: Sequence[Threshold], rule: GateRule
) -> list[Checked]:
    """Whether each condition holds, of the whole run and of each category.

    Of twenty categories one is below by chance: with `shown` their intervals are adjusted for their number.
    """
    checks = check_all(whole, conditions, rule)
    for group, figures in sorted(groups.items()):
        if rule.shown:
            figures.level = 1 - (1 - LEVEL) / len(groups)
        for checked in check_all(figures, conditions, rule, group):
            adjusted = f"adjusted for {len(groups)} categories, " if rule.shown and checked.bound else ""
            checks.append(checked._replace(bound=adjusted + checked.bound))
    return checks


def check_all(run: RunFigures, conditions: Sequence[Threshold], rule: GateRule, group: str = "") -> list[Checked]:
    """Whether each condition holds; none does on a figure that is not known, or known for less than `min_graded`.

    If fewer than that are graded, another condition comes first, which says so.
    """
    enough = _check(run.figure(GRADED_RATE), Threshold(GRADED_RATE, rule.min_graded, least=True), GateRule(), group)
    checks = [_check(run.figure(condition.name), condition, rule, group) for condition in conditions]
    return checks if enough.holds else [enough, *checks]


def _check(figure: GateFigure, condition: Threshold, rule: GateRule, group: str) -> Checked:
    value, bound = figure.value, ""
    if value is None:
        return Checked(group, condition, figure, False)
    if (rule.confident or rule.shown) and figure.estimate:
        if figure.interval is None:
            few = figure._replace(over=f"{figure.over}, too few for an interval")
            return Checked(group, condition, few, rule.shown and figure.known >= rule.min_graded - ROUNDING)
        lower = condition.least == rule.confident
        value, bound = figure.interval[0 if lower else 1], "lower" if lower else "upper"
    slack = ROUNDING * max(1.0, abs(condition.limit))
    holds = value >= condition.limit - slack if condition.least else value <= condition.limit + slack
    return Checked(group, condition, figure, holds and figure.known >= rule.min_graded - ROUNDING, bound)
