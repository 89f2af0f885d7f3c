"""Distributions, intervals and paired tests, against scipy, statsmodels, closed forms and published examples."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest

from agenteval.statistics import distributions, intervals, paired
from agenteval.statistics.paired import holm, mid_p
from agenteval.wire.differences import ConfidenceInterval

REFERENCE = "an independent reference; pip install 'agenteval[references]'"


def bounds(found: ConfidenceInterval | None) -> tuple[float, float]:
    assert found is not None
    assert found.level == 0.95
    return found.low, found.high


# --- distributions ------------------------------------------------------------------------------


# Two degrees of freedom and one have closed forms; the others are from published tables.
@pytest.mark.parametrize(
    ("p", "df", "expected"),
    [
        (0.975, 1, math.tan(0.475 * math.pi)),
        (0.975, 2, 0.95 / math.sqrt(2 * 0.975 * 0.025)),
        (0.995, 2, 0.99 / math.sqrt(2 * 0.995 * 0.005)),
        (0.975, 3, 3.182446305),
        (0.95, 4, 2.131846786),
        (0.975, 5, 2.570581836),
        (0.995, 9, 3.249835542),
        (0.975, 10, 2.228138852),
        (0.975, 29, 2.045229642),
        (0.975, 30, 2.042272456),
        (0.975, 120, 1.979930405),
        (0.975, 1000, 1.962339081),
        (0.975, 10**12, 1.959963985),
    ],
)
def test_t_quantile(p: float, df: int, expected: float) -> None:
    assert distributions.t_quantile(p, df) == pytest.approx(expected, abs=1e-9)


def test_t_quantile_goes_over_to_the_expansion_without_a_step() -> None:
    below, at, above = (
        distributions.t_quantile(0.975, df)
        for df in (distributions.LARGE - 1, distributions.LARGE, distributions.LARGE + 1)
    )
    assert below > at > above
    assert below - at == pytest.approx(at - above, rel=0.02)


def test_distributions_are_those_of_scipy() -> None:
    stats: Any = pytest.importorskip("scipy.stats", reason=REFERENCE)
    for df in (1, 2, 3, 9, 29, 199, 200, 1000):
        assert distributions.t_quantile(0.975, df) == pytest.approx(stats.t.ppf(0.975, df), rel=1e-9)
        for t in (0.3, 1.0, 2.0, 3.5):
            assert distributions.t_two_sided(t, df) == pytest.approx(2 * stats.t.sf(t, df), rel=1e-4)
    assert distributions.binomial_term(3, 10, 0.7) == pytest.approx(stats.binom.pmf(3, 10, 0.7))


# --- rates --------------------------------------------------------------------------------------


def test_rates_are_those_of_statsmodels() -> None:
    proportion: Any = pytest.importorskip("statsmodels.stats.proportion", reason=REFERENCE)
    for passed, n in ((0, 1), (1, 1), (5, 5), (3, 10), (49, 50), (0, 200), (199, 200)):
        expected = proportion.proportion_confint(passed, n, method="wilson")
        assert bounds(intervals.rate_interval(passed, n)) == pytest.approx(expected, abs=1e-9)


def test_a_rate_over_clusters_of_one_is_nearly_the_plain_one() -> None:
    plain = bounds(intervals.rate_interval(140, 200))
    assert bounds(intervals.clustered_rate_interval([1] * 140 + [0] * 60, [1] * 200)) == pytest.approx(plain, abs=0.003)


def test_trials_that_agree_count_as_one_and_trials_that_do_not_count_in_full() -> None:
    alike = intervals.effective_count([5] * 70 + [0] * 30, [5] * 100)
    apart = intervals.effective_count([3, 4] * 50, [5] * 100)
    assert 90 < alike < 105
    assert apart > 450


def test_all_passed_is_as_uncertain_as_all_but_one() -> None:
    every, all_but_one = ([5] * 100, [5] * 99 + [4])
    assert intervals.effective_count(every, [5] * 100) == pytest.approx(
        intervals.effective_count(all_but_one, [5] * 100), rel=0.02
    )
    low, high = bounds(intervals.clustered_rate_interval(every, [5] * 100))
    below, above = bounds(intervals.clustered_rate_interval(all_but_one, [5] * 100))
    assert below < low < 0.995 < above < high == 1


@pytest.mark.parametrize("prompts", [1, 2, 5, 30])
@pytest.mark.parametrize("k", [1, 3, 10])
def test_no_interval_of_a_rate_has_width_zero(prompts: int, k: int) -> None:
    for passed in (0, k):
        low, high = bounds(intervals.clustered_rate_interval([passed] * prompts, [k] * prompts))
        assert 0.3 / (prompts * k) < high - low <= 1


def test_of_nothing_there_is_no_interval() -> None:
    assert intervals.rate_interval(0, 0) is None
    assert intervals.clustered_rate_interval([], []) is None
    assert intervals.mean_interval([]) is None
    assert intervals.score_interval([]) is None
    assert intervals.prompt_rate_interval([], []) is None
    assert intervals.percentile_interval([], 0.5) is None
    assert intervals.geometric_ratio_interval([]) is None
    assert intervals.ratio_interval([], []) is None


# --- means --------------------------------------------------------------------------------------


def test_a_mean_has_the_t_interval_of_scipy() -> None:
    stats: Any = pytest.importorskip("scipy.stats", reason=REFERENCE)
    values = [0.2, 0.4, 0.4, 0.9, 0.7, 0.3]
    expected = stats.t.interval(0.95, 5, loc=sum(values) / 6, scale=stats.sem(values))
    assert bounds(intervals.mean_interval(values)) == pytest.approx(expected)


def test_clusters_have_the_robust_standard_error_of_statsmodels() -> None:
    api: Any = pytest.importorskip("statsmodels.api", reason=REFERENCE)
    values, clusters = [0.1, 0.2, 0.15, 0.7, 0.9, 0.8, 0.4, 0.5], [0, 0, 0, 1, 1, 2, 2, 3]
    fitted = api.OLS(values, [1.0] * 8).fit(cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False})
    error, df = intervals.standard_error(values, clusters)
    assert df == 2, "(3 + 2 + 2 + 1)² / (9 + 4 + 4 + 1) = 3.6 clusters"
    assert error is not None and error > float(fitted.bse[0]) * math.sqrt(4 / 3), "the jackknife's is no smaller"
    equal, _ = intervals.standard_error(values, [0, 0, 1, 1, 2, 2, 3, 3])
    fitted = api.OLS(values, [1.0] * 8).fit(
        cov_type="cluster", cov_kwds={"groups": [0, 0, 1, 1, 2, 2, 3, 3], "use_correction": False}
    )
    assert equal == pytest.approx(float(fitted.bse[0]) * math.sqrt(4 / 3))


@pytest.mark.parametrize(("value", "n"), [(1.0, 2), (1.0, 30), (0.8, 30), (0.0, 5), (0.5, 1)])
def test_equal_values_are_not_certain(value: float, n: int) -> None:
    low, high = bounds(intervals.score_interval([value] * n))
    assert 0 <= low <= value <= high <= 1
    assert high - low == pytest.approx(3.8415 / (n + 3.8415), rel=1e-3)


# --- percentiles and ratios ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "p", "ranks"),
    [(5, 0.5, None), (6, 0.5, (0, 5)), (10, 0.5, (1, 8)), (28, 0.9, None), (29, 0.9, (20, 28)), (100, 0.5, (39, 59))],
)
def test_percentile_ranks(n: int, p: float, ranks: tuple[int, int] | None) -> None:
    assert intervals.percentile_ranks(n, p) == ranks


def test_percentile_ranks_cover_and_are_the_nearest() -> None:
    for n, p in product((6, 29, 30, 77, 500), (0.5, 0.9)):
        ranks = intervals.percentile_ranks(n, p)
        if ranks is None:
            continue
        between = [distributions.binomial_term(i, n, p) for i in range(ranks[0] + 1, ranks[1] + 1)]
        assert sum(between) >= 0.95 > sum(between) - min(between[0], between[-1])


def test_equal_durations_claim_nothing() -> None:
    assert intervals.percentile_interval([1200.0] * 50, 0.5) is None


def test_a_ratio_of_means() -> None:
    low, high = bounds(intervals.ratio_interval([2.0, 4.1, 5.9, 8.2], [1.0, 2.0, 3.0, 4.0]))
    assert low < 2.02 < high
    assert high / low < 1.15
    assert intervals.ratio_interval([2.0, 4.0], [1.0, 2.0]) is None  # the same ratio twice: nothing varies
    assert intervals.ratio_interval([2.0, 4.0], [0.0, 0.0]) is None


# --- two runs -----------------------------------------------------------------------------------


def test_tango_is_where_the_score_test_is_just_significant() -> None:
    optimize: Any = pytest.importorskip("scipy.optimize", reason=REFERENCE)
    for b, c, n in ((12, 2, 50), (0, 7, 20), (3, 4, 20), (1, 0, 44), (8, 0, 10)):
        for sign, difference in zip((1, -1), bounds(paired.tango_interval(b, c, n)), strict=True):

            def loss(q: float, difference: float = difference, b: int = b, c: int = c, n: int = n) -> float:
                parts = ((b, q + difference), (c, q), (n - b - c, 1 - 2 * q - difference))
                return -sum(count * math.log(max(p, 1e-300)) for count, p in parts if count)

            fit = optimize.minimize_scalar(
                loss, bounds=(max(0.0, -difference), (1 - difference) / 2), method="bounded", options={"xatol": 1e-12}
            )
            variance = n * (2 * fit.x + difference * (1 - difference))
            assert (b - c - n * difference) / math.sqrt(variance) == pytest.approx(sign * 1.959964, rel=1e-4)


def test_tango_of_swapped_runs_is_mirrored_and_that_of_equal_ones_is_wide() -> None:
    low, high = bounds(paired.tango_interval(12, 2, 50))
    assert bounds(paired.tango_interval(2, 12, 50)) == pytest.approx((-high, -low))
    share = 1.959964**2 / (30 + 1.959964**2)
    assert bounds(paired.tango_interval(0, 0, 30)) == pytest.approx((-share, share), rel=1e-5)


@pytest.mark.parametrize(
    ("b", "c", "expected"), [(0, 0, 1.0), (3, 3, 1.0), (5, 0, 0.03125), (1, 7, 0.0390625), (0, 4, 0.0625)]
)
def test_mid_p(b: int, c: int, expected: float) -> None:
    assert mid_p(b, c) == mid_p(c, b) == pytest.approx(expected)


def test_mid_p_is_the_exact_p_less_half_of_what_was_seen() -> None:
    stats: Any = pytest.importorskip("scipy.stats", reason=REFERENCE)
    for b, c in ((2, 9), (10, 30), (400, 500), (20000, 20400)):
        exact = stats.binomtest(b, b + c).pvalue
        assert mid_p(b, c) == pytest.approx(exact - stats.binom.pmf(b, b + c, 0.5), rel=1e-6)


def test_sign_flips_of_equal_sizes_are_mcnemar() -> None:
    for b, c in ((5, 0), (7, 1), (4, 2), (9, 3)):
        assert paired.sign_flip_p([1.0] * b + [-1.0] * c) == pytest.approx(mid_p(b, c))


@pytest.mark.parametrize("differences", [[1.0] * 4 + [0.0] * 40, [0.3] * 30, [0.3, 0.3], [0.0] * 30, [0.0, 0.0, 1 / 3]])
def test_interval_and_p_never_disagree(differences: list[float]) -> None:
    found = paired.compare_paired(differences)
    low, high = bounds(found.interval)
    assert found.p is not None
    assert high - low > 0.01
    assert (found.p < 0.05) is not (low <= 0 <= high)


@pytest.mark.parametrize("scores", [[1.0, -1.0, 1.0, 1.0] * 5, [0.2, 0.1, -0.05, 0.3, 0.0, 0.15] * 4])
def test_a_difference_is_shown_where_its_interval_excludes_zero(scores: list[float]) -> None:
    found = paired.compare_paired(scores)
    assert found.interval is not None
    assert found.interval.low > 0
    assert found.p is not None
    assert found.p < 0.05
    reversed_ = paired.compare_paired([-score for score in scores])
    assert reversed_.interval is not None
    assert reversed_.interval.high == pytest.approx(-found.interval.low)


def test_clusters_widen_the_interval_of_a_difference() -> None:
    differences = [0.5, 0.5, 0.5, -0.2, -0.2, -0.2, 0.3, 0.3, 0.3]
    alone = paired.compare_paired(differences)
    together = paired.compare_paired(differences, [0, 0, 0, 1, 1, 1, 2, 2, 2])
    narrow, wide = bounds(alone.interval), bounds(together.interval)
    assert wide[1] - wide[0] > 1.5 * (narrow[1] - narrow[0])


def test_holm_is_that_of_statsmodels() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    tests: Any = pytest.importorskip("statsmodels.stats.multitest", reason=REFERENCE)
    given = [0.2, 0.001, 0.04, 0.04, 0.9, 0.01]
    assert holm(given) == pytest.approx(list(tests.multipletests(given, method="holm")[1]))
