"""html: a page for browsing results or trials: overview, table, every step; one file"""

from collections.abc import Iterator, Mapping
from itertools import chain, islice

from agenteval import __version__
from agenteval.reports.forms import ReportContext
from agenteval.reports.page import document
from agenteval.reports.page.overview import Overview, status_counts
from agenteval.reports.page.rows import STATUSES, PageRow, search_text
from agenteval.reports.reader import RowReader
from agenteval.streams.jsonl import decode_record, encode
from agenteval.wire.calibration import Label
from agenteval.wire.records import Record
from agenteval.wire.row import Row, RowWithCalls


def render(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the page: first all rows and figures, then the records, which the browser unpacks one by one."""
    parts = document.PageParts("agenteval report")
    overview = Overview(context.by)
    limit = min(context.limit or document.MOST_ROWS, document.MOST_ROWS)
    rows, texts = document.ChunkWriter("rows"), document.ChunkWriter("texts")

    listed = bytearray()  # of each record, whether it is one of those that were asked for
    labels = GivenLabels(context.labels or {})

    def add(line: bytes) -> tuple[PageRow, str]:
        row = results.row(line, RowWithCalls)
        listed.append(context.lists(row.status))
        labels.add(row)
        return overview.add(row), search_text(row)

    lines = results.lines(add, twice=True)
    first = list(islice(lines, 1))  # a file of another kind is refused before anything is written
    yield parts.head.encode()
    found = 0
    for row, text in chain(first, lines):
        results.seen(row.id)
        found += listed[-1]
        if listed[-1] and found <= limit:
            yield from rows.add_value([*row])
            yield from texts.add_value(text)
    yield from rows.flush()
    yield from texts.flush()
    data = {
        **overview.page_data(),
        "made": f"agenteval {__version__}, {context.generated}",
        "source": context.source,
        "records": overview.records,
        "listed": min(found, limit),
        "by": context.by.removeprefix("metadata."),
        "fields": PageRow._fields,
        "statuses": status_counts(overview.statuses, STATUSES),
        "trajectories": context.trajectories,
        "running": context.following and context.following.shown(overview.records),
        "givenLabels": labels.used,
        "run": overview.facts.run or f"{context.source} {overview.facts.start or ''}",
    }
    yield document.inline_json("overview", data)
    yield parts.script.encode()
    room = document.PageRoom()
    asked_for = (line for line, is_listed in zip(results.lines_again(), listed, strict=False) if is_listed)
    for line in islice(asked_for, limit):
        yield from room.add(line if context.trajectories else _without_trajectories(line))
    yield from room.finish()
    yield parts.tail.encode()
    document.say_what_is_missing(found, min(limit, found), room.left_out, context)
    if left_out := labels.left_out():
        context.say(left_out)


class GivenLabels:
    """The labels of a file that are for answers of this one."""

    def __init__(self, labels: Mapping[str, Label]) -> None:
        self._labels, self._seen = labels, set[str]()
        self.used: Record = {}

    def add(self, row: Row) -> None:
        """Takes the labels of a record."""
        for attempt in row.attempts if self._labels else ():
            name = row.name_of(attempt)
            label = self._labels.get(name)
            if label is not None:
                self._seen.add(name)
                if label.is_for(attempt.output):
                    self.used[name] = {"pass": label.verdict, "note": label.note, "outputHash": label.output_hash}

    def left_out(self) -> str | None:
        """Says how many labels are not shown, and why; None if all are."""
        counts = [
            (len(self._seen) - len(self.used), "for a different output than the record's"),
            (len(self._labels) - len(self._seen), "for an id that is not among the records"),
        ]
        parts = ", ".join(f"{count:,} {why}" for count, why in counts if count)
        return f"labels not shown on the page: {parts}" if parts else None


def _without_trajectories(line: bytes) -> bytes:
    """The record without the steps and raw lines of the agent."""
    record = decode_record(line)
    trials = record.get("trials")
    for holder in [record, *(trials if isinstance(trials, list) else ())]:
        for field in ("trajectory", "rawLines") if isinstance(holder, dict) else ():
            holder.pop(field, None)
    return encode(record)
