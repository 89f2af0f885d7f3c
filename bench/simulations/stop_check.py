"""How often does --stop-when-known stop wrongly, and how much does it save? Simulated runs; `make coverage` runs it.

Each run has a fixed set of prompts of different difficulty (beta distribution) in random order, and a baseline of the
same prompts that ran before. Agents are equal on average, or one is better on all prompts.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from agenteval.statistics.power import Passes
from agenteval.statistics.sequential import EarlyStop, largest_e_value
from bench.simulations.goals import SIGMAS, Miss, beyond

CASES: list[tuple[float, float, int, int, float | None]] = [  # baseline's rate, difference, prompts, trials, margin
    (0.7, 0.0, 100, 1, None),
    (0.5, 0.0, 300, 1, None),
    (0.9, 0.0, 300, 1, None),
    (0.7, 0.0, 100, 5, None),
    (0.5, 0.0, 1000, 3, None),
    (0.7, -0.3, 100, 1, None),
    (0.7, -0.2, 200, 1, None),
    (0.7, -0.1, 500, 1, None),
    (0.7, -0.1, 200, 5, None),
    (0.5, 0.2, 300, 3, None),
    (0.8, 0.0, 300, 1, 0.1),
    (0.95, 0.0, 300, 1, 0.05),
    (0.95, 0.0, 1000, 1, 0.05),
    (0.9, 0.0, 300, 5, 0.05),
    (0.8, -0.05, 500, 1, 0.05),
    (0.9, -0.1, 300, 3, 0.1),
]
FALSE_STOPS = 0.05


class Stopped(NamedTuple):
    """What became of simulated runs."""

    runs: int
    stopped: int
    right: int  # stopped, and said which one is better, or rightly that it is within the margin
    saved: float  # mean share of the prompts that were not run
    missed: int  # stopped, and the interval of ae-compare does not contain the true difference


def simulate(
    rate: float, difference: float, prompts: int, k: int, margin: float | None = None, *, runs: int, seed: int
) -> Stopped:
    """Runs so many comparisons with a baseline, each to its end or until it is known."""
    draw = random.Random(seed)
    stopped = right = saved = missed = 0
    for number in range(runs):
        true = [draw.betavariate(2 * rate, 2 * (1 - rate)) for _ in range(prompts)]
        ids = [f"{number}-{n}" for n in range(prompts)]
        baseline = {id: Passes(sum(draw.random() < p for _ in range(k)), k) for id, p in zip(ids, true, strict=True)}
        stop = EarlyStop("baseline", baseline, margin=margin)
        stop.plan(({"id": id} for id in ids), {})
        rates = dict(zip(ids, moved(true, difference), strict=True))
        ran = 0
        for prompt in stop.prompts():
            ran += 1
            trials = [{"pass": draw.random() < rates[prompt["id"]]} for _ in range(k)]
            stop.add({"id": prompt["id"], "k": k, "trials": trials})
        stopped += stop.known
        within = margin is not None and not stop.test.side and difference > -margin
        right += stop.known and (stop.test.side * difference > 0 or within)
        saved += prompts - ran
        if stop.known:
            seen = [found.rate - other.rate for found, other in stop.compared if other]
            missed += largest_e_value(seen, difference) >= 1 / FALSE_STOPS  # then the interval does not contain it
    return Stopped(runs, stopped, right, saved / (prompts * runs), missed)


def moved(rates: list[float], difference: float) -> list[float]:
    """Returns the rates with another mean, each between 0 and 1: drawn towards 0 or 1."""
    mean = sum(rates) / len(rates)
    if difference < 0:
        return [rate * (mean + difference) / mean for rate in rates]
    return [1 - (1 - rate) * (1 - mean - difference) / (1 - mean) for rate in rates]


def tables(runs: int) -> tuple[list[str], list[Miss]]:
    """Returns a line per case, and the goals that are missed."""
    misses: list[Miss] = []
    lines = [
        f'Each row is {runs:,} simulated runs. "Pass rate" is that of the baseline, "difference" how far the run is',
        'above or below it. "Stopped" is the share of runs that stopped early, and "rightly" the share that stopped',
        'with the right answer; with `--margin`, "at most that much worse" is one, too. "Missed" is the share that',
        "stopped with an interval that does not contain the true difference:",
        "",
        "| pass rate | difference | prompts | trials | margin | stopped | rightly | missed | prompts saved |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for at, case in enumerate(CASES):
        found = simulate(*case, runs=runs, seed=at)
        wrong, missed = (found.stopped - found.right) / runs, found.missed / runs
        cells = ["–" if value is None else f"{value:g}" for value in case]
        cells += [f"{share:.1%}" for share in (found.stopped / runs, found.right / runs, missed, found.saved)]
        lines.append(f"| {' | '.join(cells)} |")
        for what, share in (("wrongly stopped", wrong), ("of intervals missed", missed)):
            if beyond(share, FALSE_STOPS, runs) > SIGMAS:
                misses.append(f"stop, case {at}: {share:.1%} {what}, the goal is {FALSE_STOPS:.0%} at most")
    return lines, misses
