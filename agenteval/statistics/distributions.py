"""Normal, Student's t, gamma and binomial distributions; numpy would take longer to import."""

import math
from collections.abc import Callable
from functools import lru_cache

LARGE = 200  # degrees of freedom from which the expansion of the t quantile is exact to ten digits


@lru_cache(256)
def normal_quantile(p: float) -> float:
    """z such that a standard normal value stays below it with probability p > 0.5."""
    return _solve(lambda z: math.erf(z / math.sqrt(2)), 2 * p - 1)


def normal_below(z: float) -> float:
    """The probability that a standard normal value is below z."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


@lru_cache(1024)
def t_quantile(p: float, df: int) -> float:
    """t such that Student's t with df degrees of freedom stays below it with probability p > 0.5."""
    if df >= LARGE:
        return _t_from_normal(normal_quantile(p), df)
    return _solve(lambda t: _t_central(t, df), 2 * p - 1)


def t_two_sided(t: float, df: int) -> float:
    """The probability that Student's t with df degrees of freedom is at least that far from 0."""
    if df >= LARGE:
        return min(1.0, 2 * normal_below(-_normal_from_t(abs(t), df)))
    return min(1.0, max(0.0, 1 - _t_central(abs(t), df)))


def _solve(rising: Callable[[float], float], target: float) -> float:
    """The x > 0 at which a rising function reaches the target, by bisection down to adjacent floats."""
    high = 1.0
    while rising(high) < target:
        high *= 2
    low = 0.0
    while low < (middle := (low + high) / 2) < high:
        if rising(middle) < target:
            low = middle
        else:
            high = middle
    return high


def _t_central(t: float, df: int) -> float:
    """P(-t < T < t): the finite series of Abramowitz & Stegun 26.7.3 (odd df) and 26.7.4 (even df)."""
    angle = math.atan2(t, math.sqrt(df))
    cos2 = math.cos(angle) ** 2
    odd = df % 2
    term = math.cos(angle) if odd else 1.0
    total = term if df > 1 else 0.0
    for k in range(2 + odd, df - 1, 2):
        term *= cos2 * (k - 1) / k
        total += term
    series = math.sin(angle) * total
    return 2 / math.pi * (angle + series) if odd else series


def _t_from_normal(z: float, df: int) -> float:
    """The Cornish-Fisher expansion (A&S 26.7.5): exact to ten digits from 200 degrees of freedom on."""
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / df**power for power, term in enumerate(terms, 1))


def _normal_from_t(t: float, df: int) -> float:
    """z with the same tail as t: Wallace's approximation, corrected; four digits from 200 degrees of freedom on."""
    wallace = math.sqrt(df * math.log1p(t * t / df))
    return wallace * (1 - 1 / (4 * df)) if t * t < df else wallace


# --- gamma --------------------------------------------------------------------------------------


@lru_cache(1024)
def gamma_quantile(p: float, shape: float) -> float:
    """x such that a gamma distributed value of that shape > 0 stays below it with probability p; for small x."""
    return _solve(lambda x: _gamma_below(x, shape), p)


def _gamma_below(x: float, shape: float) -> float:
    """The regularised incomplete gamma function, by its series (A&S 6.5.29)."""
    if x <= 0:
        return 0.0
    term = total = 1 / shape
    n = shape
    while term > total * 1e-16:
        n += 1
        term *= x / n
        total += term
    return total * math.exp(shape * math.log(x) - x - math.lgamma(shape))


# --- binomial -----------------------------------------------------------------------------------


def binomial_term(successes: int, n: int, p: float) -> float:
    """The probability of that number of successes in n trials; 0 < p < 1."""
    ways = math.lgamma(n + 1) - math.lgamma(successes + 1) - math.lgamma(n - successes + 1)
    return math.exp(ways + successes * math.log(p) + (n - successes) * math.log1p(-p))
