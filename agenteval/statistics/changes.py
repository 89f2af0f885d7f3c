"""When a history of runs changed: a test after every run, with one level for all of them together.

After each run, every split of the runs since the last change is a candidate. The test of a split is the conditional
test of Cochran, Mantel and Haenszel, with a stratum per prompt: if nothing changed, the attempts of a prompt are
exchangeable, so that its passes after the split have a hypergeometric distribution. For two runs with one attempt each
this is McNemar's test. The split with the largest deviation is tested, its p value is multiplied by the number of
splits, and the test after run t may spend a share 1/(t(t-1)) of the level. These shares add up to 1 however long the
history gets, and a later run never retracts a change that was shown.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from agenteval.statistics.distributions import normal_below
from agenteval.statistics.paired import SIGNIFICANT

STEPS = 50  # of bisection
LARGEST_TILT = 50.0
LEAST_DEVIATION = 2.0  # in standard errors; smaller deviations are never significant

Tables = Counter[tuple[int, int, int]]
"""The number of prompts by their attempts, attempts after the split, and passes."""


class Change(NamedTuple):
    """The first run after a change, and the run that showed it, counted from 0."""

    start: int
    shown: int
    p: float
    adjusted_p: float


class _Group(NamedTuple):
    """Prompts with the same number of graded attempts in each run: running sums of attempts and of passes."""

    graded: list[int]
    passed: list[int]
    prompts: list[list[int]]


def find_changes(prompts: Sequence[Sequence[tuple[int, int]]], runs: int) -> list[Change]:
    """The changes of a history; for each prompt and run it takes how many attempts passed and how many are graded."""
    groups = _group(prompts)
    changes: list[Change] = []
    first = 0
    for last in range(1, runs):
        split, deviation = _largest_deviation(groups, first, last)
        if abs(deviation) < LEAST_DEVIATION:
            continue
        p = _split_p(groups, first, split, last)
        adjusted = min(1.0, p * last * (last + 1) * (last - first))
        if adjusted < SIGNIFICANT:
            changes.append(Change(split, last, p, adjusted))
            first = split
    return changes


def _group(prompts: Sequence[Sequence[tuple[int, int]]]) -> list[_Group]:
    found: dict[tuple[int, ...], list[list[int]]] = {}
    for prompt in prompts:
        passed = list(accumulate((passed for passed, _ in prompt), initial=0))
        found.setdefault(tuple([graded for _, graded in prompt]), []).append(passed)
    return [
        _Group(list(accumulate(graded, initial=0)), [sum(column) for column in zip(*alike, strict=True)], alike)
        for graded, alike in found.items()
    ]


def _largest_deviation(groups: Sequence[_Group], first: int, last: int) -> tuple[int, float]:
    """The split (as the first run after it) that deviates most from no change, and its deviation in standard errors."""
    end = last + 1
    spreads = []  # of each group: the sum of passes times failures, over what its attempts divide it by
    for graded, _, prompts in groups:
        n = graded[end] - graded[first]
        products = sum((m := passed[end] - passed[first]) * (n - m) for passed in prompts)
        spreads.append(products / (n * n * (n - 1)) if n > 1 else 0.0)
    best, largest = first + 1, 0.0
    for split in range(first + 1, end):
        excess = variance = 0.0
        for (graded, passed, _), spread in zip(groups, spreads, strict=True):
            n, after = graded[end] - graded[first], graded[end] - graded[split]
            if spread and after:
                excess += passed[end] - passed[split] - after / n * (passed[end] - passed[first])
                variance += after * (n - after) * spread
        deviation = excess / math.sqrt(variance) if variance > 0 else 0.0
        if abs(deviation) > abs(largest):
            best, largest = split, deviation
    return best, largest


def _split_p(groups: Sequence[_Group], first: int, split: int, last: int) -> float:
    """The two-sided p value of one split."""
    end = last + 1
    tables: Tables = Counter()
    excess, total, seen = 0.0, 0, 0
    for graded, _, prompts in groups:
        n, after = graded[end] - graded[first], graded[end] - graded[split]
        for passed in prompts if 0 < after < n else ():
            m = passed[end] - passed[first]
            if 0 < m < n:
                tables[n, after, m] += 1
                total, seen = total + m, seen + passed[end] - passed[split]
                excess += passed[end] - passed[split] - after / n * m
    if excess < 0:  # look at the other side, which then has more passes than expected
        tables, seen = Counter({(n, n - after, m): many for (n, after, m), many in tables.items()}), total - seen
    return min(1.0, 2 * upper_tail(tables, seen))


def upper_tail(tables: Tables, seen: int) -> float:
    """The chance of at least `seen` passes after the split if nothing changed; `seen` is more than expected.

    Sums of hypergeometric counts by the saddlepoint approximation of Lugannani and Rice, corrected for whole numbers.
    """
    weights = [(many, *_hypergeometric(*table)) for table, many in tables.items()]
    if seen >= sum(many * (least + len(logs) - 1) for many, least, logs in weights):
        return math.exp(sum(many * logs[-1] for many, _, logs in weights))
    low, high = 0.0, LARGEST_TILT
    for _ in range(STEPS):
        tilt = (low + high) / 2
        low, high = (low, tilt) if _cumulants(weights, tilt)[1] > seen else (tilt, high)
    log_mean, _, variance = _cumulants(weights, tilt)
    root = math.sqrt(max(0.0, 2 * (tilt * seen - log_mean)))
    if root < 1e-3:
        return 0.5
    density = math.exp(-root * root / 2) / math.sqrt(2 * math.pi)
    tail = normal_below(-root) + density * (1 / ((1 - math.exp(-tilt)) * math.sqrt(variance)) - 1 / root)
    return min(1.0, max(0.0, tail))


def _hypergeometric(n: int, drawn: int, passes: int) -> tuple[int, list[float]]:
    """The least possible number of passes among those drawn, and the log probability of it and of each larger one."""

    def log_choose(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    least, most = max(0, passes + drawn - n), min(passes, drawn)
    every = log_choose(n, drawn)
    return least, [log_choose(passes, k) + log_choose(n - passes, drawn - k) - every for k in range(least, most + 1)]


def _cumulants(weights: Sequence[tuple[int, int, list[float]]], tilt: float) -> tuple[float, float, float]:
    """The cumulant generating function of the sum at this tilt, and its first two derivatives."""
    value = mean = variance = 0.0
    for many, least, logs in weights:
        tilted = [log + tilt * at for at, log in enumerate(logs)]
        largest = max(tilted)
        shares = [math.exp(log - largest) for log in tilted]
        total = sum(shares)
        centre = sum(at * share for at, share in enumerate(shares)) / total
        value += many * (largest + math.log(total) + tilt * least)
        mean += many * (least + centre)
        variance += many * sum((at - centre) ** 2 * share for at, share in enumerate(shares)) / total
    return value, mean, variance
