"""Results of the same prompts → which run is better, and is it luck."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from msgspec import structs

from agenteval.comparison import statistics as stats
from agenteval.comparison.comparison import Comparison, Sample, Weights, interval_samples
from agenteval.comparison.pairing import (
    RunRows,
    Scores,
    Strategy,
    WinCounts,
    beaten_by_first,
    differences,
    paired_difference,
    shared_prompts,
    signs,
)
from agenteval.comparison.result_rows import (
    ComparedResult,
    ResultRow,
    performance,
    quality,
    reliability,
    result_row,
    trajectory_info,
    with_failures_graded,
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

Run = RunRows[ResultRow]


class ResultsComparison(Comparison[ResultRow]):
    """Compares runs of results, as ae-capture and ae-grade write them."""

    noun = "results"
    view = ComparedResult
    default_weights = {"quality": 0.5, "latency": 0.3, "reliability": 0.2}

    def row(self, view: ComparedResult, line: int = 0) -> ResultRow:
        """What is kept of a result; BadRecord if it is a trial."""
        return result_row(view, line)

    def complete(self, rows: dict[str, ResultRow]) -> dict[str, ResultRow]:
        """The rows of a run, agents that failed graded as such."""
        return with_failures_graded(rows)

    def weighted_scores(self, rows: Mapping[str, ResultRow], weights: Weights) -> Scores:
        """Quality, speed and reliability in one number, over the terms that all the rows have.

        agent-eval-harness takes 0 for a missing score and 10 s for a missing duration. Here such a term is left
        out for every run of that prompt, and the others are scaled up to the full weight: what is not known
        neither helps nor hurts.
        """
        quality = weights["quality"] if all(row.score is not None for row in rows.values()) else 0.0
        latency = weights["latency"] if all(row.duration is not None for row in rows.values()) else 0.0
        known = quality + latency + weights["reliability"]
        if known <= 0:
            return dict.fromkeys(rows)
        scale = sum(weights.values()) / known
        return {
            label: scale
            * (
                quality * (row.score or 0.0)
                + latency / (1 + (row.duration or 0.0) / 1000)
                + (0.0 if row.unreliable else weights["reliability"])
            )
            for label, row in rows.items()
        }

    def plain_scores(self, rows: Mapping[str, ResultRow]) -> Scores:
        """The grader's scores."""
        return {label: row.score for label, row in rows.items()}

    def run_payload(self, record: Record, _row: ResultRow) -> Record:
        """Output, trajectory, score and duration; what the record lacks is left out."""
        payload: Record = {field: record[field] for field in ("output", "trajectory", "toolErrors") if field in record}
        if record.get("score") is not None and not record.get("graderError"):
            payload["score"] = record["score"]
        if (total := (record.get("timing") or {}).get("total")) is not None:
            payload["duration"] = total
        return payload

    def report(self, runs: Sequence[Run], strategy: Strategy[ResultRow], meta: ReportMeta) -> ComparisonReport:
        """The report without bootstrap intervals."""
        return ComparisonReport(
            meta=meta,
            quality={run.label: quality(run) for run in runs},
            performance={run.label: performance(run) for run in runs},
            reliability={run.label: reliability(run) for run in runs},
            trajectory_info={run.label: trajectory_info(run) for run in runs},
            statistics=Statistics(pairs=[pair_statistics(a, b) for a, b in combinations(runs, 2)]),
            head_to_head=head_to_head(runs, strategy),
        )

    def samples(self, runs: Sequence[Run], report: ComparisonReport) -> Iterator[Sample]:
        """The values of every run, and the differences of scores of every pair."""
        for run in runs:
            scores, passes = run.values("score"), run.values("passes")
            yield from interval_samples(report.quality[run.label], QualityIntervals, avg_score=scores, pass_rate=passes)
            durations = run.values("duration")
            yield from interval_samples(report.performance[run.label], PerformanceIntervals, latency_mean=durations)
        for (a, b), pair in zip(combinations(runs, 2), report.statistics.pairs, strict=True):
            yield Sample(differences(a, b, "score"), pair, "bootstrap_interval")

    def worse(self, report: ComparisonReport) -> list[str]:
        """A sentence for each run whose scores are shown to be worse than those of the first."""
        return beaten_by_first(report.meta.runs, report.statistics.pairs)


def pair_statistics(a: Run, b: Run) -> PairStatistics:
    """The paired analysis of scores and passes."""
    only_a, only_b = signs(differences(a, b, "passes"))
    return PairStatistics(
        mcnemar=McNemar(b=only_a, c=only_b, p=stats.sign_test(only_a, only_b)),
        **structs.asdict(paired_difference(a, b, "score")),
    )


def head_to_head(runs: Sequence[Run], strategy: Strategy[ResultRow]) -> HeadToHead:
    """An entry for every prompt that two runs or more have, and the wins of every two runs."""
    prompts = []
    wins = WinCounts(runs, lambda id, rows: strategy(id, rows).standing)
    for id, rows in shared_prompts(runs):
        judged = strategy(id, rows)
        prompts.append(
            PromptComparison(
                id=id,
                winner=wins.count(id, rows, judged.standing),
                scores=judged.scores,
                latencies={label: row.duration for label, row in rows.items()},
                had_errors={label: row.unreliable for label, row in rows.items()},
                reasoning=judged.reasoning,
                grader_error=judged.grader_error,
            )
        )
    return HeadToHead(prompts=prompts, pairwise=wins.pairwise())
