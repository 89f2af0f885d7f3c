"""What agents have answered and is not in the output yet: on disk beside it, so that nothing is paid for twice.

An answer waits here for its graders, for the other trials of its prompt, or (--keep-order) for a prompt before it.
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
LARGE = 16 << 20  # bytes from which on the file is written anew without what is not needed any more

Key = tuple[str, int]


class JournalEntry(Wire):
    """One line: a record, and the input it answers, because a prompt that was changed has to be run again."""

    id: str
    input: Input
    trial: int
    graded: bool
    record: Record


class LinePosition(NamedTuple):
    """Where in the file a line is."""

    start: int
    size: int


class Journal:
    """Keeps records until their prompt is written; the file goes when nothing is left in it."""

    def __init__(self, output: str, *, resume: bool, done: set[str]) -> None:
        self.name = output + SUFFIX
        self.path = os.path.abspath(self.name)  # this process changes its directory with each agent it starts
        self._earlier = self._read(done) if resume else {}
        self._file: Output | None = None
        self._places: dict[Key, LinePosition] = {}
        self._trials: dict[str, set[int]] = {}  # of each prompt, those with a place
        self._size = 0

    def open(self) -> None:
        """Begin: what an earlier run has left is there to go on with, or else of no use any more."""
        try:
            if self._earlier:
                self._write_anew((key, _line(entry)) for key, entry in self._earlier.items())
            elif os.path.lexists(self.path):
                os.unlink(self.path)
        except OSError as error:
            raise UserError(f"{self.name}: {error.strerror}; move that away first") from None

    def earlier(self, prompt: Record, trial: int) -> JournalEntry | None:
        """What an earlier run has kept of this prompt, if it was the same then; given once."""
        entry = self._earlier.pop((prompt["id"], trial), None)
        return entry if entry and entry.input == prompt["input"] else None

    def keep(self, prompt: Record, record: Record, trial: int, *, graded: bool) -> None:
        """Put a record on disk; of the same trial the last one counts."""
        line = _line(JournalEntry(id=prompt["id"], input=prompt["input"], trial=trial, graded=graded, record=record))
        if self._file is None:
            self._file = self._write_anew(())
        self._file.write_bytes(line)
        self._note((prompt["id"], trial), len(line))

    def forget(self, prompt_id: str) -> None:
        """The prompt is written: what was kept of it is not needed any more."""
        trials = self._trials.pop(prompt_id, None)
        if trials is None or self._file is None:
            return
        for trial in trials:
            del self._places[prompt_id, trial]
        if not self._places:
            os.ftruncate(self._file.fd, 0)
            self._size = 0
        elif self._size > LARGE and 2 * sum(place.size for place in self._places.values()) < self._size:
            self._tidy()

    def close(self) -> None:
        """Nothing more comes; a file in which nothing is left is removed."""
        if self._file is not None:
            self._file.close()
            if not self._places:
                os.unlink(self.path)

    def _read(self, done: set[str]) -> dict[Key, JournalEntry]:
        """What an earlier run has left, but for prompts that are done and a line that was cut off."""
        found: dict[Key, JournalEntry] = {}
        if not os.path.exists(self.path):
            return found
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    entry = msgspec.convert(decode(line), JournalEntry)
                except (msgspec.ValidationError, BadRecord):
                    if line.endswith(b"\n"):
                        raise UserError(f"{self.name}:{number}: not written by this suite; move that file") from None
                else:
                    found[entry.id, entry.trial] = entry
        return {key: entry for key, entry in found.items() if entry.id not in done}

    def _tidy(self) -> None:
        with open(self.path, "rb") as file:
            self._write_anew(
                [(key, os.pread(file.fileno(), place.size, place.start)) for key, place in self._places.items()]
            )

    def _write_anew(self, lines: Iterable[tuple[Key, bytes]]) -> Output:
        """The file, with these lines only, and open; at once: what was paid for is never in memory alone."""
        if self._file is not None:
            self._file.close()
        self._places, self._trials, self._size = {}, {}, 0
        with open(f"{self.path}.new", "wb") as fresh:
            for key, line in lines:
                fresh.write(line)
                self._note(key, len(line))
        os.replace(fresh.name, self.path)
        self._file = Output(self.path, append=True)
        return self._file

    def _note(self, key: Key, size: int) -> None:
        self._places[key] = LinePosition(self._size, size)
        self._trials.setdefault(key[0], set()).add(key[1])
        self._size += size


def _line(entry: JournalEntry) -> bytes:
    return encode(entry) + b"\n"
