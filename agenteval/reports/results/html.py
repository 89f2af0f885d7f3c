"""html: a page to look through the results or trials: overview, table, every step; one file"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import msgspec

from agenteval import __version__
from agenteval.reports.forms import ReportContext
from agenteval.reports.page.document import (
    MOST_ROWS,
    ChunkWriter,
    PageParts,
    PageRoom,
    inline_json,
    say_what_is_missing,
)
from agenteval.reports.page.overview import ResultsOverview, TrialsOverview, status_counts
from agenteval.reports.page.rows import STATUSES, PageResult, PageRow, PageTrial
from agenteval.reports.result_reader import ResultReader
from agenteval.streams.jsonl import decode_record, encode
from agenteval.wire.records import Record
from agenteval.wire.result_view import is_trial
from agenteval.wire.validation import check

TRAJECTORIES = ("trajectory", "rawLines")


def render(results: ResultReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the page: first all rows and figures, then the records, which the browser unpacks one by one."""
    parts = PageParts("agenteval report")
    reading = _Reading(context)
    limit = min(context.limit or MOST_ROWS, MOST_ROWS)
    rows, texts = ChunkWriter("rows"), ChunkWriter("texts")
    lines = results.first_lines(reading.add)
    first = list(islice(lines, 1))  # a file of another kind is refused before anything is written
    yield parts.head.encode()
    for row, text in chain(first, lines):
        results.seen(row.id)
        if reading.overview.records <= limit:
            yield from rows.add_value([*row])
            yield from texts.add_value(text)
    yield from rows.flush()
    yield from texts.flush()
    yield inline_json("overview", reading.page_data(limit))
    yield parts.script.encode()
    room = PageRoom()
    for at, line in enumerate(results.second_lines()):
        if at >= limit:
            break
        yield from room.add(line if context.trajectories else without_trajectories(line))
    yield from room.finish()
    yield parts.tail.encode()
    say_what_is_missing(reading.overview.records, min(limit, reading.overview.records), room.left_out, context)


def without_trajectories(line: bytes) -> bytes:
    """The record without the steps and raw lines of the agent."""
    record = decode_record(line)
    trials = record.get("trials")
    for holder in [record, *(trials if isinstance(trials, list) else ())]:
        for field in TRAJECTORIES if isinstance(holder, dict) else ():
            holder.pop(field, None)
    return encode(record)


# --- reading ------------------------------------------------------------------------------------


class _Reading:
    """Reads results or trials, whichever the first record is, and sums them up."""

    def __init__(self, context: ReportContext) -> None:
        self.overview: Any = ResultsOverview(context.by)
        self._context = context
        self._kind: type[PageResult | PageTrial] | None = None
        self._decode: Any = None

    def add(self, line: bytes) -> tuple[PageRow, str]:
        """The row of a line and what it is searched by; BadRecord if it is not a record of this file's kind."""
        if self._kind is None:
            self._choose(decode_record(line))
        try:
            record = self._decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            record = check(decode_record(line), self._kind or PageResult)
        return self.overview.add(record), self.overview.text(record)

    def _choose(self, first: Record) -> None:
        trials = is_trial(first.get("trials"), first.get("k"))
        self._kind = PageTrial if trials else PageResult
        self._decode = msgspec.json.Decoder(self._kind).decode
        if trials:
            self.overview = TrialsOverview(self._context.by)

    def page_data(self, limit: int) -> Record:
        """What the script shows before any record is opened."""
        overview, context = self.overview, self._context
        agent = overview.facts.agent()
        return {
            "kind": overview.kind,
            "noun": overview.noun,
            "title": agent or "Evaluation",
            "facts": overview.facts.shown(),
            "made": f"agenteval {__version__}, {context.generated}",
            "source": context.source,
            "records": overview.records,
            "listed": min(overview.records, limit),
            "by": context.by.removeprefix("metadata."),
            "fields": PageRow._fields,
            "statuses": status_counts(overview.statuses, STATUSES),
            "trajectories": context.trajectories,
            **overview.page_data(),
        }
