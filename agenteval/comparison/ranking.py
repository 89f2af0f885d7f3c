"""The comparison grader of the custom strategy: its answers, prompt by prompt, and the strategy made of them."""

from __future__ import annotations

import os
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agenteval.comparison.pairing import PromptScores, R, RunRows, Strategy, shared_prompts
from agenteval.comparison.preference.orders import PromptRanking, both_orders
from agenteval.errors import BadRecord
from agenteval.streams.console import Console, Ending
from agenteval.streams.jsonl import decode_record
from agenteval.streams.source import BOM, Source
from agenteval.wire.comparison import ComparisonAnswer
from agenteval.wire.records import Record
from agenteval.wire.validation import check

Ask = Callable[[Iterator[Record], Callable[[object], None]], None]
"""Passes payloads to a comparison grader and its answers, in order, to a function: a dict, or why there is none."""
PayloadOf = Callable[[str, Mapping[str, Record], Mapping[str, R]], Record]
"""Makes the payload of one prompt from its id, the records and the rows of its runs."""


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


def by_rankings(rankings: Mapping[str, PromptRanking]) -> Strategy[Any]:
    """The strategy by which the run wins that the comparison grader ranks first; its scores are only shown."""

    def scores_of(id: str, rows: Mapping[str, Any]) -> PromptScores:
        ranked = rankings[id]
        return PromptScores(
            scores={label: ranked.scores.get(label) for label in rows},
            standing=ranked.standing(rows),
            reasoning=ranked.reasoning,
            grader_error=ranked.error,
        )

    return scores_of


def rank_prompts(
    runs: Sequence[RunRows[R]],
    sources: Sequence[Source],
    payload_of: PayloadOf[R],
    ask: Ask,
    console: Console,
    *,
    reverse: bool = True,
) -> dict[str, PromptRanking]:
    """Asks about every prompt that two runs or more have; an error of the grader costs that prompt only.

    With `reverse` it is asked again with the runs in reverse order: judges tend to prefer a place.
    """
    indexes = {run.label: RecordIndex(source) for run, source in zip(runs, sources, strict=True)}
    waiting: deque[tuple[str, list[str], bool]] = deque()  # the grader may read ahead of its answers
    rankings: dict[str, PromptRanking] = {}

    def payloads() -> Iterator[Record]:
        for id, rows in shared_prompts(runs):
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


def read_ranking(answer: object, labels: Sequence[str]) -> PromptRanking:
    """The answer as ranks and scores by label; `error` if it is not an answer about these runs."""
    if not isinstance(answer, dict):
        return PromptRanking(error=f"grader error: {answer}")
    try:
        given = check(answer, ComparisonAnswer)
        if unknown := [ranking.run for ranking in given.rankings if ranking.run not in labels]:
            raise BadRecord(f'"rankings" names a run that was not asked about: {unknown[0]}')
    except BadRecord as error:
        return PromptRanking(error=f"grader error: {error}")
    return PromptRanking(
        ranks={ranking.run: ranking.rank for ranking in given.rankings},
        scores={ranking.run: ranking.score for ranking in given.rankings},
        reasoning=given.reasoning,
    )
