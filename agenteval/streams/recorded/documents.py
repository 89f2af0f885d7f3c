"""Files of others: JSON Lines, or one JSON document; what cannot be read is reported, the rest is read."""

from __future__ import annotations

import itertools
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
        if first and _goes_on(first[0][1]):
            lines = [*first, *(line for batch in batches for line in batch)]
            if (document := _document(lines)) is not None:
                yield document
                return
            batches, first = iter(()), lines
        for batch in itertools.chain([first], batches):
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


def _goes_on(line: bytes) -> bool:
    """Returns whether a line is the beginning of a document of several lines, and not a line that was cut off."""
    return line.rstrip().endswith((b"{", b"[", b",")) and line.lstrip().startswith((b"{", b"["))


def _document(lines: list[tuple[int, bytes]]) -> dict[str, Any] | None:
    """Returns the object that all lines together are, None if they are none."""
    with suppress(BadRecord):
        value = decode(b"\n".join(line for _, line in lines))
        return value if type(value) is dict else {"items": value}
    return None


def report_unreadable(path: str, error: Exception, refusals: Refusals) -> None:
    """Reports a file that cannot be opened or read."""
    text = str(error)
    refusals.refuse(path, text.removeprefix(f"{path}: ") if isinstance(error, UserError) else text)
