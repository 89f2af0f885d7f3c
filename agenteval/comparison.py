"""Runs of the same prompts → which is better, and is it luck: the comparison report, without any I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from agenteval import stats
from agenteval.errors import BadRecord
from agenteval.records import Record, check
from agenteval.reports import (
    ComparisonAnswer,
    ComparisonReport,
    HeadToHead,
    Interval,
    McNemar,
    PairStatistics,
    Pairwise,
    PerformanceIntervals,
    PromptComparison,
    QualityIntervals,
    ReportMeta,
    Statistics,
)
from agenteval.runs import Row, Run, performance, quality, reliability, trajectory_info

TIE = 1e-9
SIGNIFICANT = 0.05
FEWEST = 6  # with five prompts even a clean sweep has p = 0.0625 by the exact test

Rows = Mapping[str, Row]
Scores = dict[str, float | None]
Wins = dict[str | None, int]


# --- the prompts of several runs ----------------------------------------------------------------


def prompt_ids(runs: Sequence[Run]) -> list[str]:
    """Every prompt that any run has, in the order in which they first appear."""
    return list(dict.fromkeys(id for run in runs for id in run.rows))


def shared_prompts(runs: Sequence[Run]) -> Iterator[tuple[str, dict[str, Row]]]:
    """The prompts that two runs or more have, with their rows by label."""
    for id in prompt_ids(runs):
        rows = {run.label: row for run in runs if (row := run.rows.get(id)) is not None}
        if len(rows) > 1:
            yield id, rows


def missing_prompts(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Per run that lacks any: the ids of the prompts that only other runs have."""
    ids = prompt_ids(runs)
    lacking = {run.label: [id for id in ids if id not in run.rows] for run in runs if len(run.rows) < len(ids)}
    return {label: lacks for label, lacks in lacking.items() if lacks}


# --- how a strategy sees one prompt -------------------------------------------------------------


class Weights(NamedTuple):
    """How much each term of the weighted strategy counts."""

    quality: float = 0.5
    latency: float = 0.3
    reliability: float = 0.2


class Ranked(NamedTuple):
    """A comparison grader's answer on one prompt; `error` says why there is none."""

    ranks: dict[str, float] = {}
    scores: dict[str, float | None] = {}
    reasoning: str | None = None
    error: str | None = None


class Judged(NamedTuple):
    """The scores of the runs on one prompt, to show, and what decides who wins (more is better)."""

    scores: Scores
    standing: Scores


class Strategy(NamedTuple):
    """How the rows of one prompt are judged; None in place of a score where there is nothing to go by."""

    judge: Callable[[str, Rows], Judged]
    rankings: Mapping[str, Ranked] = {}


def weighted(weights: Weights) -> Strategy:
    """Quality, speed and reliability in one number, over the terms that all the rows compared have.

    The seed's harness takes 0 for a missing score and 10 s for a missing duration. Here such a term is left
    out for every run compared on that prompt, and the others are scaled up to the full weight: an unknown
    neither helps nor hurts.
    """

    def judge(_id: str, rows: Rows) -> Judged:
        quality = weights.quality if all(row.score is not None for row in rows.values()) else 0.0
        latency = weights.latency if all(row.duration is not None for row in rows.values()) else 0.0
        known = quality + latency + weights.reliability
        if known <= 0:
            return Judged(unknown := dict.fromkeys(rows), unknown)
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
        return Judged(scores, scores)

    return Strategy(judge)


def by_grader_score() -> Strategy:
    """The grader's score alone: the statistical strategy."""

    def judge(_id: str, rows: Rows) -> Judged:
        scores = {label: row.score for label, row in rows.items()}
        return Judged(scores, scores)

    return Strategy(judge)


def by_rankings(rankings: Mapping[str, Ranked]) -> Strategy:
    """The places a comparison grader gave; its scores are shown, its ranks decide."""

    def judge(id: str, rows: Rows) -> Judged:
        ranked = rankings[id]
        return Judged(
            scores={label: ranked.scores.get(label) for label in rows},
            standing={label: -ranked.ranks[label] if label in ranked.ranks else None for label in rows},
        )

    return Strategy(judge, rankings)


# --- head to head -------------------------------------------------------------------------------


def winner(standing: Scores) -> str | None:
    """The label that stands highest of those that have a score; None on a tie or with fewer than two."""
    known = sorted([(value, label) for label, value in standing.items() if value is not None])
    return known[-1][1] if len(known) > 1 and known[-1][0] - known[-2][0] > TIE else None


def head_to_head(runs: Sequence[Run], strategy: Strategy) -> HeadToHead:
    """An entry for every prompt that two runs or more have, and the wins of every two runs."""
    prompts: list[PromptComparison] = []
    pairs = list(combinations([run.label for run in runs], 2))
    won: dict[tuple[str, ...], Wins] = {(a, b): {a: 0, b: 0, None: 0} for a, b in pairs}
    for id, rows in shared_prompts(runs):
        judged = strategy.judge(id, rows)
        prompts.append(_compare_prompt(id, rows, judged, strategy.rankings.get(id)))
        if len(rows) == 2:
            _count_win(won, judged.standing, prompts[-1].winner)
            continue
        for a, b in combinations(rows, 2):  # by themselves: what a third run did has no part in it
            standing = strategy.judge(id, {a: rows[a], b: rows[b]}).standing
            _count_win(won, standing, winner(standing))
    return HeadToHead(prompts=prompts, pairwise=[_pairwise(a, b, won[a, b]) for a, b in pairs])


def _compare_prompt(id: str, rows: Rows, judged: Judged, ranked: Ranked | None) -> PromptComparison:
    return PromptComparison(
        id=id,
        winner=winner(judged.standing),
        scores=judged.scores,
        latencies={label: row.duration for label, row in rows.items()},
        had_errors={label: row.unreliable for label, row in rows.items()},
        reasoning=ranked.reasoning if ranked else None,
        grader_error=ranked.error if ranked else None,
    )


def _count_win(won: Mapping[tuple[str, ...], Wins], standing: Scores, best: str | None) -> None:
    if None not in standing.values():
        won[tuple(standing)][best] += 1


def _pairwise(a: str, b: str, won: Wins) -> Pairwise:
    return Pairwise(run_a=a, run_b=b, n=sum(won.values()), a_wins=won[a], b_wins=won[b], ties=won[None])


# --- is it luck ---------------------------------------------------------------------------------


def graded_pairs(a: Run, b: Run) -> list[tuple[Row, Row]]:
    """The rows of both runs for each prompt that is graded in both."""
    both = ((row, b.rows.get(id)) for id, row in a.rows.items() if row.score is not None)
    return [(row, other) for row, other in both if other is not None and other.score is not None]


def differences(a: Run, b: Run) -> list[float]:
    """A's score minus B's, for each prompt graded in both."""
    return [(row.score or 0.0) - (other.score or 0.0) for row, other in graded_pairs(a, b)]


def pair_statistics(a: Run, b: Run) -> PairStatistics:
    """The paired analysis of two runs."""
    found = differences(a, b)
    paired = stats.paired(found)
    discordant = [row.passed for row, other in graded_pairs(a, b) if row.passed != other.passed]
    only_a, only_b = discordant.count(True), discordant.count(False)
    wins, losses = sum(d > TIE for d in found), sum(d < -TIE for d in found)
    sign = significant_sign(found, paired.interval)
    better = {1: a.label, -1: b.label}.get(sign)
    return PairStatistics(
        run_a=a.label,
        run_b=b.label,
        n=len(found),
        mean_difference=paired.mean,
        interval=paired.interval,
        wins=wins,
        losses=losses,
        ties=len(found) - wins - losses,
        mcnemar=McNemar(b=only_a, c=only_b, p=stats.sign_test(only_a, only_b)),
        minimum_detectable_difference=paired.detectable,
        better=better,
        verdict=verdict(len(found), better),
    )


def significant_sign(found: Sequence[float], interval: Interval | None) -> int:
    """1 or -1 where the differences show that A or B is better, else 0.

    The interval must leave out 0. It trusts the mean to be normal, which pass/fail scores of few prompts are
    not: where all differences have one size, the exact test of wins against losses must agree.
    """
    if interval is None or len(found) < FEWEST or interval[0] <= 0 <= interval[1]:
        return 0
    sizes = {round(abs(d), 9) for d in found if abs(d) > TIE}
    if len(sizes) == 1 and stats.sign_test(sum(d > TIE for d in found), sum(d < -TIE for d in found)) >= SIGNIFICANT:
        return 0
    return 1 if interval[0] > 0 else -1


def verdict(n: int, better: str | None) -> str:
    """The outcome of a pair in words."""
    if n == 0:
        return "no prompt is graded in both"
    if n < FEWEST:
        return "too few prompts to tell"
    return f"{better} better" if better is not None else "no difference shown"


# --- the report ---------------------------------------------------------------------------------


def compare(runs: Sequence[Run], strategy: Strategy, meta: ReportMeta) -> ComparisonReport:
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


def add_bootstrap(report: ComparisonReport, runs: Sequence[Run], iterations: int, seed: int) -> None:
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

Ask = Callable[[Iterator[Record], Callable[[object], None]], None]
"""Puts payloads to a comparison grader and hands on, in their order, a dict for an answer or why there is none."""


def comparison_payload(id: str, records: Mapping[str, Record]) -> Record:
    """What a comparison grader is given for one prompt; what a record does not have is left out."""
    first = next(iter(records.values()))
    about = {field: first[field] for field in ("input", "hint", "metadata") if first.get(field) is not None}
    return {"id": id, **about, "runs": {label: _run_payload(record) for label, record in records.items()}}


def _run_payload(record: Record) -> Record:
    payload: Record = {field: record[field] for field in ("output", "trajectory", "toolErrors") if field in record}
    if record.get("score") is not None and not record.get("graderError"):
        payload["score"] = record["score"]
    if (total := (record.get("timing") or {}).get("total")) is not None:
        payload["duration"] = total
    return payload


def custom_rankings(payloads: Iterator[Record], ask: Ask, emit: Callable[[str, Ranked], None]) -> None:
    """Hand on each prompt's id and ranking, in order; a failure of the grader costs that prompt only."""
    waiting: deque[tuple[str, list[str]]] = deque()

    def remembered() -> Iterator[Record]:
        for payload in payloads:  # the grader's side may read ahead, so what was asked is kept until answered
            waiting.append((payload["id"], list(payload["runs"])))
            yield payload

    def answered(answer: object) -> None:
        id, labels = waiting.popleft()
        emit(id, read_ranking(answer, labels))

    ask(remembered(), answered)


def read_ranking(answer: object, labels: Sequence[str]) -> Ranked:
    """The answer as ranks and scores by label; `error` where it is no answer."""
    if not isinstance(answer, dict):
        return Ranked(error=f"grader error: {answer}")
    try:
        given = check(answer, ComparisonAnswer)
        if strangers := [ranking.run for ranking in given.rankings if ranking.run not in labels]:
            raise BadRecord(f'"rankings" names a run that was not asked about: {strangers[0]}')
    except BadRecord as error:
        return Ranked(error=f"grader error: {error}")
    return Ranked(
        ranks={ranking.run: ranking.rank for ranking in given.rankings},
        scores={ranking.run: ranking.score for ranking in given.rankings},
        reasoning=given.reasoning,
    )
