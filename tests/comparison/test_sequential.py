"""Stopping when it is known: the betting test, the order in which values count, and how often it stops wrongly."""

from __future__ import annotations

import math
import threading

import pytest

from agenteval.statistics.power import Passes
from agenteval.statistics.sequential import SHARES, BettingTest, EarlyStop, place
from bench.simulations.stop_check import simulate
from tests.support.tool import Record


def record(id: str, passed: bool) -> Record:
    return {"id": id, "output": "x", "score": {"pass": passed, "score": float(passed)}}


def test_e_value_by_hand() -> None:
    """After one win of a fair game, a bet of share f has 1 + f, its opposite 1 - f: on average what it began with."""
    test = BettingTest(0.0, -1.0, 1.0)
    assert test.e_value == 1
    test.add(1.0)
    assert test.e_value == pytest.approx(1)
    test.add(1.0)
    both = sum((1 + f) ** 2 + (1 - f) ** 2 for f in SHARES) / (2 * len(SHARES))
    assert test.e_value == pytest.approx(both)


def test_zeros_do_not_change_it() -> None:
    test = BettingTest(0.0, -1.0, 1.0)
    for value in [1.0] * 5 + [0.0] * 100:
        test.add(value)
    once = BettingTest(0.0, -1.0, 1.0)
    for value in [1.0] * 5:
        once.add(value)
    assert test.e_value == pytest.approx(once.e_value)


@pytest.mark.parametrize(("value", "side"), [(1.0, 1), (0.0, -1)])
def test_the_side(value: float, side: int) -> None:
    test = BettingTest(0.5, 0.0, 1.0)
    for _ in range(30):
        test.add(value)
    assert test.side == side and test.e_value >= 20 and math.isfinite(test.e_value)


def test_a_game_against_the_true_mean_wins_no_money_on_average() -> None:
    """Values of 0 and 0.9, with a mean of 0.3: over all ways in which 12 can come, the e-value has a mean of 1."""
    expected = 0.0
    for high in range(13):
        test = BettingTest(0.3, 0.0, 1.0)
        for value in [0.9] * high + [0.0] * (12 - high):
            test.add(value)
        expected += math.comb(12, high) * (1 / 3) ** high * (2 / 3) ** (12 - high) * test.e_value
    assert expected == pytest.approx(1)


# --- the run ------------------------------------------------------------------------------------


def test_values_count_in_the_random_order_and_not_as_they_finish() -> None:
    """Those that pass finish first: as they come, they would show a difference that is not there."""
    ids = [str(n) for n in range(40)]
    stop = EarlyStop("", threshold=0.5)
    assert stop.plan(({"id": id} for id in ids), {}) == 40
    order = [prompt["id"] for prompt in stop.prompts()]
    assert order == sorted(ids, key=place) != ids
    for id in order[1::2]:
        stop.add(record(id, passed=True))
        assert not stop.known and not stop.compared, "the first of the order is not there yet"
    for id in order[::2]:
        stop.add(record(id, passed=False))
    assert not stop.known and len(stop.compared) == 40
    assert EarlyStop("old", {}).summary().endswith("worse than old: no prompt could be compared")
    assert stop.summary() == "cannot tell whether it is above or below 0.5: on 40 prompts it passes 50.0%"


def test_it_stops_and_says_what_is_known() -> None:
    ids = [str(n) for n in range(100)]
    baseline = {id: Passes(1, 1) for id in ids[:90]}
    stop = EarlyStop("old.jsonl", baseline)
    stop.plan(({"id": id} for id in ids), {})
    ran = 0
    for prompt in stop.prompts():
        ran += 1
        stop.add({**record(prompt["id"], passed=False), **({"graderError": "?"} if ran == 1 else {})})
    assert stop.known and ran < 20
    said = stop.summary()
    assert said.startswith(f"known after {len(stop.compared)} prompts: worse than old.jsonl (on"), said
    assert "passes 0.0%, old.jsonl 100.0%" in said and said.endswith(f"; {100 - ran} of 100 prompts were not run")


def test_few_prompts_are_started_ahead_of_the_slowest() -> None:
    stop = EarlyStop("", threshold=0.5, ahead=3)
    stop.plan(({"id": str(n)} for n in range(10)), {})
    prompts = stop.prompts()
    first, *others = (next(prompts)["id"] for _ in range(3))
    taken: list[str] = []
    fourth = threading.Thread(target=lambda: taken.append(next(prompts)["id"]))
    fourth.start()
    for id in others:
        stop.add(record(id, passed=True))
    assert fourth.is_alive() and not taken
    stop.skip(first)
    fourth.join(timeout=30)
    assert len(taken) == 1 and len(stop.compared) == 2


def test_resumed_values_count_too() -> None:
    ids = [str(n) for n in range(60)]
    done = {id: Passes(0, 3) for id in ids[:30]}
    stop = EarlyStop("", threshold=0.5)
    assert stop.plan(({"id": id} for id in ids[30:]), done, done) == 30
    fresh = EarlyStop("", threshold=0.5)
    fresh.plan(({"id": id} for id in ids), {})
    started = []
    for run in (stop, fresh):
        started.append(0)
        for prompt in run.prompts():
            started[-1] += 1
            run.add(record(prompt["id"], passed=False))
    assert started[0] < started[1] < 20, "what is done is not run again"
    assert [found.passed for found, _ in stop.compared] == [0] * len(fresh.compared), "the same prompts decide"


@pytest.mark.parametrize(("rate", "prompts", "k"), [(0.7, 60, 1), (0.5, 40, 3)])
def test_equal_agents_are_rarely_stopped(rate: float, prompts: int, k: int) -> None:
    assert simulate(rate, 0.0, prompts, k, runs=120, seed=1).stopped / 120 <= 0.05


def test_a_worse_agent_is_stopped_early() -> None:
    found = simulate(0.8, -0.4, 60, 1, runs=60, seed=2)
    assert found.right == found.stopped and found.right / 60 > 0.9 and found.saved > 0.3
