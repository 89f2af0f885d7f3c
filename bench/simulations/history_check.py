"""How often does ae-history show a change that is not there, and find one that is? Simulated; `make coverage` runs it.

Each history has a fixed set of prompts of different difficulty (beta distribution). Its agent never changes, or becomes
worse on all prompts at a random run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agenteval.statistics.changes import find_changes
from bench.simulations.goals import SIGMAS, Miss, beyond

CASES = [  # pass rate, points lost, runs, prompts, trials
    (0.8, 0, 30, 300, 1),
    (0.97, 0, 30, 300, 1),
    (0.5, 0, 30, 30, 1),
    (0.95, 0, 30, 20, 1),
    (0.8, 0, 30, 50, 3),
    (0.8, 0, 100, 100, 1),
    (0.8, 15, 30, 300, 1),
    (0.8, 5, 30, 300, 1),
    (0.8, 15, 30, 50, 1),
    (0.8, 15, 30, 50, 3),
]
PLANTED = CASES[6]
Task = tuple[float, int, int, int, int, int, int]  # a case, how many histories, seed
FALSE_ALARMS, FOUND = 0.05, 0.9
NEAR = 1  # runs by which the place of a change may be off


class Alarms(NamedTuple):
    """What became of simulated histories: those with a change shown that is not there, and with the true one found."""

    false: int
    found: int


def simulate(rate: float, lost: int, runs: int, prompts: int, k: int, histories: int, seed: int) -> Alarms:
    """Simulates so many histories; a change that is found is at most one run from where it was planted."""
    rng = np.random.default_rng(seed)
    false = found = 0
    for _ in range(histories):
        true, at = rng.beta(2 * rate, 2 * (1 - rate), prompts), int(rng.integers(1, runs))
        factors = np.where(np.arange(runs) < at, 1.0, 1 - lost / 100 / rate)
        passed = rng.binomial(k, true[:, None] * factors[None, :]).tolist()
        changes = find_changes([[(one, k) for one in prompt] for prompt in passed], runs)
        near = [lost > 0 and abs(change.start - at) <= NEAR for change in changes]
        found, false = found + any(near), false + (not all(near))
    return Alarms(false, found)


def tasks(repetitions: int) -> list[Task]:
    """Returns a task per case; a history takes as long as several comparisons."""
    return [(*case, repetitions // 4, at) for at, case in enumerate(CASES)]


def measure(task: Task) -> Alarms:
    """Simulates the histories of one case."""
    return simulate(*task)


def tables(repetitions: int, every: Sequence[Alarms]) -> tuple[list[str], list[Miss]]:
    """Returns a line per case, and the goals that are missed."""
    misses: list[Miss] = []
    histories = repetitions // 4
    lines = [
        f'Each row is {histories:,} simulated histories. "Found" is the share of histories in which the drop is shown,',
        'at most one run away from where it happened; "wrong" is the share in which a change is shown anywhere else:',
        "",
        "| pass rate | points lost | runs | prompts | trials | found | wrong |",
        "|---|---|---|---|---|---|---|",
    ]
    for case, alarms in zip(CASES, every, strict=True):
        false, found = alarms.false / histories, alarms.found / histories
        shown = f"{found:.1%}" if case[1] else "–"
        lines.append(f"| {' | '.join(f'{value:g}' for value in case)} | {shown} | {false:.1%} |")
        name = f"history, {case[3]} prompts in {case[2]} runs, {case[1]} points lost"
        if not case[1] and beyond(false, FALSE_ALARMS, histories) > SIGMAS:
            misses.append(f"{name}: {false:.1%} false alarms, the goal is {FALSE_ALARMS:.0%} at most")
        if case == PLANTED and beyond(found, FOUND, histories) < -SIGMAS:
            misses.append(f"{name}: found in {found:.1%}, the goal is {FOUND:.0%} at least")
    return lines, misses
