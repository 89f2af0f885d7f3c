"""What a comparison grader prefers: both orders, the sign test, position bias, Bradley-Terry strengths."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import combinations

import pytest

from agenteval.comparison.preference import PromptRanking, both_orders, preference_of, remarks
from agenteval.statistics.bradley_terry import fit_strengths


def ranking(best_first: str, again: str | None = None, *labels: str) -> PromptRanking:
    """Answers that rank these runs, one letter each; = between letters is a tie."""
    first = ranks(best_first)
    return PromptRanking(first, reversed_ranks=None if again is None else ranks(again))


def ranks(best_first: str) -> dict[str, float]:
    found, place = {}, 0
    for at, letter in enumerate(best_first):
        place += letter != "=" and (at == 0 or best_first[at - 1] != "=")
        if letter != "=":
            found[letter] = float(place)
    return found


@pytest.mark.parametrize(
    ("answers", "standing"),
    [
        (ranking("ab", "ab"), {"a": 1, "b": -1}),
        (ranking("ab"), {"a": 1, "b": -1}),
        (ranking("ab", "ba"), {"a": 0, "b": 0}),  # it prefers whichever is shown first
        (ranking("a=b", "ab"), {"a": 0, "b": 0}),
        (ranking("a=b", "a=b"), {"a": 0, "b": 0}),
        (ranking("abc", "abc"), {"a": 2, "b": 0, "c": -2}),
        (ranking("abc", "acb"), {"a": 2, "b": -1, "c": -1}),
        (ranking("ab", "a"), {"a": 0, "b": None}),
        (ranking("a", "a"), {"a": 0, "b": None}),
    ],
)
def test_standing(answers: PromptRanking, standing: dict[str, float | None]) -> None:
    assert answers.standing(list(standing)) == standing


def test_both_orders_are_joined() -> None:
    first = PromptRanking(ranks("ab"), {"a": 1.0, "b": 0.5}, "shorter")
    second = PromptRanking(ranks("ba"), {"a": 0.5, "b": 1.0}, "longer")
    joined = both_orders(first, second, ["a", "b"])
    assert joined.outcome("a", "b") == 0 and joined.scores == {"a": 0.75, "b": 0.75}
    assert joined.reasoning == "depends on the order of the runs: shorter | longer"
    assert both_orders(first, first, ["a", "b"]).reasoning == "shorter"
    assert both_orders(first, PromptRanking(error="no idea"), ["a", "b"]) == PromptRanking(error="no idea")


def test_wins_are_tested_by_sign() -> None:
    answers = {str(n): ranking("ab", "ab") for n in range(9)} | {"x": ranking("ba", "ba"), "y": ranking("ab", "ba")}
    found = preference_of(["a", "b"], answers | {"z": PromptRanking(error="no idea")})
    (pair,) = found.pairs
    assert (pair.n, pair.a_wins, pair.b_wins, pair.ties) == (11, 9, 1, 1)
    assert pair.p == pytest.approx(22 / 1024) and (pair.better, pair.verdict) == ("a", "a wins")
    assert found.strengths is None and found.orders == 2
    (pair,) = preference_of(["a", "b"], {str(n): ranking("ab") for n in range(5)}).pairs
    assert (pair.better, pair.verdict, pair.p) == (None, "too few prompts to tell", 0.0625)
    (pair,) = preference_of(["a", "b"], {}).pairs
    assert (pair.n, pair.p, pair.verdict) == (0, 1.0, "no prompt is ranked")


def test_three_runs_are_adjusted_by_holm() -> None:
    answers = {str(n): ranking("abc") for n in range(6)}
    pairs = preference_of(["a", "b", "c"], answers).pairs
    for pair in pairs:
        assert pair.p == pytest.approx(1 / 32) and pair.adjusted_p == pytest.approx(3 / 32)
        assert pair.better is None


def test_position_bias() -> None:
    answers = {f"f{n}": ranking("ab", "ba") for n in range(8)} | {"s": ranking("ba", "ab"), "c": ranking("ab", "ab")}
    found = preference_of(["a", "b"], answers)
    bias = found.position_bias
    assert bias is not None
    assert (bias.n, bias.consistent, bias.first_preferred, bias.second_preferred) == (10, 1, 8, 1)
    assert bias.p == pytest.approx(20 / 512)
    (remark,) = remarks(found)
    assert "biased by position: on 8 of 10 pairs it preferred the run shown first" in remark and "0.039" in remark
    assert remarks(preference_of(["a", "b"], {"c": ranking("ab", "ab")})) == []
    one_order = preference_of(["a", "b"], {"c": ranking("ab")})
    assert (one_order.position_bias, one_order.orders) == (None, 1)


def test_a_prompt_is_one_sign_of_position_bias() -> None:
    """Three runs make three pairs of a prompt: four prompts are four signs, not twelve."""
    found = preference_of(["a", "b", "c"], {str(n): ranking("abc", "cba") for n in range(4)}).position_bias
    assert found is not None and (found.n, found.first_preferred) == (12, 12)
    assert found.p == pytest.approx(2 / 2**4)


# --- strengths ----------------------------------------------------------------------------------


def test_strengths_of_two_runs_are_log_odds() -> None:
    """Of two runs there is a closed form: 40 wins of 50, with the half tie that is assumed."""
    fitted = fit_strengths(2, [{(0, 1): float(n < 40)} for n in range(50)])
    assert fitted[0].value - fitted[1].value == pytest.approx(math.log(40.25 / 10.25))
    assert fitted[0].value == pytest.approx(-fitted[1].value)


def test_strengths_maximise_the_likelihood() -> None:
    """Many comparisons, so that the assumed ties do not matter."""
    optimize = pytest.importorskip("scipy.optimize", reason="an independent implementation (extra: references)")
    draw = random.Random(5)
    true = [1.0, 0.0, -0.5]
    prompts = []
    for _ in range(3000):
        i, j = draw.choice(list(combinations(range(3), 2)))
        outcome = float(draw.random() < 1 / (1 + math.exp(true[j] - true[i])))
        prompts.append({(i, j): outcome})
    counts = Counter(item for outcomes in prompts for item in outcomes.items())

    def loss(relative: list[float]) -> float:
        strengths = [0.0, *relative]
        gaps = {((i, j), won): (strengths[i] - strengths[j]) * (1 if won else -1) for (i, j), won in counts}
        return sum(count * math.log1p(math.exp(-gaps[key])) for key, count in counts.items())

    expected = optimize.minimize(loss, [0.0, 0.0]).x
    fitted = fit_strengths(3, prompts)
    assert [fitted[k].value - fitted[0].value for k in (1, 2)] == pytest.approx(list(expected), abs=0.01)


def test_a_run_that_wins_always_has_a_finite_strength() -> None:
    strong, *others = fit_strengths(3, [{(0, 1): 1.0, (0, 2): 1.0, (1, 2): 0.5}] * 20)
    assert 2 < strong.value < 5 and strong.interval[0] > 0, strong
    assert strong.interval[1] - strong.interval[0] > 2, "20 prompts do not tell how much stronger"
    assert others[0].value == pytest.approx(others[1].value)


def test_intervals_of_strengths_cover_them() -> None:
    """Rankings of three runs, each making three comparisons that depend on each other."""
    draw, runs, true = random.Random(3), 120, [0.7, 0.0, -0.7]
    covered = 0
    for _ in range(runs):
        prompts = []
        for _ in range(30):
            luck = [strength - math.log(-math.log(draw.random())) for strength in true]
            prompts.append({(i, j): float(luck[i] > luck[j]) for i, j in combinations(range(3), 2)})
        fitted = fit_strengths(3, prompts)
        covered += sum(f.interval[0] <= value <= f.interval[1] for f, value in zip(fitted, true, strict=True))
    assert 0.93 <= covered / (3 * runs) <= 0.995, covered / (3 * runs)
