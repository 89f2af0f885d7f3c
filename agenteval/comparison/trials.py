"""Trials of the same prompts → which run is better, and is it luck."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from msgspec import structs

from agenteval.comparison import statistics as stats
from agenteval.comparison.comparison import Comparison, Sample, Weights, interval_samples
from agenteval.comparison.pairing import (
    TIE,
    RunRows,
    Scores,
    Strategy,
    WinCounts,
    beaten_by_first,
    differences,
    paired_difference,
    shared_prompts,
)
from agenteval.comparison.result_rows import timings
from agenteval.comparison.statistics import Clusters
from agenteval.comparison.trial_rows import (
    ComparedTrials,
    TrialRow,
    capability,
    flakiness,
    run_statistics,
    trial_quality,
    trial_reliability,
    trial_row,
    with_failures_graded,
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
        return trial_row(view, line)

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
        quality = {run.label: found for run in runs if (found := trial_quality(run.rows.values())) is not None}
        return TrialsComparisonReport(
            meta=meta,
            capability={run.label: capability(run) for run in runs},
            reliability={run.label: trial_reliability(run) for run in runs},
            flakiness={run.label: flakiness(run) for run in runs},
            quality=quality or None,
            performance={
                run.label: timings([took for row in run.rows.values() for took in row.durations]) for run in runs
            },
            statistics=TrialsStatistics(
                runs={run.label: run_statistics(run.rows.values()) for run in runs},
                pairs=[pair_statistics(a, b) for a, b in combinations(runs, 2)],
            ),
            head_to_head=wins,
            per_prompt=prompts,
        )

    def samples(self, runs: Sequence[Run], report: TrialsComparisonReport) -> Iterator[Sample]:
        """The values of every run, and the differences of pass rates and scores of every pair."""
        for run in runs:
            rows, label = run.rows.values(), run.label
            once, every = run.values("pass_at_k"), run.values("pass_exp_k")
            yield from interval_samples(report.capability[label], CapabilityIntervals, avg_pass_at_k=once)
            yield from interval_samples(report.reliability[label], ReliabilityIntervals, avg_pass_exp_k=every)
            if report.quality and label in report.quality:
                scores = Clusters.of(row.scores for row in rows)
                yield from interval_samples(report.quality[label], ScoreIntervals, avg_score=scores)
            durations = Clusters.of(row.durations for row in rows)
            yield from interval_samples(report.performance[label], PerformanceIntervals, latency_mean=durations)
            graded = [row for row in rows if row.graded]
            passes = Clusters([row.passed for row in graded], [row.graded for row in graded])
            yield Sample(passes, report.statistics.runs[label], "bootstrap_interval")
        for (a, b), pair in zip(combinations(runs, 2), report.statistics.pairs, strict=True):
            yield Sample(differences(a, b, "pass_rate"), pair, "bootstrap_interval")
            if pair.score:
                yield Sample(differences(a, b, "mean_score"), pair.score, "bootstrap_interval")

    def remarks(self, report: TrialsComparisonReport) -> list[str]:
        """Where k differs, and where prompts do not have k trials."""
        lines = []
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

    def worse(self, report: TrialsComparisonReport) -> list[str]:
        """A sentence for each run whose pass rate, or pass^k, is worse than that of the first."""
        first, *others = report.meta.runs
        lines = beaten_by_first(report.meta.runs, report.statistics.pairs)
        for label in others:
            rates = ((prompt.pass_exp_k.get(first), prompt.pass_exp_k.get(label)) for prompt in report.per_prompt)
            both = [(before, now) for before, now in rates if before is not None and now is not None]
            before, now = stats.mean([pair[0] for pair in both]), stats.mean([pair[1] for pair in both])
            if before is not None and now is not None and now < before - TIE:
                fall = f"{label}: pass^k falls from {before:.3f} to {now:.3f}"
                lines.append(f"{fall}, on {len(both)} prompts graded in both")
        return lines


def pair_statistics(a: Run, b: Run) -> TrialsPairStatistics:
    """The paired analysis of pass rates and, if there are any, of scores."""
    score, rate = paired_difference(a, b, "mean_score"), paired_difference(a, b, "pass_rate")
    return TrialsPairStatistics(score=score if score.n else None, **structs.asdict(rate))


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
