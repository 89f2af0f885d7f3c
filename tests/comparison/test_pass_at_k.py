"""pass@k and pass^k against known values, against counting, and where they are not defined."""

from __future__ import annotations

from itertools import combinations

import pytest

from agenteval.statistics.samples import pass_at, pass_exp, plug_in_pass_at_k, plug_in_pass_exp_k


@pytest.mark.parametrize(
    ("n", "c", "j", "at", "exp"),
    [
        (10, 7, 1, 0.7, 0.7),
        (10, 7, 2, 0.93333, 0.46667),
        (10, 7, 4, 1.0, 0.16667),
        (5, 1, 5, 1.0, 0.0),
        (5, 5, 3, 1.0, 1.0),
        (5, 0, 3, 0.0, 0.0),
        (1, 1, 1, 1.0, 1.0),
    ],
)
def test_known_values(n: int, c: int, j: int, at: float, exp: float) -> None:
    assert pass_at(n, c, j) == pytest.approx(at, abs=1e-5)
    assert pass_exp(n, c, j) == pytest.approx(exp, abs=1e-5)


@pytest.mark.parametrize(("n", "c"), [(n, c) for n in range(1, 7) for c in range(n + 1)])
def test_unbiased_means_the_share_of_all_draws(n: int, c: int) -> None:
    for j in range(1, n + 1):
        draws = list(combinations([True] * c + [False] * (n - c), j))
        assert pass_at(n, c, j) == sum(map(any, draws)) / len(draws)
        assert pass_exp(n, c, j) == sum(map(all, draws)) / len(draws)


@pytest.mark.parametrize(("n", "j"), [(0, 1), (3, 4)])
def test_fewer_trials_than_asked_about_are_undefined(n: int, j: int) -> None:
    assert pass_at(n, 0, j) is None
    assert pass_exp(n, n, j) is None


def test_thousands_of_trials_neither_overflow_nor_cancel() -> None:
    assert pass_at(5000, 1, 1) == 1 / 5000
    assert pass_at(5000, 1, 2500) == 0.5
    assert pass_exp(5000, 4999, 2500) == 0.5
    assert pass_at(5000, 4000, 3000) == 1.0
    assert pass_exp(5000, 4000, 3000) == pytest.approx(0.0, abs=1e-300)


@pytest.mark.parametrize(
    ("p", "k", "at", "exp"), [(0.2, 5, 0.67232, 0.00032), (0.0, 3, 0.0, 0.0), (1.0, 3, 1.0, 1.0), (0.5, 1, 0.5, 0.5)]
)
def test_the_plug_in_estimates(p: float, k: int, at: float, exp: float) -> None:
    assert plug_in_pass_at_k(p, k) == pytest.approx(at)
    assert plug_in_pass_exp_k(p, k) == pytest.approx(exp)
