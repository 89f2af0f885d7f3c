"""When a history changed: the exact test behind a look, and what simulated histories show."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from agenteval.statistics.changes import find_changes, upper_tail
from agenteval.statistics.paired import sign_test
from bench.simulations.history_check import PLANTED, simulate


def exact_tail(tables: Counter[tuple[int, int, int]], seen: int) -> float:
    """The same by drawing from all hypergeometric distributions at once: their exact convolution."""
    from math import comb

    chances = np.ones(1)
    for (n, drawn, passes), many in tables.items():
        of = [comb(passes, k) * comb(n - passes, drawn - k) / comb(n, drawn) for k in range(min(drawn, passes) + 1)]
        for _ in range(many):
            chances = np.convolve(chances, of)
    return float(chances[seen:].sum())


@pytest.mark.parametrize(
    ("tables", "seen"),
    [
        ({(2, 1, 1): 20}, 16),  # McNemar: 16 of 20 prompts that changed sides
        ({(2, 1, 1): 20}, 20),
        ({(30, 1, 29): 40, (30, 1, 28): 10}, 50),  # rare failures, none of which is in the last run
        ({(30, 3, 2): 30, (29, 3, 1): 5}, 16),
        ({(12, 5, 6): 50, (12, 5, 9): 30, (10, 4, 2): 20}, 330),
    ],
)
def test_the_tail_is_that_of_the_exact_distribution(tables: dict[tuple[int, int, int], int], seen: int) -> None:
    assert upper_tail(Counter(tables), seen) == pytest.approx(exact_tail(Counter(tables), seen), rel=0.05)


def test_two_runs_are_mcnemars_test() -> None:
    prompts = [[(1, 1), (0, 1)]] * 14 + [[(0, 1), (1, 1)]] * 2 + [[(1, 1), (1, 1)]] * 30
    [change] = find_changes(prompts, 2)
    assert (change.start, change.shown) == (1, 1)
    assert change.p == pytest.approx(sign_test(14, 2), rel=0.05)
    assert change.adjusted_p == pytest.approx(2 * change.p)  # the first look may spend half of the level


def test_a_later_run_takes_nothing_back_and_a_missing_prompt_tells_nothing() -> None:
    rng = np.random.default_rng(3)
    worse = rng.binomial(1, [[0.9] * 6 + [0.6] * 8] * 120).tolist()
    prompts = [[(one, 1) for one in prompt] for prompt in worse]
    shown = [find_changes([prompt[:runs] for prompt in prompts], runs) for runs in range(2, 15)]
    assert all(later[: len(earlier)] == earlier for earlier, later in zip(shown, shown[1:], strict=False))
    assert [change.start for change in shown[-1]] == [6]
    absent = [[(1, 1)] * 6 + [(0, 0)] * 8 for _ in range(50)]
    assert find_changes(prompts + absent, 14) == shown[-1]


def test_simulated_histories() -> None:
    assert simulate(*PLANTED, histories=10, seed=1).found >= 9
    assert simulate(0.95, 0, 30, 20, 1, histories=40, seed=2).false <= 4
