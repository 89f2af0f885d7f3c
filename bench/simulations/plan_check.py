"""Do ae-plan and "would show" keep their word? Simulated comparisons with the prompts or the difference that they give.

Prompts have a true pass rate for each agent, from beta distributions; a share of them, the correlation, is equally hard
for both. Each comparison is tested as ae-compare does. `make coverage` runs it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from agenteval.comparison.plan import make_plan
from agenteval.statistics.paired import compare_paired
from agenteval.statistics.power import Question
from bench.simulations.goals import SIGMAS, Miss, beyond

CASES = [  # rate, difference, share of the variance between prompts, correlation, trials
    (0.8, 0.1, 0.5, 0.8, 1),
    (0.8, 0.1, 0.5, 0.8, 5),
    (0.5, 0.1, 0.3, 0.9, 3),
    (0.6, 0.2, 0.7, 0.6, 1),
    (0.9, 0.1, 0.2, 0.8, 2),
    (0.7, 0.15, 0.5, 0.5, 10),
]


QUANTILES = 5000
LEAST_SHOWN = 0.78  # of 80% that were planned, by assumptions of which some do not hold exactly
WOULD_SHOW = [  # prompts, pass rate, correlation, trials, pairs of runs that are compared
    *[(n, rate, 0.7, k, 1) for n in (20, 30, 100, 300) for rate in (0.6, 0.8, 0.95) for k in (1, 3)],
    (100, 0.8, 1.0, 1, 10),
    (100, 0.8, 0.7, 3, 10),
]


class Case(NamedTuple):
    """Two agents: the pass rate of the first, how much worse the second is, and how prompts vary."""

    rate: float
    detect: float
    between: float
    correlation: float
    k: int


def planned_prompts(case: Case, power: float = 0.8) -> int:
    """Returns the number of prompts by ae-plan."""
    question = Question(case.detect, power, case.rate, case.between, case.correlation)
    plan = make_plan(question, trials=case.k)
    return next(option.prompts for option in plan.options if option.k == case.k)


def share_shown(case: Case, prompts: int, comparisons: int, seed: int) -> float:
    """Returns how often the second agent is shown to be worse."""
    draw = np.random.default_rng(seed)
    easy, hard = (quantiles(mean, case.between, draw) for mean in (case.rate, case.rate - case.detect))
    shown = 0
    for _ in range(comparisons):
        places, others = draw.integers(0, QUANTILES, (2, prompts))
        alike = draw.random(prompts) < case.correlation  # else how hard it is for the second agent is its own matter
        passed = [draw.binomial(case.k, rates) for rates in (easy[places], hard[np.where(alike, places, others)])]
        found = compare_paired(((passed[0] - passed[1]) / case.k).tolist())
        shown += found.interval is not None and found.interval.low > 0
    return shown / comparisons


def share_would_show(
    n: int, rate: float, correlation: float, k: int, tests: int, runs: int, seed: int
) -> tuple[float, float]:
    """Returns the mean difference that equal runs say n prompts would show, and how often such a one is then shown."""
    draw = np.random.default_rng([seed, 4])
    level = 1 - 0.05 / tests

    def difference(fall: float) -> list[float]:
        chances = draw.beta(2 * rate, 2 * (1 - rate), n)
        others = np.where(draw.random(n) < correlation, chances, draw.beta(2 * rate, 2 * (1 - rate), n))
        passed = [draw.binomial(k, rates) for rates in (chances, others * (1 - fall / rate))]
        return [float(value) for value in (passed[0] - passed[1]) / k]

    said, shown = [], 0
    for _ in range(runs):
        least = compare_paired(difference(0.0), level=level).detectable
        if least is not None and least < rate:
            said.append(least)
            found = compare_paired(difference(least), level=level).interval
            shown += found is not None and found.low > 0
    return sum(said) / max(1, len(said)), shown / max(1, len(said))


def quantiles(mean: float, between: float, draw: np.random.Generator) -> Any:
    """Returns pass rates of prompts from the hardest to the easiest: a beta distribution, exact in its mean."""
    size = 1 / between - 1
    rates = np.sort(draw.beta(mean * size, (1 - mean) * size, QUANTILES))
    return np.clip(rates - (rates.mean() - mean), 0.0, 1.0)


def tables(comparisons: int) -> tuple[list[str], list[Miss]]:
    """Returns planned prompts and the share of comparisons that show the difference, and the goals that are missed."""
    misses: list[Miss] = []
    lines = [
        f'Each row is {comparisons:,} simulated comparisons. "Between" is the share of the variance that lies',
        'between prompts, "correlation" that of the difficulty of a prompt for the two agents, and "prompts" the',
        "number that `ae-plan` gives:",
        "",
    ]
    lines += [
        "| pass rate | difference | between | correlation | trials | prompts | detected |",
        "|---|---|---|---|---|---|---|",
    ]
    for at, values in enumerate(CASES):
        case = Case(*values)
        prompts = planned_prompts(case)
        shown = share_shown(case, prompts, comparisons, seed=at)
        lines.append(f"| {' | '.join(f'{value:g}' for value in case)} | {prompts} | {shown:.1%} |")
        if beyond(shown, LEAST_SHOWN, comparisons) < -SIGMAS:
            misses.append(
                f"plan, case {at}: {shown:.1%} shown, planned for 80%, the goal is {LEAST_SHOWN:.0%} at least"
            )
    lines += [
        "",
        "`minimumDetectableDifference`, in points, as computed from two runs of equally good agents, and how often a",
        'true difference of that size is detected (the aim is 80%). "Pairs" is the number of pairs in the comparison,',
        "for which the level is adjusted:",
        "",
    ]
    lines += [
        "| prompts | pass rate | correlation | trials | pairs | points | detected |",
        "|---|---|---|---|---|---|---|",
    ]
    for at, would in enumerate(WOULD_SHOW):
        points, shown = share_would_show(*would, runs=comparisons, seed=at)
        lines.append(f"| {' | '.join(f'{value:g}' for value in would)} | {points * 100:.1f} | {shown:.1%} |")
        if beyond(shown, LEAST_SHOWN, comparisons) < -SIGMAS:
            misses.append(f"would show, case {at}: {shown:.1%} shown, the goal is {LEAST_SHOWN:.0%} at least")
    return lines, misses
