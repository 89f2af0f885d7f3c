"""The files of a comparison: whether they hold results or trials, and their rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from agenteval.comparison.comparison import Comparison
from agenteval.comparison.pairing import R, RunRows
from agenteval.errors import BadRecord, UserError
from agenteval.streams.console import Console
from agenteval.streams.jsonl import decode_record
from agenteval.streams.source import PROMPTS, RAW, Source, kind_of, read_typed
from agenteval.wire.result_view import is_trial

NOUNS = {"capture": "results", "trials": "trials"}
PEEKED = 1000  # lines in which a first valid record is looked for

Batch = list[tuple[int, bytes]]


class RunSource(Source):
    """A source whose first lines can be peeked at, and that knows the number of the line read last."""

    number = 0

    def __init__(self, path: str | None) -> None:
        super().__init__(path)
        self._peeked: list[Batch] = []
        self._batches: Iterator[Batch] | None = None

    def lines(self) -> Iterator[Batch]:
        """One line at a time."""
        peeked, self._peeked = self._peeked, []
        for batch in chain(peeked, self._batches or super().lines()):
            for numbered in batch:
                self.number = numbered[0]
                yield [numbered]

    def peek(self) -> Iterator[bytes]:
        """The first lines; lines() yields them again."""
        self._batches = super().lines()
        for batch in self._batches:
            self._peeked.append(batch)
            for _, line in batch:
                yield line

    def make_seekable(self) -> None:
        """Copies a pipe to a temporary file, which has no name and ends with the process."""
        if self.regular:
            return
        import shutil
        import tempfile

        with open(self.fd, "rb", closefd=False) as pipe, tempfile.TemporaryFile() as spool:
            shutil.copyfileobj(pipe, spool)
            spool.flush()
            self.fd, self.regular = os.dup(spool.fileno()), True
        self.rewind()


# --- results or trials --------------------------------------------------------------------------


def find_format(sources: Sequence[RunSource], asked: str) -> str:
    """`capture` or `trials`: as asked, else as the first records of the files; UserError if they differ."""
    found = {source.name: name for source in sources if (name := first_record(source)) is not None}
    expected = asked if asked != "auto" else next(iter(found.values()), "capture")
    for name, other in found.items():
        if other != expected and asked != "auto":
            raise UserError(f"{name}: holds {NOUNS[other]}, and --input-format {asked} expects {NOUNS[asked]}")
        if other != expected:
            raise UserError(
                f"{name}: holds {NOUNS[other]}, and {next(iter(found))} holds {NOUNS[expected]}: "
                "only files of one kind can be compared"
            )
    return expected


def first_record(source: RunSource) -> str | None:
    """`capture` or `trials`, by the first record of a file; None if it has none, UserError if it is neither."""
    for line in islice(source.peek(), PEEKED):
        try:
            record = decode_record(line)
        except BadRecord:
            continue  # reported when the file is read
        if "score" not in record and (kind := kind_of(record)) in (RAW, PROMPTS):
            raise UserError(f"{source.name}: {kind}")
        return "trials" if is_trial(record.get("trials"), record.get("k")) else "capture"
    return None


# --- rows ---------------------------------------------------------------------------------------


def read_run(label: str, source: RunSource, console: Console, kind: Comparison[R]) -> RunRows[R]:
    """The rows of one file; a line that cannot be used is reported and left out."""
    rows: dict[str, R] = {}
    for view in read_typed(source, kind.view, console):
        try:
            if view.id in rows:
                raise BadRecord(f'"id" {view.id} is there twice; the first one counts')
            rows[view.id] = kind.row(view, source.number)
        except BadRecord as error:
            console.refuse(f"{source.name}:{source.number}", str(error))
    return RunRows(label, kind.complete(rows))


def read_runs(
    labels: Sequence[str], sources: Sequence[RunSource], console: Console, kind: Comparison[R], *, counted: bool
) -> list[RunRows[R]]:
    """All runs, one after the other; `counted` if they are what the progress shows."""
    if counted:
        console.begin(len(labels), "runs")
    runs = []
    for label, source in zip(labels, sources, strict=True):
        runs.append(read_run(label, source, console, kind))
        if counted:
            console.advance(f"{label}: {len(runs[-1].rows)} {kind.noun}")
    return runs
