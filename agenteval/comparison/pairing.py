"""Runs joined by prompt: who wins a prompt, how often, and whether the difference of two runs is more than luck."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

import msgspec

from agenteval.comparison import statistics as stats
from agenteval.wire.comparison import Difference, Pairwise
from agenteval.wire.records import Interval

TIE = 1e-9
SIGNIFICANT = 0.05
FEWEST = 6  # with five prompts even a clean sweep has p = 0.0625 by the exact test

Scores = dict[str, float | None]


class ComparedRow(msgspec.Struct, gc=False, frozen=True):
    """What is kept in memory of one record, which stands on this line of its file."""

    line: int = 0


R = TypeVar("R", bound=ComparedRow)


class RunRows(NamedTuple, Generic[R]):
    """The rows of one run by prompt id, in the order of the file."""

    label: str
    rows: dict[str, R]

    def values(self, field: str) -> list[float]:
        """The field of each row in which it is known."""
        return [value for row in self.rows.values() if (value := getattr(row, field)) is not None]


# --- the prompts of several runs ----------------------------------------------------------------


def prompt_ids(runs: Sequence[RunRows[R]]) -> list[str]:
    """Every prompt that any run has, in the order of first appearance."""
    return list(dict.fromkeys(id for run in runs for id in run.rows))


def shared_prompts(runs: Sequence[RunRows[R]]) -> Iterator[tuple[str, dict[str, R]]]:
    """The prompts that two runs or more have, with their rows by label."""
    for id in prompt_ids(runs):
        rows = {run.label: row for run in runs if (row := run.rows.get(id)) is not None}
        if len(rows) > 1:
            yield id, rows


def missing_prompts(runs: Sequence[RunRows[R]]) -> dict[str, list[str]]:
    """For each run that lacks any: the ids of the prompts that only other runs have."""
    ids = prompt_ids(runs)
    lacking = {run.label: [id for id in ids if id not in run.rows] for run in runs if len(run.rows) < len(ids)}
    return {label: lacks for label, lacks in lacking.items() if lacks}


# --- who wins a prompt --------------------------------------------------------------------------


class PromptScores(NamedTuple):
    """The scores of the runs on one prompt, to show, and what decides who wins (more is better); None if unknown."""

    scores: Scores
    standing: Scores
    reasoning: str | None = None
    grader_error: str | None = None


Strategy = Callable[[str, Mapping[str, R]], PromptScores]
"""Scores the rows of one prompt, given its id and the rows by label."""


def by_scores(scores_of: Callable[[Mapping[str, R]], Scores]) -> Strategy[R]:
    """The strategy by which the highest score wins."""
    return lambda _id, rows: PromptScores(scores := scores_of(rows), scores)


def winner(standing: Scores) -> str | None:
    """The label of the highest score; None on a tie, or if fewer than two have a score."""
    known = sorted([(value, label) for label, value in standing.items() if value is not None])
    return known[-1][1] if len(known) > 1 and known[-1][0] - known[-2][0] > TIE else None


class WinCounts(Generic[R]):
    """Counts the prompts won by each of every two runs; `standing_of` is what decides between two rows."""

    def __init__(self, runs: Sequence[RunRows[R]], standing_of: Callable[[str, Mapping[str, R]], Scores]) -> None:
        self._standing_of = standing_of
        self._won: dict[tuple[str, ...], dict[str | None, int]] = {
            (a, b): {a: 0, b: 0, None: 0} for a, b in combinations([run.label for run in runs], 2)
        }

    def count(self, id: str, rows: Mapping[str, R], standing: Scores) -> str | None:
        """Counts one prompt, given the standing of all its rows; returns the run that won it."""
        best = winner(standing)
        if len(rows) == 2:
            self._count(standing, best)
            return best
        for a, b in combinations(rows, 2):  # two by two: a third run has no part in who wins between them
            alone = self._standing_of(id, {a: rows[a], b: rows[b]})
            self._count(alone, winner(alone))
        return best

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


def differences(a: RunRows[R], b: RunRows[R], field: str) -> list[float]:
    """A's value of a field minus B's, for each prompt in which both are known."""
    value = attrgetter(field)
    both = ((value(row), value(b.rows[id])) for id, row in a.rows.items() if id in b.rows)
    return [ours - theirs for ours, theirs in both if ours is not None and theirs is not None]


def paired_difference(a: RunRows[R], b: RunRows[R], field: str) -> Difference:
    """The paired analysis of a field: A's minus B's, prompt by prompt."""
    found = differences(a, b, field)
    paired = stats.paired(found)
    wins, losses = signs(found)
    better = {1: a.label, -1: b.label}.get(significant_sign(found, paired.interval))
    return Difference(
        run_a=a.label,
        run_b=b.label,
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
    """1 or -1 if the differences show that A or B is better, else 0.

    The interval must exclude 0. It assumes that the mean is normal, which that of few prompts is not. So nothing is
    shown either if fewer prompts differ than any exact test needs, or if all differences have one size and the exact
    test of wins against losses is not significant.
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
    """For each run that is shown to be worse than the first one, a sentence with the difference."""
    lines = []
    for pair in pairs:
        if pair.run_a == labels[0] and pair.better == labels[0]:
            low, high = pair.interval or (0.0, 0.0)
            lines.append(
                f"{pair.run_b} is worse than {pair.run_a}: paired difference {-(pair.mean_difference or 0.0):+.3f}, "
                f"95 % interval {-high:+.3f} to {-low:+.3f}"
            )
    return lines
