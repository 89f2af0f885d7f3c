"""What comparing results and comparing trials share: runs joined by prompt, who wins one, and is it luck."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Generic, NamedTuple, TypeVar

from agenteval.comparison import statistics as stats
from agenteval.comparison.result_rows import RunRows
from agenteval.errors import BadRecord
from agenteval.wire.comparison import ComparisonAnswer, Difference, Pairwise
from agenteval.wire.records import Interval, Record
from agenteval.wire.validation import check

TIE = 1e-9
SIGNIFICANT = 0.05
FEWEST = 6  # with five prompts even a clean sweep has p = 0.0625 by the exact test

R = TypeVar("R")
Scores = dict[str, float | None]


class ComparisonKind(NamedTuple):
    """One kind of record that can be compared: how it is read, judged and reported."""

    name: str
    noun: str
    facts: type[Any]
    boil_down: Callable[[Any, int], Any]
    weights: Any
    weighted: Callable[[Any], Strategy[Any]]
    statistical: Callable[[], Strategy[Any]]
    payload: Callable[[str, Mapping[str, Record], Mapping[str, Any]], Record]
    meta: Callable[..., Any]
    compare: Callable[[Sequence[RunRows[Any]], Strategy[Any], Any], Any]
    add_bootstrap: Callable[[Any, Sequence[RunRows[Any]], int, int], None]
    remarks: Callable[[Any], list[str]]
    worse: Callable[[Any], list[str]]


# --- the prompts of several runs ----------------------------------------------------------------


def prompt_ids(runs: Sequence[RunRows[R]]) -> list[str]:
    """Every prompt that any run has, in the order in which they first appear."""
    return list(dict.fromkeys(id for run in runs for id in run.rows))


def shared_prompts(runs: Sequence[RunRows[R]]) -> Iterator[tuple[str, dict[str, R]]]:
    """The prompts that two runs or more have, with their rows by label."""
    for id in prompt_ids(runs):
        rows = {run.label: row for run in runs if (row := run.rows.get(id)) is not None}
        if len(rows) > 1:
            yield id, rows


def missing_prompts(runs: Sequence[RunRows[R]]) -> dict[str, list[str]]:
    """Per run that lacks any: the ids of the prompts that only other runs have."""
    ids = prompt_ids(runs)
    lacking = {run.label: [id for id in ids if id not in run.rows] for run in runs if len(run.rows) < len(ids)}
    return {label: lacks for label, lacks in lacking.items() if lacks}


# --- who wins a prompt --------------------------------------------------------------------------


class PromptRanking(NamedTuple):
    """A comparison grader's answer on one prompt; `error` says why there is none."""

    ranks: dict[str, float] = {}
    scores: dict[str, float | None] = {}
    reasoning: str | None = None
    error: str | None = None


class GraderRanking(NamedTuple):
    """The scores of the runs on one prompt, to show, and what decides who wins (more is better)."""

    scores: Scores
    standing: Scores


class Strategy(NamedTuple, Generic[R]):
    """How the rows of one prompt are judged; None in place of a score where there is nothing to go by."""

    judge: Callable[[str, Mapping[str, R]], GraderRanking]
    rankings: Mapping[str, PromptRanking] = {}


def by_rankings(rankings: Mapping[str, PromptRanking]) -> Strategy[Any]:
    """The places a comparison grader gave; its scores are shown, its ranks decide."""

    def judge(id: str, rows: Mapping[str, Any]) -> GraderRanking:
        ranked = rankings[id]
        return GraderRanking(
            scores={label: ranked.scores.get(label) for label in rows},
            standing={label: -ranked.ranks[label] if label in ranked.ranks else None for label in rows},
        )

    return Strategy(judge, rankings)


def winner(standing: Scores) -> str | None:
    """The label that stands highest of those that have a score; None on a tie or with fewer than two."""
    known = sorted([(value, label) for label, value in standing.items() if value is not None])
    return known[-1][1] if len(known) > 1 and known[-1][0] - known[-2][0] > TIE else None


class WinCounts(Generic[R]):
    """The prompts won by each of every two runs, counted prompt by prompt; `judge` says how rows stand."""

    def __init__(self, runs: Sequence[RunRows[R]], judge: Callable[[str, Mapping[str, R]], Scores]) -> None:
        self._judge = judge
        self._won: dict[tuple[str, ...], dict[str | None, int]] = {
            (a, b): {a: 0, b: 0, None: 0} for a, b in combinations([run.label for run in runs], 2)
        }

    def count(self, id: str, rows: Mapping[str, R], standing: Scores, best: str | None) -> None:
        """One more prompt, on which all rows together stand so, with the best of them."""
        if len(rows) == 2:
            self._count(standing, best)
            return
        for a, b in combinations(rows, 2):  # by themselves: what a third run did has no part in it
            alone = self._judge(id, {a: rows[a], b: rows[b]})
            self._count(alone, winner(alone))

    def _count(self, standing: Scores, best: str | None) -> None:
        if None not in standing.values():
            self._won[tuple(standing)][best] += 1

    def pairwise(self) -> list[Pairwise]:
        """The wins so far."""
        return [
            Pairwise(run_a=a, run_b=b, n=sum(won.values()), a_wins=won[a], b_wins=won[b], ties=won[None])
            for (a, b), won in self._won.items()
        ]


# --- is it luck ---------------------------------------------------------------------------------


def analyse(a: str, b: str, found: Sequence[float]) -> Difference:
    """The paired analysis of A's values minus B's."""
    paired = stats.paired(found)
    wins, losses = signs(found)
    better = {1: a, -1: b}.get(significant_sign(found, paired.interval))
    return Difference(
        run_a=a,
        run_b=b,
        n=len(found),
        mean_difference=paired.mean,
        interval=paired.interval,
        wins=wins,
        losses=losses,
        ties=len(found) - wins - losses,
        minimum_detectable_difference=paired.detectable,
        better=better,
        verdict=verdict(len(found), better),
    )


def signs(found: Sequence[float]) -> tuple[int, int]:
    """How many differences are above 0, and how many below."""
    return sum(d > TIE for d in found), sum(d < -TIE for d in found)


def significant_sign(found: Sequence[float], interval: Interval | None) -> int:
    """1 or -1 where the differences show that A or B is better, else 0.

    The interval must leave out 0. It trusts the mean to be normal, which that of few prompts is not: where
    fewer differ than any exact test could call more than luck, or all differences have one size and the
    exact test of wins against losses does not agree, nothing is shown.
    """
    if interval is None or interval[0] <= 0 <= interval[1]:
        return 0
    wins, losses = signs(found)
    if wins + losses < FEWEST:
        return 0
    sizes = {round(abs(d), 9) for d in found if abs(d) > TIE}
    if len(sizes) == 1 and stats.sign_test(wins, losses) >= SIGNIFICANT:
        return 0
    return 1 if interval[0] > 0 else -1


def verdict(n: int, better: str | None) -> str:
    """The outcome of a pair in words."""
    if n == 0:
        return "no prompt is graded in both"
    if n < FEWEST:
        return "too few prompts to tell"
    return f"{better} better" if better is not None else "no difference shown"


def beaten_by_first(labels: Sequence[str], pairs: Sequence[Difference]) -> list[str]:
    """For each run that is shown to be worse than the first one, the baseline: that it is, and by how much."""
    beaten = [pair for pair in pairs if pair.run_a == labels[0] and pair.better == labels[0]]
    said = []
    for pair in beaten:
        low, high = pair.interval or (0.0, 0.0)
        fall = -(pair.mean_difference or 0.0)
        said.append(
            f"{pair.run_b} is worse than {pair.run_a}: paired difference {fall:+.3f}, "
            f"95 % interval {-high:+.3f} to {-low:+.3f}"
        )
    return said


# --- the comparison grader ----------------------------------------------------------------------

Ask = Callable[[Iterator[Record], Callable[[object], None]], None]
"""Puts payloads to a comparison grader and hands on, in their order, a dict for an answer or why there is none."""


def prompt_payload(id: str, records: Mapping[str, Record], runs: Mapping[str, Record]) -> Record:
    """What a comparison grader is given for one prompt; what the first record does not have is left out."""
    first = next(iter(records.values()))
    about = {field: first[field] for field in ("input", "hint", "metadata") if first.get(field) is not None}
    return {"id": id, **about, "runs": runs}


def custom_rankings(payloads: Iterator[Record], ask: Ask, emit: Callable[[str, PromptRanking], None]) -> None:
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


def read_ranking(answer: object, labels: Sequence[str]) -> PromptRanking:
    """The answer as ranks and scores by label; `error` where it is no answer."""
    if not isinstance(answer, dict):
        return PromptRanking(error=f"grader error: {answer}")
    try:
        given = check(answer, ComparisonAnswer)
        if strangers := [ranking.run for ranking in given.rankings if ranking.run not in labels]:
            raise BadRecord(f'"rankings" names a run that was not asked about: {strangers[0]}')
    except BadRecord as error:
        return PromptRanking(error=f"grader error: {error}")
    return PromptRanking(
        ranks={ranking.run: ranking.rank for ranking in given.rankings},
        scores={ranking.run: ranking.score for ranking in given.rankings},
        reasoning=given.reasoning,
    )
