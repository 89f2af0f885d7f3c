"""The finished trials of prompts that are not finished: on disk beside the output, so that none is paid for twice."""

from __future__ import annotations

import os

import msgspec

from agenteval.errors import UserError
from agenteval.records import Input, Record, TrialEntry, Wire
from agenteval.stream import Output, decode, encode

SUFFIX = ".unfinished"


class Entry(Wire):
    """One line: a trial, and the input it answered, because a prompt that was changed has to be run again."""

    id: str
    input: Input
    trial: TrialEntry


class Journal:
    """Keeps each trial until its prompt is written whole; the file goes when nothing is left in it."""

    def __init__(self, output: str, *, resume: bool, done: set[str]) -> None:
        self.name = output + SUFFIX
        self.path = os.path.abspath(self.name)  # this process changes its directory with each agent it starts
        self._earlier = self._read(done) if resume else []
        self._file: Output | None = None
        self._open = {line["id"] for line in self._earlier}  # prompts with trials here that are not written yet

    def earlier(self) -> dict[tuple[str, int], Record]:
        """What an earlier run has left to go on with, by prompt and number of the trial."""
        return {(line["id"], line["trial"]["trialNum"]): line for line in self._earlier}

    def keep(self, prompt: Record, trial: Record) -> None:
        """Put a finished trial on disk."""
        self._open.add(prompt["id"])
        self._begun().write({"id": prompt["id"], "input": prompt["input"], "trial": trial})

    def forget(self, prompt_id: str) -> None:
        """The prompt is written whole; where no other is left, the file is emptied."""
        self._open.discard(prompt_id)
        if not self._open:
            os.ftruncate(self._begun().fd, 0)

    def close(self) -> None:
        """Nothing more comes; a file in which nothing is left is removed."""
        self._begun().close()
        if not self._open:
            os.unlink(self.path)

    def _read(self, done: set[str]) -> list[Record]:
        """The lines of an earlier run, but for those of prompts that are done and one that was cut off."""
        found: list[Record] = []
        if not os.path.exists(self.path):
            return found
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    entry = msgspec.json.decode(line, type=Entry)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    if line.endswith(b"\n"):
                        raise UserError(f"{self.name}:{number}: not a trial; mend or remove that file first") from None
                else:
                    found += [] if entry.id in done else [decode(line)]
        return found

    def _begun(self) -> Output:
        """The file, anew and with the earlier lines; nothing is touched before there is something to keep."""
        if self._file is None:
            fresh = f"{self.path}.new"
            with open(fresh, "wb") as file:
                file.writelines(encode(line) + b"\n" for line in self._earlier)
            os.replace(fresh, self.path)  # at once: what was paid for is never in memory alone
            self._file = Output(self.path, append=True)
        return self._file
