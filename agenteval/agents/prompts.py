"""Reads prompts: valid, unique and, for a run, of this shard, not done before, without what an earlier run left."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Callable, Iterator

import msgspec

from agenteval.errors import BadRecord, nearest
from agenteval.streams.console import Console
from agenteval.streams.digests import digest, tree_digest
from agenteval.streams.jsonl import decode_record
from agenteval.streams.source import Source, refuse
from agenteval.streams.text import parse_milliseconds
from agenteval.wire.records import (
    AGENT_METADATA,
    RUN_FIELDS,
    RUN_METADATA,
    TRIALS_FIELDS,
    Prompt,
    PromptWorkspace,
    Record,
)
from agenteval.wire.validation import check

PLACES = ("tests", "solution")  # paths in checks


class _CheckedLines(msgspec.Struct, frozen=True):
    """What the look-ahead found: a hash of each line, and whether it is a prompt to run."""

    hashes: array[int]
    wanted: bytearray


class Prompts:
    """Iterates over the prompts of a shard that are wanted; bad lines are reported to the console.

    `clean` removes what is not part of the prompt.
    """

    def __init__(
        self,
        source: Source,
        console: Console,
        shard: tuple[int, int] | None = None,
        wants: Callable[[Record, bool], bool] = lambda _prompt, in_shard: in_shard,
        clean: Callable[[Record], Record] = lambda record: record,
        validate: Callable[[Record], object] = lambda _prompt: None,
    ) -> None:
        self.source, self.console, self.shard, self.wants = source, console, shard, wants
        self.clean, self.validate = clean, validate
        self.read = 0  # prompts so far, wanted or not
        self.total: int | None = None
        self._checked = self._check_file() if source.regular else None

    def __iter__(self) -> Iterator[Record]:
        if self._checked is None:
            return (prompt for _line, prompt in self._read() if prompt is not None)
        self.source.rewind()
        return self._read_again(self._checked)

    def _check_file(self) -> _CheckedLines:
        """Counts the prompts of a regular file and reports its bad lines before any agent starts: agents cost money."""
        checked = _CheckedLines(array("q"), bytearray())
        for line, prompt in self._read():
            checked.hashes.append(hash(line))
            checked.wanted.append(prompt is not None)
        self.total = sum(checked.wanted)
        return checked

    def _read(self) -> Iterator[tuple[bytes, Record | None]]:
        """Yields each line, with its prompt if that is to be run; reports bad lines."""
        seen: set[int] = set()
        for batch in self.source.lines():
            for number, line in batch:
                prompt = None
                try:
                    prompt = self._accept(line, seen)
                except BadRecord as error:
                    refuse(self.source, number, line, error, self.console)
                yield line, prompt

    def _read_again(self, checked: _CheckedLines) -> Iterator[Record]:
        """Yields the prompts of a file as they were checked; none from the line on where it was changed meanwhile."""
        index, number = 0, 0
        for batch in self.source.lines():
            for number, line in batch:
                if index == len(checked.hashes) or hash(line) != checked.hashes[index]:
                    self._report_change(number, sum(checked.wanted[index:]))
                    return
                if checked.wanted[index]:
                    yield self.clean(decode_record(line))
                index += 1
        if index < len(checked.hashes):
            self._report_change(number + 1, sum(checked.wanted[index:]))

    def _report_change(self, number: int, left: int) -> None:
        lost = f"{left} of its {self.total} prompts were not run" if left else "what was added was not run"
        self.console.refuse(
            f"{self.source.name}:{number}",
            f"the file was changed during the run: {lost}; run it again with --resume",
            "change of the prompt file",
        )

    def _accept(self, line: bytes, seen: set[int]) -> Record | None:
        prompt = decode_record(line)
        check(prompt, Prompt)
        self.validate(prompt)
        mark = hash(prompt["id"])  # not the id itself: integers take less memory over a million prompts
        if mark in seen:
            raise BadRecord(f'duplicate id "{prompt["id"]}"')
        seen.add(mark)
        self.read += 1
        prompt = self.clean(prompt)
        return prompt if self.wants(prompt, in_shard(prompt["id"], self.shard)) else None


class Places:
    """Finds what the paths in prompts mean: they count from the directory of the prompts file."""

    def __init__(self, source: Source, workspace_dir: str | None) -> None:
        self.base = os.path.dirname(os.path.abspath(source.path)) if source.path else os.getcwd()
        self.workspace_dir = workspace_dir
        self._digests: dict[str, str] = {}  # of templates and tests

    def clean(self, record: Record) -> Record:
        """Returns a prompt whose paths work anywhere; BadRecord if a template is missing, or no workspace is made."""
        prompt = as_prompt(record)
        given = prompt.get("workspace")
        if isinstance(given, str):
            given = {"template": given}
        if given is not None:
            if self.workspace_dir is None:
                raise BadRecord("has its own workspace, which needs --workspace-dir DIR")
            prompt["workspace"] = self._workspace({"base": self.base, **given})
        if isinstance(prompt.get("checks"), list):
            prompt["checks"] = [self._check(one) for one in prompt["checks"]]
        return prompt

    def _workspace(self, given: Record) -> Record:
        if unknown := given.keys() - set(PromptWorkspace.__struct_fields__):
            name = sorted(unknown)[0]
            raise BadRecord(f"workspace: unknown field {name!r}; {nearest(name, PromptWorkspace.__struct_fields__)}")
        template, limit = given.get("template"), given.get("timeout")
        try:
            if isinstance(limit, str):
                parse_milliseconds(limit)
        except ValueError as error:
            raise BadRecord(f"workspace: timeout: {error}") from None
        if template is None:
            return given
        place = template_place(template, given["base"])
        if os.path.isdir(place):
            return {**given, "digest": self._digest(place)}
        if "://" not in place:
            raise BadRecord(f"workspace: {place}: no such directory or git repository")
        return {**given, "digest": digest(place)}

    def _check(self, check: Record) -> Record:
        if isinstance(check.get("checks"), list):
            return {**check, "checks": [self._check(one) for one in check["checks"]]}
        places: Record = {name: os.path.join(self.base, check[name]) for name in PLACES if name in check}
        if missing := next((place for place in places.values() if not os.path.isdir(place)), None):
            raise BadRecord(f"{check.get('type')}: {missing}: no such directory")
        return {**check, **places, **({"digest": self._digest(places["tests"])} if "tests" in places else {})}

    def _digest(self, folder: str) -> str:
        if folder not in self._digests:
            self._digests[folder] = tree_digest(folder)
        return self._digests[folder]


def template_place(template: str, base: str) -> str:
    """Returns where a template is: a path from a directory, or the address of a repository."""
    return template if "://" in template else os.path.normpath(os.path.join(base, template))


def as_prompt(record: Record) -> Record:
    """Returns a prompt without what a run writes: a record of an earlier run is a prompt, too."""
    written = RUN_FIELDS.union(TRIALS_FIELDS) if isinstance(record.get("trials"), list) else RUN_FIELDS
    is_prompt = written.isdisjoint(record)
    prompt = record if is_prompt else {field: value for field, value in record.items() if field not in written}
    if metadata := prompt.get("metadata"):
        names = RUN_METADATA if is_prompt else RUN_METADATA | AGENT_METADATA
        prompt["metadata"] = {name: value for name, value in metadata.items() if name not in names}
    return prompt


def in_shard(prompt_id: str, shard: tuple[int, int] | None) -> bool:
    """Whether an id belongs to a shard (number, count); the same on every machine."""
    if shard is None:
        return True
    digest = hashlib.sha256(prompt_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") % shard[1] == shard[0] - 1
