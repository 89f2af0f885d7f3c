"""The files of a comparison: told apart, read into rows, and read again line by line for a comparison grader."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

import msgspec

from agenteval.comparison.pairing import ComparisonKind
from agenteval.comparison.result_rows import RecordShape, RunRows, is_trial
from agenteval.errors import BadRecord, UserError
from agenteval.streams.console import Console
from agenteval.streams.jsonl import decode_record
from agenteval.streams.source import BOM, Source, read_typed
from agenteval.wire.records import Record

NOUNS = {"capture": "results", "trials": "trials"}
PEEKED = 1000  # lines that are looked at for a first record: nobody keeps more garbage than that in a file

Batch = list[tuple[int, bytes]]


class RunSource(Source):
    """A source that shows its first lines before they are read, and knows the number of the last one read."""

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
        """The first lines; they come again when the source is read."""
        self._batches = super().lines()
        for batch in self._batches:
            self._peeked.append(batch)
            for _, line in batch:
                yield line

    def make_seekable(self) -> None:
        """Where the input is a pipe: read it from a copy that has no name and goes with the process."""
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
    """`capture` or `trials`: what is asked for, else what the files' first records are; UserError on a mixture."""
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
    """What the first record of a file is; None where there is none."""
    parse = msgspec.json.Decoder(RecordShape).decode
    for line in islice(source.peek(), PEEKED):
        try:
            return "trials" if is_trial(parse(line)) else "capture"
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # refused when the file is read
    return None


# --- rows ---------------------------------------------------------------------------------------


def read_run(label: str, source: RunSource, console: Console, kind: ComparisonKind) -> RunRows[Any]:
    """The rows of one file; a line that cannot be used is reported and passed over."""
    rows: dict[str, Any] = {}
    for facts in read_typed(source, kind.facts, console):
        if facts.id in rows:
            _refuse(console, source, f'"id" {facts.id} is there twice; the first one counts')
            continue
        try:
            rows[facts.id] = kind.boil_down(facts, source.number)
        except BadRecord as error:
            _refuse(console, source, str(error))
    return RunRows(label, rows)


def read_runs(
    labels: Sequence[str], sources: Sequence[RunSource], console: Console, kind: ComparisonKind, *, counted: bool
) -> list[RunRows[Any]]:
    """All runs, one after the other; `counted` where they are what the progress shows."""
    if counted:
        console.begin(len(labels), "runs")
    runs = []
    for label, source in zip(labels, sources, strict=True):
        runs.append(read_run(label, source, console, kind))
        if counted:
            console.advance(label=f"{label}: {len(runs[-1].rows)} {kind.noun}")
    return runs


def _refuse(console: Console, source: RunSource, why: str) -> None:
    console.refuse(f"{source.name}:{source.number}", why)


class RecordIndex:
    """A file of records, each read again when it is wanted: only line offsets are kept in memory."""

    def __init__(self, source: RunSource) -> None:
        self._fd = source.fd
        source.rewind()
        self._offsets = array("q", [os.lseek(self._fd, 0, os.SEEK_CUR)])  # stdin may begin inside a file
        with open(self._fd, "rb", closefd=False) as file:
            for line in file:
                self._offsets.append(self._offsets[-1] + len(line))

    def record(self, number: int) -> Record:
        """The record on that line, from 1."""
        start, end = self._offsets[number - 1 : number + 1]
        return decode_record(os.pread(self._fd, end - start, start).removeprefix(BOM))
