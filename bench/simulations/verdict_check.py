"""Do headline, interval and gate ever disagree, and do ranks hold? Simulated comparisons; `make coverage` runs it.

Runs have results or trials with rubric scores in quarters, of two agents or more; some records are missing. Every
comparison goes through the code of ae-compare, with any of the measures that may decide.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from agenteval.comparison.comparison import CompareSettings, Comparison
from agenteval.comparison.row_table import ComparedRow, RowTable
from agenteval.comparison.rows import RunRows
from agenteval.comparison.verdicts import GateSettings, against_first, claim, gate_reasons, standing
from bench.simulations.goals import SIGMAS, Miss, beyond

LEVEL = 0.95
PAIRS = 2000  # at least
SHIFTS = (0.0, 0.1, -0.1, -0.25)  # of the runs after the first
DIES = 0.09  # share of prompts on which an agent ends without a record
PLACES = [  # prompts, and the pass rates of the runs
    (60, (0.7, 0.7, 0.7)),
    (100, (0.8, 0.7, 0.5)),
    (100, (0.8, 0.8, 0.6, 0.6, 0.4)),
    (300, (0.9, 0.8, 0.8, 0.7, 0.7, 0.7, 0.6, 0.5)),
]


def row(draw: random.Random, level: float, k: int) -> ComparedRow:
    """The attempts of a prompt: scores in quarters around a level, which pass from a half up."""
    scores = [min(1.0, max(0.0, round(4 * draw.gauss(level, 0.3)) / 4)) for _ in range(k)]
    passed = sum(score >= 0.5 for score in scores)
    return ComparedRow(k=k, attempts=k, graded=k, passed=passed, scores=tuple(scores), pass_at_k=1.0, pass_exp_k=0.0)


def run(label: str, draw: random.Random, levels: Sequence[float], k: int, missing: float = 0.0) -> RunRows:
    """A run of prompts of these levels, some of which have no record."""
    rows = {f"p{at}": row(draw, level, k) for at, level in enumerate(levels)}
    return RunRows(label, RowTable({id: found for id, found in rows.items() if draw.random() >= missing}))


# --- one verdict --------------------------------------------------------------------------------


def agreement(pairs: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Compares until there are so many pairs; returns the headlines, and the pairs in which anything disagrees."""
    draw, seen, wrong = random.Random(seed), Counter[str](), list[str]()
    while seen.total() < pairs:
        k, on = draw.choice([(1, "passes"), (1, "score"), (3, "passes"), (3, "score"), (3, "pass^K"), (3, "pass^2")])
        levels = [draw.uniform(0.2, 1.0) for _ in range(draw.choice((6, 12, 30, 80)))]
        runs = [run("a", draw, levels, k)]
        for label in "bcd"[: draw.randint(1, 3)]:
            shift = draw.choice(SHIFTS)
            runs.append(run(label, draw, [level + shift for level in levels], k, draw.choice((0.0, DIES))))
        settings = CompareSettings("statistical", on=on, missing_fail=draw.random() < 0.5)
        report = Comparison(trials=k > 1).compare(runs, settings)
        worse = [claim(pair) for pair in against_first(report)[0] if standing(pair) == "worse"]
        reasons = [reason.partition(":")[0] for reason in gate_reasons(report, GateSettings(min_compared=0.0))]
        if not any(reason.endswith("cannot be compared with a") for reason in reasons) and reasons != worse:
            wrong.append(f"headlines {worse}, gate {reasons}")
        for pair in report.statistics.pairs:
            seen[standing(pair)] += 1
            bounds = pair.interval
            if bounds and (pair.better is None) != (bounds.low <= 0 <= bounds.high):
                wrong.append(f"{claim(pair)}: interval {bounds.low:g} to {bounds.high:g}")
    return seen, wrong


def deaths(prompts: int, runs: int, seed: int) -> tuple[float, float]:
    """How often an equal agent that dies on some prompts is worse: if they count as not passed, and if left out."""
    draw, found = random.Random(seed), [0, 0]
    for _ in range(runs):
        levels = [draw.uniform(0.6, 1.0) for _ in range(prompts)]
        both = [run("before", draw, levels, 1), run("now", draw, levels, 1, DIES)]
        for at, missing_fail in enumerate((True, False)):
            report = Comparison(trials=False).compare(both, CompareSettings("statistical", missing_fail=missing_fail))
            found[at] += standing(report.statistics.pairs[0]) == "worse"
    return found[0] / runs, found[1] / runs


# --- places -------------------------------------------------------------------------------------


def places_held(prompts: int, rates: Sequence[float], runs: int, seed: int) -> tuple[float, float]:
    """How often all places of all runs contain the true ones, and how many places an interval has on average."""
    draw, held, width = random.Random(seed), 0, 0
    names = [f"r{at}" for at in range(len(rates))]
    true = {
        name: (1 + sum(other > rate for other in rates), len(rates) - sum(other < rate for other in rates))
        for name, rate in zip(names, rates, strict=True)
    }
    for _ in range(runs):
        hard = [draw.betavariate(2, 2) - 0.5 for _ in range(prompts)]
        found = []
        for name, rate in zip(names, rates, strict=True):
            passes = [draw.random() < min(1.0, max(0.0, rate + 0.4 * shift)) for shift in hard]
            rows = {f"p{at}": ComparedRow(graded=1, passed=passed) for at, passed in enumerate(passes)}
            found.append(RunRows(name, RowTable(rows)))
        report = Comparison(trials=False).compare(found, CompareSettings("statistical"))
        places = {name: of.rank or (1, 1) for name, of in report.statistics.runs.items()}
        held += all(low <= true[name][0] and true[name][1] <= high for name, (low, high) in places.items())
        width += sum(high - low + 1 for low, high in places.values())
    return held / runs, width / (runs * len(rates))


def tables(runs: int) -> tuple[list[str], list[Miss]]:
    """Returns the tables of the page, and the goals that are missed."""
    seen, misses = agreement(max(PAIRS, runs), 26)
    counts = ", ".join(f"{name} {count:,}" for name, count in sorted(seen.items()))
    lines = [
        f"Headline, interval and `--fail-if-worse` disagree in {len(misses)} of {seen.total():,} simulated pairs of",
        f"runs ({counts}).",
        "",
        f"How often an agent that is as good as before, but leaves no record for {DIES:.0%} of the prompts, is called",
        "worse:",
        "",
        "| prompts | `--missing fail` | `--missing skip` |",
        "|---|---|---|",
    ]
    for prompts in (30, 100, 300):
        failed, skipped = deaths(prompts, runs // 4, prompts)
        lines.append(f"| {prompts} | {failed:.1%} | {skipped:.1%} |")
    lines += [
        "",
        "How often the ranges of places contain the true places of all runs at once, and how many places a range has",
        "on average:",
        "",
    ]
    lines += ["| prompts | pass rates | all right | places per run |", "|---|---|---|---|"]
    for prompts, rates in PLACES:
        held, width = places_held(prompts, rates, runs // 4, prompts)
        lines.append(f"| {prompts} | {', '.join(f'{rate:g}' for rate in rates)} | {held:.1%} | {width:.1f} |")
        if beyond(held, LEVEL, runs // 4) < -SIGMAS:
            misses.append(f"places of {len(rates)} runs, {prompts} prompts: {held:.1%} hold, the goal is {LEVEL:.0%}")
    return lines, misses
