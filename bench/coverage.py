"""How often the intervals of ae-compare hold, how often it is wrong, and how much it sees: simulated evaluations.

`make coverage` runs all scenarios (some minutes on two cores) and writes the table of docs/statistics.md. The runs go
through the same code as those of ae-compare, from rows to the report and the gate. Prompts are drawn anew for each
simulated evaluation, with difficulties from a beta distribution; the truth is known because it was drawn from.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from agenteval.comparison.analysis.gate import GateSettings
from agenteval.comparison.comparison import CompareSettings, Comparison
from agenteval.comparison.pairing import RunRows
from agenteval.comparison.result_rows import ResultRow
from agenteval.comparison.results import ResultsComparison
from agenteval.comparison.row_facts import RowOptions
from agenteval.comparison.trial_rows import TrialRow
from agenteval.comparison.trials import TrialsComparison

SEED = 13
REPETITIONS = 1000
PAGE = Path(__file__).resolve().parents[1] / "docs" / "statistics.md"
MARKS = ("<!-- make coverage: begin -->", "<!-- make coverage: end -->")
CENTRE, BETWEEN, WITHIN = 7.0, 0.5, 0.4  # of log milliseconds: prompts differ, and so do trials
CONCENTRATION = 8.0  # of continuous scores around a prompt's mean
CLUSTER = 5  # prompts in a cluster
PROMPTS = 400_000  # drawn to know the truth of continuous scores


class Scenario(NamedTuple):
    """Evaluations of one kind: n prompts, k trials of each (0: results), runs whose pass chance falls by `factor`."""

    n: int
    k: int = 0
    runs: int = 2
    mean: float = 0.8
    spread: float = 2.0
    """Beta difficulty: alpha + beta. Small: prompts pass always or never; large: all are alike."""
    factor: float = 1.0
    """The chance of every run but the first, divided by that of the first."""
    cost: float = 1.0
    """What every run but the first takes, divided by what the first takes."""
    continuous: bool = False
    clustered: bool = False
    other_k: int = 0
    """Trials of every run but the first, if not k."""

    @property
    def name(self) -> str:
        """How the tables call it."""
        kind = f"trials, k {self.k}" if self.k else "results"
        kind += f" and {self.other_k}" if self.other_k else ""
        parts = [kind, "scores" if self.continuous else "", "clusters" if self.clustered else ""]
        return ", ".join(filter(None, parts))


class Counts(NamedTuple):
    """What is counted over the repetitions: intervals that hold, of how many, and events."""

    held: Counter[str]
    intervals: Counter[str]
    events: Counter[str]


# --- simulated runs -----------------------------------------------------------------------------


def difficulties(scenario: Scenario, rng: np.random.Generator) -> Any:
    """The chance of each prompt to pass; prompts of a cluster share it."""
    alpha, beta = scenario.mean * scenario.spread, (1 - scenario.mean) * scenario.spread
    if not scenario.clustered:
        return rng.beta(alpha, beta, scenario.n)
    return np.repeat(rng.beta(alpha, beta, -(-scenario.n // CLUSTER)), CLUSTER)[: scenario.n]


def simulate(scenario: Scenario, rng: np.random.Generator) -> list[RunRows[Any]]:
    """The runs of one evaluation."""
    chances, centres = difficulties(scenario, rng), rng.normal(CENTRE, BETWEEN, scenario.n)
    runs: list[RunRows[Any]] = []
    for number in range(scenario.runs):
        factor, cost, k = (
            (scenario.factor, scenario.cost, scenario.other_k or scenario.k) if number else (1, 1, scenario.k)
        )
        trials = max(1, k)
        scores = drawn_scores(scenario, chances * factor, trials, rng)
        taken = np.exp(centres[:, None] + rng.normal(0, WITHIN, (scenario.n, trials))) * cost
        rows = {
            f"p{i}": (_trial_row if k else _result_row)(scores[i].tolist(), taken[i].tolist(), f"c{i // CLUSTER}")
            for i in range(scenario.n)
        }
        runs.append(RunRows(f"run{number}", rows))
    return runs


def drawn_scores(scenario: Scenario, chances: Any, trials: int, rng: np.random.Generator) -> Any:
    """A score of each trial: 0 or 1, or continuous around the prompt's chance."""
    shape = (len(chances), trials)
    if not scenario.continuous:
        return (rng.random(shape) < chances[:, None]).astype(float)
    inner = np.clip(chances, 1e-3, 1 - 1e-3)[:, None]
    return rng.beta(inner * CONCENTRATION, (1 - inner) * CONCENTRATION, shape)


def _result_row(scores: Sequence[float], taken: Sequence[float], cluster: str) -> ResultRow:
    [score], [took] = scores, taken
    return ResultRow(score=score, passed=score >= 0.5, duration=took, tokens=took, cost=took, cluster=cluster)


def _trial_row(scores: Sequence[float], taken: Sequence[float], cluster: str) -> TrialRow:
    k, passed = len(scores), sum(score >= 0.5 for score in scores)
    return TrialRow(
        k=k,
        trials=k,
        graded=k,
        passed=passed,
        pass_rate=passed / k,
        pass_at_k=1.0,
        pass_exp_k=1.0,
        scores=tuple(scores),
        durations=tuple(taken),
        token_values=tuple(taken),
        cost_values=tuple(taken),
        cluster=cluster,
    )


# --- the truth ----------------------------------------------------------------------------------


def truths(scenario: Scenario) -> dict[str, float]:
    """What the intervals should contain: moments of the beta distribution; of continuous scores, of many prompts."""
    alpha, beta = scenario.mean * scenario.spread, (1 - scenario.mean) * scenario.spread
    k = min(scenario.k, scenario.other_k or scenario.k)

    def power(alpha: float, beta: float) -> float:
        return math.prod((alpha + i) / (alpha + beta + i) for i in range(k))

    factors = (1.0, scenario.factor)
    rates = scores = [scenario.mean * factor for factor in factors]
    every = [factor**k * power(alpha, beta) for factor in factors]
    once = 1 - power(beta, alpha)
    if scenario.continuous:
        rng = np.random.default_rng(SEED)
        chances = rng.beta(alpha, beta, PROMPTS)
        drawn = [drawn_scores(scenario, chances * factor, 1, rng)[:, 0] for factor in factors]
        rates, scores = [float((one >= 0.5).mean()) for one in drawn], [float(one.mean()) for one in drawn]
        every = [math.nan] * 2
        once = math.nan
    spread = math.sqrt(BETWEEN**2 + WITHIN**2)
    return {
        "pass rate": rates[0],
        "score": scores[0],
        "pass rate, difference": rates[0] - rates[1],
        "score, difference": scores[0] - scores[1],
        "pass^k": every[0],
        "pass@k": once,
        "pass^k, difference": every[0] - every[1],
        "latency p50": math.exp(CENTRE),
        "latency p90": math.exp(CENTRE + 1.2815515655 * spread),
        "latency mean": math.exp(CENTRE + spread**2 / 2),
        "latency, ratio": 1 / scenario.cost,
        "cost, ratio": 1 / scenario.cost,
    }


# --- one evaluation -----------------------------------------------------------------------------


def comparison_of(scenario: Scenario) -> Comparison[Any]:
    """The comparison, by clusters if the scenario has any."""
    options = RowOptions(cluster_by=("cluster",) if scenario.clustered else None)
    return TrialsComparison(options) if scenario.k else ResultsComparison(options)


def found_intervals(scenario: Scenario, report: Any) -> Iterator[tuple[str, Any]]:
    """The intervals of the first run, and of the first pair."""
    pair = report.statistics.pairs[0]
    performance = report.performance["run0"]
    yield "cost, ratio", pair.resources.cost.interval
    if scenario.k:
        run, k = report.statistics.runs["run0"], str(min(scenario.k, scenario.other_k or scenario.k))
        yield "pass rate", run.interval
        yield "pass rate, difference", pair.interval
        if not scenario.continuous:
            yield "pass@k", report.capability["run0"].pass_at_intervals.get(k)
            yield "pass^k", report.reliability["run0"].pass_exp_intervals.get(k)
            yield "pass^k, difference", pair.pass_exp.interval
        else:
            yield "score", report.quality["run0"].score_interval
            yield "score, difference", pair.score.interval
    else:
        quality = report.quality["run0"]
        yield "pass rate", quality.pass_interval
        yield "pass rate, difference", pair.pass_rate.interval
        yield "latency p50", performance.latency.p50_interval
        yield "latency p90", performance.latency.p90_interval
        yield "latency, ratio", pair.resources.latency.interval
        if scenario.continuous:
            yield "score", quality.score_interval
            yield "score, difference", pair.interval
    if performance.confidence_intervals:
        yield "latency mean", performance.confidence_intervals.latency_mean


def repeat(scenario: Scenario, seed: int, repetitions: int, bootstrap: int = 0) -> Counts:
    """Counts over that many evaluations of one scenario."""
    rng, expected, comparison = np.random.default_rng(seed), truths(scenario), comparison_of(scenario)
    counts = Counts(Counter(), Counter(), Counter())
    settings = CompareSettings("statistical", iterations=bootstrap or None, seed=1)
    for _ in range(repetitions):
        report = comparison.compare(simulate(scenario, rng), settings)
        for name, found in found_intervals(scenario, report):
            if found is None:
                continue
            low, high = (found.low, found.high) if hasattr(found, "low") else found
            counts.intervals[name] += 1
            counts.held[name] += low - 1e-12 <= expected[name] <= high + 1e-12
        pairs = report.statistics.pairs
        counts.events["better"] += any(pair.better is not None or "passes more" in pair.verdict for pair in pairs)
        counts.events["gate"] += bool(comparison.gate(report, GateSettings()))
        counts.events["proof"] += bool(comparison.gate(report, GateSettings(proof=True)))
    return counts


# --- the scenarios and their table --------------------------------------------------------------

SIZES = (10, 14, 30, 100, 300)
INTERVALS = [
    *[Scenario(n, mean=mean, factor=0.9, cost=1.5) for n in (10, 30, 100, 1000) for mean in (0.6, 0.8)],
    *[Scenario(n, continuous=True, mean=0.7, factor=0.9, cost=1.5) for n in (10, 30, 100, 1000)],
    *[Scenario(n, k=k, mean=0.8, factor=0.9, cost=1.5) for n in (10, 30, 100, 300) for k in (3, 10)],
    *[Scenario(n, k=3, mean=0.8, spread=0.5, factor=0.9) for n in (10, 30, 100)],
    *[Scenario(n, k=5, continuous=True, mean=0.7, factor=0.9) for n in (10, 30, 100)],
    *[Scenario(n, k=3, other_k=10, factor=0.9) for n in (10, 30, 100)],
    *[Scenario(n, clustered=True, mean=0.7, factor=0.9) for n in (100, 300)],
    *[Scenario(n, k=3, clustered=True, mean=0.7, factor=0.9) for n in (100, 300)],
]
UNCHANGED = [
    *[Scenario(n, mean=mean) for n in SIZES for mean in (0.7, 0.9)],
    *[Scenario(n, k=k, mean=mean) for n in SIZES for k in (3, 10) for mean in (0.7, 0.9)],
    *[Scenario(n, k=3, mean=mean, spread=0.5) for n in SIZES for mean in (0.7, 0.9)],
    *[Scenario(n, k=3, other_k=10) for n in SIZES],
    *[Scenario(n, continuous=True) for n in SIZES],
    *[
        Scenario(n, runs=runs, continuous=continuous)
        for n in (14, 100)
        for runs in (3, 5)
        for continuous in (False, True)
    ],
    *[Scenario(n, k=3, runs=runs) for n in (14, 100) for runs in (3, 5)],
]
WORSE = [Scenario(n, k=k, factor=0.85) for n in (30, 100, 300) for k in (0, 3)]


def measure(task: tuple[Scenario, int, int, int]) -> Counts:
    """One scenario, in a process of its own."""
    return repeat(*task)


def run_all(scenarios: Sequence[Scenario], seed: int, repetitions: int, bootstrap: int) -> list[Counts]:
    """All scenarios, on all processors."""
    tasks = [(scenario, seed + number, repetitions, bootstrap) for number, scenario in enumerate(scenarios)]
    with get_context("fork").Pool(os.cpu_count()) as pool:
        return pool.map(measure, tasks, chunksize=1)


def coverage_table(results: Sequence[tuple[Scenario, Counts]], repetitions: int) -> list[str]:
    """For each interval and number of prompts: the lowest and the highest share that held, over the scenarios."""
    shares: dict[str, dict[int, list[float]]] = {}
    for scenario, counts in results:
        for name, total in counts.intervals.items():
            if total >= repetitions / 2:  # of few prompts, p90 has no interval
                shares.setdefault(name, {}).setdefault(scenario.n, []).append(counts.held[name] / total)
    sizes = sorted({n for by_size in shares.values() for n in by_size})
    lines = ["| interval of | " + " | ".join(f"n = {n}" for n in sizes) + " |", "|---" * (len(sizes) + 1) + "|"]
    for name in sorted(shares):
        cells = [_range(shares[name].get(n, [])) for n in sizes]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def events_table(results: Sequence[tuple[Scenario, Counts]], repetitions: int, title: str) -> list[str]:
    """For each kind of evaluation: the share with each event, lowest and highest over numbers of prompts."""
    rows: dict[tuple[str, int], list[Counts]] = {}
    for scenario, counts in results:
        rows.setdefault((scenario.name, scenario.runs), []).append(counts)
    lines = [f"| {title} | runs | better shown | `--fail-if-worse` exits 1 |", "|---|---:|---:|---:|"]
    for (name, runs), counted in rows.items():
        shown = [_range([counts.events[event] / repetitions for counts in counted]) for event in ("better", "gate")]
        lines.append(f"| {name} | {runs} | {' | '.join(shown)} |")
    return lines


def power_table(results: Sequence[tuple[Scenario, Counts]], repetitions: int) -> list[str]:
    """How often a run that passes 15 % less often is found."""
    lines = ["| now passes 68 %, before 80 % | n | better shown | `--fail-if-worse` exits 1 |", "|---|---:|---:|---:|"]
    for scenario, counts in results:
        shown = [f"{counts.events[event] / repetitions:.1%}" for event in ("better", "gate")]
        lines.append(f"| {scenario.name} | {scenario.n} | {' | '.join(shown)} |")
    return lines


def _range(shares: Sequence[float]) -> str:
    if not shares:
        return "–"
    low, high = f"{min(shares):.1%}", f"{max(shares):.1%}"
    return low if low == high else f"{low} to {high}"


def report(seed: int, repetitions: int, bootstrap: int) -> str:
    """The tables of the page."""
    started = time.monotonic()
    parts: dict[str, list[tuple[Scenario, Counts]]] = {}
    for name, scenarios in (("intervals", INTERVALS), ("unchanged", UNCHANGED), ("worse", WORSE)):
        found = run_all(scenarios, seed, repetitions, bootstrap if name == "intervals" else 0)
        parts[name] = list(zip(scenarios, found, strict=True))
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    kinds = len(INTERVALS) + len(UNCHANGED) + len(WORSE)
    lines = [
        f"Seed {seed}, {repetitions:,} simulated evaluations of each of {kinds} kinds.",
        "How often a 95 % interval contains the truth, lowest and highest over the kinds:",
        "",
        *coverage_table(parts["intervals"], repetitions),
        "",
        "Two runs or more of the same agent, n 10 to 300: how often a run is wrongly called better, or stopped:",
        "",
        *events_table(parts["unchanged"], repetitions, "unchanged agent"),
        "",
        "A run that is worse: how often it is found:",
        "",
        *power_table(parts["worse"], repetitions),
    ]
    return "\n".join(lines)


def main() -> int:
    """Prints the tables, and writes them into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--bootstrap", type=int, default=400, help="resamples of the interval of the mean latency")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/statistics.md")
    options = parser.parse_args()
    text = report(options.seed, options.repetitions, options.bootstrap)
    print(text)
    if options.write:
        before, _, rest = PAGE.read_text().partition(MARKS[0])
        PAGE.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
