"""The formats of other harnesses, and the module that reads each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module

from agenteval.streams.console import Console
from agenteval.wire.records import Record

FOREIGN: dict[str, str] = {}


def read_foreign(format_: str, paths: Iterable[str], console: Console) -> Iterator[Record]:
    """Yields the results of files of this format."""
    module = import_module(f"agenteval.adapters.foreign.{format_}")
    for path in paths:
        yield from module.read(path, console)
