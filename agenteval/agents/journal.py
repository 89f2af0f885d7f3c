"""A journal beside the output: records that agents have produced and that are not in the output yet.

A record waits for its graders, for the other trials of its prompt, or (--keep-order) for an earlier prompt. When the
tool is stopped, --resume takes it from the journal, so that no agent is paid for twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from agenteval.errors import BadRecord, UserError
from agenteval.streams.jsonl import decode, encode
from agenteval.streams.output import Output
from agenteval.wire.records import Input, Record, Wire

SUFFIX = ".unfinished"
LARGE = 16 << 20  # bytes: a larger file is compacted when less than half of it is needed

Key = tuple[str, int]


class JournalEntry(Wire):
    """One line of the journal: a record and its input, because a prompt that was changed has to run again."""

    id: str
    input: Input
    trial: int
    graded: bool
    record: Record


class LinePosition(NamedTuple):
    """Offset and size of a line in the file."""

    start: int
    size: int


class Journal:
    """Keeps records on disk until their prompt is written; removes the file when it is empty."""

    def __init__(self, output: str, *, resume: bool, done: set[str]) -> None:
        self.name = output + SUFFIX
        self.path = os.path.abspath(self.name)  # starting an agent changes the working directory
        self._earlier = self._read(done) if resume else {}
        self._file: Output | None = None
        self._positions: dict[Key, LinePosition] = {}
        self._trials: dict[str, set[int]] = {}  # id of a prompt → its trials in _positions
        self._size = 0

    def open(self) -> None:
        """Rewrites the file with the entries to resume from, or deletes a leftover."""
        try:
            if self._earlier:
                self._rewrite((key, _line(entry)) for key, entry in self._earlier.items())
            elif os.path.lexists(self.path):
                os.unlink(self.path)
        except OSError as error:
            raise UserError(f"{self.name}: {error.strerror}; move that away first") from None

    def earlier(self, prompt: Record, trial: int) -> JournalEntry | None:
        """Returns what an earlier run kept of this prompt, once; None if its input was another."""
        entry = self._earlier.pop((prompt["id"], trial), None)
        return entry if entry and entry.input == prompt["input"] else None

    def keep(self, prompt: Record, record: Record, trial: int, *, graded: bool) -> None:
        """Writes a record; it replaces an earlier one of the same trial."""
        line = _line(JournalEntry(id=prompt["id"], input=prompt["input"], trial=trial, graded=graded, record=record))
        if self._file is None:
            self._file = self._rewrite(())
        self._file.write_bytes(line)
        self._add_position((prompt["id"], trial), len(line))

    def forget(self, prompt_id: str) -> None:
        """Drops the records of a prompt, which is in the output now."""
        trials = self._trials.pop(prompt_id, None)
        if trials is None or self._file is None:
            return
        for trial in trials:
            del self._positions[prompt_id, trial]
        if not self._positions:
            os.ftruncate(self._file.fd, 0)
            self._size = 0
        elif self._size > LARGE and 2 * sum(position.size for position in self._positions.values()) < self._size:
            self._compact()

    def close(self) -> None:
        """Closes the file, and removes it if no record is left in it."""
        if self._file is not None:
            self._file.close()
            if not self._positions:
                os.unlink(self.path)

    def _read(self, done: set[str]) -> dict[Key, JournalEntry]:
        """Returns the entries of an earlier run, without prompts that are done and a last line that was cut off."""
        entries: dict[Key, JournalEntry] = {}
        if not os.path.exists(self.path):
            return entries
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    entry = msgspec.convert(decode(line), JournalEntry)
                except (msgspec.ValidationError, BadRecord):
                    if line.endswith(b"\n"):
                        raise UserError(f"{self.name}:{number}: not written by this suite; move that file") from None
                else:
                    entries[entry.id, entry.trial] = entry
        return {key: entry for key, entry in entries.items() if entry.id not in done}

    def _compact(self) -> None:
        with open(self.path, "rb") as file:
            self._rewrite(
                [(key, os.pread(file.fileno(), size, start)) for key, (start, size) in self._positions.items()]
            )

    def _rewrite(self, lines: Iterable[tuple[Key, bytes]]) -> Output:
        """Replaces the file by one with these lines, in one step, and opens it."""
        if self._file is not None:
            self._file.close()
        self._positions, self._trials, self._size = {}, {}, 0
        with open(f"{self.path}.new", "wb") as fresh:
            for key, line in lines:
                fresh.write(line)
                self._add_position(key, len(line))
        os.replace(fresh.name, self.path)
        self._file = Output(self.path, append=True)
        return self._file

    def _add_position(self, key: Key, size: int) -> None:
        self._positions[key] = LinePosition(self._size, size)
        self._trials.setdefault(key[0], set()).add(key[1])
        self._size += size


def _line(entry: JournalEntry) -> bytes:
    return encode(entry) + b"\n"
