"""Two runs on the same prompts: the interval of the difference, its test, and the power of that many prompts.

Passes are compared by the signs of their differences (McNemar, Tango), other values by the t test, with exact tests
where few prompts differ. Several tests at once are adjusted by Holm's method.
"""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from agenteval.statistics.distributions import normal_quantile, t_two_sided
from agenteval.statistics.intervals import (
    LEVEL,
    NO_SPREAD,
    cluster_sums,
    interval,
    mean_interval,
    standard_error,
)
from agenteval.statistics.power import TIE, Goal, detectable, prompts_needed, seen_differences
from agenteval.statistics.samples import mean, variance
from agenteval.wire.differences import ConfidenceInterval

SIGNIFICANT = 1 - LEVEL
FEW = 12  # differences, up to which all assignments of signs are tried
STEPS = 60  # of bisection
TANGO = "tango"


class PairedTest(NamedTuple):
    """The mean of differences, its interval, the p value of no difference, and the power of that many prompts."""

    mean: float | None = None
    interval: ConfidenceInterval | None = None
    p: float | None = None
    detectable: float | None = None
    """The smallest true difference that this many prompts detect with 80% power."""
    needed: int | None = None
    """About how many prompts would show the observed difference with 80% power."""


def compare_paired(
    differences: Sequence[float], clusters: Sequence[object] | None = None, level: float = LEVEL
) -> PairedTest:
    """The analysis of differences within -1 and 1; `clusters` names the cluster of each.

    Differences of one size, such as those of passes, are compared by their signs. The interval excludes 0 if and only
    if p is below 1 - level.
    """
    if not differences:
        return PairedTest()
    sizes = {round(abs(d), 9) for d in differences if abs(d) > TIE}
    found: ConfidenceInterval | None
    by_signs = clusters is None and len(sizes) <= 1
    if by_signs:
        [size] = sizes or {1.0}
        wins, losses = signs(differences)
        found, p = tango_interval(wins, losses, len(differences), level), mid_p(wins, losses)
        if size < 1:
            found = _scaled(found, size, mean_interval(differences, level=level))
    else:
        found, p = _compare_means(differences, clusters, level)
    if found and p >= 1 - level:
        found = interval((min(0.0, found.low), max(0.0, found.high)), found.n, found.method, level)
    elif found and found.low <= 0 <= found.high:
        p = max(p, 1 - level)
    return PairedTest(mean(differences), found, p, *_shown(differences, clusters, by_signs, level))


def _shown(
    differences: Sequence[float], clusters: Sequence[object] | None, by_signs: bool, level: float
) -> tuple[float | None, int | None]:
    """The smallest difference that this many prompts show, and how many prompts show the observed one."""
    n, x, seen = len(differences), abs(math.fsum(differences)) / len(differences), seen_differences(differences)
    worth = 1.0  # the number of independent prompts that each is worth
    if clusters is not None:
        error, _ = standard_error(differences, clusters)
        varies = error is not None and error >= NO_SPREAD
        worth = variance(differences) / (n * error * error) if error and varies else len(set(clusters)) / n
    goal = Goal(level=level, flip=seen.flip if by_signs else 0.0)
    needed = prompts_needed(x, seen.square(x), goal) if x > TIE else None
    return detectable(n * worth, seen.square, goal), None if needed is None else math.ceil(needed / worth)


def _scaled(tango: ConfidenceInterval, size: float, means: ConfidenceInterval | None) -> ConfidenceInterval:
    """Tango's interval scaled to differences of one size; the bound away from 0 is that of means if that is further.

    Other prompts may differ by more than those in the sample, so the observed size is not a bound.
    """
    low, high = size * tango.low, size * tango.high
    if means is not None:
        low = min(low, means.low) if low <= 0 else low
        high = max(high, means.high) if high >= 0 else high
    return interval((low, high), tango.n, tango.method, tango.level)


def signs(differences: Sequence[float]) -> tuple[int, int]:
    """The number of differences above 0, and below 0."""
    return sum(d > TIE for d in differences), sum(d < -TIE for d in differences)


# --- means --------------------------------------------------------------------------------------


def _compare_means(
    differences: Sequence[float], clusters: Sequence[object] | None, level: float
) -> tuple[ConfidenceInterval | None, float]:
    """The t-interval and p; if few prompts or clusters differ, p is at least that of the exact test."""
    found = mean_interval(differences, clusters, level)
    error, df = standard_error(differences, clusters)
    centre = math.fsum(differences) / len(differences)
    varies = error is not None and error >= NO_SPREAD
    p = t_two_sided(centre / error, df) if error is not None and varies else mid_p(*signs(differences))
    if clusters is not None:
        differences, _ = cluster_sums(differences, clusters)
    different = [d for d in differences if abs(d) > TIE]
    return found, max(p, sign_flip_p(different)) if len(different) <= FEW else p


def sign_flip_p(differences: Sequence[float]) -> float:
    """The exact test of a mean: the share of sign assignments with at least that sum; ties count half (mid-p)."""
    sums = [0.0]
    for d in differences:
        sums = [s + d for s in sums] + [s - d for s in sums]
    seen = abs(math.fsum(differences))
    larger = sum(abs(s) > seen + TIE for s in sums)
    equal = sum(abs(abs(s) - seen) <= TIE for s in sums)
    return min(1.0, (larger + equal / 2) / len(sums)) if seen > TIE else 1.0


# --- passes -------------------------------------------------------------------------------------


def tango_interval(b: int, c: int, n: int, level: float = LEVEL) -> ConfidenceInterval:
    """Tango's score interval of the difference of two paired rates, (b - c) / n (Tango 1998)."""
    estimate, z = (b - c) / n, normal_quantile(0.5 + level / 2)

    def standing(difference: float) -> float:
        linear = (2 * n - b + c) * difference - b - c
        root = math.sqrt(max(0.0, linear * linear + 8 * n * c * difference * (1 - difference)))
        only_b = (root - linear) / (4 * n)
        variance = n * (2 * only_b + difference * (1 - difference))
        gap = b - c - n * difference
        if variance <= 0:
            return math.copysign(math.inf, gap) if gap else 0.0
        return gap / math.sqrt(variance)

    low, inside = -1.0, estimate
    for _ in range(STEPS):
        middle = (low + inside) / 2
        low, inside = (middle, inside) if standing(middle) > z else (low, middle)
    high, inside = 1.0, estimate
    for _ in range(STEPS):
        middle = (high + inside) / 2
        high, inside = (middle, inside) if standing(middle) < -z else (high, middle)
    return interval((low, high), n, TANGO, level)


# --- signs --------------------------------------------------------------------------------------


def sign_test(b: int, c: int) -> float:
    """Exact two-sided p of b against c under a fair coin; on discordant passes this is McNemar's exact test."""
    return 1.0 if b == c else min(1.0, 2 * _tail(b, c)[0])


def mid_p(b: int, c: int) -> float:
    """McNemar's two-sided mid-p value; b prompts were passed by one run only, c by the other only."""
    tail, seen = _tail(b, c)
    return 1.0 if b == c else min(1.0, 2 * tail - seen)


def _tail(b: int, c: int) -> tuple[float, float]:
    """The one-sided probability under a fair coin of b against c or further apart, and that of exactly b against c."""
    n, low = b + c, min(b, c)
    # From the largest term of the tail down: each is the previous one times k/(n-k+1). In logarithms, because 2**n
    # exceeds a float.
    seen = term = math.exp(math.lgamma(n + 1) - math.lgamma(low + 1) - math.lgamma(n - low + 1) - n * math.log(2))
    tail = 0.0
    for k in range(low, -1, -1):
        tail += term
        term *= k / (n - k + 1)
        if term < tail * 1e-17:
            break
    return tail, seen


# --- several tests at once ----------------------------------------------------------------------


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, in the order given: the chance of any false rejection stays below the level."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, p_values[place] * (len(p_values) - rank)))
        adjusted[place] = largest
    return adjusted


def holm_levels(p_values: Sequence[float]) -> list[float]:
    """The level of each interval at which it excludes 0 if and only if Holm's adjusted p is below 0.05.

    A rejected test has the level of its step, all others have that of the first test not rejected (Guilbaud 2008).
    """
    rejected = sum(p < SIGNIFICANT for p in holm(p_values))
    levels = [LEVEL] * len(p_values)
    for step, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        levels[place] = 1 - SIGNIFICANT / (len(p_values) - min(step, rejected))
    return levels


# --- the places of several runs ---------------------------------------------------------------------


def rank_intervals(names: Sequence[str], better: Collection[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """The best and worst possible rank of each run; `better` has the pairs whose first is shown to beat the second.

    If the pairs are adjusted together so that 95% of comparisons make no error, all these intervals hold together in
    95%; each of several equally good runs may have any of the ranks that they share.
    """
    return {
        name: (1 + sum(other == name for _, other in better), len(names) - sum(one == name for one, _ in better))
        for name in names
    }
