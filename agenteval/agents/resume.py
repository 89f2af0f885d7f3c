"""Resuming a run: what becomes of each prompt that the output has a record of, and the journal beside it.

Resumption decides: a record stays only if it answers the same question. If what reaches the agent has changed, the
prompt is run again; if a grader has changed, or what graders see, the stored answer is graded again. The new record is
added to the output, which drops the old one when it is closed: at any moment the file holds all that was paid for.

The journal keeps records that agents have produced and that are not in the output yet. A record waits for its graders,
for the other trials of its prompt, or (--keep-order) for an earlier prompt. When the tool is stopped, --resume takes it
from the journal, so that no agent is paid for twice. A line says that a prompt is in the output; it counts only if the
prompt really is, for a power cut may cost the output what the journal has.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from enum import Enum

import msgspec

from agenteval.agents.kinds import AgentIdentity
from agenteval.agents.prompts import in_shard
from agenteval.errors import BadRecord, CannotGoOn, UserError
from agenteval.streams.digests import fields_digest, prompt_digest
from agenteval.streams.files import create_file, describe_kind, lines_of, make_directories, open_regular
from agenteval.streams.jsonl import decode, decode_record, encode
from agenteval.streams.output import UNFINISHED, Output, PlannedLine, WrittenRecord
from agenteval.streams.source import RAW, RESULTS, TRIALS, kind_of
from agenteval.streams.text import counted
from agenteval.wire.records import (
    AGENT_METADATA,
    RUN_FIELDS,
    RUN_METADATA,
    TRIALS_FIELDS,
    VERDICT_FIELDS,
    Input,
    Record,
    Wire,
)
from agenteval.wire.validation import check, convert

SHOWN = 3  # unusable lines that are reported one by one
LARGE = 16 << 20  # bytes: a larger file is compacted when less than half of it is needed

WRITES = {"ae-run": [RAW], "ae-capture": [RESULTS], "ae-trials": [TRIALS], "ae-grade": [RESULTS, TRIALS]}

Key = tuple[str, int]


# --- the output ---------------------------------------------------------------------------------


def refuse_another_agent(path: str, agents: Iterable[tuple[str | None, str]], identity: AgentIdentity) -> None:
    """Raises UserError if a file has records of another agent, or of the same under other conditions."""
    for name, digest in agents:
        if digest != identity.digest:
            same = name == identity.name
            conditions = "with another command, script, schema, --env or workspace template"
            other = f"were made {conditions}" if same else f"are from {name or 'another agent'}, not {identity.name}"
            raise UserError(f"{path}: its records {other}; write to another file, or continue with --force")


def refuse_another_shard(path: str, ids: Iterable[str], shard: tuple[int, int] | None) -> None:
    """Raises UserError if a file has records of prompts that are not in this share of them."""
    if shard and (others := [id for id in ids if not in_shard(id, shard)]):
        which = f"{counted(len(others), 'record')} of another share, such as {others[0]}"
        raise UserError(
            f"{path}: has {which}: it was not made with --shard {shard[0]}/{shard[1]}; give the same --shard, "
            f"write to another file, or continue with --force"
        )


def refuse_another_kind(path: str | None, tool: str) -> None:
    """Raises UserError if a file to go on with has records that this tool does not write."""
    if path is None:
        return
    with suppress(OSError, BadRecord, StopIteration):
        kind = kind_of(decode_record(next(lines_of(path, follow=True))[1]))
        if kind is not None and kind not in WRITES[tool]:
            raise UserError(f"{path}: {kind}; give {tool} another file")


class Fate(Enum):
    """What becomes of a prompt that has a record; in the words of the summary."""

    KEEP = "kept"
    RUN = "changed and run again"
    RETRY = "failed and run again"
    GRADE = "graded again"
    CARRY = "with new fields"


class Resumption:
    """Decides what becomes of each prompt, and counts it for the summary.

    `graders` are the digests of the graders by name, None without any.
    """

    def __init__(
        self, output: Output, journal: Journal | None, *, retry_failed: bool, graders: dict[str, str] | None
    ) -> None:
        self.output, self.journal, self.retry_failed, self.graders = output, journal, retry_failed, graders
        self.kept = self.kept_failed = self.kept_errors = self.outdated = 0
        self.gone = set(output.written.ids)  # ids that no prompt has had so far
        self.done: Counter[Fate | None] = Counter()  # None: a prompt that had no record
        self._fates: dict[str, Fate] = {}
        self._reader: int | None = None

    def wants(self, prompt: Record, in_shard: bool) -> bool:
        """Decides what becomes of a prompt; returns whether there is anything to do."""
        self.gone.discard(prompt["id"])
        if self.output.order is not None:
            self.output.order[prompt["id"]] = len(self.output.order)
        written = self.output.written.records.get(prompt["id"]) if in_shard else None
        if written is None:
            return in_shard
        fate = self._decide(prompt, written)
        if fate is not Fate.KEEP:
            self._fates[prompt["id"]] = fate
            return True
        if self.journal:
            self.journal.discard(prompt["id"])
        self.kept += 1
        self.kept_failed += written.failed
        self.kept_errors += written.grader_error
        return False

    def _decide(self, prompt: Record, written: WrittenRecord) -> Fate:
        if not self._asked_the_same(prompt, written):
            return Fate.RUN
        if written.failed and (self.retry_failed or (self.journal and self.journal.has_answer(prompt))):
            return Fate.RETRY  # the journal's answer is newer
        if written.grader_error and self.retry_failed and self.graders is not None:
            return Fate.GRADE
        if written.prompt is None:
            return Fate.KEEP  # what it was graded by is not known
        same_fields = written.fields == fields_digest(prompt)
        if self.graders is None:
            if same_fields:
                return Fate.KEEP
            if written.graders is None:
                return Fate.CARRY
            self.outdated += 1
            return Fate.KEEP
        return Fate.KEEP if same_fields and written.graders == self.graders else Fate.GRADE

    def _asked_the_same(self, prompt: Record, written: WrittenRecord) -> bool:
        if written.prompt is not None:
            return written.prompt == prompt_digest(prompt)
        record = self._read(written)  # of an earlier version or another harness
        return "input" not in record or prompt_digest(record) == prompt_digest(prompt)

    def is_graded_alike(self, prompt: Record, record: Record) -> bool:
        """Returns whether a record of the journal has the verdict that these graders would give it now."""
        metadata = record.get("metadata") or {}
        if "fieldsDigest" not in metadata:
            return True
        return (metadata["fieldsDigest"], metadata.get("graderDigests")) == (fields_digest(prompt), self.graders)

    def fate(self, prompt_id: str) -> Fate | None:
        """Returns what becomes of a prompt that is to be done; None if it has no record."""
        return self._fates.get(prompt_id)

    def stored(self, prompt_id: str) -> Record:
        """Returns the record that the output had of a prompt."""
        return self._read(self.output.written.records[prompt_id])

    def _read(self, written: WrittenRecord) -> Record:
        if self._reader is None:
            self._reader = open_regular(self.output.absolute, follow=True)
        return decode_record(os.pread(self._reader, written.size, written.offset))

    def note_written(self, prompt_id: str) -> None:
        """Counts a prompt that is done; its earlier record has been replaced."""
        fate = self._fates.get(prompt_id)
        self.done[fate] += 1
        if fate is not None:
            self.output.replaced.add(self.output.written.records[prompt_id].offset)

    def summary(self, *, limited: bool = False) -> str | None:
        """Returns what was done, in one line; None if the output had no record before.

        `limited`: not all that is to be done was done.
        """
        if not self.output.written.ids:
            return None
        parts = [f"{self.kept:,} kept"] if self.kept or not self.done else []
        notes = (
            (self.kept_failed, "failed (--retry-failed runs {} again)"),
            (self.kept_errors, "without a verdict (--retry-failed grades {} again)"),
            (self.outdated, "graded before their fields changed (-g grades {} again)"),
        )
        parts += [f"{n:,} of them {note.format('it' if n == 1 else 'them')}" for n, note in notes if n]
        parts += [f"{self.done[fate]:,} {fate.value}" for fate in Fate if self.done[fate]]
        if self.done[None]:
            parts.append(f"{self.done[None]:,} new")
        if self.gone:
            parts.append(f"{len(self.gone):,} no longer in the prompts (kept)")
        if not (self.done or limited):
            parts.append("nothing to do")
        return f"{self.output.name}: {', '.join(parts)}"


def with_fields(record: Record, prompt: Record, of_agent: Collection[str] = ()) -> Record:
    """Returns a record of a run with the fields that its prompt has now.

    `of_agent` are names of metadata that the agent's adapter reads.
    """
    of_run = RUN_FIELDS.union(TRIALS_FIELDS) if "trials" in record else RUN_FIELDS
    own = {field: value for field, value in prompt.items() if field not in of_run and field != "metadata"}
    kept = {
        field: own.get(field, value)
        for field, value in record.items()
        if field in of_run or field in own or field == "metadata"
    }
    names = {*RUN_METADATA, *AGENT_METADATA, *of_agent} - {"label"}
    metadata = {name: value for name, value in (record.get("metadata") or {}).items() if name in names}
    digests = {"promptDigest": prompt_digest(prompt), "fieldsDigest": fields_digest(prompt)}
    return {**kept, **own, "metadata": {**(prompt.get("metadata") or {}), **metadata, **digests}}


def without_verdict(record: Record) -> Record:
    """Returns a record that is to be graded again, without what graders said about it."""
    metadata = {name: value for name, value in record["metadata"].items() if name != "graderDigests"}
    return {field: value for field, value in record.items() if field not in VERDICT_FIELDS} | {"metadata": metadata}


# --- the journal --------------------------------------------------------------------------------


class JournalEntry(Wire):
    """One line of the journal: a record and its input, because a prompt that was changed has to run again."""

    id: str
    input: Input
    trial: int
    graded: bool
    record: Record
    tool: str | None = None

    def answers(self, prompt: Record) -> bool:
        """Whether the agent was asked the same."""
        metadata = self.record.get("metadata")
        asked = metadata.get("promptDigest") if isinstance(metadata, dict) else None
        return prompt_digest(prompt) == asked if asked else bool(self.input == prompt["input"])


class WrittenLine(Wire, forbid_unknown_fields=True):
    """A line of the journal that says that the records of a prompt are in the output."""

    id: str
    trial: int
    written: bool


class StoredTiming(Wire):
    """What is needed of the times of a result."""

    total: float


class StoredResult(Wire):
    """What is needed of a result to go on with it."""

    id: str
    output: str
    trajectory: list[Record]
    metadata: Record
    timing: StoredTiming
    errors: list[str] | None = None
    score: Record | None = None


class Journal:
    """Keeps records on disk until their prompt is written; removes the file when it is empty.

    `written` are the prompts with a record in the output. `tool` is the one that writes it, and `kind` what it needs of
    a record. `skipped` are lines for the user.
    """

    def __init__(
        self,
        output: str,
        *,
        resume: bool,
        written: Collection[str] = (),
        tool: str | None = None,
        kind: type[Wire] = Wire,
    ) -> None:
        self.name = output + UNFINISHED
        self.path = os.path.abspath(self.name)  # starting an agent changes the working directory
        self.tool, self.kind = tool, kind
        self.skipped: list[str] = []
        self.durable = False
        self._header = b""
        self.sync_output: Callable[[], None] = lambda: None  # called before the only copy of a record is dropped
        self._lock = threading.Lock()
        self._refuse_non_file()
        self.agents: set[tuple[str | None, str]] = set()  # name and digest of the agents that have records in it
        self.run_id: str | None = None  # of the run that left it
        earlier = self._read(written)
        self._earlier = earlier if resume else {}
        if not resume:
            self.skipped = []
        self._file: Output | None = None
        self._lines: dict[str, dict[int, tuple[int, int]]] = {}  # id of a prompt → trial → offset and size of its line
        self._size = 0

    def open(self) -> None:
        """Rewrites the file with the entries to resume from, or deletes what is left of it."""
        try:
            if self._earlier:
                self._rewrite((key, _line(entry)) for key, entry in self._earlier.items())
                return
            for left in (self.path, f"{self.path}.new"):  # the latter by a tool that was killed while it rewrote it
                if os.path.lexists(left):
                    os.unlink(left)
        except OSError as error:
            raise UserError(f"{self.name}: {error.strerror}; move it away first") from None

    def announce(self, planned: int) -> None:
        """Writes as the first line how many records the output will have: ae-format --follow shows it."""
        self._header = encode(PlannedLine(planned)) + b"\n"
        with self._lock, suppress(CannotGoOn):  # it is shown only
            self._rewrite((key, _line(entry)) for key, entry in self._earlier.items())

    def records(self) -> list[Record]:
        """Returns the records of an earlier run that are not in the output."""
        return [entry.record for entry in self._earlier.values()]

    def has_answer(self, prompt: Record) -> bool:
        """Returns whether an earlier run kept an answer to this prompt."""
        return any(entry.id == prompt["id"] and entry.answers(prompt) for entry in self._earlier.values())

    def earlier(self, prompt: Record, trial: int) -> JournalEntry | None:
        """Returns what an earlier run kept of this prompt, once; None if another question was asked."""
        entry = self._earlier.pop((prompt["id"], trial), None)
        return entry if entry and entry.answers(prompt) else None

    def discard(self, prompt_id: str) -> None:
        """Drops what an earlier run kept of a prompt whose record in the output stays."""
        for key in [key for key in self._earlier if key[0] == prompt_id]:
            del self._earlier[key]

    def keep(self, prompt: Record, record: Record, trial: int, *, graded: bool) -> None:
        """Writes a record; it replaces an earlier one of the same trial."""
        name, input = prompt["id"], prompt["input"]
        entry = JournalEntry(id=name, input=input, trial=trial, graded=graded, record=record, tool=self.tool)
        line = _line(entry)
        with self._lock:
            self._add((name, trial), line, (self._file or self._rewrite(())).write_bytes(line))

    def forget(self, prompt_id: str) -> None:
        """Notes that a prompt is in the output now; its records are dropped when the file has become large."""
        with self._lock:
            if self._lines.pop(prompt_id, None) is None or self._file is None:
                return
            line = _line(WrittenLine(id=prompt_id, trial=0, written=True))
            self._size = self._file.write_bytes(line) + len(line)
            if self._size > LARGE:
                self._compact()

    def settle(self) -> None:
        """Drops what is in the output, and brings the rest to the disk: the tool is stopping."""
        with self._lock:
            if self._file is None:
                return
            if not self._lines:
                self._close_file()
                self._unlink()
                self._file = None
                return
            self._compact(at_least=0)
            self._file.sync()

    def skipped_lines(self) -> list[str]:
        """Returns what to tell the user about lines that cannot be used: the first of them, and how many there are."""
        left = len(self.skipped) - SHOWN
        return [*self.skipped[:SHOWN], *([f"{self.name}: {counted(left, 'more line')} skipped"] if left > 0 else [])]

    def sync(self) -> None:
        """Brings what is kept to the disk."""
        if (file := self._file) is not None:
            file.sync()

    def close(self) -> None:
        """Closes the file, and removes it if no record is left in it."""
        if self._file is not None:
            self._close_file()
            if not self._lines:
                self._unlink()

    def _unlink(self) -> None:
        """Removes the file, and the one that took its place if another program wrote into it."""
        for path in {self.path, self._file.place if self._file else self.path}:
            if os.path.lexists(path):
                os.unlink(path)

    def _close_file(self) -> None:
        if self._file is not None:
            with suppress(CannotGoOn):  # if it was removed: it was restored, as long as records were in it
                self._file.close()

    # --- what an earlier run left ---

    def _refuse_non_file(self) -> None:
        """Raises UserError if something else is in its place: a pipe, a link, a directory."""
        for path in (self.path, f"{self.path}.new"):
            if os.path.lexists(path) and (kind := describe_kind(os.lstat(path).st_mode)):
                if kind == "a symbolic link" and path != self.path:
                    continue  # it is replaced, not followed
                name = self.name if path == self.path else f"{self.name}.new"
                raise UserError(f"{name}: is {kind}; move it away first")

    def _read(self, written: Collection[str]) -> dict[Key, JournalEntry]:
        """Returns the entries that are not in the output; raises UserError if the suite did not write the file."""
        entries: dict[Key, JournalEntry] = {}
        known, broken = False, []
        try:
            lines = [line for _, line in lines_of(self.path)]
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise UserError(f"{self.name}: {error.strerror}; move it away first") from None
        for number, line in enumerate(lines, 1):
            try:
                entry = _parse(line)
                known = True
                if isinstance(entry, PlannedLine):
                    continue
                if isinstance(entry, JournalEntry):
                    entries[entry.id, entry.trial] = self._accept(entry)
                elif entry.id in written:
                    entries = {key: kept for key, kept in entries.items() if key[0] != entry.id}
            except BadRecord as error:
                known = known or not line.strip(b"\0\n ")  # what a power cut leaves
                if line.endswith(b"\n"):  # else a crash has cut it off
                    broken.append((number, str(error)))
        if broken and not known:
            raise UserError(f"{self.name}:{broken[0][0]}: not written by this suite; move the file away")
        self.skipped = [f"{self.name}:{number}: {why}; skipped, its prompt is run again" for number, why in broken]
        return entries

    def _accept(self, entry: JournalEntry) -> JournalEntry:
        """Returns an entry that the tool can go on with; raises UserError if another tool has left it."""
        if self.tool and entry.tool not in (None, self.tool):
            raise UserError(
                f"{self.name}: was left behind by {entry.tool}; continue with that tool, or move the file away"
            )
        metadata = entry.record.get("metadata")
        if isinstance(metadata, dict) and isinstance(metadata.get("agentDigest"), str):
            self.agents.add((metadata.get("agent"), metadata["agentDigest"]))
            self.run_id = metadata.get("runId") or self.run_id
        try:
            check(entry.record, self.kind)
        except BadRecord as error:
            raise BadRecord(f"its record cannot be used ({error})") from None
        if entry.record.get("id", entry.id) != entry.id:
            raise BadRecord("its record belongs to another prompt")
        return entry

    # --- the file ---

    def _compact(self, at_least: float = 0.5) -> None:
        """Drops what is not needed, if that is more than this share of the file."""
        needed = [((ident, trial), line) for ident, trials in self._lines.items() for trial, line in trials.items()]
        if self._size - sum(size for _key, (_start, size) in needed) > at_least * self._size:
            self.sync_output()
            assert self._file is not None
            fd = self._file.fd
            self._rewrite([(key, os.pread(fd, size, start)) for key, (start, size) in needed])

    def _rewrite(self, lines: Iterable[tuple[Key, bytes]]) -> Output:
        """Replaces the file by one with these lines, in one step, and opens it; if that fails, the old one stays."""
        before = self._lines, self._size
        self._lines, self._size = {}, len(self._header)
        fd, new = -1, f"{self.path}.new"
        try:
            make_directories(self.path)  # another program may have removed them since
            fd = create_file(new)
            with os.fdopen(fd, "wb", closefd=False) as file:
                file.write(self._header)
                file.writelines(self._add(key, line, self._size) for key, line in lines)
            if self.durable:
                os.fsync(fd)
            self._close_file()
            os.replace(new, self.path)
        except OSError as error:
            self._lines, self._size = before
            if fd >= 0:
                os.close(fd)
                os.unlink(new)
            raise CannotGoOn(f"cannot write to {self.name}: {error.strerror}") from None
        self._file = Output.of_file(fd, self.path)
        self._file.durable = self.durable
        return self._file

    def _add(self, key: Key, line: bytes, at: int) -> bytes:
        """Notes where a line is in the file, and returns it."""
        self._lines.setdefault(key[0], {})[key[1]] = (at, len(line))
        self._size = at + len(line)
        return line


def _parse(line: bytes) -> JournalEntry | WrittenLine | PlannedLine:
    """Returns what a line says; the message of BadRecord says what is wrong with it."""
    value = decode(line)
    kind: type[JournalEntry | WrittenLine | PlannedLine] = JournalEntry
    if isinstance(value, dict) and "record" not in value:
        kind = PlannedLine if "planned" in value else WrittenLine if "written" in value else JournalEntry
    try:
        return convert(value, kind)
    except msgspec.ValidationError as error:
        raise BadRecord(f"not an entry of this file ({error})") from None


def _line(entry: Wire) -> bytes:
    return encode(entry) + b"\n"
