"""How often does --stop-when-known stop wrongly, and how much does it save? Simulated runs; `make coverage` runs it.

Each run has a fixed set of prompts of different difficulty (beta distribution) in random order, and a baseline of the
same prompts that ran before. Agents are equal on average, or one is better on all prompts.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from agenteval.statistics.power import Passes
from agenteval.statistics.sequential import EarlyStop
from bench.simulations.goals import SIGMAS, Miss, beyond

CASES = [  # pass rate of the baseline, difference, prompts, trials
    (0.7, 0.0, 100, 1),
    (0.5, 0.0, 300, 1),
    (0.9, 0.0, 300, 1),
    (0.7, 0.0, 100, 5),
    (0.5, 0.0, 1000, 3),
    (0.7, -0.3, 100, 1),
    (0.7, -0.2, 200, 1),
    (0.7, -0.1, 500, 1),
    (0.7, -0.1, 200, 5),
    (0.5, 0.2, 300, 3),
]
FALSE_STOPS = 0.05


class Stopped(NamedTuple):
    """What became of simulated runs."""

    runs: int
    stopped: int
    right: int  # stopped, and said which one is better
    saved: float  # mean share of the prompts that were not run


def simulate(rate: float, difference: float, prompts: int, k: int, runs: int, seed: int) -> Stopped:
    """Runs so many comparisons with a baseline, each to its end or until it is known."""
    draw = random.Random(seed)
    stopped = right = saved = 0
    for number in range(runs):
        true = [draw.betavariate(2 * rate, 2 * (1 - rate)) for _ in range(prompts)]
        ids = [f"{number}-{n}" for n in range(prompts)]
        baseline = {id: Passes(sum(draw.random() < p for _ in range(k)), k) for id, p in zip(ids, true, strict=True)}
        stop = EarlyStop("baseline", baseline)
        stop.plan(({"id": id} for id in ids), {})
        rates = dict(zip(ids, moved(true, difference), strict=True))
        ran = 0
        for prompt in stop.prompts():
            ran += 1
            trials = [{"pass": draw.random() < rates[prompt["id"]]} for _ in range(k)]
            stop.add({"id": prompt["id"], "k": k, "trials": trials})
        stopped += stop.known
        right += stop.known and stop.test.side * difference > 0
        saved += prompts - ran
    return Stopped(runs, stopped, right, saved / (prompts * runs))


def moved(rates: list[float], difference: float) -> list[float]:
    """Returns the rates with another mean, each between 0 and 1: drawn towards 0 or 1."""
    mean = sum(rates) / len(rates)
    if difference < 0:
        return [rate * (mean + difference) / mean for rate in rates]
    return [1 - (1 - rate) * (1 - mean - difference) / (1 - mean) for rate in rates]


def tables(runs: int) -> tuple[list[str], list[Miss]]:
    """Returns a line per case, and the goals that are missed."""
    misses: list[Miss] = []
    lines = [f'{runs:,} runs each, a seed per row from 0; "rightly" is stopped with the right answer:', ""]
    lines += [
        "| rate | difference | prompts | k | stopped | rightly | prompts saved |",
        "|---|---|---|---|---|---|---|",
    ]
    for at, case in enumerate(CASES):
        found = simulate(*case, runs=runs, seed=at)
        wrong = (found.stopped - found.right) / runs
        shares = f"{found.stopped / runs:.1%} | {found.right / runs:.1%} | {found.saved:.1%}"
        lines.append(f"| {' | '.join(f'{value:g}' for value in case)} | {shares} |")
        if beyond(wrong, FALSE_STOPS, runs) > SIGMAS:
            misses.append(f"stop, case {at}: {wrong:.1%} wrongly stopped, the goal is {FALSE_STOPS:.0%} at most")
    return lines, misses
