"""Files of others: JSON Lines, or one JSON document; what cannot be read is reported, the rest is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from agenteval.errors import BadRecord, UserError
from agenteval.streams.jsonl import decode
from agenteval.streams.source import Refusals, Source


@contextmanager
def opened(path: str) -> Iterator[Source]:
    """Opens a file or stdin (-) to read, and closes it."""
    source = Source(path)
    try:
        yield source
    finally:
        if source.path is not None:
            os.close(source.fd)


def read_objects(path: str, refusals: Refusals) -> Iterator[dict[str, Any]]:
    """Yields the objects of a file: one a line, or one that is the whole file; other lines are refused."""
    with opened(path) as source:
        batches = source.lines()
        first = next(batches, [])
        if first and not _is_json(first[0][1]):
            if (document := _document(first, batches)) is not None:
                yield document
                return
            source.rewind() if source.regular else None
            batches, first = (source.lines(), []) if source.regular else (iter(()), first)
        yield from _objects(first, source.name, refusals)
        for batch in batches:
            yield from _objects(batch, source.name, refusals)


def _objects(batch: list[tuple[int, bytes]], name: str, refusals: Refusals) -> Iterator[dict[str, Any]]:
    for number, line in batch:
        try:
            value = decode(line)
            if type(value) is not dict:
                raise BadRecord("not a JSON object")
        except BadRecord as error:
            refusals.refuse(f"{name}:{number}", str(error))
        else:
            yield value


def _is_json(line: bytes) -> bool:
    with suppress(BadRecord):
        decode(line)
        return True
    return False


def _document(first: list[tuple[int, bytes]], batches: Iterator[list[tuple[int, bytes]]]) -> dict[str, Any] | None:
    """Returns the object that all lines together are, None if they are none."""
    if first[0][1].strip() not in (b"{", b"["):  # a broken line of JSON Lines is read no further than to its end
        return None
    lines = [line for batch in (first, *batches) for _, line in batch]
    with suppress(BadRecord):
        value = decode(b"\n".join(lines))
        return value if type(value) is dict else {"items": value}
    return None


def report_unreadable(path: str, error: Exception, refusals: Refusals) -> None:
    """Reports a file that cannot be opened or read."""
    text = str(error)
    refusals.refuse(path, text.removeprefix(f"{path}: ") if isinstance(error, UserError) else text)
