"""How often do the intervals of ae-calibrate and of Bradley-Terry strengths hold? (`make coverage`)"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from itertools import combinations

from agenteval.comparison.preference.bradley_terry import fit_strengths
from agenteval.review.agreement import LabelledVerdicts, agreement_of, corrected_pass_rate
from agenteval.review.weighting import FIGURES, Cells
from agenteval.wire.calibration import VerdictCounts
from agenteval.wire.records import Interval

JUDGES = [  # person passes, judge passes what is right, judge fails what is wrong, records, labels of each verdict
    (0.7, 0.9, 0.8, 300, 30),
    (0.8, 0.95, 0.43, 300, 30),
    (0.8, 0.95, 0.43, 1000, 100),
    (0.5, 0.8, 0.8, 300, 10),
    (0.9, 0.98, 0.9, 1000, 60),
    (0.3, 0.7, 0.95, 100, 100),
]
STRENGTHS = [
    ([0.0, 0.0, 0.0], 30),
    ([1.0, 0.0, -1.0], 10),
    ([1.0, 0.0, -1.0], 100),
    ([1.8, -0.2, -0.2, -0.2, -1.2], 30),
]
SHOWN = ("agreement", "kappa", "ac1", "recall", "failure_precision", "failure_recall")


def judge_coverage(
    right: float, sensitivity: float, specificity: float, records: int, labels: int, runs: int, seed: int
) -> dict[str, float]:
    """Returns how often the interval of each figure holds the true value; `corrected` is the corrected pass rate."""
    draw = random.Random(seed)
    wrong = 1 - right
    cells = (right * sensitivity, wrong * (1 - specificity), right * (1 - sensitivity), wrong * specificity)
    truth = {name: FIGURES[name](cells) for name in SHOWN} | {"corrected": right}
    held, known = Counter[str](), Counter[str]()
    for _ in range(runs):
        for name, interval in judged(cells, records, labels, draw).items():
            if interval is not None:
                known[name] += 1
                held[name] += interval[0] - 1e-9 <= (truth[name] or 0.0) <= interval[1] + 1e-9
    return {name: held[name] / known[name] for name in truth}


def judged(cells: Cells, records: int, labels: int, draw: random.Random) -> dict[str, Interval | None]:
    """Returns the intervals of one run of which so many passes and so many failures are labelled."""
    kinds = draw.choices(range(4), cells, k=records)  # true pass, false pass, false fail, true fail
    found = LabelledVerdicts()
    for verdict, pair in ((True, (0, 1)), (False, (2, 3))):
        of = [kind for kind in kinds if kind in pair]
        for kind in draw.sample(of, min(labels, len(of))):
            found.count(recorded=verdict, grader=verdict, human=kind in (0, 2))
    passed = sum(kind < 2 for kind in kinds)
    counts = VerdictCounts(passed=passed, failed=records - passed)
    agreement = agreement_of(found, counts)
    intervals = {name: getattr(agreement.intervals, name) for name in SHOWN if name != "agreement"}
    return {"agreement": agreement.interval, **intervals, "corrected": corrected_pass_rate(found, counts).interval}


def strength_coverage(true: list[float], prompts: int, runs: int, seed: int) -> float:
    """Returns how often the interval of a strength holds it: each prompt ranks all runs (Plackett-Luce)."""
    draw, held = random.Random(seed), 0
    for _ in range(runs):
        outcomes = []
        for _ in range(prompts):
            luck = [strength - math.log(-math.log(draw.random())) for strength in true]
            outcomes.append({(i, j): float(luck[i] > luck[j]) for i, j in combinations(range(len(true)), 2)})
        fitted = fit_strengths(len(true), outcomes)
        held += sum(f.interval[0] <= value <= f.interval[1] for f, value in zip(fitted, true, strict=True))
    return held / (runs * len(true))


def main() -> int:
    """Prints both tables in markdown."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    titles = ["right", "sensitivity", "specificity", "records", "labels of each", "corrected pass rate", *SHOWN]
    print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
    for at, case in enumerate(JUDGES):
        found = judge_coverage(*case, runs=runs, seed=at)
        cells = [f"{value:g}" for value in case] + [f"{found[name]:.1%}" for name in ("corrected", *SHOWN)]
        print("| " + " | ".join(cells) + " |")
    print("\n| true strengths | prompts | held |\n|---|---|---|")
    for at, (true, prompts) in enumerate(STRENGTHS):
        held = strength_coverage(true, prompts, runs // 3, at)
        print(f"| {', '.join(f'{strength:g}' for strength in true)} | {prompts} | {held:.1%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
