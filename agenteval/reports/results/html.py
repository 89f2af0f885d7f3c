"""html: a page to look through the results or trials: overview, table, every step; one file"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import msgspec

from agenteval import __version__
from agenteval.comparison.result_rows import is_trial
from agenteval.reports.forms import ReportContext
from agenteval.reports.page.assembly import PageParts
from agenteval.reports.page.chunks import ChunkWriter, inline_json
from agenteval.reports.page.overview import ResultsOverview, status_counts
from agenteval.reports.page.rows import FIELDS, PageResult, PageTrial
from agenteval.reports.page.trials_overview import TrialsOverview
from agenteval.reports.result_reader import ResultReader
from agenteval.streams.jsonl import decode_record, encode
from agenteval.streams.text import counted
from agenteval.wire.records import Record
from agenteval.wire.validation import check

MOST_ROWS = 200_000  # that a browser still lists and searches well; docs/page.md has the measurements
MOST_BYTES = 400 << 20  # of compressed records that it still opens
TRAJECTORIES = ("trajectory", "rawLines")
WAYS_OUT = "--limit N lists fewer records, --no-trajectories leaves their steps out"


def render(results: ResultReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the page: first all rows and figures, then the records, which the browser unpacks one by one."""
    parts = PageParts("agenteval report")
    yield parts.head.encode()
    reading = _Reading(context)
    limit = min(context.limit or MOST_ROWS, MOST_ROWS)
    rows, texts = ChunkWriter("rows"), ChunkWriter("texts")
    for row, text in results.first_lines(reading.add):
        results.seen(row[0])
        if reading.overview.records <= limit:
            yield from rows.add_value(row)
            yield from texts.add_value(text)
    yield from rows.flush()
    yield from texts.flush()
    yield inline_json("overview", reading.page_data(limit))
    yield parts.script.encode()
    left_out = yield from _records(results, limit, context)
    yield inline_json("left-out", left_out)
    yield parts.tail.encode()
    _say_what_is_missing(reading.overview.records, limit, left_out, context)


def _records(results: ResultReader, limit: int, context: ReportContext) -> Generator[bytes, None, int]:
    """Yields the records themselves; returns how many did not fit."""
    chunks = ChunkWriter("records")
    left_out = 0
    for at, line in enumerate(results.second_lines()):
        if at >= limit:
            break
        if chunks.written > MOST_BYTES:
            left_out += 1
            continue
        yield from chunks.add(line if context.trajectories else without_trajectories(line))
    yield from chunks.flush()
    return left_out


def without_trajectories(line: bytes) -> bytes:
    """The record without the steps and raw lines of the agent."""
    record = decode_record(line)
    trials = record.get("trials")
    for holder in [record, *(trials if isinstance(trials, list) else ())]:
        for field in TRAJECTORIES if isinstance(holder, dict) else ():
            holder.pop(field, None)
    return encode(record)


def _say_what_is_missing(records: int, limit: int, left_out: int, context: ReportContext) -> None:
    if records > limit and limit != context.limit:
        context.say(f"the page lists the first {limit:,} of {counted(records, 'record')}: browsers cannot take more")
    if left_out:
        what = counted(left_out, "record")
        context.say(f"the page is full: {what} of {records:,} can be listed but not opened in it; {WAYS_OUT}")


# --- reading ------------------------------------------------------------------------------------


class _Reading:
    """Reads results or trials, whichever the first record is, and sums them up."""

    def __init__(self, context: ReportContext) -> None:
        self.overview: Any = ResultsOverview(context.by)
        self._context = context
        self._kind: type[PageResult | PageTrial] | None = None
        self._decode: Any = None

    def add(self, line: bytes) -> tuple[list[Any], str]:
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
            "fields": FIELDS,
            "statuses": status_counts(overview.statuses),
            "trajectories": context.trajectories,
            **overview.page_data(),
        }
