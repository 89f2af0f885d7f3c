"""How much a page may hold: what a browser here still opens and searches well; docs/page.md has the measurements."""

from __future__ import annotations

from collections.abc import Iterator

from agenteval.reports.forms import ReportContext
from agenteval.reports.page.chunks import ChunkWriter, inline_json
from agenteval.streams.text import counted

MOST_ROWS = 100_000  # with 200,000 a filter takes longer than 200 ms
MOST_BYTES = 400 << 20  # of compressed records
WAYS_OUT = "--limit N lists fewer records, --no-trajectories leaves their steps out"
FEWER_PROMPTS = "compare fewer prompts at a time, such as one category"  # ae-compare has no such options


class PageRoom:
    """The records of a page, until it is full; those that do not fit are counted."""

    def __init__(self) -> None:
        self.left_out = 0
        self._chunks = ChunkWriter("records")

    def add(self, line: bytes) -> Iterator[bytes]:
        """Adds the line of a record; yields a block if there is enough for one."""
        if self._chunks.written > MOST_BYTES:
            self.left_out += 1
        else:
            yield from self._chunks.add(line)

    def finish(self) -> Iterator[bytes]:
        """Yields the rest, and how many did not fit."""
        yield from self._chunks.flush()
        yield inline_json("left-out", self.left_out)


def say_what_is_missing(
    records: int, listed: int, left_out: int, context: ReportContext, ways_out: str = WAYS_OUT
) -> None:
    """Reports in a line each what did not fit in the page, and what to do."""
    if listed < records and listed != context.limit:
        context.say(f"the page lists the first {listed:,} of {counted(records, 'record')}, as many as fit; {ways_out}")
    if left_out:
        context.say(
            f"the page is full: {counted(left_out, 'record')} of {records:,} cannot be opened in it; {ways_out}"
        )
