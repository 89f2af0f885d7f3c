"""The goals of docs/statistics.md, and which of them a simulation misses by more than its own noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from bench.simulations.simulation import Counts, Scenario

LEAST, MOST = 0.93, 0.98  # coverage from FEW prompts on
LEAST_OF_FEW = 0.90
FEW = 30
BETTER, GATE = 0.055, 0.05
SIGMAS = 3.0  # of a simulated share, of which there are some hundred

Miss = str
"""A sentence: what was measured and what the goal is."""


def beyond(share: float, goal: float, runs: int) -> float:
    """How far a simulated share is from the goal, in its own standard errors; above 0 if it is above."""
    return (share - goal) / math.sqrt(goal * (1 - goal) / runs)


def coverage_miss(what: str, share: float, runs: int, size: int, *, one_sided: bool = False) -> Iterator[Miss]:
    """Says that an interval over `size` prompts or labels holds less often, or more often, than it should."""
    least = LEAST if size >= FEW else LEAST_OF_FEW
    if beyond(share, least, runs) < -SIGMAS:
        yield f"{what}, n = {size}: {share:.1%} of {runs:,} intervals hold, the goal is {least:.0%} at least"
    if size >= FEW and not one_sided and beyond(share, MOST, runs) > SIGMAS:
        yield f"{what}, n = {size}: {share:.1%} of {runs:,} intervals hold, the goal is {MOST:.0%} at most"


def interval_misses(found: Sequence[tuple[Scenario, Counts]], repetitions: int) -> list[Miss]:
    """The intervals that do not hold as often as they should, in any kind of evaluation."""
    return [
        miss
        for scenario, counts in found
        for name, total in counts.intervals.items()
        if total >= repetitions / 2
        for miss in coverage_miss(
            f"{name}, {scenario.name}, pass rate {scenario.mean:g}",
            counts.share(name),
            total,
            scenario.n,
            one_sided=counts.one_sided(name),
        )
    ]


def event_misses(found: Sequence[tuple[Scenario, Counts]], repetitions: int, better: float, gate: float) -> list[Miss]:
    """False alarms above the goal: in one kind of evaluation, or over all with as many runs."""
    misses = []
    for event, goal in (("better", better), ("gate", gate)):
        groups = [
            (f"{scenario.runs} runs, {scenario.name}, n = {scenario.n}, pass rate {scenario.mean:g}", [counts])
            for scenario, counts in found
        ]
        for runs in sorted({scenario.runs for scenario, _ in found}):
            of = [counts for scenario, counts in found if scenario.runs == runs]
            groups += [(f"all of {runs} runs", of)]
        for name, counted in groups:
            total = repetitions * len(counted)
            share = sum(counts.events[event] for counts in counted) / total
            if beyond(share, goal, total) > SIGMAS:
                misses.append(f"unchanged agent, {name}: {event} in {share:.1%}, the goal is {goal:.1%} at most")
    return misses
