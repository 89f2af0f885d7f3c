"""Samples: means, percentiles and variances, and the chance to pass in several trials (pass@k, pass^k)."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from math import comb


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


def commonest(counts: Iterable[int]) -> int:
    """The most frequent number, the largest if several are; 1 over nothing. It is the k of a run."""
    found = Counter(counts)
    return max(found, key=lambda count: (found[count], count), default=1)


# --- pass@k and pass^k --------------------------------------------------------------------------


MOST_PROMPTS = 0.9  # of the graded prompts must have k trials for an interval: those with more may be the hard ones


def pass_at(n: int, c: int, j: int) -> float | None:
    """Unbiased pass@j, the chance that one of j trials passes, from c passes in n trials; None if n < j."""
    draws = comb(n, j)
    return (draws - comb(n - c, j)) / draws if draws else None  # integers until here: no digits are lost


def pass_exp(n: int, c: int, j: int) -> float | None:
    """Unbiased pass^j, the chance that all of j trials pass, from c passes in n trials; None if n < j."""
    return comb(c, j) / comb(n, j) if n >= j else None


def plug_in_pass_at_k(p: float, k: int) -> float:
    """passAtK of agent-eval-harness: 1-(1-p)^k of the pass rate p, which is biased."""
    return float(1 - (1 - p) ** k)


def plug_in_pass_exp_k(p: float, k: int) -> float:
    """passExpK of agent-eval-harness: p^k of the pass rate p, which is biased."""
    return float(p**k)
