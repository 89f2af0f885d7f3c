"""A small version of bench/coverage.py, with a fixed seed: do intervals hold, and is an unchanged agent left alone?"""

from __future__ import annotations

import pytest

from bench.coverage import Scenario, repeat

REPETITIONS = 80


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(10, factor=0.9, cost=1.5),
        Scenario(30, continuous=True, mean=0.7, factor=0.9, cost=1.5),
        Scenario(30, k=3, spread=0.5, factor=0.9),
        Scenario(14, k=3, other_k=10, factor=0.9),
        Scenario(50, clustered=True, mean=0.7),
    ],
    ids=lambda scenario: f"{scenario.n} {scenario.name}",
)
def test_intervals_hold(scenario: Scenario) -> None:
    counts = repeat(scenario, 5, REPETITIONS)
    assert len(counts.intervals) >= 4
    for name, total in counts.intervals.items():
        assert counts.held[name] / total > 0.87, (name, counts.held[name], total)  # 95 % less three standard errors


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(14, mean=0.7),
        Scenario(40, k=3, mean=0.9),
        Scenario(14, k=3, other_k=10),
        Scenario(30, runs=5),
    ],
    ids=lambda scenario: f"{scenario.n} {scenario.name} {scenario.runs}",
)
def test_an_unchanged_agent_is_left_alone(scenario: Scenario) -> None:
    counts = repeat(scenario, 5, REPETITIONS)
    assert counts.events["gate"] <= 10, "5 % of 80 are 4, and three standard errors 6"
    assert counts.events["better"] <= 10


def test_an_agent_that_is_worse_is_found() -> None:
    counts = repeat(Scenario(100, k=3, factor=0.8), 5, 40)
    assert counts.events["gate"] >= 36
    assert counts.events["proof"] >= counts.events["gate"]
