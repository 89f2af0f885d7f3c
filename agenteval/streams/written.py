"""What an output file already has: read to resume, and rewritten without records that were run again."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from agenteval.errors import UserError
from agenteval.streams.files import create_file

if TYPE_CHECKING:
    from agenteval.streams.output import WrittenRecords


class _Identified(msgspec.Struct):
    id: str


class _Metadata(msgspec.Struct, rename="camel"):
    agent: str | None = None
    agent_digest: str | None = None


class _Entry(msgspec.Struct):
    errors: list[Any] | None = None


class _Line(msgspec.Struct):
    id: str
    errors: list[Any] | None = None
    error: str | None = None
    metadata: _Metadata | None = None
    trials: list[_Entry] | None = None

    def failed(self) -> bool:
        """Whether the agent failed; of several trials, in any."""
        return bool(self.errors or self.error or any(trial.errors for trial in self.trials or ()))


_parse_line = msgspec.json.Decoder(_Line).decode
_parse_id = msgspec.json.Decoder(_Identified).decode


def _parse(line: bytes) -> _Line:
    """Returns what is needed of a record; of one of another kind only the id."""
    try:
        return _parse_line(line)
    except msgspec.ValidationError:
        return _Line(_parse_id(line).id)


def has_failed(line: bytes) -> bool:
    """Returns whether a record is of an agent that failed; of several trials, in any."""
    return _parse(line).failed()


def read_written(path: str, written: WrittenRecords, *, repair: bool = True) -> None:
    """Adds what is in an output file to `written`; to `repair` it removes a last line that a crash cut off."""
    if not os.path.isfile(path):
        return  # a pipe or a device
    good_until = 0
    with open(path, "r+b" if repair else "rb") as file:
        for number, line in enumerate(file, 1):
            whole = line.endswith(b"\n")
            try:
                if line.strip():
                    _note(_parse(line), written)
            except (msgspec.DecodeError, UnicodeDecodeError):
                if whole:
                    raise UserError(f"{path}:{number}: not a record; fix or remove that line first") from None
                if repair:
                    file.truncate(good_until)
                break
            good_until += len(line)
            if not whole:
                if repair:
                    file.seek(0, os.SEEK_END)
                    file.write(b"\n")
                break


def _note(record: _Line, written: WrittenRecords) -> None:
    written.ids[record.id] = written.ids.get(record.id, 0) + 1
    (written.failed.add if record.failed() else written.failed.discard)(record.id)
    if record.metadata and record.metadata.agent_digest:
        written.agents.setdefault((record.metadata.agent, record.metadata.agent_digest), record.id)


def drop_superseded(path: str) -> bool:
    """Removes the records of failed agents that have a later one of the same id, in one step; returns whether any did.

    Until the whole new file is on the disk, the old one stays as it is.
    """
    path = os.path.realpath(path)
    last = {record.id: number for number, record in _records(path)}
    old = {number for number, record in _records(path) if record.failed() and number < last[record.id]}
    if not old:
        return False
    new = f"{path}.new"
    with open(path, "rb") as source, os.fdopen(create_file(new), "wb") as target:
        os.fchmod(target.fileno(), stat.S_IMODE(os.fstat(source.fileno()).st_mode))
        target.writelines(line for number, line in enumerate(source) if number not in old)
        target.flush()
        os.fsync(target.fileno())
    os.replace(new, path)
    return True


def _records(path: str) -> Iterator[tuple[int, _Line]]:
    with open(path, "rb") as file:
        for number, line in enumerate(file):
            if line.strip():
                yield number, _parse(line)
