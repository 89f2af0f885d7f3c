"""Runs joined by prompt: which prompts they share, who wins a prompt, and how often."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Generic, NamedTuple, TypeVar

import msgspec

from agenteval.wire.comparison import Pairwise

TIE = 1e-9

Scores = dict[str, float | None]


class ComparedRow(msgspec.Struct, gc=False, frozen=True):
    """What is kept in memory of one record, which stands on this line of its file; None is not known, never 0."""

    line: int = 0
    input_digest: int = 0
    category: str | None = None
    cluster: str | None = None
    cost_estimated: bool = False
    clock_set_back: bool = False


R = TypeVar("R", bound=ComparedRow)


class RunRows(NamedTuple, Generic[R]):
    """The rows of one run by prompt id, in the order of the file; `changed` are ids left out for another input."""

    label: str
    rows: dict[str, R]
    changed: Sequence[str] = ()

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
    lacking = {}
    for run in runs:
        if len(run.rows) < len(ids):
            changed = set(run.changed)
            lacking[run.label] = [id for id in ids if id not in run.rows and id not in changed]
    return {label: lacks for label, lacks in lacking.items() if lacks}


def without_changed_inputs(runs: Sequence[RunRows[R]]) -> list[RunRows[R]]:
    """The runs without the prompts whose input is not that of the first run that has them."""
    first: dict[str, int] = {}
    kept = []
    for run in runs:
        changed = []
        for id, row in run.rows.items():
            if row.input_digest and first.setdefault(id, row.input_digest) != row.input_digest:
                changed.append(id)
        for id in changed:
            del run.rows[id]
        kept.append(run._replace(changed=changed))
    return kept


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
