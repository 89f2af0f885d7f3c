"""Do intervals hold where values belong together, counts differ or few values decide? `make coverage` runs it.

Each kind draws an evaluation of n prompts (or clusters) of which the truth is known, and yields the intervals that the
reports would show with the values that they should contain.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from agenteval.comparison.run_summary import TrialPrompts
from agenteval.statistics.intervals import (
    bootstrap_mean_interval,
    geometric_ratio_interval,
    percentile_interval,
    prompt_rate_interval,
    ratio_interval,
    score_interval,
)
from agenteval.statistics.paired import compare_paired
from agenteval.wire.differences import ConfidenceInterval
from agenteval.wire.records import Interval
from bench.simulations.goals import FEW, MOST, Miss, coverage_miss
from bench.simulations.simulation import ONE_SIDED

P90 = 1.2815515655
RESAMPLES = 300
TRUTHS = 400_000  # draws of which a mean without a formula is taken

Found = ConfidenceInterval | Interval | None
Shown = Iterator[tuple[str, Found, float]]
"""The name of a figure, its interval, and what it should contain."""
Draw = Callable[[int, np.random.Generator], Shown]


class Kind(NamedTuple):
    """A kind of evaluation: its name, numbers of prompts or clusters, and how one is drawn."""

    name: str
    sizes: Sequence[int]
    draw: Draw


# --- trials -------------------------------------------------------------------------------------


def trial_times(k: int, between: float, within: float) -> Draw:
    """Times, tokens or cost of k trials: log-normal around a prompt's own level."""
    spread = math.hypot(between, within)

    def draw(n: int, rng: np.random.Generator) -> Shown:
        prompts = np.repeat(np.arange(n), k)
        values = np.exp(rng.normal(0, between, n)[prompts] + rng.normal(0, within, n * k)).tolist()
        names = prompts.tolist()
        yield "p50", percentile_interval(values, 0.5, names), 1.0
        yield "p90", percentile_interval(values, 0.9, names), math.exp(P90 * spread)

    return draw


def unequal_trials(few: int, many: int) -> Draw:
    """Hard prompts were tried more often: over all trials the pass rate would be too low."""

    def draw(n: int, rng: np.random.Generator) -> Shown:
        rates = rng.beta(1.4, 0.6, n)
        trials = np.where(rng.random(n) < rates, few, many)
        passed = rng.binomial(trials, rates)
        yield "pass rate", prompt_rate_interval(passed.tolist(), trials.tolist()), 0.7
        counts = TrialPrompts()
        for graded, passes in zip(trials.tolist(), passed.tolist(), strict=True):
            counts.add_alike(graded, graded, passes, 1)
        every = {j: math.prod((1.4 + i) / (2 + i) for i in range(j)) for j in (few, many)}
        never = math.prod((0.6 + i) / (2 + i) for i in range(few))
        for name, sign, j, truth in (
            ("pass^j", "^", few, every[few]),
            ("pass@j", "@", few, 1 - never),
            ("pass^k", "^", many, every[many]),
        ):
            found = counts.estimate(sign, j)
            yield name, found.interval if found else None, truth

    return draw


# --- clusters -----------------------------------------------------------------------------------


def equal_sizes(count: int, _rng: np.random.Generator) -> Any:
    """Five prompts in each cluster."""
    return np.full(count, 5)


def geometric_sizes(count: int, rng: np.random.Generator) -> Any:
    """One prompt to some twenty."""
    return rng.geometric(0.2, count)


def one_large(count: int, _rng: np.random.Generator) -> Any:
    """One cluster has a third of all prompts."""
    sizes = np.full(count, 3)
    sizes[0] = 3 * count // 2
    return sizes


def clusters(sizes_of: Callable[[int, np.random.Generator], Any]) -> Draw:
    """Prompts of a cluster share their difficulty and how much longer the second run takes."""

    def draw(n: int, rng: np.random.Generator) -> Shown:
        sizes = sizes_of(n, rng)
        at = np.repeat(np.arange(n), sizes)
        names, count = at.tolist(), len(at)
        chances = rng.beta(1.4, 0.6, n)[at]
        passes = [(rng.random(count) < chances * factor).astype(int) for factor in (1.0, 0.8)]
        yield "pass rate", prompt_rate_interval(passes[0].tolist(), [1] * count, names), 0.7
        differences = (passes[0] - passes[1]).astype(float).tolist()
        yield "pass rate, difference", compare_paired(differences, names).interval, 0.7 * 0.2
        scores = rng.beta(8 * chances.clip(0.01, 0.99), 8 * (1 - chances.clip(0.01, 0.99)))
        yield "score", score_interval(scores.tolist(), names), CLIPPED_MEAN
        times = np.exp(rng.normal(0, 0.5, n)[at] + rng.normal(0, 0.4, count))
        yield "p50", percentile_interval(times.tolist(), 0.5, names), 1.0
        logs = rng.normal(0, 0.3, n)[at] + rng.normal(0, 0.3, count)
        ratios = np.exp(logs)
        yield "time, ratio", geometric_ratio_interval(ratios.tolist(), names), 1.0
        mean_ratio = math.exp(0.3**2)
        yield "cost, ratio", ratio_interval((times * ratios).tolist(), times.tolist(), names), mean_ratio

    return draw


CLIPPED_MEAN = float(np.random.default_rng(13).beta(1.4, 0.6, TRUTHS).clip(0.01, 0.99).mean())


# --- scores and timeouts ------------------------------------------------------------------------


def rubric(mean: float, concentration: float, steps: int) -> Draw:
    """Scores in steps, as a rubric gives them; none: any number from 0 to 1."""
    rng = np.random.default_rng(13)
    values = rng.beta(mean * concentration, (1 - mean) * concentration, TRUTHS)
    values = np.round(values * steps) / steps if steps else values
    truth = float(values.mean())

    def draw(n: int, rng: np.random.Generator) -> Shown:
        yield "score", score_interval(rng.choice(values, n).tolist()), truth

    return draw


def timeouts(share: float, limit: float) -> Draw:
    """A share of agents runs into the limit; the mean is counted where at least one does, as the report says."""

    def draw(n: int, rng: np.random.Generator) -> Shown:
        late = rng.random(n) < share
        values = np.where(late, limit, 2 * np.exp(rng.normal(0, 0.64, n))).tolist()
        truth = (1 - share) * 2 * math.exp(0.64**2 / 2) + share * limit
        if late.any():
            yield "mean latency", bootstrap_mean_interval([[value] for value in values], RESAMPLES, 1), truth

    return draw


KINDS = [
    *[
        Kind(f"times of {k} trials, prompts {b:g}, trials {w:g}", (10, 30, 100), trial_times(k, b, w))
        for k, b, w in ((3, 0.5, 0.4), (10, 0.5, 0.4), (3, 1.0, 0.2), (3, 0.2, 1.0), (10, 1.0, 0.2))
    ],
    Kind("2 trials of easy prompts, 10 of hard ones", (10, 30, 100, 300), unequal_trials(2, 10)),
    Kind("1 trial of easy prompts, 3 of hard ones", (10, 30, 100, 300), unequal_trials(1, 3)),
    Kind("clusters of 5", (12, 30, 100), clusters(equal_sizes)),
    Kind("clusters of 1 to 20", (12, 30, 100), clusters(geometric_sizes)),
    Kind("one cluster has a third of the prompts", (12, 30, 100), clusters(one_large)),
    *[
        Kind(
            f"scores around {mean:g} {f'in steps of 1/{steps}' if steps else 'without steps'}, concentration {c:g}",
            (10, 30, 100, 300),
            rubric(mean, c, steps),
        )
        for mean, c, steps in (
            *((0.95, 2, 4), (0.95, 8, 10), (0.95, 2, 0), (0.9, 2, 4), (0.05, 2, 4)),
            *((0.7, 2, 4), (0.7, 8, 10), (0.7, 30, 0), (0.5, 1, 4)),
        )
    ],
    *[
        Kind(f"{share:.0%} timeouts of {limit:g} s", (30, 100, 300), timeouts(share, limit))
        for share, limit in ((0.03, 30), (0.03, 300), (0.1, 300))
    ],
]


# --- tables -------------------------------------------------------------------------------------


class Held(NamedTuple):
    """How many intervals there are, hold, and are too high."""

    total: Counter[str]
    held: Counter[str]
    too_high: Counter[str]


class Task(NamedTuple):
    """So many evaluations of a kind, by its number, with n prompts."""

    number: int
    n: int
    runs: int
    seed: int


def measure(task: Task) -> Held:
    """Counts over the evaluations of a task."""
    number, n, runs, seed = task
    rng, found = np.random.default_rng([seed, number, n]), Held(Counter(), Counter(), Counter())
    for _ in range(runs):
        for name, interval, truth in KINDS[number].draw(n, rng):
            if interval is not None:
                low, high = interval if isinstance(interval, tuple) else (interval.low, interval.high)
                found.total[name] += 1
                found.held[name] += low - 1e-12 <= truth <= high + 1e-12
                found.too_high[name] += truth < low - 1e-12
    return found


def tasks(runs: int, seed: int) -> list[Task]:
    """Every kind with each of its sizes."""
    return [Task(number, n, runs, seed) for number, kind in enumerate(KINDS) for n in kind.sizes]


def tables(tasks: Sequence[Task], counted: Sequence[Held]) -> tuple[list[str], list[Miss]]:
    """Returns a row per kind and figure with the share that holds, and the goals that are missed."""
    found = {(task.number, task.n): held for task, held in zip(tasks, counted, strict=True)}
    runs, sizes, misses = tasks[0].runs, (10, 12, 30, 100, 300), list[Miss]()
    lines = [
        f"How often a 95% interval contains the true value, in {runs:,} simulated evaluations per cell. n is the",
        "number of prompts or, where there are clusters, of clusters. For times, the two figures are the standard",
        "deviations of log(time) between prompts and between trials. For scores, a high concentration means that they",
        "lie close to their mean. A share above 98% has a † if the true value is so near an end of the scale that the",
        "interval hardly ever misses it on one side.",
        "",
    ]
    lines += [
        "| evaluations | interval of | " + " | ".join(f"n = {n}" for n in sizes) + " |",
        "|---" * (len(sizes) + 2) + "|",
    ]
    for number, kind in enumerate(KINDS):
        for name in dict.fromkeys(name for n in kind.sizes for name in found[number, n].total):
            cells = []
            for n in sizes:
                counts = found.get((number, n))
                if counts is None or counts.total[name] < runs / 4:  # of few prompts, p90 has no interval
                    cells.append("–")
                    continue
                total, held, above = counts.total[name], counts.held[name], counts.too_high[name]
                one_sided = min(above, total - held - above) < ONE_SIDED * total
                share = held / total
                cells.append(f"{share:.1%}" + " †" * (one_sided and share > MOST and n >= FEW))
                misses += coverage_miss(f"{name}, {kind.name}", share, total, n, one_sided=one_sided)
            lines.append(f"| {kind.name} | {name} | {' | '.join(cells)} |")
    return lines, misses
