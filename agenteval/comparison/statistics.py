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


def variance(values: Sequence[float]) -> float:
    """The sample variance (n-1) of two values or more."""
    centre = math.fsum(values) / len(values)
    return math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1)


# --- tests and rates ----------------------------------------------------------------------------


def sign_test(b: int, c: int) -> float:
    """Exact two-sided p of b against c under a fair coin; on discordant passes this is McNemar's exact test."""
    return 1.0 if b == c else min(1.0, 2 * _tail(b, c)[0])


def mid_p(b: int, c: int) -> float:
    """McNemar's mid-p value of b prompts that only one run passed against c that only the other did, two-sided."""
    tail, seen = _tail(b, c)
    return 1.0 if b == c else min(1.0, 2 * tail - seen)


def _tail(b: int, c: int) -> tuple[float, float]:
    """The chance of b against c or further apart, one-sided, under a fair coin; and that of b against c itself."""
    n, low = b + c, min(b, c)
    # From the largest term of the tail down: each is the one before times k/(n-k+1). Logarithms, because
    # 2**n does not fit a float.
    seen = term = math.exp(math.lgamma(n + 1) - math.lgamma(low + 1) - math.lgamma(n - low + 1) - n * math.log(2))
    tail = 0.0
    for k in range(low, -1, -1):
        tail += term
        term *= k / (n - k + 1)
        if term < tail * 1e-17:
            break
    return tail, seen


def wilson(rate: float, count: float, z: float = Z95) -> tuple[float, float]:
    """The Wilson score interval of a rate over so many independent values, which need not be a whole number.

    By default it is that of 95 %. It holds at 0 %, at 100 % and with few values.
    """
    shrink = 1 + z * z / count
    centre = (rate + z * z / (2 * count)) / shrink
    reach = z / shrink * math.sqrt(max(0.0, rate * (1 - rate)) / count + z * z / (4 * count * count))
    low = 0.0 if rate <= 0 else max(0.0, centre - reach)  # not -1e-17, by rounding
    return low, 1.0 if rate >= 1 else min(1.0, centre + reach)
