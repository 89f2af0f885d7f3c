"""Means, percentiles, the sign test and the Wilson interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z95 = 1.959963984540054  # the normal distribution's 97.5 % quantile


# --- one sample ---------------------------------------------------------------------------------


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean; None over nothing."""
    return math.fsum(values) / len(values) if values else None


def geometric_mean(values: Sequence[float]) -> float | None:
    """The geometric mean of values above 0; None over nothing."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else None


def percentile(ordered: Sequence[float], p: float) -> float | None:
    """Nearest rank: element floor(n*p) of a sorted list, clamped to the last; None over nothing."""
    return ordered[min(math.floor(len(ordered) * p), len(ordered) - 1)] if ordered else None


def deviation(values: Sequence[float]) -> float | None:
    """The sample standard deviation (n-1); None for fewer than two values."""
    if len(values) < 2:
        return None
    centre = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


# --- tests and rates ----------------------------------------------------------------------------


def sign_test(b: int, c: int) -> float:
    """Exact two-sided p of b against c under a fair coin; on discordant passes this is McNemar's exact test."""
    n, low = b + c, min(b, c)
    if b == c:
        return 1.0
    # From the largest term of the tail down: each is the one before times k/(n-k+1). Logarithms, because
    # 2**n does not fit a float.
    term = math.exp(math.lgamma(n + 1) - math.lgamma(low + 1) - math.lgamma(n - low + 1) - n * math.log(2))
    tail = 0.0
    for k in range(low, -1, -1):
        tail += term
        term *= k / (n - k + 1)
        if term < tail * 1e-17:
            break
    return min(1.0, 2 * tail)


def wilson(passed: float, count: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a proportion, which holds at 0 %, at 100 % and with few records."""
    rate = passed / count
    shrink = 1 + Z95**2 / count
    center = (rate + Z95**2 / (2 * count)) / shrink
    reach = Z95 / shrink * math.sqrt(rate * (1 - rate) / count + Z95**2 / (4 * count**2))
    low = 0.0 if passed == 0 else center - reach  # not -1e-17, by rounding
    return low, 1.0 if passed == count else center + reach
