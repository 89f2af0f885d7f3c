"""What a comparison grader prefers, on the wire: wins of every two runs, position bias, strengths."""

from typing import Literal

from agenteval.wire.records import Count, Interval, Rate, Wire


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
    """The p value by Holm, for all pairs of runs together."""
    better: str | None
    """The run that is shown to be preferred; null if neither is."""
    verdict: str
    """The outcome in words."""


class PositionBias(Wire):
    """Whether the comparison grader prefers a run because of its place; each pair was shown in both orders."""

    n: Count
    """Pairs of runs that were ranked in both orders, of all prompts."""
    consistent: Count
    """Pairs with the same answer in both orders."""
    first_preferred: Count
    """Pairs of which the run that was shown first won in both orders."""
    second_preferred: Count
    """Pairs of which the run that was shown second won in both orders."""
    p: Rate
    """Exact two-sided p value of the sign test of these two counts."""


class RunStrength(Wire):
    """The strength of a run by the Bradley-Terry model: the log odds that it is preferred to an average run."""

    run: str
    """Name of the run."""
    strength: float
    """Log odds to be preferred; 0 is the mean of all runs."""
    interval: Interval
    """95 % interval of the strength."""
    win_rate: Rate
    """Share of its comparisons that it won; a tie counts half."""


class Preference(Wire):
    """What the comparison grader prefers."""

    orders: Literal[1, 2]
    """In how many orders each prompt's answers were shown."""
    pairs: list[PreferredRun]
    """Every two runs."""
    position_bias: PositionBias | None = None
    """Whether the place mattered; omitted if each prompt was asked in one order."""
    strengths: list[RunStrength] | None = None
    """Strengths of the runs, the strongest first; only of three runs or more."""
