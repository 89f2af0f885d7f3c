"""Merges the shards of a run: every id once, in the order of the prompts.

ShardIndex keeps in memory where the record of each id is; the records stay on disk until they are written.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agenteval.agents.prompts import Prompts
from agenteval.comparison.rows import Batch, RunSource
from agenteval.streams.console import Console
from agenteval.streams.jsonl import decode_record
from agenteval.streams.output import has_failed
from agenteval.streams.source import BOM, read_checked
from agenteval.streams.text import counted, first_few
from agenteval.wire.records import Id, Wire
from agenteval.wire.validation import check

PREFERENCES = ("first", "last", "ok")
SHOWN = 5  # ids in a message


class Identified(Wire):
    """A record of any kind: raw, result or trial."""

    id: Id


class ShardFile(RunSource):
    """A file of records that can be read again by offset; a pipe is copied to a temporary file first."""

    number = 0  # of the line read last
    offset = 0
    size = 0

    def lines(self) -> Iterator[Batch]:
        """Yields one line at a time; `offset` and `size` say where it is."""
        self.make_seekable()
        self.offset = os.lseek(self.fd, 0, os.SEEK_CUR)
        with open(self.fd, "rb", closefd=False) as file:
            for number, line in enumerate(file, 1):
                self.size = len(line)
                bare = line.rstrip(b"\r\n").removeprefix(BOM if number == 1 else b"")
                if bare and not bare.isspace():
                    self.first_line = self.first_line or number
                    self.number = number
                    yield [(number, bare)]
                self.offset += self.size

    def record(self, offset: int, size: int) -> bytes:
        """Returns the record of a line, without what surrounds it."""
        return os.pread(self.fd, size, offset).removeprefix(BOM).strip()


class Counts(NamedTuple):
    """The ids that several lines have: with the same content, and with different content that a preference decided."""

    identical: list[str]
    decided: list[str]


class ShardIndex:
    """The place of the record of each id, in the order of the files; conflicts are reported to the console."""

    def __init__(self, shards: Sequence[ShardFile], console: Console, prefer: str | None) -> None:
        self._shards, self._console, self._prefer = shards, console, prefer
        self.rows: dict[str, int] = {}
        self._file, self._line = array("I"), array("q")
        self._offset, self._size = array("q"), array("q")
        self.counts = Counts([], [])
        for number, shard in enumerate(shards):
            # Each line is decoded as a whole: what is written here, the next tool has to read.
            for _, record_id in read_checked(shard, lambda record: check(record, Identified).id, console):
                self._add(number, shard, record_id)

    def record(self, row: int) -> bytes:
        """Returns the record of a row."""
        return self._shards[self._file[row]].record(self._offset[row], self._size[row])

    def _add(self, number: int, shard: ShardFile, record_id: str) -> None:
        row = self.rows.setdefault(record_id, len(self._file))
        place = (number, shard.number, shard.offset, shard.size)
        if row == len(self._file):
            for column, value in zip((self._file, self._line, self._offset, self._size), place, strict=True):
                column.append(value)
        elif self._replaces(row, shard, record_id):
            self._file[row], self._line[row], self._offset[row], self._size[row] = place

    def _replaces(self, row: int, shard: ShardFile, record_id: str) -> bool:
        """Returns whether a later record takes the place of the one of its id; reports it if nothing decides that."""
        old, new = self.record(row), shard.record(shard.offset, shard.size)
        if old == new or decode_record(old) == decode_record(new):
            self.counts.identical.append(record_id)
            return False
        failed = has_failed(old), has_failed(new)
        if self._prefer in ("first", "last") or (self._prefer == "ok" and failed[0] != failed[1]):
            self.counts.decided.append(record_id)
            return self._prefer == "last" or (self._prefer == "ok" and failed[0])
        where = f"{self._shards[self._file[row]].name}:{self._line[row]}"
        advice = "--prefer last takes this one" if self._prefer else "--prefer first, last or ok decides"
        self._console.refuse(
            f"{shard.name}:{shard.number}",
            f'"id" {record_id} is also in {where}, with other content; that one is kept ({advice})',
            "conflict",
        )
        return False


def rows_in_order(index: ShardIndex, prompts: Prompts | None, missing: list[str], console: Console) -> Iterator[int]:
    """Yields the rows in the order of the prompts, then those without a prompt; adds the ids that have no record."""
    if prompts is not None:
        for prompt in prompts:
            row = index.rows.pop(prompt["id"], None)
            if row is None:
                missing.append(prompt["id"])
            else:
                yield row
        if index.rows:
            ids = first_few(list(index.rows), SHOWN)
            console.refuse(prompts.source.name, f"{counted(len(index.rows), 'record')} not in it, written last: {ids}")
    yield from index.rows.values()


def report(index: ShardIndex, missing: list[str], prompts: str, console: Console) -> None:
    """Reports the records that occur several times, and the prompts that have none."""
    identical, decided = index.counts
    if identical:
        console.say(
            f"{counted(len(identical), 'repeated record')} left out, the same as before: {first_few(identical, SHOWN)}"
        )
    if decided:
        console.say(f"{counted(len(decided), 'conflict')} decided by --prefer: {first_few(decided, SHOWN)}")
    if missing:
        console.say(
            f"{prompts}: {counted(len(missing), 'prompt')} without a record: {first_few(missing, SHOWN)}; "
            "the command of the run with -o ALL.jsonl --resume runs what is missing"
        )
