"""A comparison grader's answers on one prompt, in one order or both: where they differ, neither run wins."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

Ranks = Mapping[str, float]


class PromptRanking(NamedTuple):
    """A comparison grader's answers on one prompt; `error` is the reason if there is none."""

    ranks: dict[str, float] = {}
    scores: dict[str, float | None] = {}
    reasoning: str | None = None
    error: str | None = None
    reversed_ranks: dict[str, float] | None = None  # its answer with the runs in reverse order, if it was asked

    def outcome(self, a: str, b: str) -> int | None:
        """1 if A is preferred, -1 if B is, 0 if neither or if it depends on the order; None if one is not ranked."""
        found = preferred(self.ranks, a, b)
        if self.reversed_ranks is None or found is None:
            return found
        again = preferred(self.reversed_ranks, a, b)
        return found if again == found else None if again is None else 0

    def standing(self, labels: Collection[str]) -> dict[str, float | None]:
        """By how many more of these runs each is preferred than it is less preferred to; None if it is not ranked."""
        ranked = [label for label in labels if self.outcome(label, label) is not None]
        points: dict[str, float | None] = {label: 0.0 if label in ranked else None for label in labels}
        for a, b in combinations(ranked, 2):
            won = self.outcome(a, b) or 0
            points[a], points[b] = (points[a] or 0.0) + won, (points[b] or 0.0) - won
        return points


def preferred(ranks: Ranks, a: str, b: str) -> int | None:
    """1 if A has the better rank in one answer, -1 if B has, 0 if they are equal; None if one has none."""
    if a not in ranks or b not in ranks:
        return None
    return (ranks[a] < ranks[b]) - (ranks[a] > ranks[b])


def both_orders(first: PromptRanking, second: PromptRanking, labels: Sequence[str]) -> PromptRanking:
    """Joins the answers on one prompt; without one of them there is no ranking, and scores are the means of both."""
    if error := first.error or second.error:
        return PromptRanking(error=error)
    scores = {label: _mean(first.scores.get(label), second.scores.get(label)) for label in labels}
    joined = PromptRanking(first.ranks, scores, first.reasoning, None, second.ranks)
    if any(preferred(first.ranks, a, b) != preferred(second.ranks, a, b) for a, b in combinations(labels, 2)):
        reasons = " | ".join(dict.fromkeys(text for text in (first.reasoning, second.reasoning) if text))
        joined = joined._replace(reasoning=f"depends on the order of the runs: {reasons or 'no reason given'}")
    return joined


def _mean(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else (a + b) / 2
