"""How often do the intervals of ae-calibrate and of Bradley-Terry strengths hold? (`make coverage`)"""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import combinations

import numpy as np

from agenteval.review.agreement import (
    FIGURES,
    Cells,
    JudgedRun,
    LabelledAnswer,
    LabelledVerdicts,
    agreement_of,
    corrected_difference,
    corrected_pass_rate,
)
from agenteval.statistics.bradley_terry import fit_strengths
from agenteval.statistics.paired import compare_paired
from agenteval.wire.calibration import AgreementTable, VerdictCounts
from agenteval.wire.records import Interval
from bench.simulations.goals import Miss, coverage_miss

JUDGES = [  # person passes, judge passes what is right, judge fails what is wrong, records, labels of each verdict
    (0.7, 0.9, 0.8, 300, 30),
    (0.8, 0.95, 0.43, 300, 30),
    (0.8, 0.95, 0.43, 1000, 100),
    (0.5, 0.8, 0.8, 300, 10),
    (0.9, 0.98, 0.9, 1000, 60),
    (0.3, 0.7, 0.95, 100, 100),
    (0.9, 0.95, 0.5, 500, 50),
]
STRENGTHS = [
    ([0.0, 0.0, 0.0], 30),
    ([1.0, 0.0, -1.0], 10),
    ([1.0, 0.0, -1.0], 100),
    ([1.8, -0.2, -0.2, -0.2, -1.2], 30),
]
ALIKE, LENIENT = ((0.95, 0.6), (0.95, 0.6)), ((0.9, 0.8), (0.97, 0.5))
DIFFERENCES = [  # prompts, pass rates by the person, graders of both (passes the right, fails the wrong), labels, same
    (300, (0.7, 0.7), ALIKE, 30, False),
    (300, (0.7, 0.7), ALIKE, 30, True),
    (300, (0.6, 0.75), LENIENT, 30, False),
    (300, (0.6, 0.75), LENIENT, 30, True),
    (1000, (0.8, 0.8), ((0.9, 0.9), (0.99, 0.4)), 50, False),
    (100, (0.5, 0.6), ((0.8, 0.8), (0.8, 0.8)), 20, False),
    (1000, (0.7, 0.75), ((0.9, 0.8), (0.9, 0.8)), 200, False),
]
PASSED, FAILED = VerdictCounts(passed=1), VerdictCounts(failed=1)
SHOWN = ("agreement", "kappa", "ac1", "recall", "failure_precision", "failure_recall")


def judge_coverage(
    right: float, sensitivity: float, specificity: float, records: int, labels: int, runs: int, seed: int
) -> dict[str, float]:
    """Returns how often the interval of each figure holds the true value; `corrected` is the corrected pass rate."""
    draw = np.random.default_rng(seed)
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


def judged(cells: Cells, records: int, labels: int, draw: np.random.Generator) -> dict[str, Interval | None]:
    """Returns the intervals of one run of which so many passes and so many failures are labelled."""
    true_pass, false_pass, false_fail, true_fail = (int(kind) for kind in draw.multinomial(records, cells))
    passes, failures = min(labels, true_pass + false_pass), min(labels, false_fail + true_fail)
    right = int(draw.hypergeometric(true_pass, false_pass, passes)) if passes else 0
    wrong = int(draw.hypergeometric(false_fail, true_fail, failures)) if failures else 0
    found = LabelledVerdicts()
    found.passes = AgreementTable(true_pass=right, false_pass=passes - right)
    found.failures = AgreementTable(false_fail=wrong, true_fail=failures - wrong)
    counts = VerdictCounts(passed=true_pass + false_pass, failed=false_fail + true_fail)
    agreement = agreement_of(found, counts)
    intervals = {name: getattr(agreement.intervals, name) for name in SHOWN if name != "agreement"}
    return {"agreement": agreement.interval, **intervals, "corrected": corrected_pass_rate(found, counts).interval}


def difference_coverage(
    n: int,
    rates: tuple[float, float],
    graders: tuple[tuple[float, float], tuple[float, float]],
    labels: int,
    same: bool,
    runs: int,
    seed: int,
) -> tuple[float, float]:
    """Returns how often the interval of the corrected difference holds, and that of the grader's own verdicts does.

    Seven prompts in ten are equally hard for both agents; `same` if the labels are of the first prompts of each verdict
    in both runs, otherwise they are drawn.
    """
    draw, held, believed = np.random.default_rng([seed, 7]), 0, 0
    for _ in range(runs):
        hard, other = draw.random((2, n))
        levels = hard, np.where(draw.random(n) < 0.7, hard, other)
        sides, verdicts = [], []
        for level, rate, (sensitivity, specificity) in zip(levels, rates, graders, strict=True):
            human = level < rate
            passed = draw.random(n) < np.where(human, sensitivity, 1 - specificity)
            labelled = []
            for verdict in (True, False):
                places = np.flatnonzero(passed == verdict)
                chosen = places[:labels] if same else draw.permutation(places)[:labels]
                labelled += [LabelledAnswer(f"p{at}", verdict, bool(human[at])) for at in chosen]
            prompts = {f"p{at}": PASSED if one else FAILED for at, one in enumerate(passed)}
            sides.append(JudgedRun(prompts, labelled))
            verdicts.append(passed.astype(float))
        true = rates[1] - rates[0]
        found, plain = corrected_difference(sides[1], sides[0]), compare_paired((verdicts[1] - verdicts[0]).tolist())
        assert found is not None and found.interval is not None and plain.interval is not None
        held += found.interval[0] <= true <= found.interval[1]
        believed += plain.interval.low <= true <= plain.interval.high
    return held / runs, believed / runs


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


def tables(runs: int) -> tuple[list[str], list[Miss]]:
    """Returns both tables in markdown, and the goals that are missed."""
    misses: list[Miss] = []
    names = ("corrected", *SHOWN)
    titles = ["right", "sensitivity", "specificity", "records", "labels of each", "corrected pass rate"]
    titles += [name.replace("_", " ") for name in SHOWN]
    lines = [
        f"Figures of one run. Each row is {runs:,} simulated runs. The first five columns describe them: the share of",
        'answers that are right, the share of the right ones that the grader passes ("sensitivity"), the share of the',
        'wrong ones that it fails ("specificity"), the number of records, and how many passes and how many failures',
        "have labels. The other columns show how often the interval of a figure contains the true value:",
        "",
    ]
    lines += ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for at, case in enumerate(JUDGES):
        found = judge_coverage(*case, runs=runs, seed=at)
        cells = [f"{value:g}" for value in case] + [f"{found[name]:.1%}" for name in names]
        lines.append("| " + " | ".join(cells) + " |")
        for name in names:
            misses += coverage_miss(f"labels, case {at}, {name}", found[name], runs, case[-1], one_sided=True)
    compared = max(1, runs // 2)
    lines += [
        "",
        f"The difference between two runs ({compared:,} comparisons per row): how often its interval contains the true",
        "value if it is corrected by labels for both runs, and if it is taken from the grader's verdicts alone.",
        '"Sensitivity, specificity" are those of the grader for the first run, then for the second:',
        "",
        "| prompts | pass rates | sensitivity, specificity | labels of each | corrected | grader alone |",
        "|---" * 6 + "|",
    ]
    for at, (n, rates, graders, labels, same) in enumerate(DIFFERENCES):
        held, believed = difference_coverage(n, rates, graders, labels, same, compared, at)
        of = [", ".join(f"{value:g}" for value in values) for values in (rates, *graders)]
        cells = [
            f"{n}",
            of[0],
            f"{of[1]}; {of[2]}",
            f"{labels}{', same prompts' * same}",
            f"{held:.1%}",
            f"{believed:.1%}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
        misses += coverage_miss(f"corrected difference, case {at}", held, compared, n)
    rankings = max(1, runs // 3)
    lines += ["", f"The strengths of three runs or more ({rankings:,} comparisons per row):", ""]
    lines += ["| true strengths | prompts | interval contains the true value |", "|---|---|---|"]
    for at, (true, prompts) in enumerate(STRENGTHS):
        held = strength_coverage(true, prompts, rankings, at)
        lines.append(f"| {', '.join(f'{strength:g}' for strength in true)} | {prompts} | {held:.1%} |")
        misses += coverage_miss(f"strengths, case {at}", held, rankings, prompts)
    return lines, misses
