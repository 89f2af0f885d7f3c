"""Merges the shards of a run: every id once, in the order of the prompts.

ShardIndex keeps in memory where the record of each id is; the records stay on disk until they are written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agenteval.agents.prompts import Prompts
from agenteval.comparison.rows import Batch, RunSource
from agenteval.streams.console import Console
from agenteval.streams.jsonl import LONG_LINE, decode_record
from agenteval.streams.output import has_failed
from agenteval.streams.source import BOM, CHUNK, read_checked
from agenteval.streams.text import counted, first_few
from agenteval.wire.records import Id, Record, Wire
from agenteval.wire.validation import check

PREFERENCES = ("first", "last", "ok")
SHOWN = 5  # ids in a message


class Identified(Wire):
    """A record of any kind: raw, result or trial."""

    id: Id


class ShardFile(RunSource):
    """A file of records that can be read again by offset; a pipe is copied to a temporary file first."""

    place: Place  # of the line read last

    def lines(self) -> Iterator[Batch]:
        """Yields one line at a time, and sets its place."""
        self.make_seekable()
        offset = os.lseek(self.fd, 0, os.SEEK_CUR)
        number = 0
        with open(self.fd, "rb", closefd=False) as file:
            while line := file.readline(self.max_line + 1):
                number, size, rest = number + 1, len(line), line
                while size > self.max_line and not rest.endswith(b"\n") and (rest := file.readline(CHUNK)):
                    size += len(rest)
                bare = line.rstrip(b"\r\n").removeprefix(BOM if number == 1 else b"")
                bare = bare if size <= self.max_line else LONG_LINE
                if bare and not bare.isspace():
                    self.first_line = self.first_line or number
                    self.place = Place(self, number, offset, size)
                    yield [(number, bare)]
                offset += size


class Place(NamedTuple):
    """Where a record is."""

    shard: ShardFile
    line: int
    offset: int
    size: int

    def __str__(self) -> str:
        return f"{self.shard.name}:{self.line}"

    def record(self) -> bytes:
        """Returns the record, without what surrounds it."""
        return os.pread(self.shard.fd, self.size, self.offset).removeprefix(BOM).strip()


class ShardIndex:
    """The place of the record of each id, in the order of the files; conflicts are reported to the console.

    `identical` and `decided` are the ids that several lines have: with the same content, and with different content
    that a preference decided.
    """

    def __init__(self, shards: Sequence[ShardFile], console: Console, prefer: str | None) -> None:
        self._console, self._prefer = console, prefer
        self.places: dict[str, Place] = {}
        self._agents: dict[str, Place] = {}  # by digest
        self.identical: list[str] = []
        self.decided: list[str] = []
        for shard in shards:
            # Each line is decoded as a whole: what is written here, the next tool has to read.
            for record, record_id in read_checked(shard, lambda record: check(record, Identified).id, console):
                self._check_agent(record, shard.place)
                before = self.places.setdefault(record_id, shard.place)
                if before is not shard.place and self._replaces(before, shard.place, record_id):
                    self.places[record_id] = shard.place

    def _check_agent(self, record: Record, place: Place) -> None:
        """Reports the first record of another agent, or of the same with another command: a run has one."""
        metadata = record.get("metadata")
        digest = metadata.get("agentDigest") if isinstance(metadata, dict) else None
        if not isinstance(digest, str) or digest in self._agents:
            return
        if self._agents:
            first = next(iter(self._agents.values()))
            self._console.refuse(
                str(place),
                f"comes from a different agent or command than {first}: all shards must belong to one run",
                "agent",
            )
        self._agents[digest] = place

    def _replaces(self, before: Place, now: Place, record_id: str) -> bool:
        """Returns whether a later record takes the place of the one of its id; reports it if nothing decides that."""
        old, new = before.record(), now.record()
        if old == new or decode_record(old) == decode_record(new):
            self.identical.append(record_id)
            return False
        failed = has_failed(old), has_failed(new)
        if self._prefer in ("first", "last") or (self._prefer == "ok" and failed[0] != failed[1]):
            self.decided.append(record_id)
            return self._prefer == "last" or (self._prefer == "ok" and failed[0])
        advice = "--prefer last takes this one" if self._prefer else "--prefer first, last or ok decides"
        why = f'"id" {record_id} is also in {before}, with different contents; that one is kept ({advice})'
        self._console.refuse(str(now), why, "conflict")
        return False


def in_order(index: ShardIndex, prompts: Prompts | None, missing: list[str], console: Console) -> Iterator[bytes]:
    """Yields the records in the order of the prompts, then those without a prompt; adds the ids that have none."""
    places = dict(index.places)
    for prompt in prompts or ():
        place = places.pop(prompt["id"], None)
        if place is None:
            missing.append(prompt["id"])
        else:
            yield place.record()
    if prompts is not None and places:
        ids = first_few(list(places), SHOWN)
        console.refuse(prompts.source.name, f"{counted(len(places), 'record')} not among them, written last: {ids}")
    for place in places.values():
        yield place.record()


def report(index: ShardIndex, missing: list[str], prompts: str, console: Console) -> None:
    """Reports the records that occur several times, and the prompts that have none."""
    if ids := index.identical:
        console.say(f"{counted(len(ids), 'repeated record')} left out, the same as before: {first_few(ids, SHOWN)}")
    if ids := index.decided:
        console.say(f"{counted(len(ids), 'conflict')} decided by --prefer: {first_few(ids, SHOWN)}")
    if missing:
        console.say(
            f"{prompts}: {counted(len(missing), 'prompt')} without a record: {first_few(missing, SHOWN)}; to "
            f"run them, repeat the command of the run with -o ALL.jsonl --resume"
        )
