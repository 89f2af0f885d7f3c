"""The comparison report and the answer of a comparison grader, as they stand on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from agenteval.records import Wire

Count = Annotated[int, Meta(ge=0)]
Rate = Annotated[float, Meta(ge=0, le=1)]
Interval = tuple[float, float]
StrategyName = Literal["weighted", "statistical", "custom"]


# --- the report ---------------------------------------------------------------------------------


class ReportMeta(Wire):
    """What was compared and how; `missing` names, per run, the prompts that other runs have."""

    generated_at: str
    runs: list[str]
    prompt_count: Count
    prompts_with_all_runs: Count
    missing: dict[str, list[str]]
    strategy: StrategyName
    weights: dict[str, float] | None = None
    bootstrap_iterations: int | None = None
    seed: int | None = None
    grader_errors: Count | None = None


class ScoreDistribution(Wire):
    """How many scores fall in each fifth of 0 to 1; the last fifth includes 1."""

    fifth1: Count = msgspec.field(name="0.0-0.2")
    fifth2: Count = msgspec.field(name="0.2-0.4")
    fifth3: Count = msgspec.field(name="0.4-0.6")
    fifth4: Count = msgspec.field(name="0.6-0.8")
    fifth5: Count = msgspec.field(name="0.8-1.0")


class QualityIntervals(Wire):
    """Bootstrap 95 % intervals of the two means; null where there are fewer than two values."""

    avg_score: Interval | None
    pass_rate: Interval | None


class Quality(Wire):
    """Scores of one run over its `n` graded records; ungraded ones and grader errors are only counted."""

    type: Literal["run"]
    n: Count
    ungraded: Count
    grader_errors: Count
    avg_score: Rate | None
    pass_rate: Rate | None
    pass_count: Count
    fail_count: Count
    score_distribution: ScoreDistribution
    confidence_intervals: QualityIntervals | None = None


class Latency(Wire):
    """Milliseconds over the `n` records that have them; null where none has."""

    n: Count
    p50: float | None
    p90: float | None
    p99: float | None
    mean: float | None
    min: float | None
    max: float | None


class PerformanceIntervals(Wire):
    """Bootstrap 95 % interval of the mean latency; null where there are fewer than two values."""

    latency_mean: Interval | None


class Performance(Wire):
    """How long the records of one run took."""

    latency: Latency
    total_duration: float | None
    first_response: Latency | None = None
    confidence_intervals: PerformanceIntervals | None = None


class Reliability(Wire):
    """What went wrong in the `n` records of one run; completed means output and no errors."""

    type: Literal["run"]
    n: Count
    tool_errors: Count
    tool_error_rate: Rate | None
    timeouts: Count
    timeout_rate: Rate | None
    completion_rate: Rate | None


class TrajectoryInfo(Wire):
    """How much the trajectories of one run tell, and their mean length."""

    richness: Literal["full", "messages-only", "minimal"]
    avg_step_count: float | None


class PromptComparison(Wire, gc=False):
    """One prompt that at least two runs have; no winner on a tie or where fewer than two have a score."""

    id: str
    winner: str | None
    scores: dict[str, float | None]
    latencies: dict[str, float | None]
    had_errors: dict[str, bool]
    reasoning: str | None = None
    grader_error: str | None = None


class Pairwise(Wire):
    """Prompts won by each of two runs, by the strategy's score, of the `n` that both have one on."""

    run_a: str
    run_b: str
    n: Count
    a_wins: Count
    b_wins: Count
    ties: Count


class HeadToHead(Wire):
    """Prompt by prompt, and counted for every two runs."""

    prompts: list[PromptComparison]
    pairwise: list[Pairwise]


class McNemar(Wire):
    """Prompts that only A passed (b), that only B passed (c), and the exact two-sided p."""

    b: Count
    c: Count
    p: Rate


class PairStatistics(Wire):
    """Is the difference of two runs more than luck: grader scores, A minus B, on `n` prompts graded in both."""

    run_a: str
    run_b: str
    n: Count
    mean_difference: float | None
    interval: Interval | None
    wins: Count
    losses: Count
    ties: Count
    mcnemar: McNemar
    minimum_detectable_difference: float | None
    better: str | None
    verdict: str
    bootstrap_interval: Interval | None = None


class Statistics(Wire):
    """Every two runs, paired by prompt."""

    pairs: list[PairStatistics]


class ComparisonReport(Wire):
    """Two or more runs of the same prompts beside each other."""

    meta: ReportMeta
    quality: dict[str, Quality]
    performance: dict[str, Performance]
    reliability: dict[str, Reliability]
    trajectory_info: dict[str, TrajectoryInfo]
    statistics: Statistics
    head_to_head: HeadToHead


# --- the comparison grader ----------------------------------------------------------------------


class Ranking(Wire):
    """The place of one run on one prompt; 1 is best, equal places are a tie."""

    run: str
    rank: Annotated[float, Meta(ge=1)]
    score: float | None = None


class ComparisonAnswer(Wire):
    """What a comparison grader answers for one prompt."""

    rankings: Annotated[list[Ranking], Meta(min_length=1)]
    reasoning: str | None = None
