"""The comparison grader of the custom strategy: it ranks the runs prompt by prompt → who is preferred, and is it luck.

Each prompt is asked about twice, the second time with the runs in reverse order, because judges tend to prefer a place:
an answer that depends on the order is a tie. Asked once, it is in an order by a hash of its id.
"""

import hashlib
import os
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from agenteval.comparison.pairing import PromptScores, Rows, Strategy, shared_prompts
from agenteval.comparison.rows import RunRows
from agenteval.comparison.verdicts import p_text
from agenteval.errors import BadRecord
from agenteval.statistics.bradley_terry import fit_strengths
from agenteval.statistics.paired import SIGNIFICANT, holm, sign_test
from agenteval.streams.console import Console, Ending
from agenteval.streams.jsonl import decode_record
from agenteval.streams.source import BOM, Source
from agenteval.streams.text import counted
from agenteval.wire.comparison import ComparisonAnswer
from agenteval.wire.differences import PositionBias, Preference, PreferredRun, RunStrength
from agenteval.wire.records import Record
from agenteval.wire.validation import check

FEWEST = 6  # with five prompts even a clean sweep has p = 0.0625

Ranks = Mapping[str, float]
Ask = Callable[[Iterator[Record], Callable[[object], None]], None]
"""Passes payloads to a comparison grader and its answers, in order, to a function: a dict, or why there is none."""
PayloadOf = Callable[[str, Mapping[str, Record], Rows], Record]
"""Makes the payload of one prompt from its id, the records and the rows of its runs."""


# --- the answers on one prompt ------------------------------------------------------------------


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
        """How many others each run is preferred to, less how many are preferred to it; None if it is not ranked."""
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


# --- asking -------------------------------------------------------------------------------------


class RecordIndex:
    """A file of records, each read again by its line number: only line offsets are kept in memory."""

    def __init__(self, source: Source) -> None:
        self._fd = source.fd
        source.rewind()
        self._offsets = array("q", [os.lseek(self._fd, 0, os.SEEK_CUR)])  # stdin may begin inside a file
        with open(self._fd, "rb", closefd=False) as file:
            for line in file:
                self._offsets.append(self._offsets[-1] + len(line))

    def line(self, number: int) -> bytes:
        """That line, from 1, as it is in the file."""
        start, end = self._offsets[number - 1 : number + 1]
        return os.pread(self._fd, end - start, start).removeprefix(BOM)

    def record(self, number: int) -> Record:
        """The record on that line, from 1."""
        return decode_record(self.line(number))


def by_rankings(rankings: Mapping[str, PromptRanking]) -> Strategy:
    """The strategy by which the run wins that the comparison grader ranks first; its scores are only shown."""

    def scores_of(id: str, rows: Rows) -> PromptScores:
        ranked = rankings[id]
        return PromptScores(
            scores={label: ranked.scores.get(label) for label in rows},
            standing=ranked.standing(rows),
            reasoning=ranked.reasoning,
            grader_error=ranked.error,
        )

    return scores_of


def rank_prompts(
    runs: Sequence[RunRows],
    sources: Sequence[Source],
    payload_of: PayloadOf,
    ask: Ask,
    console: Console,
    *,
    reverse: bool = True,
) -> dict[str, PromptRanking]:
    """Asks about every prompt that two runs or more have; an error of the grader costs that prompt only.

    With `reverse` it is asked again with the runs in reverse order.
    """
    indexes = {run.label: RecordIndex(source) for run, source in zip(runs, sources, strict=True)}
    waiting: deque[tuple[str, list[str], bool]] = deque()  # the grader may read ahead of its answers
    rankings: dict[str, PromptRanking] = {}

    def payloads() -> Iterator[Record]:
        for id, rows in shared_prompts(runs):
            if not reverse:
                rows = dict(sorted(rows.items(), key=lambda run: shown_place(id, run[0])))
            payload = payload_of(id, {label: indexes[label].record(row.line) for label, row in rows.items()}, rows)
            waiting.append((id, list(rows), not reverse))
            yield payload
            if reverse:
                waiting.append((id, list(rows), True))
                yield {**payload, "runs": dict(reversed(payload["runs"].items()))}

    def answered(answer: object) -> None:
        id, labels, last = waiting.popleft()
        ranked = read_ranking(answer, labels)
        if id in rankings:
            ranked = both_orders(rankings[id], ranked, labels)
        rankings[id] = ranked
        if not last:
            return
        console.advance(id, None if ranked.error is None else Ending.GRADER_ERROR)
        if ranked.error is not None:
            console.refuse(id, ranked.error, "unranked prompt")

    console.begin(sum(1 for _ in shared_prompts(runs)))
    ask(payloads(), answered)
    return rankings


def shown_place(id: str, label: str) -> bytes:
    """The place of a run among those that the grader is shown: as if by chance, but the same in every call."""
    return hashlib.sha256(f"{id}\0{label}".encode()).digest()


def read_ranking(answer: object, labels: Sequence[str]) -> PromptRanking:
    """The answer as ranks and scores by label; `error` if it is not an answer about these runs."""
    if not isinstance(answer, dict):
        return PromptRanking(error=f"grader error: {answer}")
    try:
        given = check(answer, ComparisonAnswer)
        if unknown := [ranking.run for ranking in given.rankings if ranking.run not in labels]:
            raise BadRecord(f'"rankings" names an unknown run: {unknown[0]}')
    except BadRecord as error:
        return PromptRanking(error=f"grader error: {error}")
    return PromptRanking(
        ranks={ranking.run: ranking.rank for ranking in given.rankings},
        scores={ranking.run: ranking.score for ranking in given.rankings},
        reasoning=given.reasoning,
    )


# --- all prompts --------------------------------------------------------------------------------


def preference_of(labels: Sequence[str], rankings: Mapping[str, PromptRanking]) -> Preference:
    """Returns what the answers say about the runs."""
    ranked = [ranking for ranking in rankings.values() if ranking.error is None]
    reversed_too = any(ranking.reversed_ranks is not None for ranking in ranked)
    return Preference(
        orders=2 if reversed_too else 1,
        pairs=preferred_runs(labels, ranked),
        position_bias=position_bias(labels, ranked) if reversed_too else None,
        strengths=strengths_of(labels, ranked) if len(labels) > 2 else None,
    )


def preferred_runs(labels: Sequence[str], ranked: Sequence[PromptRanking]) -> list[PreferredRun]:
    """Returns the wins of every two runs, tested by sign and adjusted for the number of pairs."""
    pairs = list(combinations(labels, 2))
    outcomes = [[won for ranking in ranked if (won := ranking.outcome(a, b)) is not None] for a, b in pairs]
    p_values = [sign_test(found.count(1), found.count(-1)) for found in outcomes]
    rows = []
    for (a, b), found, p, adjusted in zip(pairs, outcomes, p_values, holm(p_values), strict=True):
        wins, losses = found.count(1), found.count(-1)
        better = (a if wins > losses else b) if adjusted < SIGNIFICANT else None
        row = PreferredRun(
            run_a=a,
            run_b=b,
            n=len(found),
            a_wins=wins,
            b_wins=losses,
            ties=found.count(0),
            p=p,
            adjusted_p=adjusted,
            better=better,
            verdict=verdict(len(found), better),
        )
        rows.append(row)
    return rows


def verdict(n: int, better: str | None) -> str:
    """The outcome of a pair in words."""
    if n == 0:
        return "no prompt is ranked"
    if better is not None:
        return f"{better} wins"
    return "too few prompts to tell" if n < FEWEST else "no winner shown"


def position_bias(labels: Sequence[str], ranked: Sequence[PromptRanking]) -> PositionBias:
    """Counts the pairs in which the place decided; a prompt of several pairs is one sign of the test."""
    n = consistent = first = second = prompts_first = prompts_second = 0
    for ranking in ranked:
        shown, lean = [label for label in labels if label in ranking.ranks], 0
        for a, b in combinations(shown, 2):  # A is shown first, and then B
            before, after = preferred(ranking.ranks, a, b), preferred(ranking.reversed_ranks or {}, a, b)
            if before is None or after is None:
                continue
            n += 1
            consistent += before == after
            lean += ((before, after) == (1, -1)) - ((before, after) == (-1, 1))
            first += (before, after) == (1, -1)
            second += (before, after) == (-1, 1)
        prompts_first += lean > 0
        prompts_second += lean < 0
    p = sign_test(prompts_first, prompts_second)
    return PositionBias(n=n, consistent=consistent, first_preferred=first, second_preferred=second, p=p)


def strengths_of(labels: Sequence[str], ranked: Sequence[PromptRanking]) -> list[RunStrength]:
    """Returns the strengths of the runs, the strongest first; the order of prompts does not matter."""
    pairs = list(combinations(range(len(labels)), 2))
    prompts = [
        {(i, j): (1 + outcome) / 2 for i, j in pairs if (outcome := ranking.outcome(labels[i], labels[j])) is not None}
        for ranking in ranked
    ]
    prompts = [outcomes for outcomes in prompts if outcomes]
    rows = []
    for at, fitted in enumerate(fit_strengths(len(labels), prompts) if prompts else ()):
        games = (item for outcomes in prompts for item in outcomes.items())
        points = [won if i == at else 1 - won for (i, j), won in games if at in (i, j)]
        if points:
            rate = sum(points) / len(points)
            rows.append(RunStrength(run=labels[at], strength=fitted.value, interval=fitted.interval, win_rate=rate))
    return sorted(rows, key=lambda row: -row.strength)


def remarks(found: Preference) -> list[str]:
    """What a reader of the wins should know about the comparison grader."""
    bias = found.position_bias
    if bias is None or not bias.n or bias.p >= SIGNIFICANT:
        return []
    place = "first" if bias.first_preferred > bias.second_preferred else "second"
    most = max(bias.first_preferred, bias.second_preferred)
    often = f"on {most} of {counted(bias.n, 'pair')} it preferred the run shown {place}, whichever that was"
    return [f"the comparison grader is biased by position: {often} ({p_text(bias.p)}); these count as ties"]
