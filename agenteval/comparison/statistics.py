"""Means, percentiles, paired differences, clusters and bootstrap intervals; numpy is imported only to resample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from agenteval.comparison.inference.distributions import normal_quantile, t_quantile

CONFIDENCE = 0.95
POWER = 0.8
NOTHING_VARIES = 1e-12
Z95 = 1.959963984540054  # the normal distribution's 97.5 % quantile


# --- one sample ---------------------------------------------------------------------------------


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean; None over nothing."""
    return math.fsum(values) / len(values) if values else None


def percentile(ordered: Sequence[float], p: float) -> float | None:
    """Nearest rank: element floor(n*p) of a sorted list, clamped to the last; None over nothing."""
    return ordered[min(math.floor(len(ordered) * p), len(ordered) - 1)] if ordered else None


def deviation(values: Sequence[float]) -> float | None:
    """The sample standard deviation (n-1); None for fewer than two values."""
    if len(values) < 2:
        return None
    centre = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


# --- two samples, paired ------------------------------------------------------------------------


class Paired(NamedTuple):
    """Mean of the differences, its t-interval, and the smallest true difference that n would show with 80 % power."""

    mean: float | None
    interval: tuple[float, float] | None
    detectable: float | None


def paired(differences: Sequence[float]) -> Paired:
    """The paired t-analysis of differences; None if n is too small or all differences are equal."""
    centre, spread = mean(differences), deviation(differences)
    if centre is None or spread is None:
        return Paired(centre, None, None)
    error = spread / math.sqrt(len(differences))
    reach = t_quantile(0.5 + CONFIDENCE / 2, len(differences) - 1) * error
    # Without spread the formula would say that n shows a difference of 0.
    detectable = (normal_quantile(0.5 + CONFIDENCE / 2) + normal_quantile(POWER)) * error if error else None
    return Paired(centre, (centre - reach, centre + reach), detectable)


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


# --- clusters -----------------------------------------------------------------------------------


def clustered_rate(clusters: Sequence[tuple[int, int]]) -> tuple[float, float] | None:
    """The 95 % interval of passes over trials, given both per cluster; None for fewer than two clusters.

    Trials of a cluster resemble each other: only the clusters are independent.
    """
    if len(clusters) < 2:
        return None
    total = sum(count for _, count in clusters)
    rate = sum(passed for passed, _ in clusters) / total
    size = len(clusters)
    squares = math.fsum((passed - count * rate) ** 2 for passed, count in clusters)
    error = math.sqrt(squares * size / (size - 1)) / total
    if error < NOTHING_VARIES:  # the formula would give an interval of width 0
        return wilson(rate * size, size)
    reach = t_quantile(0.5 + CONFIDENCE / 2, size - 1) * error
    return max(0.0, rate - reach), min(1.0, rate + reach)


def wilson(passed: float, count: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a proportion, which holds at 0 %, at 100 % and with few records."""
    rate = passed / count
    shrink = 1 + Z95**2 / count
    center = (rate + Z95**2 / (2 * count)) / shrink
    reach = Z95 / shrink * math.sqrt(rate * (1 - rate) / count + Z95**2 / (4 * count**2))
    low = 0.0 if passed == 0 else center - reach  # not -1e-17, by rounding
    return low, 1.0 if passed == count else center + reach


# --- resampling ---------------------------------------------------------------------------------


class Clusters(NamedTuple):
    """Sums of values that belong together, such as the trials of a prompt, and how many values each sum is over."""

    sums: Sequence[float]
    counts: Sequence[float] | None = None  # one each

    @classmethod
    def of(cls, clusters: Iterable[Sequence[float]]) -> Clusters:
        """The clusters that are not empty."""
        known = [cluster for cluster in clusters if cluster]
        return cls([sum(cluster) for cluster in known], [len(cluster) for cluster in known])


def bootstrap_intervals(
    columns: Sequence[Sequence[float] | Clusters], iterations: int, seed: int
) -> list[tuple[float, float] | None]:
    """The 95 % percentile interval of each column's mean; None for fewer than two values. Clusters are drawn whole.

    A column's interval depends on its values and the random seed only. Columns of one length share their resamples,
    because drawing takes most of the time.
    """
    found: list[tuple[float, float] | None] = [None] * len(columns)
    samples = [column if isinstance(column, Clusters) else Clusters(column) for column in columns]
    for length in {len(sample.sums) for sample in samples if len(sample.sums) > 1}:
        places = [place for place, sample in enumerate(samples) if len(sample.sums) == length]
        counts = {place: counts for place in places if (counts := samples[place].counts) is not None}
        resampled = _resample([samples[place].sums for place in places] + list(counts.values()), iterations, seed)
        over = dict(zip(counts, resampled[len(places) :], strict=True))
        for sums, place in zip(resampled, places, strict=False):
            found[place] = _percentile_interval(sums / over.get(place, length))
    return found


def _resample(columns: list[Sequence[float]], iterations: int, seed: int) -> Any:
    """The sum of each column in each resample; the columns have one length."""
    import numpy as np  # 100 ms of a start that should take 50

    values = np.array(columns, dtype=np.float64)
    length = values.shape[1]
    generator = np.random.default_rng(seed)
    sums = np.empty((len(columns), iterations))
    for i in range(iterations):
        # How often each value was drawn, instead of the drawn values: one resample at a time, for all columns.
        times = np.bincount(generator.integers(0, length, length), minlength=length)
        # Not `@`: BLAS splits the sum by the number of processors, and the last digits with it.
        sums[:, i] = np.einsum("cn,n->c", values, times.astype(np.float64))
    return sums


def _percentile_interval(means: Any) -> tuple[float, float]:
    means.sort()
    tail = (1 - CONFIDENCE) / 2
    iterations = len(means)
    low, high = math.floor(iterations * tail), min(math.floor(iterations * (1 - tail)), iterations - 1)
    return float(means[low]), float(means[high])
