"""The bootstrap interval of a mean of skewed values; numpy is imported only to resample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from agenteval.comparison.inference.intervals import LEVEL, interval
from agenteval.wire.interval import ConfidenceInterval

BOOTSTRAP = "bootstrap t"


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
    tail = (1 - LEVEL) / 2
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
    for i in range(iterations):
        # How often each value was drawn, instead of the drawn values: one resample at a time, for all columns.
        times = np.bincount(generator.integers(0, length, length), minlength=length)
        # Not `@`: BLAS splits the sum by the number of processors, and the last digits with it.
        sums[:, i] = np.einsum("cn,n->c", values, times.astype(np.float64))
    return sums
