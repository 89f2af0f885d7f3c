"""A small version of `make coverage`, with a fixed seed: do intervals hold, and is an unchanged agent left alone?"""

from __future__ import annotations

from collections import Counter

import pytest

from bench.simulations import interval_check
from bench.simulations.coverage import Scenario, measure, repeat
from bench.simulations.goals import BETTER, GATE, event_misses, interval_misses
from bench.simulations.judge_check import difference_coverage, judge_coverage
from bench.simulations.simulation import Counts
from bench.simulations.verdict_check import agreement, deaths, places_held

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
        assert counts.held[name] / total > 0.87, (name, counts.held[name], total)  # 95% less three standard errors


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
    counts = measure((scenario._replace(timed=False), 5, REPETITIONS, 0))
    assert counts.events["gate"] <= 10, "5% of 80 are 4, and three standard errors 6"
    assert counts.events["better"] <= 10


def test_an_agent_that_is_worse_is_found() -> None:
    counts = measure((Scenario(100, k=3, factor=0.8, timed=False), 5, 40, 0))
    assert counts.events["gate"] >= 36
    assert counts.events["proof"] >= counts.events["gate"]


def counts(held: int, total: int, *, too_high: int = 0, better: int = 0) -> Counts:
    """What 1,000 repetitions might have counted of one interval."""
    of = {"pass rate": total}
    return Counts(Counter({"pass rate": held}), Counter(of), Counter(better=better), Counter({"pass rate": too_high}))


@pytest.mark.parametrize(
    ("n", "held", "too_high", "missed"),
    [
        (30, 950, 25, 0),
        (30, 920, 40, 0),  # 93% less 1.2 standard errors
        (30, 900, 50, 1),
        (10, 900, 50, 0),
        (10, 860, 70, 1),
        (30, 995, 2, 1),
        (30, 990, 0, 0),  # one side is never missed
    ],
)
def test_a_goal_is_missed_beyond_the_noise_of_the_simulation(n: int, held: int, too_high: int, missed: int) -> None:
    found = [(Scenario(n), counts(held, 1000, too_high=too_high))]
    assert len(interval_misses(found, 1000)) == missed


def test_false_alarms_are_summed_over_all_kinds_with_as_many_runs() -> None:
    kinds = [(Scenario(n), counts(950, 1000, too_high=25, better=70)) for n in range(10, 30)]
    misses = event_misses(kinds, 1000, BETTER, GATE)
    assert misses == ["unchanged agent, all of 2 runs: better in 7.0%, the goal is 5.5% at most"]
    [(scenario, _)] = kinds[:1]
    [miss] = event_misses([(scenario, counts(950, 1000, better=90))], 1000, BETTER, GATE)[:1]
    assert miss.startswith("unchanged agent, 2 runs, results, n = 10")


def test_what_is_left_out_to_save_time_changes_no_verdict() -> None:
    scenario = Scenario(14, k=3, mean=0.7, factor=0.5, timed=False)
    assert measure((scenario, 5, 20, 0)).events == repeat(scenario, 5, 20).events


@pytest.mark.parametrize(
    "number", range(len(interval_check.KINDS)), ids=lambda number: interval_check.KINDS[number].name
)
def test_intervals_of_what_belongs_together_hold(number: int) -> None:
    found = interval_check.measure(interval_check.Task(number, 30, 40, 5))
    assert found.total
    for name, total in found.total.items():
        assert total < 10 or found.held[name] / total > 0.82, (name, found.held[name], total)


def test_the_difference_by_labels_holds_where_the_graders_own_does_not() -> None:
    held, believed = difference_coverage(300, (0.6, 0.75), ((0.9, 0.8), (0.97, 0.5)), 30, False, 60, 1)
    assert held > 0.86 and believed < 0.5


def test_headline_interval_and_gate_never_disagree() -> None:
    seen, wrong = agreement(120, seed=26)
    assert wrong == []
    assert min(seen[standing] for standing in ("worse", "better", "cannot tell")) >= 5


def test_places_hold_and_missing_records_are_noticed() -> None:
    held, width = places_held(60, (0.9, 0.6, 0.6), runs=20, seed=3)
    assert held >= 0.8 and width < 2.5  # 95% less three standard errors
    failed, skipped = deaths(100, 20, seed=4)
    assert failed > 0.2 and skipped < 0.15


def test_the_intervals_of_labels_hold() -> None:
    found = judge_coverage(0.9, 0.95, 0.5, 500, 50, runs=300, seed=1)
    assert len(found) == 7
    assert min(found.values()) > 0.91, found  # 92% of kappa and agreement, before distances were added as squares
