"""Reads the prompts of a run: valid, unique, of this shard, not done before."""

from __future__ import annotations

from collections.abc import Iterator

from agenteval.errors import BadRecord
from agenteval.streams.console import Console
from agenteval.streams.jsonl import decode_record
from agenteval.streams.source import Source
from agenteval.wire.records import Prompt, Record
from agenteval.wire.validation import check


class Prompts:
    """Iterates over the prompts to run; bad lines are reported to the console."""

    def __init__(self, source: Source, console: Console, shard: tuple[int, int] | None, done: set[str]) -> None:
        self.source, self.console, self.shard, self.done = source, console, shard, done
        self._seen: set[int] = set()
        self.total: int | None = None
        if source.regular:
            self._check_file()

    def __iter__(self) -> Iterator[Record]:
        return self._read(report=not self.source.regular)

    def _check_file(self) -> None:
        """Counts the prompts of a regular file and reports its bad lines before any agent starts: agents cost money."""
        self.total = sum(1 for _prompt in self._read(report=True))
        self._seen.clear()
        self.source.rewind()

    def _read(self, *, report: bool) -> Iterator[Record]:
        for batch in self.source.lines():
            for number, line in batch:
                try:
                    prompt = self._accept(line)
                except BadRecord as error:
                    if report:
                        self.console.refuse(f"{self.source.name}:{number}", str(error))
                    continue
                if prompt is not None:
                    yield prompt

    def _accept(self, line: bytes) -> Record | None:
        prompt = decode_record(line)
        check(prompt, Prompt)
        mark = hash(prompt["id"])  # not the id itself: integers take less memory over a million prompts
        if mark in self._seen:
            raise BadRecord(f'duplicate id "{prompt["id"]}"')
        self._seen.add(mark)
        return prompt if prompt["id"] not in self.done and in_shard(prompt["id"], self.shard) else None


def in_shard(prompt_id: str, shard: tuple[int, int] | None) -> bool:
    """Whether an id belongs to a shard (number, count); the same on every machine."""
    if shard is None:
        return True
    import hashlib

    digest = hashlib.sha256(prompt_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") % shard[1] == shard[0] - 1
