"""Few or equal values: the estimate lies inside its interval, and no interval claims more than a handful can tell."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest

from agenteval.comparison.comparison import CompareSettings
from agenteval.comparison.row_table import RowTable
from agenteval.comparison.rows import RunRows
from agenteval.statistics.distributions import gamma_quantile
from agenteval.statistics.intervals import (
    bootstrap_mean_interval,
    clustered_rate_interval,
    ratio_interval,
    skewed_freedom,
)
from agenteval.statistics.paired import compare_paired
from tests.support.compared import TRIALS, compare_trials, trials_row


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 30])
@pytest.mark.parametrize("size", [1.0, 0.5, 1 / 3, 0.1])
def test_the_estimate_is_inside_the_interval_of_a_difference(n: int, size: float) -> None:
    for wins, losses in product(range(n + 1), repeat=2):
        if wins + losses > n or (wins % 3 and losses % 3):
            continue
        differences = [size] * wins + [-size] * losses + [0.0] * (n - wins - losses)
        found = compare_paired(differences)
        assert found.interval is not None and found.mean is not None
        low, high = found.interval.low, found.interval.high
        assert low < found.mean or found.mean == low == -1, (wins, losses, low, high)
        assert found.mean < high or found.mean == high == 1, (wins, losses, low, high)
        assert low >= -1 and high <= 1 and high - low > 0.1 * size
        assert (low <= 0 <= high) == ((found.p or 0.0) >= 0.05)


@pytest.mark.parametrize(("k", "passed", "other"), [(2, 2, 1), (2, 2, 2), (3, 0, 0), (1, 1, 0), (4, 4, 2)])
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_trials_that_all_agree_leave_room(n: int, k: int, passed: int, other: int) -> None:
    def run(label: str, passes: int) -> RunRows:
        row = trials_row(passes, k, pass_exp_k=1.0)
        return RunRows(label, RowTable({f"p{at}": row for at in range(n)}))

    weights = CompareSettings("weighted", weights=TRIALS.default_weights)
    report: Any = compare_trials([run("a", passed), run("b", other)], weights)
    [pair] = report.statistics.pairs
    for found in (pair, pair.pass_exp):
        assert found.interval is not None
        assert found.interval.low < found.mean_difference or found.mean_difference == -1
        assert found.interval.high > found.mean_difference or found.mean_difference == 1
        assert str(found.change) != "-0.0"
    for label, rate in (("a", passed / k), ("b", other / k)):
        interval = report.statistics.runs[label].interval
        assert interval.low < rate < interval.high or rate in (0, 1)
        assert interval.high - interval.low > 0.1


def test_a_rate_near_one_is_covered_with_few_prompts() -> None:
    """Of 10 prompts one fails: Wilson's upper bound, 98.2%, would miss a true rate of 98.5% in one of seven runs."""
    for n, least in ((10, 0.93), (14, 0.93), (30, 0.93), (100, 0.92)):
        found = [clustered_rate_interval([1.0] * passed + [0.0] * (n - passed), [1] * n) for passed in range(n + 1)]
        for rate in [0.5 + 0.01 * step for step in range(50)] + [0.985, 0.995]:
            held = sum(
                math.comb(n, passed) * rate**passed * (1 - rate) ** (n - passed)
                for passed, interval in enumerate(found)
                if interval is not None and interval.low <= rate <= interval.high
            )
            assert held > least, (n, rate, held)


def test_gamma_quantiles_are_those_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats", reason="an independent implementation (extra: references)")
    for p, shape in product((0.05, 0.025), (0.3, 1.0, 1.7, 3.0)):
        assert gamma_quantile(p, shape) == pytest.approx(stats.gamma.ppf(p, shape), rel=1e-9)


def test_the_interval_of_a_ratio_is_the_jackknife_s() -> None:
    a, b = [2.0, 4.5, 5.0, 9.0, 3.0], [1.0, 2.0, 3.5, 4.0, 2.5]
    without = [math.log((sum(a) - x) / (sum(b) - y)) for x, y in zip(a, b, strict=True)]
    centre = sum(without) / 5
    error = math.sqrt(4 / 5 * sum((value - centre) ** 2 for value in without))
    found = ratio_interval(a, b)
    assert found is not None
    assert (math.log(found.high) + math.log(found.low)) / 2 == pytest.approx(math.log(sum(a) / sum(b)))
    reach = (math.log(found.high) - math.log(found.low)) / 2
    assert 2.776 * error - 1e-3 <= reach <= 4.31 * error, "Student's t with 2 to 4 degrees of freedom"
    assert ratio_interval([1.0, 0.0], [0.0, 3.0]) is None, "one prompt has the whole cost: nothing is known"


def test_one_value_that_rules_costs_degrees_of_freedom() -> None:
    assert skewed_freedom([1.0] * 9 + [50.0]) <= 3
    assert skewed_freedom([-1.0, 1.0] * 15) == 29
    assert skewed_freedom([1.0, 2.0]) == 1


def test_the_bootstrap_of_few_values_goes_further_out() -> None:
    few = bootstrap_mean_interval([[float(value)] for value in (3, 4, 5, 6, 8, 9, 12, 30)], 2000, 1)
    many = bootstrap_mean_interval([[float(value)] for value in (3, 4, 5, 6, 8, 9, 12, 30)] * 20, 2000, 1)
    assert few is not None and many is not None
    assert few.low < many.low < 9.6 < many.high < few.high
