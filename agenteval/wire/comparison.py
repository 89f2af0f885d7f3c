"""The reports of ae-compare on the wire, on results and on trials, and the answer of a comparison grader.

The forms of both reports are those of agent-eval-harness. What the two have in common is declared once.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from agenteval.wire.differences import Category, ConfidenceInterval, Difference, Flips, Preference, Resources, Usage
from agenteval.wire.records import Count, GraderResult, Id, Input, Interval, Rate, Richness, Step, TrialEntry, Wire

StrategyName = Literal["weighted", "statistical", "custom"]
Bounds = dict[str, Interval | None]


# --- results and trials -------------------------------------------------------------------------


class ReportMeta(Wire):
    """What was compared, and how."""

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
    """How the winner of a prompt is determined."""
    weights: dict[str, float] | None = None
    """Weight of each part of the score, with the weighted strategy."""
    bootstrap_iterations: int | None = None
    """Number of resamples of the bootstrap."""
    seed: int | None = None
    """Seed of the bootstrap."""
    by: str | None = None
    """Key below `metadata` that the categories are read from; null if no record has it."""
    cluster_by: str | None = None
    """Key below `metadata`: prompts that share its value belong together."""
    clusters: Count | None = None
    """Number of clusters with `clusterBy`; a prompt without the key is a cluster by itself."""
    changed_input: dict[str, list[str]] | None = None
    """For each run, the prompts left out because their `input` is not that of the first run that has them."""
    negative_durations: dict[str, Count] | None = None
    """For each run that has any: records with a negative duration, which counts as unknown because the clock was set
    back."""
    on: str = "passes"
    """The measure that decides the headlines and the gate: `passes`, `score` or `pass^k`."""
    margin: float | None = None
    """How much worse a run may be by that measure and still count as no worse."""
    counted_as_failed: dict[str, list[str]] | None = None
    """For each run, the prompts that it lacks and the first run has, if they count as not passed (`--missing fail`)."""
    grader_errors: Count | None = None
    """Prompts on which the comparison grader erred, with the custom strategy."""
    input_format: Literal["trials"] | None = None
    """`trials` in a report on trials."""
    trials_per_prompt: Count | None = None
    """For trials: the k that most prompts of a run have; if it differs between runs, the smallest."""
    mixed_k: dict[str, dict[str, Count]] | None = None
    """For each run, how many prompts have each k; only if k differs."""


class Latency(Wire):
    """Milliseconds, over the `n` records for which they are known; null if there are none."""

    n: Count
    """Records for which it is known."""
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
    p50_interval: ConfidenceInterval | None = None
    """95% interval of the median; null if there are too few values or all are equal."""
    p90_interval: ConfidenceInterval | None = None
    """95% interval of the 90th percentile; null if there are too few values (fewer than 29) or all are equal."""


class PerformanceIntervals(Wire):
    """Bootstrap 95% interval of the mean latency; null if there are fewer than two values."""

    latency_mean: Interval | None
    """Interval of the mean latency."""


class Performance(Wire):
    """How long the records of one run took."""

    latency: Latency
    """Milliseconds that a prompt took."""
    total_duration: float | None
    """Milliseconds of all prompts together; null if not measured."""
    first_response: Latency | None = None
    """Milliseconds until the agent's first line."""
    confidence_intervals: PerformanceIntervals | None = None
    """Interval of the mean, with the statistical strategy."""
    timeouts: Count | None = None
    """Prompts that timed out, if any: they affect the mean a lot, p50 and p90 hardly at all."""


class PromptOutcome(Wire, gc=False):
    """One prompt that at least two runs have."""

    id: str
    """The prompt's id."""
    winner: str | None
    """The run that won it, by the strategy; null on a tie, or if fewer than two have a score."""
    scores: dict[str, float | None]
    """Score of each run, by the strategy; null if it has none."""
    reasoning: str | None = None
    """Reasoning of the comparison grader."""
    grader_error: str | None = None
    """Why there is no ranking."""


class Pairwise(Wire):
    """Prompts won by each of two runs, of the `n` on which both have a score."""

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


class McNemar(Wire):
    """McNemar's test of the prompts that only one of two runs passed."""

    b: Count
    """Prompts that only A passed."""
    c: Count
    """Prompts that only B passed."""
    p: Rate
    """Two-sided mid-p value: the exact one less half the chance of the outcome seen."""
    exact_p: Rate
    """Exact two-sided p value, which is larger than necessary."""


class PassExpDifference(Difference, kw_only=True):
    """Difference of the unbiased pass^k, over the prompts with at least k graded trials in both."""

    k: Count
    """The k that was asked for, or else the smaller k of the two runs."""


class PairStatistics(Difference, kw_only=True):
    """Two runs, over the `n` prompts graded in both (in a gate, also those that one of them lacks). Its own fields are
    those of the deciding measure (`meta.on`): the headline of every report and `--fail-if-worse` follow `better`. Other
    measures never change it."""

    stopped: bool = False
    """Whether a run was stopped early because enough was known (`--stop-when-known`): the size is overstated."""
    pass_rate: Difference
    """Difference of the pass rates."""
    mcnemar: McNemar | None = None
    """For results: test of the prompts that only one of the two runs passed."""
    score: Difference | None = None
    """Difference of the mean scores, if there are any."""
    pass_exp: PassExpDifference | None = None
    """For trials: difference of pass^k, the chance that all of k trials pass."""
    flips: Flips
    """Prompts that only one of the two runs passed; for trials, that only one passed more often than not."""
    resources: Resources
    """What A took, divided by what B took."""
    sentences: list[str]
    """What the verdict is based on, in one sentence each: the deciding measure, the others, time, tokens and cost."""


class RunStatistics(Wire):
    """Pass rate of one run, with a 95% interval that treats the trials of a prompt as one cluster."""

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
    """95% interval of the pass rate; null if nothing is graded."""
    rank: tuple[int, int] | None = None
    """First and last place that the adjusted verdicts leave open; only for three or more runs."""


class Statistics(Wire, kw_only=True):
    """Every two runs, paired by prompt."""

    runs: dict[str, RunStatistics]
    """Each run; a result is a prompt with one trial."""
    pairs: list[PairStatistics]
    """Every two runs."""


class SeparatingPrompt(Wire):
    """A prompt that passes in some runs, or some of the time."""

    id: str
    """The prompt's id."""
    pass_rate: Rate
    """Mean of its pass rates in the runs in which it is graded."""
    information: Rate
    """How far it tells the runs apart: four times the variance of these rates, 1 if half of the runs always pass it and
    the others never."""
    runs: dict[str, Rate]
    """Its pass rate in each run."""


class Separation(Wire):
    """Which prompts tell the runs apart, of those graded in two or more runs."""

    prompts: list[SeparatingPrompt]
    """Prompts that pass sometimes or in some runs, the most informative first."""
    never_pass: list[str]
    """Ids of the prompts that pass in no run: they do not tell runs apart."""
    always_pass: list[str]
    """Ids of the prompts that always pass in every run: they do not tell runs apart either."""


class RankedRun(Wire):
    """One run in the ranking; null means unknown."""

    run: str
    """Name of the run."""
    rank: tuple[int, int]
    """First and last place that the adjusted verdicts leave open."""
    value: Rate | None
    """The value it is ranked by (`ranking.measure`); null if nothing is graded."""
    interval: ConfidenceInterval | None
    """95% interval of the value, for this run by itself."""
    n: Count
    """Graded prompts."""
    cost: float | None
    """Mean cost of a prompt in US dollars; for trials, of a trial."""
    cost_estimated: bool
    """Whether part of the cost is estimated from tokens and a price list."""
    cost_of_pass: float | None
    """US dollars for each answer that passes."""
    p50: float | None
    """Median duration in milliseconds."""


class Front(Wire):
    """Quality against cost: the runs that no other run beats in both, by the measured figures."""

    against: Literal["cost", "tokens", "time"]
    """What stands for cost: mean US dollars, mean tokens or median milliseconds of a prompt, whichever most runs
    have."""
    amounts: dict[str, float]
    """For each run that has both figures, that amount."""
    runs: list[str]
    """The runs on the front, cheapest first: no other run has at least the same value for at most the same cost."""


class RankedPrompt(Wire, gc=False):
    """One prompt in all runs."""

    id: str
    """The prompt's id."""
    pass_rate: Rate | None
    """Mean of its pass rates over the runs in which it is graded; null if none has graded it."""
    information: Rate | None
    """How far it tells the runs apart: four times the variance of these rates; null if fewer than two are graded."""
    statuses: dict[str, str]
    """Its status in each run: pass, fail, error (the agent failed), flaky (some trials pass), ungraded, grader-error or
    missing."""
    rates: dict[str, Rate] | None = None
    """For trials: its pass rate in each run in which it is graded."""


class RunRanking(Wire):
    """Three or more runs, best first; `statistics.pairs` compares every two of them."""

    measure: str
    """The measure it is ordered by: Pass rate, Score or pass^k."""
    headline: str
    """The result in a few sentences."""
    runs: list[RankedRun]
    """The runs, those with the highest value first."""
    front: Front | None
    """Quality against cost; null if fewer than two runs have both figures."""
    prompts: Sequence[RankedPrompt]
    """Every prompt, hardest first; those that no run has graded come last."""


class Report(Wire, kw_only=True):
    """What reports on results and on trials have in common."""

    meta: ReportMeta
    """What was compared and how."""
    performance: dict[str, Performance]
    """Times, for each run."""
    ranking: RunRanking | None = None
    """The runs in order, if there are three or more."""
    statistics: Statistics
    """Whether the differences are more than chance."""
    preference: Preference | None = None
    """What the comparison grader prefers, with the custom strategy."""
    usage: dict[str, Usage] | None = None
    """Tokens and cost, for each run; null if no run has any."""
    by_category: dict[str, Category] | None = None
    """Each category separately; null if no record has one."""
    prompts: Separation | None = None
    """Which prompts separate the runs, with `--prompts`."""


class ScoreFigures(Wire):
    """Scores of one run over its `n` records, or trials, that have one; the others are counted."""

    n: Count
    """Graded records, or trials, that the means cover."""
    ungraded: Count
    """Those without a grade."""
    grader_errors: Count
    """Those whose grader erred."""
    avg_score: Rate | None
    """Mean score; null if nothing is graded."""
    confidence_intervals: Bounds | None = None
    """Bounds of the 95% intervals of `avgScore` and, for results, of `passRate`, in the form of agent-eval-harness."""
    score_interval: ConfidenceInterval | None = None
    """95% interval of the mean score, with the trials of a prompt as one cluster; null if nothing is graded."""


# --- results ------------------------------------------------------------------------------------


class Quality(ScoreFigures, kw_only=True):
    """Scores and passes of one run over its `n` graded records; the others are counted."""

    type: Literal["run"]
    """Always `run`; `trial` in a report on trials."""
    errors: Count
    """Records whose agent failed; if anything is graded, they count among those that did not pass."""
    pass_rate: Rate | None
    """Share that passed; null if nothing is graded."""
    pass_count: Count
    """Records that passed."""
    fail_count: Count
    """Records that did not pass."""
    score_distribution: dict[str, Count]
    """How many scores fall in each fifth of 0 to 1, from `0.0-0.2` to `0.8-1.0`; the last fifth includes 1."""
    pass_interval: ConfidenceInterval | None = None
    """95% interval of the pass rate; null if nothing is graded."""


class Reliability(Wire):
    """Errors in the `n` records of one run; a completed record has output and no errors."""

    type: Literal["run"]
    """Always `run`; `trial` in a report on trials."""
    n: Count
    """Records of the run."""
    tool_errors: Count
    """Records in which a tool call failed."""
    tool_error_rate: Rate | None
    """Their share; null if there are no records."""
    timeouts: Count
    """Records that ran out of time."""
    timeout_rate: Rate | None
    """Their share; null if there are no records."""
    completion_rate: Rate | None
    """Share of records with output and without errors; null if there are no records."""


class TrajectoryInfo(Wire):
    """Richness and mean length of the trajectories of one run."""

    richness: Richness
    """Richness of the majority of the trajectories."""
    avg_step_count: float | None
    """Mean number of steps; null if there are no trajectories."""


class PromptComparison(PromptOutcome, gc=False, kw_only=True):
    """One prompt that at least two runs have."""

    latencies: dict[str, float | None]
    """Milliseconds each run took; null if not measured."""
    had_errors: dict[str, bool]
    """Whether the agent or a tool failed, for each run."""
    quality_winner: str | None = None
    """The run with the best grade; null on a tie, or if fewer than two are graded."""


class HeadToHead(Wire):
    """Which run won which prompt, and how many each won, for every two runs."""

    prompts: Sequence[PromptComparison]
    """Prompt by prompt."""
    pairwise: list[Pairwise]
    """Every two runs, by the strategy: with `weighted`, the faster of two runs with equal grades wins."""
    quality: list[Pairwise] | None = None
    """Every two runs, by the grades alone: equal grades are a tie."""


class ComparisonReport(Report, kw_only=True):
    """A comparison of two or more runs of the same prompts."""

    quality: dict[str, Quality]
    """Scores, for each run."""
    reliability: dict[str, Reliability]
    """Errors and timeouts, for each run."""
    trajectory_info: dict[str, TrajectoryInfo]
    """Trajectories, for each run."""
    head_to_head: HeadToHead
    """Which run won which prompt."""


# --- trials -------------------------------------------------------------------------------------


class PassFigures(Wire):
    """The chance to pass in some or all of k trials, over the `n` graded prompts of one run."""

    n: Count
    """Graded prompts that the means cover."""
    ungraded: Count
    """Prompts without a grade."""
    confidence_intervals: Bounds | None = None
    """Bounds of the 95% interval of `avgPassAtK` or `avgPassExpK`, from the unbiased estimates at the run's k: the
    plug-in mean may lie outside."""


class Capability(PassFigures, kw_only=True):
    """The chance of passing at least once in k trials, over the `n` graded prompts of one run; `passAt` is unbiased;
    passAtK, the plug-in value of agent-eval-harness, is not."""

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
    """For each j, the number of prompts in its mean: those with at least j graded trials."""
    pass_at_intervals: dict[str, ConfidenceInterval]
    """For k and the j that reports show, the 95% interval of the mean."""


class TrialReliability(PassFigures, kw_only=True):
    """The chance of passing in all of k trials, over the `n` graded prompts of one run; `passExp` is unbiased;
    passExpK, the plug-in value of agent-eval-harness, is not."""

    type: Literal["trial"]
    """Always `trial`; `run` in a report on results."""
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
    """For each j, the number of prompts in its mean: those with at least j graded trials."""
    pass_exp_intervals: dict[str, ConfidenceInterval]
    """For k and the j that reports show, the 95% interval of the mean."""


class FlakyPrompt(Wire):
    """A prompt that passes sometimes but not always."""

    id: str
    """The prompt's id."""
    flakiness: Rate
    """Its passAtK - passExpK."""
    pass_rate: Rate | None
    """Share of its trials that passed."""


class Flakiness(Wire):
    """passAtK - passExpK over the `n` graded prompts of one run, and the prompts where it is largest."""

    n: Count
    """Graded prompts that the means cover."""
    avg_flakiness: Rate | None
    """Mean; null if nothing is graded."""
    median_flakiness: Rate | None
    """Median; null if nothing is graded."""
    flaky_prompt_count: Count
    """Prompts that pass sometimes but not always."""
    top_flaky_prompts: list[FlakyPrompt]
    """The most flaky of them, most flaky first."""

    @property
    def flaky_share(self) -> float | None:
        """The share of the graded prompts that pass sometimes, not always."""
        return self.flaky_prompt_count / self.n if self.n else None


class TrialQuality(ScoreFigures, kw_only=True):
    """Scores of one run, over its `n` trials that have one; the others are counted."""

    type: Literal["trial"]
    """Always `trial`; `run` in a report on results."""
    failed_trials: Count
    """Trials whose agent failed."""
    median_score: Rate
    """Median score."""
    p25_score: Rate
    """25th percentile of the scores."""
    p75_score: Rate
    """75th percentile of the scores."""


class TrialsPrompt(PromptOutcome, gc=False, kw_only=True):
    """One prompt that at least two runs have, at the smallest `k` of them; null for a run without a grade."""

    capability_winner: str | None
    """The run with the higher passAtK; null on a tie."""
    reliability_winner: str | None
    """The run with the higher passExpK; null on a tie."""
    k: Count
    """The smallest number of trials that a run has for it."""
    pass_rate: dict[str, float | None]
    """Share of the trials that passed, for each run."""
    pass_at_k: dict[str, float | None]
    """passAtK, for each run."""
    pass_exp_k: dict[str, float | None]
    """passExpK, for each run."""
    flakiness: dict[str, float | None]
    """passAtK - passExpK, for each run."""


class TrialsHeadToHead(Wire):
    """Prompts won, for every two runs."""

    capability: list[Pairwise]
    """By passAtK."""
    reliability: list[Pairwise]
    """By passExpK."""
    overall: list[Pairwise]
    """By the strategy's score."""


class TrialsComparisonReport(Report, kw_only=True):
    """A comparison of two or more runs of trials of the same prompts."""

    capability: dict[str, Capability]
    """Passed at least once, for each run."""
    reliability: dict[str, TrialReliability]
    """Passed every time, for each run."""
    flakiness: dict[str, Flakiness]
    """Passed sometimes, for each run."""
    quality: dict[str, TrialQuality] | None = None
    """Scores, for each run that has any."""
    head_to_head: TrialsHeadToHead
    """How many prompts each run won."""
    per_prompt: Sequence[TrialsPrompt]
    """Prompt by prompt."""


# --- the comparison grader ----------------------------------------------------------------------


class ComparedAnswer(Wire):
    """The answer of one run to a prompt: the fields of a result, or those of trials."""

    output: str | None = None
    """The agent's final answer."""
    trajectory: list[Step] | None = None
    """The steps of the agent."""
    score: GraderResult | None = None
    """The verdict, if the result is graded."""
    duration: float | None = None
    """Milliseconds it took."""
    tool_errors: bool | None = None
    """Whether a tool call failed."""
    k: Annotated[int, Meta(ge=1)] | None = None
    """How many trials there are."""
    trials: list[TrialEntry] | None = None
    """The trials, in order."""
    pass_rate: Rate | None = None
    """Share p of the trials that passed."""
    pass_at_k: Rate | None = None
    """1-(1-p)^k: the chance that at least one of k passes."""
    pass_exp_k: Rate | None = None
    """p^k: the chance that all of k pass."""
    pass_at: dict[str, Rate | None] | None = None
    """For each j from 1 to k, the unbiased estimate of the chance that at least one of j passes."""
    pass_exp: dict[str, Rate | None] | None = None
    """For each j from 1 to k, the unbiased estimate of the chance that all of j pass."""


class ComparisonGraderInput(Wire):
    """What a comparison grader gets: one prompt, and the answer of each run."""

    id: Id
    """The prompt's id."""
    runs: dict[str, ComparedAnswer]
    """The answer of each run, by the run's name."""
    input: Input | None = None
    """The prompt, or its turns."""
    hint: str | None = None
    """What a good answer contains."""
    metadata: dict[str, Any] | None = None
    """The metadata of the prompt and of the first run."""


class Ranking(Wire):
    """The rank of one run on one prompt; 1 is best, equal ranks are a tie."""

    run: str
    """Name of the run."""
    rank: Annotated[float, Meta(ge=1)]
    """Its rank; 1 is best."""
    score: float | None = None
    """Its score; it is shown but decides nothing."""


class ComparisonAnswer(Wire):
    """The answer of a comparison grader for one prompt."""

    rankings: Annotated[list[Ranking], Meta(min_length=1)]
    """The rank of each run."""
    reasoning: str | None = None
    """Why, for a reader."""
