"""The bootstrap interval of a mean of skewed values; numpy is imported only to resample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from agenteval.comparison.inference.distributions import normal_below, t_quantile
from agenteval.comparison.inference.intervals import TAIL, interval
from agenteval.wire.interval import ConfidenceInterval

BOOTSTRAP = "bootstrap t"
DRAWN_AT_ONCE = 50_000  # values; of more, memory is what a resample costs


def bootstrap_mean_interval(
    clusters: Iterable[Sequence[float]], iterations: int, seed: int
) -> ConfidenceInterval | None:
    """The studentized bootstrap interval of the mean of all values; the trials of a prompt are drawn together.

    Each resample has its own standard error, so that the interval is as skewed as the values. None if there are fewer
    than two clusters, or all values are equal. The same values and seed give the same interval.
    """
    known = [cluster for cluster in clusters if cluster]
    if len(known) < 2:
        return None
    sums = [math.fsum(cluster) for cluster in known]
    counts = [float(len(cluster)) for cluster in known]
    # What the mean and its clustered standard error are made of, so that a resample is one weighted sum of each.
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
    usable = errors > 0  # a resample of one value, drawn over and over, has no error
    pivots = sorted(((means - centre)[usable] / errors[usable]).tolist())
    if not pivots:
        return None
    # Resamples of few clusters vary too little: as far out as Student's t is beyond the normal distribution.
    tail = normal_below(-t_quantile(TAIL, len(known) - 1))
    low, high = math.floor(len(pivots) * tail), min(math.floor(len(pivots) * (1 - tail)), len(pivots) - 1)
    bounds = max(0.0, float(centre - pivots[high] * error)), float(centre - pivots[low] * error)
    return interval(bounds, int(sum(counts)), BOOTSTRAP)


def _means_and_errors(totals: Any, size: int) -> tuple[Any, Any]:
    """The mean and its clustered standard error, of each resample."""
    import numpy as np  # 100 ms of a start that should take 50

    sums, counts, squares, products, sizes = (np.asarray(column, dtype=np.float64) for column in totals)
    means = sums / counts
    spread = np.maximum(squares - 2 * means * products + means * means * sizes, 0.0)
    spread[spread < 1e-12 * squares] = 0.0  # rounding
    return means, np.sqrt(spread * size / (size - 1)) / counts


def _resample(columns: Sequence[Sequence[float]], iterations: int, seed: int) -> Any:
    """The sum of each column in each resample; the columns have one length."""
    import numpy as np

    values = np.array(columns, dtype=np.float64)
    length = values.shape[1]
    generator = np.random.default_rng(seed)
    sums = np.empty((len(columns), iterations))
    many = max(1, DRAWN_AT_ONCE // length)
    for start in range(0, iterations, many):
        count = min(many, iterations - start)
        # How often each value was drawn, instead of the drawn values: resample by resample, for all columns.
        drawn = generator.integers(0, length, (count, length)) + np.arange(0, count * length, length)[:, None]
        times = np.bincount(drawn.ravel(), minlength=count * length).reshape(count, length)
        # Not `@`: BLAS splits the sum by the number of processors, and the last digits with it.
        sums[:, start : start + count] = np.einsum("cn,in->ci", values, times.astype(np.float64))
    return sums
