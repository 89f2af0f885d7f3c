"""Results of the same prompts → which run is better, and is it luck: the comparison report, without any I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from msgspec import structs

from agenteval.comparison import statistics as stats
from agenteval.comparison.pairing import (
    ComparisonKind,
    GraderRanking,
    PromptRanking,
    Scores,
    Strategy,
    WinCounts,
    analyse,
    beaten_by_first,
    prompt_payload,
    shared_prompts,
    winner,
)
from agenteval.comparison.result_rows import (
    ComparedResult,
    ResultRow,
    RunRows,
    performance,
    quality,
    reliability,
    result_row,
    trajectory_info,
)
from agenteval.wire.comparison import (
    ComparisonReport,
    HeadToHead,
    McNemar,
    PairStatistics,
    PerformanceIntervals,
    PromptComparison,
    QualityIntervals,
    ReportMeta,
    Statistics,
)
from agenteval.wire.records import Record

Rows = Mapping[str, ResultRow]


# --- how a strategy sees one prompt -------------------------------------------------------------


class QualityWeights(NamedTuple):
    """How much each term of the weighted strategy counts."""

    quality: float = 0.5
    latency: float = 0.3
    reliability: float = 0.2


def weighted(weights: QualityWeights) -> Strategy[ResultRow]:
    """Quality, speed and reliability in one number, over the terms that all the rows compared have.

    The seed's harness takes 0 for a missing score and 10 s for a missing duration. Here such a term is left
    out for every run compared on that prompt, and the others are scaled up to the full weight: an unknown
    neither helps nor hurts.
    """

    def judge(_id: str, rows: Rows) -> GraderRanking:
        quality = weights.quality if all(row.score is not None for row in rows.values()) else 0.0
        latency = weights.latency if all(row.duration is not None for row in rows.values()) else 0.0
        known = quality + latency + weights.reliability
        if known <= 0:
            return GraderRanking(unknown := dict.fromkeys(rows), unknown)
        scale = sum(weights) / known
        scores: Scores = {
            label: scale
            * (
                quality * (row.score or 0.0)
                + latency / (1 + (row.duration or 0.0) / 1000)
                + (0.0 if row.unreliable else weights.reliability)
            )
            for label, row in rows.items()
        }
        return GraderRanking(scores, scores)

    return Strategy(judge)


def by_grader_score() -> Strategy[ResultRow]:
    """The grader's score alone: the statistical strategy."""

    def judge(_id: str, rows: Rows) -> GraderRanking:
        scores = {label: row.score for label, row in rows.items()}
        return GraderRanking(scores, scores)

    return Strategy(judge)


# --- head to head -------------------------------------------------------------------------------


def head_to_head(runs: Sequence[RunRows[ResultRow]], strategy: Strategy[ResultRow]) -> HeadToHead:
    """An entry for every prompt that two runs or more have, and the wins of every two runs."""
    prompts: list[PromptComparison] = []
    tally = WinCounts(runs, lambda id, rows: strategy.judge(id, rows).standing)
    for id, rows in shared_prompts(runs):
        judged = strategy.judge(id, rows)
        prompts.append(_compare_prompt(id, rows, judged, strategy.rankings.get(id)))
        tally.count(id, rows, judged.standing, prompts[-1].winner)
    return HeadToHead(prompts=prompts, pairwise=tally.pairwise())


def _compare_prompt(id: str, rows: Rows, judged: GraderRanking, ranked: PromptRanking | None) -> PromptComparison:
    return PromptComparison(
        id=id,
        winner=winner(judged.standing),
        scores=judged.scores,
        latencies={label: row.duration for label, row in rows.items()},
        had_errors={label: row.unreliable for label, row in rows.items()},
        reasoning=ranked.reasoning if ranked else None,
        grader_error=ranked.error if ranked else None,
    )


# --- is it luck ---------------------------------------------------------------------------------


def graded_pairs(a: RunRows[ResultRow], b: RunRows[ResultRow]) -> list[tuple[ResultRow, ResultRow]]:
    """The rows of both runs for each prompt that is graded in both."""
    both = ((row, b.rows.get(id)) for id, row in a.rows.items() if row.score is not None)
    return [(row, other) for row, other in both if other is not None and other.score is not None]


def differences(a: RunRows[ResultRow], b: RunRows[ResultRow]) -> list[float]:
    """A's score minus B's, for each prompt graded in both."""
    return [(row.score or 0.0) - (other.score or 0.0) for row, other in graded_pairs(a, b)]


def pair_statistics(a: RunRows[ResultRow], b: RunRows[ResultRow]) -> PairStatistics:
    """The paired analysis of two runs."""
    discordant = [row.passed for row, other in graded_pairs(a, b) if row.passed != other.passed]
    only_a, only_b = discordant.count(True), discordant.count(False)
    return PairStatistics(
        mcnemar=McNemar(b=only_a, c=only_b, p=stats.sign_test(only_a, only_b)),
        **structs.asdict(analyse(a.label, b.label, differences(a, b))),
    )


# --- the report ---------------------------------------------------------------------------------


def compare(runs: Sequence[RunRows[ResultRow]], strategy: Strategy[ResultRow], meta: ReportMeta) -> ComparisonReport:
    """The whole report; add_bootstrap adds the intervals that need resampling."""
    return ComparisonReport(
        meta=meta,
        quality={run.label: quality(run.rows.values()) for run in runs},
        performance={run.label: performance(run.rows.values()) for run in runs},
        reliability={run.label: reliability(run.rows.values()) for run in runs},
        trajectory_info={run.label: trajectory_info(run.rows.values()) for run in runs},
        statistics=Statistics(pairs=[pair_statistics(a, b) for a, b in combinations(runs, 2)]),
        head_to_head=head_to_head(runs, strategy),
    )


def add_bootstrap(report: ComparisonReport, runs: Sequence[RunRows[ResultRow]], iterations: int, seed: int) -> None:
    """Put bootstrap intervals beside the means of every run and the difference of every pair."""
    columns: list[Sequence[float]] = []
    for run in runs:
        graded = [row for row in run.rows.values() if row.score is not None]
        columns.append([row.score for row in graded if row.score is not None])
        columns.append([float(row.passed) for row in graded])
        columns.append([row.duration for row in run.rows.values() if row.duration is not None])
    columns += [differences(a, b) for a, b in combinations(runs, 2)]
    intervals = iter(stats.bootstrap_intervals(columns, iterations, seed))
    for run in runs:
        report.quality[run.label].confidence_intervals = QualityIntervals(
            avg_score=next(intervals), pass_rate=next(intervals)
        )
        report.performance[run.label].confidence_intervals = PerformanceIntervals(latency_mean=next(intervals))
    for pair in report.statistics.pairs:
        pair.bootstrap_interval = next(intervals)


# --- the custom strategy ------------------------------------------------------------------------


def comparison_payload(id: str, records: Mapping[str, Record], _rows: Mapping[str, Any]) -> Record:
    """What a comparison grader is given for one prompt; what a record does not have is left out."""
    return prompt_payload(id, records, {label: _run_payload(record) for label, record in records.items()})


def _run_payload(record: Record) -> Record:
    payload: Record = {field: record[field] for field in ("output", "trajectory", "toolErrors") if field in record}
    if record.get("score") is not None and not record.get("graderError"):
        payload["score"] = record["score"]
    if (total := (record.get("timing") or {}).get("total")) is not None:
        payload["duration"] = total
    return payload


def results_meta(_runs: Sequence[RunRows[ResultRow]], /, **facts: Any) -> ReportMeta:
    """The report's meta: what is known of any comparison."""
    return ReportMeta(**facts)


RESULTS = ComparisonKind(
    name="capture",
    noun="results",
    facts=ComparedResult,
    boil_down=result_row,
    weights=QualityWeights(),
    weighted=weighted,
    statistical=by_grader_score,
    payload=comparison_payload,
    meta=results_meta,
    compare=compare,
    add_bootstrap=add_bootstrap,
    remarks=lambda _report: [],
    worse=lambda report: beaten_by_first(report.meta.runs, report.statistics.pairs),
)
