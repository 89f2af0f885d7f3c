"""Simulated evaluations: prompts of a known difficulty, the rows of runs on them, and what ae-compare says of these.

The runs go through the same code as those of ae-compare, from rows to the report and the gate. Prompts are drawn anew
for each simulated evaluation, with difficulties from a beta distribution; the truth is known because it was drawn from.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from agenteval.comparison.comparison import CompareSettings, Comparison
from agenteval.comparison.row_table import ComparedRow, RowTable
from agenteval.comparison.rows import RowOptions, RunRows
from agenteval.comparison.verdicts import GateSettings, gate_reasons

ONE_SIDED = 0.002  # of all intervals, where 2.5% may miss on either side

TRUTH_SEED = 13
CENTRE, BETWEEN, WITHIN = 7.0, 0.5, 0.4  # of log milliseconds: prompts differ, and so do trials
CONCENTRATION = 8.0  # of continuous scores around a prompt's mean
CLUSTER = 5  # prompts in a cluster
PART = 3  # of ten trials, for pass@j and pass^j with j below k
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
    timed: bool = True
    """Whether runs have times, tokens and costs; without, it is faster."""
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
    """What is counted over the repetitions: intervals that hold, of how many, those that are too high, and events."""

    held: Counter[str]
    intervals: Counter[str]
    events: Counter[str]
    too_high: Counter[str]
    """Intervals whose lower bound is above the truth."""

    def share(self, name: str) -> float:
        """How often the interval held."""
        return self.held[name] / self.intervals[name]

    def one_sided(self, name: str) -> bool:
        """Whether it is hardly ever missed on one side: the truth is so near 0 or 1 that no outcome excludes it."""
        above, missed = self.too_high[name], self.intervals[name] - self.held[name]
        return min(above, missed - above) < ONE_SIDED * self.intervals[name]


# --- simulated runs -----------------------------------------------------------------------------


def difficulties(scenario: Scenario, rng: np.random.Generator) -> Any:
    """The chance of each prompt to pass; prompts of a cluster share it."""
    alpha, beta = scenario.mean * scenario.spread, (1 - scenario.mean) * scenario.spread
    if not scenario.clustered:
        return rng.beta(alpha, beta, scenario.n)
    return np.repeat(rng.beta(alpha, beta, -(-scenario.n // CLUSTER)), CLUSTER)[: scenario.n]


def simulate(scenario: Scenario, rng: np.random.Generator) -> list[RunRows]:
    """The runs of one evaluation."""
    chances, centres = difficulties(scenario, rng), rng.normal(CENTRE, BETWEEN, scenario.n)
    if scenario.clustered:
        centres = np.repeat(centres, CLUSTER)[: scenario.n]
    runs: list[RunRows] = []
    for number in range(scenario.runs):
        factor, cost, k = (
            (scenario.factor, scenario.cost, scenario.other_k or scenario.k) if number else (1, 1, scenario.k)
        )
        trials = max(1, k)
        scores = drawn_scores(scenario, chances * factor, trials, rng)
        if scenario.timed:
            taken = (np.exp(centres[:, None] + rng.normal(0, WITHIN, (scenario.n, trials))) * cost).tolist()
        else:
            taken = [()] * scenario.n
        drawn = enumerate(zip(scores.tolist(), taken, strict=True))
        rows = {f"p{i}": _row(*values, f"c{i // CLUSTER}" if scenario.clustered else None) for i, values in drawn}
        runs.append(RunRows(f"run{number}", RowTable(rows), clustered=scenario.clustered))
    return runs


def drawn_scores(scenario: Scenario, chances: Any, trials: int, rng: np.random.Generator) -> Any:
    """A score of each trial: 0 or 1, or continuous around the prompt's chance."""
    shape = (len(chances), trials)
    if not scenario.continuous:
        return (rng.random(shape) < chances[:, None]).astype(float)
    inner = np.clip(chances, 1e-3, 1 - 1e-3)[:, None]
    return rng.beta(inner * CONCENTRATION, (1 - inner) * CONCENTRATION, shape)


def _row(scores: Sequence[float], taken: Sequence[float], cluster: str | None) -> ComparedRow:
    k = len(scores)
    return ComparedRow(
        k=k,
        attempts=k,
        graded=k,
        passed=sum(score >= 0.5 for score in scores),
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

    def power(alpha: float, beta: float, k: int = k) -> float:
        return math.prod((alpha + i) / (alpha + beta + i) for i in range(k))

    factors = (1.0, scenario.factor)
    rates = scores = [scenario.mean * factor for factor in factors]
    every = [factor**k * power(alpha, beta) for factor in factors]
    once = 1 - power(beta, alpha)
    if scenario.continuous:
        rng = np.random.default_rng(TRUTH_SEED)
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
        "pass@j, j < k": 1 - power(beta, alpha, PART),
        "pass^j, j < k": power(alpha, beta, PART),
        "latency p50": math.exp(CENTRE),
        "latency p90": math.exp(CENTRE + 1.2815515655 * spread),
        "latency mean": math.exp(CENTRE + spread**2 / 2),
        "latency, ratio": 1 / scenario.cost,
        "cost, ratio": 1 / scenario.cost,
    }


# --- one evaluation -----------------------------------------------------------------------------


def comparison_of(scenario: Scenario) -> Comparison:
    """The comparison, by clusters if the scenario has any."""
    return Comparison(trials=bool(scenario.k), options=RowOptions(cluster_by="cluster" if scenario.clustered else None))


def found_intervals(scenario: Scenario, report: Any) -> Iterator[tuple[str, Any]]:
    """The intervals of the first run, and of the first pair."""
    pair, performance = report.statistics.pairs[0], report.performance["run0"]
    if scenario.timed:
        yield "cost, ratio", pair.resources.cost.interval
        if performance.confidence_intervals:
            yield "latency mean", performance.confidence_intervals.latency_mean
        yield "latency p50", performance.latency.p50_interval
        yield "latency p90", performance.latency.p90_interval
        yield "latency, ratio", pair.resources.latency.interval
    if scenario.k:
        yield from trial_intervals(scenario, report, pair)
        return
    quality = report.quality["run0"]
    yield "pass rate", quality.pass_interval
    yield "pass rate, difference", pair.pass_rate.interval
    if scenario.continuous:
        yield "score", quality.score_interval
        yield "score, difference", pair.score.interval


def trial_intervals(scenario: Scenario, report: Any, pair: Any) -> Iterator[tuple[str, Any]]:
    """The intervals of trials; scores are not 0 and 1 only if they are continuous."""
    yield "pass rate", report.statistics.runs["run0"].interval
    yield "pass rate, difference", pair.interval
    if scenario.continuous:
        yield "score", report.quality["run0"].score_interval
        yield "score, difference", pair.score.interval
        return
    yield "pass^k, difference", pair.pass_exp.interval
    if scenario.timed:
        once, every = report.capability["run0"].pass_at_intervals, report.reliability["run0"].pass_exp_intervals
        k = min(scenario.k, scenario.other_k or scenario.k)
        for name, j in (("k", k), *([("j", PART)] if scenario.k > PART else [])):
            ending = ", j < k" if name == "j" else ""
            yield f"pass@{name}{ending}", once.get(str(j))
            yield f"pass^{name}{ending}", every.get(str(j))


def repeat(scenario: Scenario, seed: int, repetitions: int, bootstrap: int = 0) -> Counts:
    """Counts over that many evaluations of one scenario."""
    rng, expected, comparison = np.random.default_rng(seed), truths(scenario), comparison_of(scenario)
    counts = Counts(Counter(), Counter(), Counter(), Counter())
    settings = CompareSettings("statistical", iterations=bootstrap or None, seed=1)
    for _ in range(repetitions):
        report = comparison.compare(simulate(scenario, rng), settings)
        for name, found in found_intervals(scenario, report):
            if found is None:
                continue
            low, high = (found.low, found.high) if hasattr(found, "low") else found
            counts.intervals[name] += 1
            counts.held[name] += low - 1e-12 <= expected[name] <= high + 1e-12
            counts.too_high[name] += expected[name] < low - 1e-12
        pairs = report.statistics.pairs
        counts.events["better"] += any(pair.better is not None for pair in pairs)
        counts.events["gate"] += bool(gate_reasons(report, GateSettings()))
        counts.events["proof"] += bool(gate_reasons(report, GateSettings(proof=True)))
    return counts
