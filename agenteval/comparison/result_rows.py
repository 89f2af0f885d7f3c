"""Results in a comparison: what is kept of each, and the figures of a run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import structs

from agenteval.adapters.trajectory import richness_of
from agenteval.comparison.analysis.differences import cluster_name
from agenteval.comparison.pairing import ComparedRow, RunRows
from agenteval.comparison.row_facts import RowOptions, expense, input_digest, metadata_text
from agenteval.errors import BadRecord
from agenteval.statistics import samples as stats
from agenteval.statistics.intervals import bounds, mean_interval, pass_rate_interval, percentile_interval
from agenteval.wire.comparison import (
    Latency,
    Performance,
    Quality,
    QualityIntervals,
    Reliability,
    ScoreDistribution,
    TrajectoryInfo,
)
from agenteval.wire.records import Input, Richness, Wire
from agenteval.wire.result_view import ResultFacts, is_trial, measured_time

BORDERS = (0.2, 0.4, 0.6, 0.8)
_TIMEOUT = re.compile(r"timed?[\s-]?out", re.IGNORECASE)


# --- what a comparison reads of a result --------------------------------------------------------


class StepKind(Wire):
    """The type of a step."""

    type: str | None = None


class ComparedResult(ResultFacts):
    """The fields of a result that a comparison reads; `trials` and `k` show that it is none."""

    input: Input | None = None
    model: Any = None
    trajectory: list[StepKind] | None = None
    metadata: dict[str, Any] | None = None
    trials: Any = None
    k: Any = None


class ResultRow(ComparedRow, frozen=True, gc=False):
    """What is kept of one result."""

    score: float | None = None
    tokens: float | None = None
    cost: float | None = None
    passed: bool = False
    grader_error: bool = False
    duration: float | None = None
    first_response: float | None = None
    tool_errors: bool = False
    failed: bool = False
    timed_out: bool = False
    has_output: bool = True
    steps: int | None = None
    richness: Richness = "minimal"

    @property
    def passes(self) -> float | None:
        """1 if it passed, 0 if not; None if it is not graded."""
        return None if self.score is None else float(self.passed)

    @property
    def mean_duration(self) -> float | None:
        """The duration, by the name that it has in a row of trials."""
        return self.duration

    @property
    def token_values(self) -> tuple[float, ...]:
        """The tokens, if they are known."""
        return () if self.tokens is None else (self.tokens,)

    @property
    def cost_values(self) -> tuple[float, ...]:
        """The cost, if it is known."""
        return () if self.cost is None else (self.cost,)

    @property
    def unreliable(self) -> bool:
        """Whether a tool or the agent itself failed."""
        return self.tool_errors or self.failed


def result_row(result: ComparedResult, line: int = 0, options: RowOptions = RowOptions()) -> ResultRow:  # noqa: B008
    """What is kept of a result; BadRecord if it is a trial."""
    if is_trial(result.trials, result.k):
        raise BadRecord("a trial, where a result is expected")
    grade, notes = result.grade, result.metadata or {}
    spent = expense(result.timing, result.model or notes.get("model"))
    return ResultRow(
        line=line,
        input_digest=input_digest(result.input),
        category=metadata_text(notes, options.by),
        cluster=metadata_text(notes, options.cluster_by),
        tokens=spent.tokens,
        cost=spent.cost,
        cost_estimated=spent.estimated,
        score=grade.score if grade else None,
        passed=grade is not None and grade.pass_,
        grader_error=bool(result.grader_error),
        duration=_float(result.duration),
        clock_set_back=result.clock_set_back,
        first_response=_float(measured_time(result.timing.first_response)) if result.timing else None,
        tool_errors=bool(result.tool_errors),
        failed=bool(result.failures),
        timed_out=notes.get("timedOut") is True or any(map(_TIMEOUT.search, result.failures)),
        has_output=bool(result.output),
        steps=None if result.trajectory is None else len(result.trajectory),
        richness=richness_of(notes.get("trajectoryRichness"), (step.type for step in result.trajectory or ())),
    )


def with_failures_graded(rows: dict[str, ResultRow]) -> dict[str, ResultRow]:
    """The rows of a run; if any is graded, an agent that failed and has no score has not passed, with score 0."""
    if any(row.score is not None for row in rows.values()):
        for id, row in rows.items():
            if row.failed and row.score is None and not row.grader_error:
                rows[id] = structs.replace(row, score=0.0)
    return rows


def _float(value: float | None) -> float | None:
    """The value as the float that the report's types promise."""
    return None if value is None else float(value)


# --- the figures of a run -----------------------------------------------------------------------


def quality(run: RunRows[ResultRow], *, clustered: bool = False) -> Quality:
    """Scores of the graded results with their intervals; the others are counted by why they have none."""
    graded = {id: row for id, row in run.rows.items() if row.score is not None}
    scores, grader_errors = run.values("score"), sum(row.grader_error for row in run.rows.values())
    passes = sum(row.passed for row in run.rows.values())
    clusters = [cluster_name(id, row) for id, row in graded.items()] if clustered else None
    score_interval = mean_interval(scores, clusters)
    pass_interval = pass_rate_interval(run.values("passes"), clusters)
    return Quality(
        type="run",
        n=len(scores),
        ungraded=len(run.rows) - len(scores) - grader_errors,
        grader_errors=grader_errors,
        errors=sum(row.failed for row in run.rows.values()),
        avg_score=stats.mean(scores),
        pass_rate=stats.mean(run.values("passes")),
        pass_count=passes,
        fail_count=len(scores) - passes,
        score_distribution=distribution(scores),
        confidence_intervals=QualityIntervals(avg_score=bounds(score_interval), pass_rate=bounds(pass_interval)),
        score_interval=score_interval,
        pass_interval=pass_interval,
    )


def distribution(scores: Iterable[float]) -> ScoreDistribution:
    """Counts per fifth; a score on a border belongs to the upper one."""
    # Compared, not divided: 0.6 / 0.2 is 2.9999999999999996.
    found = Counter(sum(score >= border for border in BORDERS) for score in scores)
    return ScoreDistribution(**{f"fifth{i + 1}": found[i] for i in range(5)})


def performance(run: RunRows[ResultRow]) -> Performance:
    """Latencies of the results that have a timing."""
    return timings(run.values("duration"), run.values("first_response"))


def timings(durations: Sequence[float], first: Sequence[float] = ()) -> Performance:
    """Latencies, their sum and, if any is known, the times to the first response."""
    return Performance(
        latency=latency(durations),
        total_duration=sum(durations) if durations else None,
        first_response=latency(first) if first else None,
    )


def latency(durations: Iterable[float]) -> Latency:
    """Percentiles, mean and extremes; None over nothing."""
    ordered = sorted(durations)
    return Latency(
        n=len(ordered),
        p50=stats.percentile(ordered, 0.5),
        p90=stats.percentile(ordered, 0.9),
        p99=stats.percentile(ordered, 0.99),
        mean=stats.mean(ordered),
        min=min(ordered, default=None),
        max=max(ordered, default=None),
        p50_interval=percentile_interval(ordered, 0.5),
        p90_interval=percentile_interval(ordered, 0.9),
    )


def reliability(run: RunRows[ResultRow]) -> Reliability:
    """Errors, timeouts and completions of all results."""
    rows = run.rows.values()
    return Reliability(
        type="run",
        n=len(rows),
        tool_errors=sum(row.tool_errors for row in rows),
        tool_error_rate=stats.mean([row.tool_errors for row in rows]),
        timeouts=sum(row.timed_out for row in rows),
        timeout_rate=stats.mean([row.timed_out for row in rows]),
        completion_rate=stats.mean([row.has_output and not row.failed for row in rows]),
    )


def trajectory_info(run: RunRows[ResultRow]) -> TrajectoryInfo:
    """The commonest richness, and the mean number of steps of the trajectories that there are."""
    commonest = Counter(row.richness for row in run.rows.values()).most_common(1)
    return TrajectoryInfo(
        richness=commonest[0][0] if commonest else "minimal",
        avg_step_count=stats.mean(run.values("steps")),
    )
