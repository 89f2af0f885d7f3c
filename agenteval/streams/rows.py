"""Reads rows from lines of results or trials, and the groups that a row belongs to (--by, --cluster-by).

A line is decoded directly into the type of row that was asked for. Only a line that does not fit is decoded as a whole:
it may have a field of the user's with the name of a field of the other kind of record, or it is invalid.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice, product
from typing import Any, TypeVar

import msgspec

from agenteval.errors import BadRecord, similar
from agenteval.streams.jsonl import decode_record
from agenteval.streams.source import Refusals, Source, refuse
from agenteval.streams.text import plain_text
from agenteval.wire.records import RUN_METADATA, Record
from agenteval.wire.row import Attempt, Row, fields_of_kind
from agenteval.wire.validation import check

R = TypeVar("R", bound=Row)

MOST_NAMES = 20  # of keys in a message
NO_GROUP = "(none)"
CROSS = " × "  # between the groups of two keys: legal × hard
MOST_CROSSED = 1000  # groups of one record by several keys

_top_level = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@cache
def _decoder(depth: type[R]) -> Callable[[bytes], R]:
    return msgspec.json.Decoder(depth).decode


def parse_row(line: bytes, depth: type[R], *, keys: Sequence[str] = (), answered: bool = True) -> R:
    """Returns the row of a line; raises BadRecord if it is invalid.

    `keys` are those by which rows are grouped: such a field at the top level becomes part of the metadata.
    Unless `answered` is False, a result must have an `output`.
    """
    try:
        row: R = _decoder(depth)(line)
    except (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError):
        row = check(fields_of_kind(decode_record(line)), depth)
    _require_answer(row, answered)
    for key in keys:
        for part in key_parts(key):
            _add_to_metadata(row, line, part)
    return row


def row_of(record: Record, depth: type[R], *, answered: bool = True) -> R:
    """Returns the row of a decoded record; raises BadRecord if it is invalid."""
    row = check(fields_of_kind(record), depth)
    _require_answer(row, answered)
    return row


def result_of(record: Record, depth: type[R]) -> tuple[R, Attempt]:
    """Returns the row of a decoded result and its only attempt; raises BadRecord if it is not a result."""
    row = row_of(record, depth)
    if row.is_trials:
        raise BadRecord('"output" is missing: a result is expected here, not trials')
    return row, row.attempts[0]


def _require_answer(row: Row, answered: bool) -> None:
    if answered and row.output is None and not row.is_trials:
        raise BadRecord('"output" is missing')


def read_rows(source: Source, depth: type[R], refusals: Refusals, *, keys: Sequence[str] = ()) -> Iterator[R]:
    """Yields the row of each line; a line that is neither a result nor a record of trials is refused."""
    for batch in source.lines():
        for number, line in batch:
            try:
                row = parse_row(line, depth, keys=keys)
            except BadRecord as error:
                refuse(source, number, line, error, refusals)
            else:
                yield row


# --- groups -------------------------------------------------------------------------------------


def value_at(metadata: Mapping[str, Any] | None, key: str) -> Any:
    """Returns the value of a key of the metadata, None if it is missing; every such key is read by this function.

    `metadata.category` and `category` are the same key; dots reach into objects, unless there is a key with dots.
    """
    key = key.removeprefix("metadata.")
    value: Any = metadata or {}
    if key in value:
        return value[key]
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


@cache
def key_parts(key: str) -> tuple[str, ...]:
    """Returns the keys that --by names, separated by commas."""
    return tuple([part for part in key.split(",") if part] or [key])


def grouped_metadata(record: Record, key: str) -> Record:
    """Returns the metadata of a decoded record, with top-level fields that the key names if the metadata lacks them."""
    metadata = record.get("metadata") or {}
    names = [name for name in map(_first_name, key_parts(key)) if name not in metadata and name in record]
    return {**{name: record[name] for name in names}, **metadata} if names else metadata


def groups_at(metadata: Mapping[str, Any] | None, key: str) -> list[str]:
    """Returns the distinct groups of a record by that key: one, or all in a list; may be empty.

    With several keys the groups are crossed; a record without some of the keys is in (none) for these.
    """
    parts = key_parts(key)
    if len(parts) == 1:
        return _groups_at(metadata, parts[0])
    found = [_groups_at(metadata, part) for part in parts]
    crossed = product(*(names or [NO_GROUP] for names in found))
    return [CROSS.join(names) for names in islice(crossed, MOST_CROSSED)] if any(found) else []


def _groups_at(metadata: Mapping[str, Any] | None, key: str) -> list[str]:
    value = value_at(metadata, key)
    if isinstance(value, str):
        return [name] if (name := value.strip()) else []
    values = value if isinstance(value, list) else [value]
    names = [plain_text(one).strip() for one in values if one is not None]
    return [name for name in dict.fromkeys(names) if name]


class KeyUse:
    """Notes which keys of --by any record has, and the keys that exist, for a message."""

    def __init__(self, option: str, key: str) -> None:
        self.option, self.key = option, key
        self._records, self._missing = 0, list(key_parts(key))
        self._names: dict[str, None] = {}

    def add(self, metadata: Mapping[str, Any] | None) -> None:
        """Adds the metadata of a record."""
        self._records += 1
        self._missing = [part for part in self._missing if not groups_at(metadata, part)]
        if self._missing and metadata and len(self._names) < MOST_NAMES:
            self._names |= dict.fromkeys(name for name in metadata if name not in RUN_METADATA)

    def complaint(self) -> str | None:
        """Returns which key to use instead if there are records and none of them has this one; else None."""
        if not self._missing or not self._records:
            return None
        key = self._missing[0]
        found = f"{self.option} {key}: no record has this key in its metadata"
        if not self._names:
            return f"{found}, nor any other: add it to the prompts, or leave out {self.option}"
        close = similar(key.removeprefix("metadata."), self._names)
        return f"{found}: {self.option} {close[0]}?" if close else f"{found}; the keys are {', '.join(self._names)}"


def _add_to_metadata(row: Row, line: bytes, key: str) -> None:
    """Copies a field at the top level into the metadata, if a key names it and the metadata has no such value."""
    if value_at(row.metadata, key) is not None:
        return
    name = _first_name(key)
    with suppress(msgspec.DecodeError, ValueError, ArithmeticError, RecursionError):  # an odd line, with a huge number
        if (found := _top_level(line).get(name)) is not None:
            row.metadata = {name: msgspec.json.decode(found), **(row.metadata or {})}


def _first_name(key: str) -> str:
    return key.removeprefix("metadata.").split(".")[0]
