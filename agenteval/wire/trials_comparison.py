"""The trials comparison report, on the wire."""

from __future__ import annotations

from typing import Literal

from agenteval.wire.comparison import Pairwise, Performance, ReportMeta
from agenteval.wire.differences import Category, Difference, Flips, Resources, Usage
from agenteval.wire.interval import ConfidenceInterval
from agenteval.wire.preference import Preference
from agenteval.wire.records import Count, Interval, Rate, Wire

# --- one run ------------------------------------------------------------------------------------


class CapabilityIntervals(Wire):
    """Bounds of the 95 % interval; null if nothing is graded."""

    avg_pass_at_k: Interval | None
    """Interval of pass@k at the run's smallest k, from the unbiased estimates: the plug-in mean may lie outside."""


class Capability(Wire):
    """The chance to pass at least once in k trials, over the `n` graded prompts of one run; `passAt` is unbiased,
    passAtK is the plug-in value of agent-eval-harness, which is not."""

    n: Count
    """Graded prompts, which the means are over."""
    ungraded: Count
    """Prompts without a grade."""
    avg_pass_at_k: Rate | None
    """Mean passAtK; null if nothing is graded."""
    median_pass_at_k: Rate | None
    """Median passAtK."""
    p25_pass_at_k: Rate | None
    """25th percentile of passAtK."""
    p75_pass_at_k: Rate | None
    """75th percentile of passAtK."""
    pass_at: dict[str, Rate]
    """For each j from 1 to k, the mean of the unbiased estimates of the chance that one of j trials passes."""
    pass_at_n: dict[str, Count]
    """For each j, the prompts that its mean is over: those with at least j graded trials."""
    pass_at_intervals: dict[str, ConfidenceInterval]
    """For k and the j that reports show, the 95 % interval of the mean."""
    confidence_intervals: CapabilityIntervals | None = None
    """Bounds of one interval, in the form of agent-eval-harness."""


class ReliabilityIntervals(Wire):
    """Bounds of the 95 % interval; null if nothing is graded."""

    avg_pass_exp_k: Interval | None
    """Interval of pass^k at the run's smallest k, from the unbiased estimates: the plug-in mean may lie outside."""


class TrialReliability(Wire):
    """The chance to pass in all of k trials, over the `n` graded prompts of one run; `passExp` is unbiased, passExpK is
    the plug-in value of agent-eval-harness, which is not."""

    type: Literal["trial"]
    """Always `trial`; `run` in a report on results."""
    n: Count
    """Graded prompts, which the means are over."""
    ungraded: Count
    """Prompts without a grade."""
    avg_pass_exp_k: Rate | None
    """Mean passExpK; null if nothing is graded."""
    median_pass_exp_k: Rate | None
    """Median passExpK."""
    p25_pass_exp_k: Rate | None
    """25th percentile of passExpK."""
    p75_pass_exp_k: Rate | None
    """75th percentile of passExpK."""
    pass_exp: dict[str, Rate]
    """For each j from 1 to k, the mean of the unbiased estimates of the chance that all of j trials pass."""
    pass_exp_n: dict[str, Count]
    """For each j, the prompts that its mean is over: those with at least j graded trials."""
    pass_exp_intervals: dict[str, ConfidenceInterval]
    """For k and the j that reports show, the 95 % interval of the mean."""
    confidence_intervals: ReliabilityIntervals | None = None
    """Bounds of one interval, in the form of agent-eval-harness."""


class FlakyPrompt(Wire):
    """A prompt that passes sometimes, not always."""

    id: str
    """The prompt's id."""
    flakiness: Rate
    """Its passAtK - passExpK."""
    pass_rate: Rate | None
    """Share of its trials that passed."""


class Flakiness(Wire):
    """passAtK - passExpK over the `n` graded prompts of one run, and the prompts where it is largest."""

    n: Count
    """Graded prompts, which the means are over."""
    avg_flakiness: Rate | None
    """Mean; null if nothing is graded."""
    median_flakiness: Rate | None
    """Median; null if nothing is graded."""
    flaky_prompt_count: Count
    """Prompts that pass sometimes, not always."""
    top_flaky_prompts: list[FlakyPrompt]
    """The most flaky of them, most flaky first."""


class ScoreIntervals(Wire):
    """Bounds of the 95 % interval."""

    avg_score: Interval | None
    """Interval of the mean score."""


class TrialQuality(Wire):
    """Scores of one run over its `n` trials that have one; the others are counted."""

    type: Literal["trial"]
    """Always `trial`; `run` in a report on results."""
    n: Count
    """Trials that have a score."""
    ungraded: Count
    """Trials without a grade."""
    grader_errors: Count
    """Trials whose grader erred."""
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
    """Bounds of the interval below, in the form of agent-eval-harness."""
    score_interval: ConfidenceInterval | None = None
    """95 % interval of the mean score, robust to the clusters that the trials of a prompt are."""


# --- head to head -------------------------------------------------------------------------------


class TrialsPrompt(Wire, gc=False):
    """One prompt that at least two runs have, at the smallest `k` of them; null for a run without a grade."""

    id: str
    """The prompt's id."""
    capability_winner: str | None
    """The run with the higher passAtK; null on a tie."""
    reliability_winner: str | None
    """The run with the higher passExpK; null on a tie."""
    winner: str | None
    """The run that won it, by the strategy; null on a tie."""
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
    """Score of each run, by the strategy."""
    reasoning: str | None = None
    """Reasoning of the comparison grader."""
    grader_error: str | None = None
    """Why there is no ranking."""


class TrialsHeadToHead(Wire):
    """Prompts won, for every two runs."""

    capability: list[Pairwise]
    """By passAtK."""
    reliability: list[Pairwise]
    """By passExpK."""
    overall: list[Pairwise]
    """By the strategy's score."""


# --- is it luck ---------------------------------------------------------------------------------


class RunStatistics(Wire):
    """Pass rate of one run, with a 95 % interval for which the trials of a prompt are one cluster."""

    prompts: Count
    """Prompts of the run."""
    trials: Count
    """Trials of the run."""
    graded_prompts: Count
    """Prompts with a graded trial."""
    graded_trials: Count
    """Trials that count in the pass rate; those whose agent failed count as not passed."""
    passed_trials: Count
    """Trials that passed."""
    failed_trials: Count
    """Trials whose agent failed."""
    ungraded_trials: Count
    """Trials without a grade."""
    grader_errors: Count
    """Trials whose grader erred."""
    incomplete: Count
    """Prompts that do not have k trials."""
    pass_rate: Rate | None
    """Share of the graded trials that passed; null if nothing is graded."""
    interval: ConfidenceInterval | None
    """95 % interval of the pass rate; null if nothing is graded."""


class PassExpDifference(Difference, kw_only=True):
    """Difference of the unbiased pass^k, over the prompts with at least k graded trials in both."""

    k: Count
    """The smallest k that any prompt of the two has."""


class TrialsPairStatistics(Difference, kw_only=True):
    """Two runs, over the `n` prompts graded in both. Its own fields are those of the pass rates; `better` and `verdict`
    look at passes first, then at scores."""

    score: Difference | None = None
    """Difference of the mean scores, if there are any."""
    pass_exp: PassExpDifference | None = None
    """Difference of pass^k, the chance that all of k trials pass; it is no part of the verdict."""
    flips: Flips
    """Prompts that passed more often than not in only one of them."""
    resources: Resources
    """What A took, divided by what B took."""
    sentences: list[str]
    """The outcome for a reader, a sentence each: passes, scores, then time, tokens and cost."""


class TrialsStatistics(Wire):
    """Every run, and every two runs paired by prompt."""

    runs: dict[str, RunStatistics]
    """Each run."""
    pairs: list[TrialsPairStatistics]
    """Every two runs."""


# --- the report ---------------------------------------------------------------------------------


class TrialsMeta(ReportMeta, kw_only=True):
    """What was compared, and how."""

    trials_per_prompt: Count | None
    """k, or the smallest k if it differs; null if there are no prompts."""
    input_format: Literal["trials"]
    """Always `trial`; `run` in a report on results."""
    mixed_k: dict[str, dict[str, Count]] | None = None
    """For each run, how many prompts have which k; only if k differs."""


class TrialsComparisonReport(Wire, kw_only=True):
    """A comparison of two or more runs of trials of the same prompts."""

    meta: TrialsMeta
    """What was compared and how."""
    capability: dict[str, Capability]
    """Passed at least once, for each run."""
    reliability: dict[str, TrialReliability]
    """Passed every time, for each run."""
    flakiness: dict[str, Flakiness]
    """Passed sometimes, for each run."""
    quality: dict[str, TrialQuality] | None = None
    """Scores, for each run that has any."""
    performance: dict[str, Performance]
    """Times, for each run."""
    statistics: TrialsStatistics
    """Whether the differences are more than chance."""
    head_to_head: TrialsHeadToHead
    """Who won how many prompts."""
    per_prompt: list[TrialsPrompt]
    """Prompt by prompt."""
    preference: Preference | None = None
    """What the comparison grader prefers, with the custom strategy."""
    usage: dict[str, Usage] | None = None
    """Tokens and cost of the trials, for each run; null if none has any."""
    by_category: dict[str, Category] | None = None
    """Each category by itself; null if no record has one."""
