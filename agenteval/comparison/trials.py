"""Trials of the same prompts → which run is better, and is it luck: the trials comparison report, without any I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from msgspec import structs

from agenteval.comparison import statistics as stats
from agenteval.comparison.pairing import (
    TIE,
    ComparisonKind,
    GraderRanking,
    Scores,
    Strategy,
    WinCounts,
    analyse,
    beaten_by_first,
    prompt_payload,
    shared_prompts,
    winner,
)
from agenteval.comparison.pass_at_k import seed_pass_at_k, seed_pass_exp_k
from agenteval.comparison.result_rows import RunRows
from agenteval.comparison.trial_rows import (
    TrialFacts,
    TrialRow,
    boil_down_trials,
    capability,
    flakiness,
    flakiness_of,
    run_statistics,
    trial_performance,
    trial_quality,
    trial_reliability,
)
from agenteval.wire.comparison import PerformanceIntervals
from agenteval.wire.records import Record
from agenteval.wire.trials_comparison import (
    CapabilityIntervals,
    ReliabilityIntervals,
    ScoreIntervals,
    TrialsComparisonReport,
    TrialsHeadToHead,
    TrialsMeta,
    TrialsPairStatistics,
    TrialsPrompt,
    TrialsStatistics,
)

PAYLOAD = ("passRate", "passAtK", "passExpK", "passAt", "passExp", "k", "trials")

TrialRows = Mapping[str, TrialRow]


# --- how a strategy sees one prompt -------------------------------------------------------------


class TrialWeights(NamedTuple):
    """How much each term of the weighted strategy counts."""

    capability: float = 0.4
    reliability: float = 0.4
    consistency: float = 0.2


class Side(NamedTuple):
    """How one run does on one prompt, at a k that all runs compared there have; None where it is not graded."""

    pass_rate: float | None
    at: float | None
    exp: float | None
    flakiness: float | None


def common_k(rows: TrialRows) -> int:
    """The smallest k of the runs on one prompt."""
    return min(row.k for row in rows.values())


def sides(rows: TrialRows) -> dict[str, Side]:
    """The runs on one prompt, at their smallest k: once in five trials is easier than once in three."""
    k = common_k(rows)
    return {label: _side(row, k) for label, row in rows.items()}


def _side(row: TrialRow, k: int) -> Side:
    at, exp = row.pass_at_k, row.pass_exp_k
    if row.k != k:
        known = row.pass_rate
        at = None if known is None else seed_pass_at_k(known, k)
        exp = None if known is None else seed_pass_exp_k(known, k)
    return Side(row.pass_rate, at, exp, flakiness_of(at, exp))


def weighted(weights: TrialWeights) -> Strategy[TrialRow]:
    """passAtK, passExpK and freedom from flakiness in one number; a run that is not graded has none."""

    def score(side: Side) -> float | None:
        if side.at is None or side.exp is None or side.flakiness is None:
            return None
        steady = 1 - side.flakiness
        return side.at * weights.capability + side.exp * weights.reliability + steady * weights.consistency

    def judge(_id: str, rows: TrialRows) -> GraderRanking:
        scores = {label: score(side) for label, side in sides(rows).items()}
        return GraderRanking(scores, scores)

    return Strategy(judge)


def by_pass_rate() -> Strategy[TrialRow]:
    """The share of trials that pass: the statistical strategy."""

    def judge(_id: str, rows: TrialRows) -> GraderRanking:
        rates = {label: row.pass_rate for label, row in rows.items()}
        return GraderRanking(rates, rates)

    return Strategy(judge)


# --- head to head -------------------------------------------------------------------------------


def at_standing(_id: str, rows: TrialRows) -> Scores:
    """How the runs stand by capability."""
    return {label: side.at for label, side in sides(rows).items()}


def exp_standing(_id: str, rows: TrialRows) -> Scores:
    """How the runs stand by reliability."""
    return {label: side.exp for label, side in sides(rows).items()}


def head_to_head(
    runs: Sequence[RunRows[TrialRow]], strategy: Strategy[TrialRow]
) -> tuple[TrialsHeadToHead, list[TrialsPrompt]]:
    """The wins of every two runs, and an entry for every prompt that two runs or more have."""
    prompts: list[TrialsPrompt] = []
    by_at, by_exp = WinCounts(runs, at_standing), WinCounts(runs, exp_standing)
    overall = WinCounts(runs, lambda id, rows: strategy.judge(id, rows).standing)
    for id, rows in shared_prompts(runs):
        judged = strategy.judge(id, rows)
        found = _compare_prompt(id, rows, judged, strategy)
        prompts.append(found)
        by_at.count(id, rows, found.pass_at_k, found.capability_winner)
        by_exp.count(id, rows, found.pass_exp_k, found.reliability_winner)
        overall.count(id, rows, judged.standing, found.winner)
    wins = TrialsHeadToHead(capability=by_at.pairwise(), reliability=by_exp.pairwise(), overall=overall.pairwise())
    return wins, prompts


def _compare_prompt(id: str, rows: TrialRows, judged: GraderRanking, strategy: Strategy[TrialRow]) -> TrialsPrompt:
    ranked = strategy.rankings.get(id)
    seen = sides(rows)
    at: Scores = {label: side.at for label, side in seen.items()}
    exp: Scores = {label: side.exp for label, side in seen.items()}
    return TrialsPrompt(
        id=id,
        capability_winner=winner(at),
        reliability_winner=winner(exp),
        winner=winner(judged.standing),
        k=common_k(rows),
        pass_rate={label: side.pass_rate for label, side in seen.items()},
        pass_at_k=at,
        pass_exp_k=exp,
        flakiness={label: side.flakiness for label, side in seen.items()},
        scores=judged.scores,
        reasoning=ranked.reasoning if ranked else None,
        grader_error=ranked.error if ranked else None,
    )


# --- is it luck ---------------------------------------------------------------------------------


def mean_score(row: TrialRow) -> float | None:
    """The mean over the trials that have a score."""
    return stats.mean(row.scores)


def pass_rate(row: TrialRow) -> float | None:
    """The share of trials that pass."""
    return row.pass_rate


def differences(a: RunRows[TrialRow], b: RunRows[TrialRow], value: Callable[[TrialRow], float | None]) -> list[float]:
    """A's value minus B's for each prompt that has one in both: one per prompt, however many its trials."""
    both = ((value(row), other) for id, row in a.rows.items() if (other := b.rows.get(id)) is not None)
    pairs = ((ours, value(other)) for ours, other in both if ours is not None)
    return [ours - theirs for ours, theirs in pairs if theirs is not None]


def pair_statistics(a: RunRows[TrialRow], b: RunRows[TrialRow]) -> TrialsPairStatistics:
    """The paired analysis of two runs: of pass rates and, where there are any, of scores."""
    scores = differences(a, b, mean_score)
    return TrialsPairStatistics(
        score=analyse(a.label, b.label, scores) if scores else None,
        **structs.asdict(analyse(a.label, b.label, differences(a, b, pass_rate))),
    )


# --- the report ---------------------------------------------------------------------------------


def compare(
    runs: Sequence[RunRows[TrialRow]], strategy: Strategy[TrialRow], meta: TrialsMeta
) -> TrialsComparisonReport:
    """The whole report; add_bootstrap adds the intervals that need resampling."""
    wins, prompts = head_to_head(runs, strategy)
    quality = {run.label: found for run in runs if (found := trial_quality(run.rows.values())) is not None}
    return TrialsComparisonReport(
        meta=meta,
        capability={run.label: capability(run.rows.values()) for run in runs},
        reliability={run.label: trial_reliability(run.rows.values()) for run in runs},
        flakiness={run.label: flakiness(run.rows) for run in runs},
        quality=quality or None,
        performance={run.label: trial_performance(run.rows.values()) for run in runs},
        statistics=TrialsStatistics(
            runs={run.label: run_statistics(run.rows.values()) for run in runs},
            pairs=[pair_statistics(a, b) for a, b in combinations(runs, 2)],
        ),
        head_to_head=wins,
        per_prompt=prompts,
    )


class Columns:
    """What is to be resampled, prompt by prompt, and where each interval goes."""

    def __init__(self) -> None:
        self.values: list[Sequence[float]] = []
        self.counts: dict[int, Sequence[float]] = {}

    def add(self, values: Sequence[float]) -> None:
        """One value per prompt."""
        self.values.append(values)

    def add_clusters(self, clusters: Sequence[Sequence[float]]) -> None:
        """One list per prompt: its trials are drawn together."""
        clusters = [cluster for cluster in clusters if cluster]
        self.counts[len(self.values)] = [len(cluster) for cluster in clusters]
        self.values.append([sum(cluster) for cluster in clusters])


def add_bootstrap(
    report: TrialsComparisonReport, runs: Sequence[RunRows[TrialRow]], iterations: int, seed: int
) -> None:
    """Put bootstrap intervals beside the means of every run and the differences of every pair."""
    columns = Columns()
    for run in runs:
        rows = run.rows.values()
        columns.add([row.pass_at_k for row in rows if row.pass_at_k is not None])
        columns.add([row.pass_exp_k for row in rows if row.pass_exp_k is not None])
        columns.add_clusters([row.scores for row in rows])
        columns.add_clusters([row.durations for row in rows])
        columns.add_clusters([[1.0] * row.passed + [0.0] * (row.graded - row.passed) for row in rows])
    for a, b in combinations(runs, 2):
        columns.add(differences(a, b, pass_rate))
        columns.add(differences(a, b, mean_score))
    intervals = iter(stats.bootstrap_intervals(columns.values, iterations, seed, columns.counts))
    for run in runs:
        at, exp, score, latency, rate = (next(intervals) for _ in range(5))
        report.capability[run.label].confidence_intervals = CapabilityIntervals(avg_pass_at_k=at)
        report.reliability[run.label].confidence_intervals = ReliabilityIntervals(avg_pass_exp_k=exp)
        if report.quality and run.label in report.quality:
            report.quality[run.label].confidence_intervals = ScoreIntervals(avg_score=score)
        report.performance[run.label].confidence_intervals = PerformanceIntervals(latency_mean=latency)
        report.statistics.runs[run.label].bootstrap_interval = rate
    for pair in report.statistics.pairs:
        pair.bootstrap_interval, score = next(intervals), next(intervals)
        if pair.score:
            pair.score.bootstrap_interval = score


# --- meta, and the custom strategy --------------------------------------------------------------


def trials_meta(runs: Sequence[RunRows[TrialRow]], /, **facts: Any) -> TrialsMeta:
    """The report's meta; where k is not the same everywhere, how many prompts of each run have which."""
    ks = {run.label: Counter(row.k for row in run.rows.values()) for run in runs}
    every = {k for counter in ks.values() for k in counter}
    mixed = {label: {str(k): counter[k] for k in sorted(counter)} for label, counter in ks.items()}
    return TrialsMeta(
        trials_per_prompt=min(every, default=None),
        input_format="trials",
        mixed_k=mixed if len(every) > 1 else None,
        **facts,
    )


def remarks(report: TrialsComparisonReport) -> list[str]:
    """What a reader of the figures should know of the files."""
    said = []
    if report.meta.mixed_k:
        ks = ", ".join(f"{label} {' and '.join(counts)}" for label, counts in report.meta.mixed_k.items())
        said.append(
            f"k is not the same everywhere ({ks}): a run's passAtK and passExpK are over its own k, "
            "a prompt is won at the smallest k there"
        )
    for label, found in report.statistics.runs.items():
        if found.incomplete:
            said.append(
                f"{label}: {found.incomplete} of {found.prompts} prompts have not k trials; what there is counts"
            )
    return said


def worse(report: TrialsComparisonReport) -> list[str]:
    """What is worse in a run than in the first one, the baseline: its pass rate, or how often all k trials pass."""
    first, *others = report.meta.runs
    said = beaten_by_first(report.meta.runs, report.statistics.pairs)
    for label in others:
        rates = ((prompt.pass_exp_k.get(first), prompt.pass_exp_k.get(label)) for prompt in report.per_prompt)
        both = [(before, now) for before, now in rates if before is not None and now is not None]
        before, now = stats.mean([pair[0] for pair in both]), stats.mean([pair[1] for pair in both])
        if before is not None and now is not None and now < before - TIE:
            said.append(f"{label}: pass^k falls from {before:.3f} to {now:.3f}, on {len(both)} prompts graded in both")
    return said


def trials_payload(id: str, records: Mapping[str, Record], rows: TrialRows) -> Record:
    """What a comparison grader is given for one prompt; rates that a record does not have are worked out."""
    return prompt_payload(id, records, {label: _run_payload(record, rows[label]) for label, record in records.items()})


def _run_payload(record: Record, row: TrialRow) -> Record:
    known = {"passRate": row.pass_rate, "passAtK": row.pass_at_k, "passExpK": row.pass_exp_k}
    given = {field: record[field] for field in PAYLOAD if record.get(field) is not None}
    return {**{field: rate for field, rate in known.items() if rate is not None}, **given}


TRIALS = ComparisonKind(
    name="trials",
    noun="prompts",
    facts=TrialFacts,
    boil_down=boil_down_trials,
    weights=TrialWeights(),
    weighted=weighted,
    statistical=by_pass_rate,
    payload=trials_payload,
    meta=trials_meta,
    compare=compare,
    add_bootstrap=add_bootstrap,
    remarks=remarks,
    worse=worse,
)
