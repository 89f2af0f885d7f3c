"""A journal beside the output: records that agents have produced and that are not in the output yet.

A record waits for its graders, for the other trials of its prompt, or (--keep-order) for an earlier prompt. When the
tool is stopped, --resume takes it from the journal, so that no agent is paid for twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

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


class Journal:
    """Keeps records on disk until their prompt is written; removes the file when it is empty."""

    def __init__(self, output: str, *, resume: bool, done: set[str]) -> None:
        self.name = output + SUFFIX
        self.path = os.path.abspath(self.name)  # starting an agent changes the working directory
        self._earlier = self._read(done) if resume else {}
        self._file: Output | None = None
        self._lines: dict[str, dict[int, tuple[int, int]]] = {}  # id of a prompt → trial → offset and size of its line
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

    def agents(self) -> set[tuple[str | None, str]]:
        """Returns name and digest of the agents whose records an earlier run kept."""
        found = (entry.record.get("metadata") or {} for entry in self._earlier.values())
        return {(one.get("agent"), one["agentDigest"]) for one in found if one.get("agentDigest")}

    def earlier(self, prompt: Record, trial: int) -> JournalEntry | None:
        """Returns what an earlier run kept of this prompt, once; None if its input was another."""
        entry = self._earlier.pop((prompt["id"], trial), None)
        return entry if entry and entry.input == prompt["input"] else None

    def keep(self, prompt: Record, record: Record, trial: int, *, graded: bool) -> None:
        """Writes a record; it replaces an earlier one of the same trial."""
        file = self._file or self._rewrite(())
        entry = JournalEntry(id=prompt["id"], input=prompt["input"], trial=trial, graded=graded, record=record)
        file.write_bytes(self._add((entry.id, trial), _line(entry)))

    def forget(self, prompt_id: str) -> None:
        """Drops the records of a prompt, which is in the output now."""
        if self._lines.pop(prompt_id, None) is None or self._file is None:
            return
        if not self._lines:
            os.ftruncate(self._file.fd, 0)
            self._size = 0
        elif self._size > LARGE:
            needed = [((ident, trial), line) for ident, trials in self._lines.items() for trial, line in trials.items()]
            if 2 * sum(size for _key, (_start, size) in needed) < self._size:
                with open(self.path, "rb") as old:
                    self._rewrite([(key, os.pread(old.fileno(), size, start)) for key, (start, size) in needed])

    def close(self) -> None:
        """Closes the file, and removes it if no record is left in it."""
        if self._file is not None:
            self._file.close()
            if not self._lines:
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

    def _rewrite(self, lines: Iterable[tuple[Key, bytes]]) -> Output:
        """Replaces the file by one with these lines, in one step, and opens it."""
        if self._file is not None:
            self._file.close()
        self._lines, self._size = {}, 0
        with open(f"{self.path}.new", "wb") as new:
            new.writelines(self._add(key, line) for key, line in lines)
        os.replace(new.name, self.path)
        self._file = Output(self.path, append=True)
        return self._file

    def _add(self, key: Key, line: bytes) -> bytes:
        """Notes where a line will be, at the end of the file, and returns it."""
        self._lines.setdefault(key[0], {})[key[1]] = (self._size, len(line))
        self._size += len(line)
        return line


def _line(entry: JournalEntry) -> bytes:
    return encode(entry) + b"\n"
