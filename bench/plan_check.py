"""Does ae-plan keep its word? Simulated comparisons with the number of prompts that it gives; `make coverage` runs it.

Prompts have a true pass rate for each agent, from beta distributions; a share of them, the correlation, is equally hard
for both. Each comparison is tested as ae-compare does.
"""

from __future__ import annotations

import random
import sys
from typing import NamedTuple

from agenteval.comparison.inference.paired import compare_paired
from agenteval.comparison.planning.power import Question, make_plan

CASES = [  # rate, difference, share of the variance between prompts, correlation, trials
    (0.8, 0.1, 0.5, 0.8, 1),
    (0.8, 0.1, 0.5, 0.8, 5),
    (0.5, 0.1, 0.3, 0.9, 3),
    (0.6, 0.2, 0.7, 0.6, 1),
    (0.9, 0.1, 0.2, 0.8, 2),
    (0.7, 0.15, 0.5, 0.5, 10),
]


QUANTILES = 5000


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
    draw = random.Random(seed)
    easy, hard = (quantiles(mean, case.between, draw) for mean in (case.rate, case.rate - case.detect))
    shown = 0
    for _ in range(comparisons):
        differences = []
        for _ in range(prompts):
            place = other = draw.randrange(QUANTILES)
            if draw.random() >= case.correlation:  # how hard it is for the second agent is a matter of its own
                other = draw.randrange(QUANTILES)
            rates = easy[place], hard[other]
            passed = [sum(draw.random() < rate for _ in range(case.k)) / case.k for rate in rates]
            differences.append(passed[0] - passed[1])
        found = compare_paired(differences)
        shown += found.interval is not None and found.interval.low > 0
    return shown / comparisons


def quantiles(mean: float, between: float, draw: random.Random) -> list[float]:
    """Returns pass rates of prompts from the easiest to the hardest: a beta distribution, exact in its mean."""
    size = 1 / between - 1
    rates = sorted(draw.betavariate(mean * size, (1 - mean) * size) for _ in range(QUANTILES))
    error = sum(rates) / QUANTILES - mean
    return [rate - error for rate in rates]


def main() -> int:
    """Prints planned prompts and the share of comparisons that show the difference."""
    comparisons = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print("| rate | difference | between | correlation | k | prompts | shown |\n|---|---|---|---|---|---|---|")
    for at, values in enumerate(CASES):
        case = Case(*values)
        prompts = planned_prompts(case)
        shown = share_shown(case, prompts, comparisons, seed=at)
        print(f"| {' | '.join(f'{value:g}' for value in case)} | {prompts} | {shown:.1%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
