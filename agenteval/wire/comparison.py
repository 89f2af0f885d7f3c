"""The comparison report and the answer of a comparison grader, as they stand on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from agenteval.wire.records import Count, Interval, Rate, Wire
from agenteval.wire.richness import Richness

StrategyName = Literal["weighted", "statistical", "custom"]


# --- the report ---------------------------------------------------------------------------------


class ReportMeta(Wire):
    """What was compared and how; `missing` names, per run, the prompts that other runs have."""

    generated_at: str
    """When the report was made, in UTC (ISO 8601)."""
    runs: list[str]
    """Names of the runs, in the order given."""
    prompt_count: Count
    """Prompts that any run has."""
    prompts_with_all_runs: Count
    """Prompts that every run has."""
    missing: dict[str, list[str]]
    """For each run, the prompts that it lacks and another has."""
    strategy: StrategyName
    """How the winner of a prompt is found."""
    weights: dict[str, float] | None = None
    """Weight of each part of the score, with the weighted strategy."""
    bootstrap_iterations: int | None = None
    """How often the bootstrap sampled."""
    seed: int | None = None
    """Seed of the bootstrap."""
    grader_errors: Count | None = None
    """Prompts on which the comparison grader failed, with the custom strategy."""


class ScoreDistribution(Wire):
    """How many scores fall in each fifth of 0 to 1; the last fifth includes 1."""

    fifth1: Count = msgspec.field(name="0.0-0.2")
    """Scores from 0.0 to below 0.2."""
    fifth2: Count = msgspec.field(name="0.2-0.4")
    """Scores from 0.2 to below 0.4."""
    fifth3: Count = msgspec.field(name="0.4-0.6")
    """Scores from 0.4 to below 0.6."""
    fifth4: Count = msgspec.field(name="0.6-0.8")
    """Scores from 0.6 to below 0.8."""
    fifth5: Count = msgspec.field(name="0.8-1.0")
    """Scores from 0.8 to 1.0."""


class QualityIntervals(Wire):
    """Bootstrap 95 % intervals of the two means; null where there are fewer than two values."""

    avg_score: Interval | None
    """Interval of the mean score."""
    pass_rate: Interval | None
    """Interval of the pass rate."""


class Quality(Wire):
    """Scores of one run over its `n` graded records; ungraded ones and grader errors are only counted."""

    type: Literal["run"]
    """Tells results from trials."""
    n: Count
    """Graded records, those the means are over."""
    ungraded: Count
    """Records that nobody graded."""
    grader_errors: Count
    """Records whose grader failed."""
    avg_score: Rate | None
    """Mean score; null where nothing is graded."""
    pass_rate: Rate | None
    """Share that passed; null where nothing is graded."""
    pass_count: Count
    """Records that passed."""
    fail_count: Count
    """Records that did not pass."""
    score_distribution: ScoreDistribution
    """How the scores are spread."""
    confidence_intervals: QualityIntervals | None = None
    """Intervals of the means, with the statistical strategy."""


class Latency(Wire):
    """Milliseconds over the `n` records that have them; null where none has."""

    n: Count
    """Records that have one."""
    p50: float | None
    """Median."""
    p90: float | None
    """90th percentile."""
    p99: float | None
    """99th percentile."""
    mean: float | None
    """Mean."""
    min: float | None
    """Smallest."""
    max: float | None
    """Largest."""


class PerformanceIntervals(Wire):
    """Bootstrap 95 % interval of the mean latency; null where there are fewer than two values."""

    latency_mean: Interval | None
    """Interval of the mean latency."""


class Performance(Wire):
    """How long the records of one run took."""

    latency: Latency
    """Milliseconds that a prompt took."""
    total_duration: float | None
    """Milliseconds of all prompts together; null where nobody measured."""
    first_response: Latency | None = None
    """Milliseconds until the agent's first line."""
    confidence_intervals: PerformanceIntervals | None = None
    """Intervals of the means, with the statistical strategy."""


class Reliability(Wire):
    """What went wrong in the `n` records of one run; completed means output and no errors."""

    type: Literal["run"]
    """Tells results from trials."""
    n: Count
    """Records of the run."""
    tool_errors: Count
    """Records in which a tool call failed."""
    tool_error_rate: Rate | None
    """Their share; null where there are no records."""
    timeouts: Count
    """Records that ran out of time."""
    timeout_rate: Rate | None
    """Their share; null where there are no records."""
    completion_rate: Rate | None
    """Share of records with output and without errors; null where there are no records."""


class TrajectoryInfo(Wire):
    """How much the trajectories of one run tell, and their mean length."""

    richness: Richness
    """How much the trajectories tell."""
    avg_step_count: float | None
    """Mean number of steps; null where there are no trajectories."""


class PromptComparison(Wire, gc=False):
    """One prompt that at least two runs have; no winner on a tie or where fewer than two have a score."""

    id: str
    """The prompt's id."""
    winner: str | None
    """The run that won it; null on a tie."""
    scores: dict[str, float | None]
    """What each run scored, by the strategy; null where it has no score."""
    latencies: dict[str, float | None]
    """Milliseconds each run took; null where nobody measured."""
    had_errors: dict[str, bool]
    """Whether something went wrong, for each run."""
    reasoning: str | None = None
    """Why, in the words of the comparison grader."""
    grader_error: str | None = None
    """Why the comparison grader gave no answer."""


class Pairwise(Wire):
    """Prompts won by each of two runs, by the strategy's score, of the `n` that both have one on."""

    run_a: str
    """Name of run A."""
    run_b: str
    """Name of run B."""
    n: Count
    """Prompts on which both have a score."""
    a_wins: Count
    """Prompts that A won."""
    b_wins: Count
    """Prompts that B won."""
    ties: Count
    """Prompts on which the two are equal."""


class HeadToHead(Wire):
    """Prompt by prompt, and counted for every two runs."""

    prompts: list[PromptComparison]
    """Prompt by prompt."""
    pairwise: list[Pairwise]
    """Every two runs."""


class McNemar(Wire):
    """Prompts that only A passed (b), that only B passed (c), and the exact two-sided p."""

    b: Count
    """Prompts that only A passed."""
    c: Count
    """Prompts that only B passed."""
    p: Rate
    """Exact two-sided p value."""


class Difference(Wire):
    """Is the difference of two runs more than luck: a value per prompt, A minus B, on the `n` that have it in both."""

    run_a: str
    """Name of run A."""
    run_b: str
    """Name of run B."""
    n: Count
    """Prompts that have it in both."""
    mean_difference: float | None
    """Mean of A minus that of B; null where there are no such prompts."""
    interval: Interval | None
    """95 % interval of the difference; null where there are too few prompts."""
    wins: Count
    """Prompts on which A is better."""
    losses: Count
    """Prompts on which B is better."""
    ties: Count
    """Prompts on which the two are equal."""
    minimum_detectable_difference: float | None
    """The smallest difference that so many prompts would show with 80 % power; null where there are too few."""
    better: str | None
    """The run that is better beyond luck; null where none is."""
    verdict: str
    """The same in words."""
    bootstrap_interval: Interval | None = None
    """Bootstrap 95 % interval of the difference, with the statistical strategy."""


class PairStatistics(Difference, kw_only=True):
    """Is the difference of two runs more than luck: grader scores, A minus B, on `n` prompts graded in both."""

    mcnemar: McNemar
    """Test of the prompts that only one of them passed."""


class Statistics(Wire):
    """Every two runs, paired by prompt."""

    pairs: list[PairStatistics]
    """Every two runs."""


class ComparisonReport(Wire):
    """Two or more runs of the same prompts beside each other."""

    meta: ReportMeta
    """What was compared and how."""
    quality: dict[str, Quality]
    """Scores, for each run."""
    performance: dict[str, Performance]
    """Times, for each run."""
    reliability: dict[str, Reliability]
    """What went wrong, for each run."""
    trajectory_info: dict[str, TrajectoryInfo]
    """Trajectories, for each run."""
    statistics: Statistics
    """Whether the differences are more than luck."""
    head_to_head: HeadToHead
    """Who won which prompt."""


# --- the comparison grader ----------------------------------------------------------------------


class Ranking(Wire):
    """The place of one run on one prompt; 1 is best, equal places are a tie."""

    run: str
    """Name of the run."""
    rank: Annotated[float, Meta(ge=1)]
    """Its place; 1 is best."""
    score: float | None = None
    """Its score, if the grader gives one."""


class ComparisonAnswer(Wire):
    """What a comparison grader answers for one prompt."""

    rankings: Annotated[list[Ranking], Meta(min_length=1)]
    """The place of each run."""
    reasoning: str | None = None
    """Why, for a reader."""
