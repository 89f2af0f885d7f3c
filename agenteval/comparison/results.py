"""Results of the same prompts → which run is better, and is it luck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from msgspec import structs

from agenteval.comparison.analysis.categories import by_category
from agenteval.comparison.analysis.gate import GateMeasure, GateSettings, check_gate
from agenteval.comparison.analysis.pairs import PairAnalysis, analyse_pairs
from agenteval.comparison.analysis.usage import usage
from agenteval.comparison.comparison import Comparison, Weights
from agenteval.comparison.pairing import RunRows, Scores, Strategy, WinCounts, shared_prompts
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
from agenteval.statistics.paired import mid_p, sign_test
from agenteval.wire.comparison import (
    ComparisonReport,
    HeadToHead,
    McNemar,
    PairStatistics,
    PromptComparison,
    ReportMeta,
    Statistics,
)
from agenteval.wire.differences import CategoryRun
from agenteval.wire.records import Record

Run = RunRows[ResultRow]


class ResultsComparison(Comparison[ResultRow]):
    """Compares runs of results, as ae-capture and ae-grade write them."""

    noun = "results"
    view = ComparedResult
    default_weights = {"quality": 0.5, "latency": 0.3, "reliability": 0.2}

    def row(self, view: ComparedResult, line: int = 0) -> ResultRow:
        """What is kept of a result; BadRecord if it is a trial."""
        return result_row(view, line, self.options)

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

    def standing(self, rows: Mapping[str, ResultRow], scores: Scores) -> Scores:
        """The scores, but the same for runs with the same grade: a millisecond does not win a prompt."""
        graded = grades(rows)
        best: dict[float, float] = {}
        for label, grade in graded.items():
            score = scores[label]
            if grade is not None and score is not None:
                best[grade] = max(score, best.get(grade, score))
        return {
            label: score if (grade := graded[label]) is None else best.get(grade) for label, score in scores.items()
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
        pairs = analyse_pairs(
            runs, attrgetter("passes"), attrgetter("score"), clustered=self.clustered, margin=meta.margin
        )
        return ComparisonReport(
            meta=meta,
            quality={run.label: quality(run, clustered=self.clustered) for run in runs},
            performance={run.label: performance(run) for run in runs},
            reliability={run.label: reliability(run) for run in runs},
            trajectory_info={run.label: trajectory_info(run) for run in runs},
            statistics=Statistics(pairs=[pair_statistics(pair) for pair in pairs]),
            head_to_head=head_to_head(runs, strategy),
            usage=usage(runs),
            by_category=by_category(runs, self.category, attrgetter("passes"), clustered=self.clustered),
        )

    def durations(self, row: ResultRow) -> Sequence[float]:
        """The time that the result took, if it is known."""
        return () if row.duration is None else (row.duration,)

    def category(self, run: Run) -> CategoryRun:
        """The figures of the prompts of one category."""
        found = quality(run, clustered=self.clustered)
        return CategoryRun(
            n=found.n,
            pass_rate=found.pass_rate,
            interval=found.pass_interval,
            avg_score=found.avg_score,
            score_interval=found.score_interval,
        )

    def gate(self, report: ComparisonReport, settings: GateSettings) -> list[str]:
        """A sentence for each run whose pass rate does not pass the gate against the first."""
        first, *others = report.meta.runs
        rates = [pair.pass_rate for pair in report.statistics.pairs if pair.run_a == first]
        return check_gate(first, others, report.quality[first].n, [GateMeasure("pass rate", rates)], settings)


def pair_statistics(pair: PairAnalysis) -> PairStatistics:
    """The differences of scores and of passes, and the outcome in words."""
    passed = pair.passes
    return PairStatistics(
        **{**structs.asdict(pair.scores), **pair.outcome},
        pass_rate=passed,
        mcnemar=McNemar(
            b=passed.wins,
            c=passed.losses,
            p=mid_p(passed.wins, passed.losses),
            exact_p=sign_test(passed.wins, passed.losses),
        ),
    )


def head_to_head(runs: Sequence[Run], strategy: Strategy[ResultRow]) -> HeadToHead:
    """An entry for every prompt that two runs or more have, and the wins of every two runs."""
    prompts = []
    wins = WinCounts(runs, lambda id, rows: strategy(id, rows).standing)
    by_grade = WinCounts(runs, lambda _id, rows: grades(rows))
    for id, rows in shared_prompts(runs):
        judged = strategy(id, rows)
        by_grade.count(id, rows, grades(rows))
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
    return HeadToHead(prompts=prompts, pairwise=wins.pairwise(), quality=by_grade.pairwise())


def grades(rows: Mapping[str, ResultRow]) -> Scores:
    """The grader's scores, one that passed above any that did not."""
    return {label: None if row.score is None else row.score + 2 * row.passed for label, row in rows.items()}
