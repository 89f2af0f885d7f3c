"""95% intervals of rates, means, percentiles and ratios, with or without clusters, and the bootstrap of a mean.

No interval has width zero, however few or equal the values are. How each is computed is in docs/statistics.md.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from agenteval.statistics.distributions import (
    binomial_term,
    gamma_quantile,
    normal_below,
    normal_quantile,
    t_quantile,
)
from agenteval.statistics.samples import mean, variance
from agenteval.wire.differences import ConfidenceInterval

LEVEL = 0.95
TAIL = 0.5 + LEVEL / 2
Z = normal_quantile(TAIL)
PRIOR = 0.5  # weight of "all trials of a prompt are alike" in the design effect, in failed trials
NO_SPREAD = 1e-12
ROUNDING = 1e-9
RARE = 0.05  # the level that Brown, Cai and DasGupta (2001) use to bound a rate of one to three events
MANY = 50

WILSON = "wilson"
CLUSTERED_WILSON = "wilson, effective n"
T = "t"
EQUAL_VALUES = "equal values"
ORDER = "order statistics"
LOG_T = "t, log scale"
BOOTSTRAP = "bootstrap t"
FEWEST = 4  # clusters: three allow too few different resamples
DRAWN_AT_ONCE = 50_000  # values; with more, memory limits the speed


def interval(bounds: tuple[float, float], n: int, method: str, level: float = LEVEL) -> ConfidenceInterval:
    """The bounds with level, n and method."""
    return ConfidenceInterval(low=bounds[0], high=bounds[1], level=level, n=n, method=method)


def bounds(found: ConfidenceInterval | None) -> tuple[float, float] | None:
    """The two bounds without the rest."""
    return None if found is None else (found.low, found.high)


# --- rates --------------------------------------------------------------------------------------


def rate_interval(passed: int, count: int, level: float = LEVEL) -> ConfidenceInterval | None:
    """The interval of the share of independent records that passed; None without records."""
    z = normal_quantile(0.5 + level / 2)
    return interval(wilson(passed / count, count, z), count, WILSON, level) if count else None


def wilson(rate: float, count: float, z: float = Z) -> tuple[float, float]:
    """The Wilson score interval of a rate over `count` independent values; `count` need not be a whole number.

    It holds at 0%, at 100% and with few values.
    """
    shrink = 1 + z * z / count
    centre = (rate + z * z / (2 * count)) / shrink
    reach = z / shrink * math.sqrt(max(0.0, rate * (1 - rate)) / count + z * z / (4 * count * count))
    low = 0.0 if rate <= 0 else max(0.0, centre - reach)  # not -1e-17, by rounding
    return low, 1.0 if rate >= 1 else min(1.0, centre + reach)


def prompt_rate_interval(
    passed: Sequence[int],
    graded: Sequence[int],
    clusters: Sequence[object] | None = None,
    level: float = LEVEL,
) -> ConfidenceInterval | None:
    """The interval of the mean pass rate, from the passes and graded attempts of each prompt; None without prompts.

    The attempts of a prompt are a cluster, or part of the one that `clusters` names.
    """
    if not passed or (clusters is None and all(count == 1 for count in graded)):
        return rate_interval(sum(passed), len(passed), level)
    k = len(graded) / math.fsum(1 / count for count in graded)  # equal numbers of trials with the same variance
    rates = [passes / count for passes, count in zip(passed, graded, strict=True)]
    sums, counts = cluster_sums(rates, range(len(rates)) if clusters is None else clusters)
    found = clustered_rate_interval([k * part for part in sums], [k * count for count in counts], level=level)
    return found and interval((found.low, found.high), sum(graded), found.method, level)


def clustered_rate_interval(
    sums: Sequence[float], counts: Sequence[float], prior: float = PRIOR, level: float = LEVEL
) -> ConfidenceInterval | None:
    """The interval of a rate from the passes and size of each cluster, such as the trials of a prompt; None of none.

    Values of a cluster are correlated, so they are worth fewer independent values: the effective n. Sums may be
    fractions, such as scores or the estimates of pass^k of prompts, which are worth more.
    """
    total = sum(counts)
    if not total:
        return None
    rate = min(1.0, max(0.0, math.fsum(sums) / total))
    tail = 0.5 + level / 2
    quantile = t_quantile(tail, cluster_freedom(counts)) if len(counts) > 1 else normal_quantile(tail)
    count = effective_count(sums, counts, prior)
    low, high = wilson(rate, count, quantile)
    bounds = min(low, rare_bound(rate, count, level)), max(high, 1 - rare_bound(1 - rate, count, level))
    return interval(bounds, round(total), CLUSTERED_WILSON, level)


def rare_bound(rate: float, count: float, level: float = LEVEL) -> float:
    """The Poisson lower bound of a rate of few events, for which Wilson's is too high; 1 if there are more."""
    events = rate * count
    rare = 0 < events <= (2 if count <= MANY else 3) and rate < 0.5
    return gamma_quantile(RARE * (1 - level) / (1 - LEVEL), events) / count if rare else 1.0


def effective_count(sums: Sequence[float], counts: Sequence[float], prior: float = PRIOR) -> float:
    """The number of independent values that would tell as much about the rate as these clusters."""
    size, total = len(counts), sum(counts)
    if size == 1:
        return 1.0
    rate = math.fsum(sums) / total
    between, binomial = total**2 * _jackknife_variance(sums, counts), total * rate * (1 - rate)
    if binomial < NO_SPREAD:  # all passed or all failed: as uncertain as if one value differed
        between = binomial = 1.0
    design_effect = (between + prior * total / size) / (binomial + PRIOR)
    return total / design_effect


def cluster_freedom(counts: Sequence[float]) -> int:
    """The degrees of freedom of a variance between clusters: their effective number, fewer if sizes differ, less 1."""
    return max(1, int(sum(counts) ** 2 / math.fsum(count * count for count in counts) + ROUNDING) - 1)


def _jackknife_variance(sums: Sequence[float], counts: Sequence[float]) -> float:
    """The variance of the mean by leaving out each of two or more clusters (CR3)."""
    size, total = len(counts), sum(counts)
    centre = math.fsum(sums) / total
    pairs = zip(sums, counts, strict=True)
    return (size - 1) / size * math.fsum(((part - count * centre) / (total - count)) ** 2 for part, count in pairs)


def cluster_sums(values: Sequence[float], clusters: Sequence[object]) -> tuple[list[float], list[int]]:
    """The sum and the number of the values of each cluster."""
    sums: dict[object, float] = {}
    counts: dict[object, int] = {}
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + value
        counts[cluster] = counts.get(cluster, 0) + 1
    return list(sums.values()), list(counts.values())


# --- means --------------------------------------------------------------------------------------


def score_interval(
    values: Sequence[float], clusters: Sequence[object] | None = None, level: float = LEVEL
) -> ConfidenceInterval | None:
    """The interval of a mean of scores from 0 to 1; `clusters` names the cluster of each."""
    error, df = standard_error(values, clusters)
    if not values or error is None or error < NO_SPREAD:
        return _equal_values(values[0], df + 1, len(values), (0.0, 1.0), level) if values else None
    sums, counts = cluster_sums(values, range(len(values)) if clusters is None else clusters)
    centre = math.fsum(sums) / len(values)
    # Scores vary less than passes: an unseen deviation is as large as the largest seen, or near 0 and 1 that of a pass.
    largest = max(abs(part / count - centre) for part, count in zip(sums, counts, strict=True))
    prior = PRIOR * max(largest, 1 / (1 + len(sums) * centre * (1 - centre)))
    return clustered_rate_interval(sums, counts, prior, level)


def mean_interval(
    values: Sequence[float], clusters: Sequence[object] | None = None, level: float = LEVEL
) -> ConfidenceInterval | None:
    """The t-interval of a mean of differences from -1 to 1; `clusters` names the cluster of each value.

    For equal values the t-interval has width 0, for one value it does not exist. Then the interval is where the mean
    could be if other values were missed by chance.
    """
    centre = mean(values)
    if centre is None:
        return None
    error, df = standard_error(values, clusters)
    if error is None or error < NO_SPREAD:
        return _equal_values(centre, df + 1, len(values), (-1.0, 1.0), level)
    reach = t_quantile(0.5 + level / 2, df) * error
    return interval((max(-1.0, centre - reach), min(1.0, centre + reach)), len(values), T, level)


def standard_error(values: Sequence[float], clusters: Sequence[object] | None = None) -> tuple[float | None, int]:
    """The standard error of the mean and its degrees of freedom, robust to clusters; None for fewer than two."""
    if clusters is None:
        size = len(values)
        return (None, 0) if size < 2 else (math.sqrt(variance(values)) / math.sqrt(size), size - 1)
    sums, counts = cluster_sums(values, clusters)
    if len(sums) < 2:
        return None, 0
    return math.sqrt(_jackknife_variance(sums, counts)), cluster_freedom(counts)


def _equal_values(
    value: float, count: int, n: int, span: tuple[float, float], level: float = LEVEL
) -> ConfidenceInterval:
    """The interval of equal values: by Wilson, a share of all values may lie at an end of `span`, unseen in `count`."""
    z = normal_quantile(0.5 + level / 2)
    share = z * z / (count + z * z)
    low, high = ((1 - share) * value + share * end for end in span)
    return interval((low, high), n, EQUAL_VALUES, level)


# --- percentiles and ratios ---------------------------------------------------------------------


def percentile_interval(
    values: Sequence[float], p: float, clusters: Sequence[object] | None = None, level: float = LEVEL
) -> ConfidenceInterval | None:
    """The nearest two values that enclose the percentile; None if there are too few values, or both are equal.

    `clusters` names the cluster of each value, such as the prompt of a trial: then each of the effective number of
    values stands for several neighbours in the order.
    """
    ordered = sorted(values)
    size = count = len(ordered)
    if clusters is not None and size:
        middle = ordered[min(size - 1, math.floor(size * p))]
        sums, counts = cluster_sums([value <= middle for value in values], clusters)
        if percentile_ranks(len(counts), p, level) is None:
            return None
        tail = 0.5 + level / 2
        scale = (normal_quantile(tail) / t_quantile(tail, cluster_freedom(counts))) ** 2
        count = min(size, math.floor(scale * effective_count(sums, counts)))
    ranks = percentile_ranks(count, p, level)
    if ranks is None:
        return None
    low, high = ordered[math.floor(ranks[0] * size / count)], ordered[math.ceil((ranks[1] + 1) * size / count) - 1]
    return interval((low, high), size, ORDER, level) if low < high else None


@lru_cache(1024)
def percentile_ranks(n: int, p: float, level: float = LEVEL) -> tuple[int, int] | None:
    """Ranks in a sorted list of n that enclose the percentile at that level; None if even first and last do not."""
    # It lies between ranks i and j (from 0) if at least i + 1 and at most j of n values are below it.
    if n < 2 or 1 - binomial_term(0, n, p) - binomial_term(n, n, p) < level:
        return None
    fewest = most = min(max(1, math.floor((n + 1) * p)), n - 1)
    covered = binomial_term(fewest, n, p)
    while covered < level:
        fewer = binomial_term(fewest - 1, n, p) if fewest > 1 else 0.0
        more = binomial_term(most + 1, n, p) if most < n - 1 else 0.0
        if not fewer and not more:  # rounding
            break
        covered += max(fewer, more)
        fewest, most = (fewest - 1, most) if fewer >= more else (fewest, most + 1)
    return fewest - 1, most


def ratio_interval(
    numerators: Sequence[float], denominators: Sequence[float], clusters: Sequence[object] | None = None
) -> ConfidenceInterval | None:
    """The interval of the ratio of two means of paired, non-negative values, by the jackknife over pairs or clusters.

    None if a mean is 0, one value or cluster is the whole sum, or all ratios are equal.
    """
    freedom = len(numerators) - 1
    if clusters is not None:
        numerators, counts = cluster_sums(numerators, clusters)
        denominators, _ = cluster_sums(denominators, clusters)
        freedom = cluster_freedom(counts)
    above, below = math.fsum(numerators), math.fsum(denominators)
    if above <= 0 or below <= 0 or max(numerators) >= above or max(denominators) >= below:
        return None
    # The change of the logarithm without each pair, times n - 1: the jackknife's error is that of the mean of these.
    changes = [
        (len(numerators) - 1) * (math.log1p(-b / below) - math.log1p(-a / above))
        for a, b in zip(numerators, denominators, strict=True)
    ]
    error, _ = standard_error(changes)
    return _around_log(math.log(above / below), error, min(freedom, skewed_freedom(changes)), len(changes))


def skewed_freedom(values: Sequence[float]) -> int:
    """Satterthwaite's degrees of freedom of a sample variance: n - 1 for normal values, fewer with outliers."""
    size, centre = len(values), math.fsum(values) / len(values)
    second, fourth = (math.fsum((value - centre) ** power for value in values) / size for power in (2, 4))
    if size < 3 or second < NO_SPREAD**2:
        return size - 1
    spread = fourth / second**2 - (size - 3) / (size - 1)
    return max(1, min(size - 1, int(2 * size / spread) if spread > 0 else size - 1))


def geometric_ratio_interval(
    ratios: Sequence[float], clusters: Sequence[object] | None = None
) -> ConfidenceInterval | None:
    """The interval of the geometric mean of ratios above 0; None if there are fewer than two, or all are equal."""
    logs = [math.log(ratio) for ratio in ratios]
    return _around_log(math.fsum(logs) / len(logs), *standard_error(logs, clusters), len(logs)) if logs else None


def _around_log(centre: float, error: float | None, freedom: int, n: int) -> ConfidenceInterval | None:
    if error is None or error < NO_SPREAD:
        return None
    reach = t_quantile(TAIL, freedom) * error
    return interval((math.exp(centre - reach), math.exp(centre + reach)), n, LOG_T)


# --- bootstrap ----------------------------------------------------------------------------------


def bootstrap_mean_interval(
    clusters: Iterable[Sequence[float]], iterations: int, seed: int
) -> ConfidenceInterval | None:
    """The studentized bootstrap interval of the mean of all values; the trials of a prompt are drawn together.

    Each resample has its own standard error, so that the interval is as skewed as the values. None if there are fewer
    than four clusters, or all values are equal. The same values and seed give the same interval.
    """
    known = [cluster for cluster in clusters if cluster]
    if len(known) < FEWEST:
        return None
    sums = [math.fsum(cluster) for cluster in known]
    counts = [float(len(cluster)) for cluster in known]
    # The sums from which the mean and its clustered standard error follow: a resample is one weighted sum of each.
    columns = [
        sums,
        counts,
        [s * s for s in sums],
        [s * c for s, c in zip(sums, counts, strict=True)],
        [c * c for c in counts],
    ]
    means, errors = _means_and_errors(_resample(columns, iterations, seed), len(known))
    [centre], [error] = _means_and_errors([[math.fsum(column)] for column in columns], len(known))
    if not error > 0:
        return None
    usable = errors > 0  # a resample that consists of one value only has no error
    pivots = sorted(((means - centre)[usable] / errors[usable]).tolist())
    if not pivots:
        return None
    # Resamples of few clusters vary too little: widen the interval as Student's t widens the normal distribution's.
    tail = normal_below(-t_quantile(TAIL, len(known) - 1))
    low, high = math.floor(len(pivots) * tail), min(math.floor(len(pivots) * (1 - tail)), len(pivots) - 1)
    bounds = max(0.0, float(centre - pivots[high] * error)), float(centre - pivots[low] * error)
    return interval(bounds, int(sum(counts)), BOOTSTRAP)


def _means_and_errors(totals: Any, size: int) -> tuple[Any, Any]:
    """The mean and its clustered standard error, of each resample."""
    import numpy as np

    sums, counts, squares, products, sizes = (np.asarray(column, dtype=np.float64) for column in totals)
    means = sums / counts
    spread = np.maximum(squares - 2 * means * products + means * means * sizes, 0.0)
    spread[spread < 1e-12 * squares] = 0.0  # rounding
    return means, np.sqrt(spread * size / (size - 1)) / counts


def _resample(columns: Sequence[Sequence[float]], iterations: int, seed: int) -> Any:
    """The sum of each column in each resample; all columns have the same length."""
    import numpy as np

    values = np.array(columns, dtype=np.float64)
    length = values.shape[1]
    generator = np.random.default_rng(seed)
    sums = np.empty((len(columns), iterations))
    many = max(1, DRAWN_AT_ONCE // length)
    for start in range(0, iterations, many):
        count = min(many, iterations - start)
        # Counts how often each value was drawn in each resample, for all columns together.
        drawn = generator.integers(0, length, (count, length)) + np.arange(0, count * length, length)[:, None]
        times = np.bincount(drawn.ravel(), minlength=count * length).reshape(count, length)
        # Not `@`: BLAS splits the sum by the number of processors, and the last digits with it.
        sums[:, start : start + count] = np.einsum("cn,in->ci", values, times.astype(np.float64))
    return sums
