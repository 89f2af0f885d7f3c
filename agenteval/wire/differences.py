"""Parts of a comparison report, on the wire: intervals, differences, ratios, categories and preferences."""

from typing import Literal

from agenteval.wire.records import Count, Interval, Rate, Wire


class ConfidenceInterval(Wire):
    """The values that are compatible with the data; how it was computed is in docs/statistics.md."""

    low: float
    """Lower bound."""
    high: float
    """Upper bound."""
    level: Rate
    """How often such an interval contains the true value: usually 0.95."""
    n: Count
    """Number of values it is based on: prompts, trials or records."""
    method: str
    """Name of the method, such as wilson, t or order statistics."""


# --- two runs -----------------------------------------------------------------------------------


class Difference(Wire, kw_only=True):
    """Difference of a value between two runs, over the `n` prompts that have it in both: A, the earlier run, minus B.
    Sentences, tables and pages show `change`, which is B minus A."""

    run_a: str
    """Name of run A."""
    run_b: str
    """Name of run B."""
    n: Count
    """Prompts that have the value in both."""
    mean_a: float | None = None
    """Mean of A over these prompts."""
    mean_b: float | None = None
    """Mean of B over these prompts."""
    mean_difference: float | None
    """Mean of A minus that of B, so above 0 if A is better; null if there are no such prompts."""
    interval: ConfidenceInterval | None
    """95% interval of A minus B; with several pairs, the `level` is higher, adjusted for their number as the verdict
    is."""
    change: float | None = None
    """Mean of B minus that of A: what has changed since A."""
    change_interval: Interval | None = None
    """The interval of the change."""
    wins: Count
    """Prompts on which A is better."""
    losses: Count
    """Prompts on which B is better."""
    ties: Count
    """Prompts on which the two are equal."""
    minimum_detectable_difference: float | None
    """The smallest true difference that this many prompts detect with 80% power; null if they detect none."""
    prompts_needed: Count | None = None
    """About how many prompts detect a true difference as large as the one seen with 80% power; null if over 1e6."""
    p: Rate | None = None
    """Chance of a difference this large if the runs were equally good: McNemar's mid-p for passes, the paired t-test
    for other values."""
    adjusted_p: Rate | None = None
    """`p`, adjusted by Holm's method for the pairs of runs, or for all pairs of all categories."""
    better: str | None
    """The run that is shown to be better (`adjustedP` below 0.05); null if neither is."""
    verdict: str
    """The outcome in words."""


class Ratio(Wire):
    """What A took divided by what B took, over the `n` prompts for which both are known."""

    n: Count
    """Prompts for which both are known."""
    mean_a: float | None
    """Mean of A over these prompts."""
    mean_b: float | None
    """Mean of B over these prompts."""
    ratio: float | None
    """For cost and tokens, the ratio of the two means; for time, the geometric mean of the prompts' ratios."""
    interval: ConfidenceInterval | None
    """95% interval of the ratio; null if there are too few prompts or all have the same ratio."""
    estimated: Count | None = None
    """For costs: prompts whose cost is estimated from tokens and a price list in at least one run."""


class Flips(Wire):
    """Prompts that only one of two runs passed; for trials, that passed more often than not in only one of them."""

    only_a: list[str]
    """Ids of the prompts that A passed and B did not."""
    only_b: list[str]
    """Ids of the prompts that B passed and A did not."""


class Resources(Wire):
    """Time, tokens and cost of two runs on the same prompts; null if unknown in either run."""

    latency: Ratio | None
    """Milliseconds."""
    tokens: Ratio | None
    """Input and output tokens."""
    cost: Ratio | None
    """US dollars."""


# --- one run ------------------------------------------------------------------------------------


class UsageAmount(Wire):
    """Tokens or US dollars over the `n` records, or trials, in which they are known."""

    n: Count
    """Records or trials in which it is known."""
    total: float
    """Sum."""
    mean: float
    """Mean."""
    p50: float
    """Median."""
    p50_interval: ConfidenceInterval | None
    """95% interval of the median; null if there are too few values or all are equal."""
    estimated: Count | None = None
    """For costs: records or trials whose cost is estimated from tokens and a price list."""

    @property
    def estimated_count(self) -> int:
        """How many are estimated."""
        return self.estimated or 0


class Usage(Wire):
    """Tokens and cost of one run; null if no record has them."""

    tokens: UsageAmount | None
    """Input and output tokens."""
    cost: UsageAmount | None
    """US dollars."""
    cost_of_pass: float | None = None
    """Total cost, in US dollars, of the graded prompts whose cost is known, divided by the number of their attempts
    that passed."""
    cost_of_pass_interval: ConfidenceInterval | None = None
    """95% interval of the cost of a pass."""


# --- categories ---------------------------------------------------------------------------------


class CategoryRun(Wire):
    """The graded prompts of one run in one category."""

    n: Count
    """Graded prompts."""
    pass_rate: Rate | None
    """Share that passed; for trials, the mean of the prompts' pass rates; null if nothing is graded."""
    interval: ConfidenceInterval | None
    """95% interval of the pass rate."""
    avg_score: Rate | None
    """Mean score; null if there is none."""
    score_interval: ConfidenceInterval | None
    """95% interval of the mean score."""


class Category(Wire):
    """One category: each run, and every two runs."""

    runs: dict[str, CategoryRun]
    """Each run."""
    pairs: list[Difference]
    """Pass rates of every two runs, adjusted for all categories and pairs."""


# --- the comparison grader ----------------------------------------------------------------------


class PreferredRun(Wire):
    """How often the comparison grader preferred each of two runs, of the `n` prompts on which it ranked both."""

    run_a: str
    """Name of run A."""
    run_b: str
    """Name of run B."""
    n: Count
    """Prompts on which both are ranked."""
    a_wins: Count
    """Prompts on which A is preferred, in both orders if both were asked."""
    b_wins: Count
    """Prompts on which B is preferred, in both orders if both were asked."""
    ties: Count
    """Prompts on which they rank equal, or the answer depends on the order."""
    p: Rate
    """Exact two-sided p value of the sign test of A's wins against B's."""
    adjusted_p: Rate
    """The p value, adjusted by Holm's method for all pairs of runs."""
    better: str | None
    """The run that is shown to be preferred; null if neither is."""
    verdict: str
    """The outcome in words."""


class PositionBias(Wire):
    """Whether the comparison grader prefers a run because of its position; each pair was shown in both orders."""

    n: Count
    """Pairs of runs that were ranked in both orders, over all prompts."""
    consistent: Count
    """Pairs with the same answer in both orders."""
    first_preferred: Count
    """Pairs in which the run shown first won in both orders."""
    second_preferred: Count
    """Pairs in which the run shown second won in both orders."""
    p: Rate
    """Exact two-sided p value of a sign test over prompts, each of which favours the first position, the second or
    neither."""


class RunStrength(Wire):
    """The strength of a run by the Bradley-Terry model: the log odds that it is preferred to an average run."""

    run: str
    """Name of the run."""
    strength: float
    """Log odds of being preferred; the mean of all runs is 0."""
    interval: Interval
    """95% interval of the strength."""
    win_rate: Rate
    """Share of its comparisons that it won; a tie counts half."""


class Preference(Wire):
    """What the comparison grader prefers."""

    orders: Literal[1, 2]
    """In how many orders each prompt's answers were shown."""
    pairs: list[PreferredRun]
    """Every two runs."""
    position_bias: PositionBias | None = None
    """Whether the position mattered; omitted if each prompt was asked in one order only."""
    strengths: list[RunStrength] | None = None
    """Strengths of the runs, strongest first; only for three or more runs."""
