"""The trials comparison report, as it stands on the wire."""

from __future__ import annotations

from typing import Literal

from agenteval.wire.comparison import Difference, Pairwise, Performance, ReportMeta
from agenteval.wire.records import Count, Interval, Rate, Wire

# --- one run ------------------------------------------------------------------------------------


class CapabilityIntervals(Wire):
    """Bootstrap 95 % interval, prompts resampled; null where there are fewer than two."""

    avg_pass_at_k: Interval | None
    """Interval of the mean passAtK."""


class Capability(Wire):
    """passAtK over the `n` graded prompts of one run: does an agent solve it at least once in k trials.

    `passAt` holds the means of the unbiased estimates for 1 to k trials, each over the `passAtN` prompts
    that have so many graded trials.
    """

    n: Count
    """Graded prompts, those the means are over."""
    ungraded: Count
    """Prompts that nobody graded."""
    avg_pass_at_k: Rate | None
    """Mean passAtK; null where nothing is graded."""
    median_pass_at_k: Rate | None
    """Median passAtK."""
    p25_pass_at_k: Rate | None
    """25th percentile of passAtK."""
    p75_pass_at_k: Rate | None
    """75th percentile of passAtK."""
    pass_at: dict[str, Rate]
    """For each number of trials, the mean of the unbiased estimates that one of them passes."""
    pass_at_n: dict[str, Count]
    """For each number of trials, the prompts that its mean is over."""
    confidence_intervals: CapabilityIntervals | None = None
    """Interval of the mean, with the statistical strategy."""


class ReliabilityIntervals(Wire):
    """Bootstrap 95 % interval, prompts resampled; null where there are fewer than two."""

    avg_pass_exp_k: Interval | None
    """Interval of the mean passExpK."""


class TrialReliability(Wire):
    """passExpK over the `n` graded prompts of one run: does an agent solve it every time; the rest as capability."""

    type: Literal["trial"]
    """Tells trials from results."""
    n: Count
    """Graded prompts, those the means are over."""
    ungraded: Count
    """Prompts that nobody graded."""
    avg_pass_exp_k: Rate | None
    """Mean passExpK; null where nothing is graded."""
    median_pass_exp_k: Rate | None
    """Median passExpK."""
    p25_pass_exp_k: Rate | None
    """25th percentile of passExpK."""
    p75_pass_exp_k: Rate | None
    """75th percentile of passExpK."""
    pass_exp: dict[str, Rate]
    """For each number of trials, the mean of the unbiased estimates that all of them pass."""
    pass_exp_n: dict[str, Count]
    """For each number of trials, the prompts that its mean is over."""
    confidence_intervals: ReliabilityIntervals | None = None
    """Interval of the mean, with the statistical strategy."""


class FlakyPrompt(Wire):
    """A prompt that is solved sometimes."""

    id: str
    """The prompt's id."""
    flakiness: Rate
    """Its passAtK - passExpK."""
    pass_rate: Rate | None
    """Share of its trials that passed."""


class Flakiness(Wire):
    """passAtK - passExpK over the `n` graded prompts of one run, and the prompts where it is largest."""

    n: Count
    """Graded prompts, those the means are over."""
    avg_flakiness: Rate | None
    """Mean; null where nothing is graded."""
    median_flakiness: Rate | None
    """Median; null where nothing is graded."""
    flaky_prompt_count: Count
    """Prompts that are solved sometimes, not always."""
    top_flaky_prompts: list[FlakyPrompt]
    """The most flaky of them."""


class ScoreIntervals(Wire):
    """Bootstrap 95 % interval, prompts resampled with all their trials; null where there are fewer than two."""

    avg_score: Interval | None
    """Interval of the mean score."""


class TrialQuality(Wire):
    """Scores of one run over its `n` trials that have one; the others are counted by why they have none."""

    type: Literal["trial"]
    """Tells trials from results."""
    n: Count
    """Trials that have a score."""
    ungraded: Count
    """Trials that nobody graded."""
    grader_errors: Count
    """Trials whose grader failed."""
    failed_trials: Count
    """Trials whose agent failed."""
    avg_score: Rate
    """Mean score."""
    median_score: Rate
    """Median score."""
    p25_score: Rate
    """25th percentile of the scores."""
    p75_score: Rate
    """75th percentile of the scores."""
    confidence_intervals: ScoreIntervals | None = None
    """Interval of the mean, with the statistical strategy."""


# --- head to head -------------------------------------------------------------------------------


class TrialsPrompt(Wire, gc=False):
    """One prompt that at least two runs have, at the smallest `k` of them; null for a run that is not graded."""

    id: str
    """The prompt's id."""
    capability_winner: str | None
    """The run with the higher passAtK; null on a tie."""
    reliability_winner: str | None
    """The run with the higher passExpK; null on a tie."""
    winner: str | None
    """The run that won it by the strategy; null on a tie."""
    k: Count
    """The smallest number of trials that a run has of it."""
    pass_rate: dict[str, float | None]
    """Share of the trials that passed, for each run."""
    pass_at_k: dict[str, float | None]
    """passAtK, for each run."""
    pass_exp_k: dict[str, float | None]
    """passExpK, for each run."""
    flakiness: dict[str, float | None]
    """passAtK - passExpK, for each run."""
    scores: dict[str, float | None]
    """What each run scored, by the strategy."""
    reasoning: str | None = None
    """Why, in the words of the comparison grader."""
    grader_error: str | None = None
    """Why the comparison grader gave no answer."""


class TrialsHeadToHead(Wire):
    """Prompts won by each of every two runs: by passAtK, by passExpK, and by the strategy's score."""

    capability: list[Pairwise]
    """By passAtK."""
    reliability: list[Pairwise]
    """By passExpK."""
    overall: list[Pairwise]
    """By the strategy's score."""


# --- is it luck ---------------------------------------------------------------------------------


class RunStatistics(Wire):
    """Pass rate over the `gradedTrials` of the `gradedPrompts`, its 95 % interval with each prompt a cluster.

    A failed trial, one whose agent failed, counts as not passed; one whose grader failed has no part in it.
    `incomplete` counts the prompts that have not k trials.
    """

    prompts: Count
    """Prompts of the run."""
    trials: Count
    """Trials of the run."""
    graded_prompts: Count
    """Prompts with a graded trial."""
    graded_trials: Count
    """Trials that count in the pass rate."""
    passed_trials: Count
    """Trials that passed."""
    failed_trials: Count
    """Trials whose agent failed."""
    ungraded_trials: Count
    """Trials that nobody graded."""
    grader_errors: Count
    """Trials whose grader failed."""
    incomplete: Count
    """Prompts that have not k trials."""
    pass_rate: Rate | None
    """Share of the graded trials that passed; null where nothing is graded."""
    interval: Interval | None
    """95 % interval of the pass rate; null where there are too few prompts."""
    bootstrap_interval: Interval | None = None
    """Bootstrap 95 % interval of the pass rate, with the statistical strategy."""


class TrialsPairStatistics(Difference, kw_only=True):
    """Is the difference of two runs more than luck: pass rates per prompt, A minus B, on `n` graded in both."""

    score: Difference | None = None
    """The same of the mean scores, where there are any."""


class TrialsStatistics(Wire):
    """Every run by itself, and every two runs paired by prompt; the trials of a prompt are one cluster."""

    runs: dict[str, RunStatistics]
    """Each run by itself."""
    pairs: list[TrialsPairStatistics]
    """Every two runs."""


# --- the report ---------------------------------------------------------------------------------


class TrialsMeta(ReportMeta, kw_only=True):
    """What was compared; where k differs, `trialsPerPrompt` is the smallest, and `mixedK` counts each per run."""

    trials_per_prompt: Count | None
    """k; the smallest where it differs."""
    input_format: Literal["trials"]
    """Tells trials from results."""
    mixed_k: dict[str, dict[str, Count]] | None = None
    """For each run, how many prompts have which k; only where k differs."""


class TrialsComparisonReport(Wire, kw_only=True):
    """Two or more runs of trials of the same prompts beside each other; `quality` where there are scores."""

    meta: TrialsMeta
    """What was compared and how."""
    capability: dict[str, Capability]
    """Solved at least once, for each run."""
    reliability: dict[str, TrialReliability]
    """Solved every time, for each run."""
    flakiness: dict[str, Flakiness]
    """Solved sometimes, for each run."""
    quality: dict[str, TrialQuality] | None = None
    """Scores, for each run."""
    performance: dict[str, Performance]
    """Times, for each run."""
    statistics: TrialsStatistics
    """Whether the differences are more than luck."""
    head_to_head: TrialsHeadToHead
    """Who won how many prompts."""
    per_prompt: list[TrialsPrompt]
    """Prompt by prompt."""
