"""Histograms of many values: equal bins, or bins that grow by a factor where values span several orders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

BINS = 24
WIDE = 50  # a largest value so many times the smallest is shown on a log scale


class Histogram(NamedTuple):
    """The counts of the bins and the edges between them, one more than there are bins."""

    edges: list[float]
    counts: list[int]
    log: bool


def histogram(values: Sequence[float], bins: int = BINS) -> Histogram | None:
    """The histogram of finite values that are not negative; None if there is none."""
    if not values:
        return None
    low, high = min(values), max(values)
    positive = low if low > 0 else min((value for value in values if value > 0), default=0.0)
    log = positive > 0 and high / positive > WIDE
    if low == high:
        bins = 1
    edges = _log_edges(positive, high, bins) if log else [low + (high - low) * (at / bins) for at in range(bins + 1)]
    counts = [0] * bins
    for value in values:
        counts[_bin(value, edges, log)] += 1
    return Histogram(edges, counts, log)


def _log_edges(low: float, high: float, bins: int) -> list[float]:
    step = math.log(high / low) / bins
    return [low * math.exp(step * at) for at in range(bins)] + [high]


def _bin(value: float, edges: list[float], log: bool) -> int:
    bins, low, high = len(edges) - 1, edges[0], edges[-1]
    if value <= low or low == high:
        return 0
    share = math.log(value / low) / math.log(high / low) if log else (value - low) / (high - low)
    return min(int(share * bins), bins - 1)
