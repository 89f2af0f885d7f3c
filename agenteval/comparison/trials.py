"""Trials of the same prompts → which run is better, and is it luck."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from operator import attrgetter
from typing import Any

from msgspec import structs

from agenteval.comparison.analysis.categories import by_category
from agenteval.comparison.analysis.differences import difference, paired_values
from agenteval.comparison.analysis.gate import GateMeasure, GateSettings, check_gate
from agenteval.comparison.analysis.pairs import analyse_pairs
from agenteval.comparison.analysis.usage import usage
from agenteval.comparison.comparison import Comparison, Weights
from agenteval.comparison.pairing import RunRows, Scores, Strategy, WinCounts, shared_prompts
from agenteval.comparison.result_rows import timings
from agenteval.comparison.trial_rows import (
    ComparedTrials,
    TrialRow,
    capability,
    flakiness,
    run_k,
    run_statistics,
    trial_quality,
    trial_reliability,
    trial_row,
    with_failures_graded,
)
from agenteval.statistics.samples import pass_exp
from agenteval.wire.differences import CategoryRun
from agenteval.wire.records import Record
from agenteval.wire.trials_comparison import (
    PassExpDifference,
    TrialsComparisonReport,
    TrialsHeadToHead,
    TrialsMeta,
    TrialsPairStatistics,
    TrialsPrompt,
    TrialsStatistics,
)

PAYLOAD = ("passRate", "passAtK", "passExpK", "passAt", "passExp", "k", "trials")

Run = RunRows[TrialRow]
Rows = Mapping[str, TrialRow]


class TrialsComparison(Comparison[TrialRow]):
    """Compares runs of trials, as ae-trials writes them; the trials of a prompt are one cluster."""

    noun = "prompts"
    view = ComparedTrials
    default_weights = {"capability": 0.4, "reliability": 0.4, "consistency": 0.2}
    meta_type = TrialsMeta

    def row(self, view: ComparedTrials, line: int = 0) -> TrialRow:
        """What is kept of a prompt's trials; BadRecord if it is not a record of trials."""
        return trial_row(view, line, self.options)

    def complete(self, rows: dict[str, TrialRow]) -> dict[str, TrialRow]:
        """The rows of a run, prompts whose agents all failed graded as such."""
        return with_failures_graded(rows)

    def weighted_scores(self, rows: Rows, weights: Weights) -> Scores:
        """passAtK, passExpK and freedom from flakiness in one number; None for a run that is not graded."""

        def score(row: TrialRow) -> float | None:
            if row.pass_at_k is None or row.pass_exp_k is None or row.flakiness is None:
                return None
            steady = 1 - row.flakiness
            passes = row.pass_at_k * weights["capability"] + row.pass_exp_k * weights["reliability"]
            return passes + steady * weights["consistency"]

        return {label: score(row) for label, row in at_common_k(rows).items()}

    def plain_scores(self, rows: Rows) -> Scores:
        """The share of trials that pass."""
        return {label: row.pass_rate for label, row in rows.items()}

    def run_payload(self, record: Record, row: TrialRow) -> Record:
        """The trials and their rates; rates that the record lacks are computed."""
        known = {"passRate": row.pass_rate, "passAtK": row.pass_at_k, "passExpK": row.pass_exp_k}
        given = {field: record[field] for field in PAYLOAD if record.get(field) is not None}
        return {**{field: rate for field, rate in known.items() if rate is not None}, **given}

    def more_meta(self, runs: Sequence[Run]) -> dict[str, Any]:
        """The number of trials; if it differs, how many prompts of each run have which."""
        ks = {run.label: Counter(row.k for row in run.rows.values()) for run in runs}
        every = {k for counter in ks.values() for k in counter}
        mixed = {label: {str(k): counter[k] for k in sorted(counter)} for label, counter in ks.items()}
        return {
            "trials_per_prompt": min(every, default=None),
            "input_format": "trials",
            "mixed_k": mixed if len(every) > 1 else None,
        }

    def report(self, runs: Sequence[Run], strategy: Strategy[TrialRow], meta: TrialsMeta) -> TrialsComparisonReport:
        """The report without bootstrap intervals."""
        wins, prompts = head_to_head(runs, strategy)
        by_cluster = self.clustered
        quality = {run.label: found for run in runs if (found := trial_quality(run, clustered=by_cluster)) is not None}
        return TrialsComparisonReport(
            meta=meta,
            capability={run.label: capability(run, clustered=by_cluster) for run in runs},
            reliability={run.label: trial_reliability(run, clustered=by_cluster) for run in runs},
            flakiness={run.label: flakiness(run) for run in runs},
            quality=quality or None,
            performance={
                run.label: timings([took for row in run.rows.values() for took in row.durations]) for run in runs
            },
            statistics=TrialsStatistics(
                runs={run.label: run_statistics(run, clustered=by_cluster) for run in runs},
                pairs=self.pairs(runs, meta.margin),
            ),
            head_to_head=wins,
            per_prompt=prompts,
            usage=usage(runs),
            by_category=by_category(runs, self.category, attrgetter("pass_rate"), clustered=by_cluster),
        )

    def durations(self, row: TrialRow) -> Sequence[float]:
        """The time of each trial in which it is known."""
        return row.durations

    def category(self, run: Run) -> CategoryRun:
        """The figures of the prompts of one category."""
        found, scores = run_statistics(run, clustered=self.clustered), trial_quality(run, clustered=self.clustered)
        return CategoryRun(
            n=found.graded_prompts,
            pass_rate=found.pass_rate,
            interval=found.interval,
            avg_score=scores.avg_score if scores else None,
            score_interval=scores.score_interval if scores else None,
        )

    def pairs(self, runs: Sequence[Run], margin: float | None) -> list[TrialsPairStatistics]:
        """The differences of passes, scores and pass^k of every two runs, and the outcome in words."""
        found = analyse_pairs(
            runs, attrgetter("pass_rate"), attrgetter("mean_score"), clustered=self.clustered, margin=margin
        )
        return [
            TrialsPairStatistics(
                **{**structs.asdict(pair.passes), **pair.outcome},
                score=pair.scores if pair.scores.n else None,
                pass_exp=self.pass_exp(a, b),
            )
            for pair, (a, b) in zip(found, combinations(runs, 2), strict=True)
        ]

    def pass_exp(self, a: Run, b: Run) -> PassExpDifference:
        """The difference of the unbiased pass^k, at the smaller k of the two runs."""
        k = min(run_k(a), run_k(b))
        values = paired_values(a, b, lambda row: pass_exp(row.graded, row.passed, k), clustered=self.clustered)
        return PassExpDifference(k=k, **structs.asdict(difference(values)))

    def remarks(self, report: TrialsComparisonReport) -> list[str]:
        """Where k differs, and where prompts do not have k trials."""
        lines = super().remarks(report)
        if report.meta.mixed_k:
            ks = ", ".join(f"{label} {' and '.join(counts)}" for label, counts in report.meta.mixed_k.items())
            lines.append(
                f"k differs ({ks}): passAtK and passExpK of a run are for its own k, "
                "and a prompt is won at the smallest k that its runs have"
            )
        for label, found in report.statistics.runs.items():
            if found.incomplete:
                incomplete = f"{label}: {found.incomplete} of {found.prompts} prompts do not have k trials"
                lines.append(f"{incomplete}; the trials that there are count")
        return lines

    def gate(self, report: TrialsComparisonReport, settings: GateSettings) -> list[str]:
        """A sentence for each run whose pass rate, or pass^k, does not pass the gate against the first."""
        first, *others = report.meta.runs
        pairs = [pair for pair in report.statistics.pairs if pair.run_a == first]
        every = [pair.pass_exp for pair in pairs if pair.pass_exp is not None and pair.pass_exp.k > 1]
        name = f"pass^{every[0].k}" if len({found.k for found in every}) == 1 else "pass^k"
        measures = [GateMeasure("pass rate", pairs), *([GateMeasure(name, every)] if every else [])]
        return check_gate(first, others, report.statistics.runs[first].graded_prompts, measures, settings)


def at_common_k(rows: Rows) -> dict[str, TrialRow]:
    """The rows of one prompt at their smallest k: passing once in five trials is easier than once in three."""
    k = min(row.k for row in rows.values())
    return {label: row.at_k(k) for label, row in rows.items()}


def head_to_head(runs: Sequence[Run], strategy: Strategy[TrialRow]) -> tuple[TrialsHeadToHead, list[TrialsPrompt]]:
    """The wins of every two runs, and an entry for every prompt that two runs or more have."""

    def values(rows: Rows, field: str) -> Scores:
        return {label: getattr(row, field) for label, row in rows.items()}

    prompts = []
    overall = WinCounts(runs, lambda id, rows: strategy(id, rows).standing)
    by_at = WinCounts(runs, lambda _id, rows: values(at_common_k(rows), "pass_at_k"))
    by_exp = WinCounts(runs, lambda _id, rows: values(at_common_k(rows), "pass_exp_k"))
    for id, rows in shared_prompts(runs):
        judged, alike = strategy(id, rows), at_common_k(rows)
        at, exp = values(alike, "pass_at_k"), values(alike, "pass_exp_k")
        prompts.append(
            TrialsPrompt(
                id=id,
                capability_winner=by_at.count(id, rows, at),
                reliability_winner=by_exp.count(id, rows, exp),
                winner=overall.count(id, rows, judged.standing),
                k=min(row.k for row in rows.values()),
                pass_rate=values(alike, "pass_rate"),
                pass_at_k=at,
                pass_exp_k=exp,
                flakiness=values(alike, "flakiness"),
                scores=judged.scores,
                reasoning=judged.reasoning,
                grader_error=judged.grader_error,
            )
        )
    wins = TrialsHeadToHead(capability=by_at.pairwise(), reliability=by_exp.pairwise(), overall=overall.pairwise())
    return wins, prompts
