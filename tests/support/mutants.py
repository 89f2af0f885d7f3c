"""Records with one value replaced by an odd one, at every place there is: what no one foresaw in a field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.support.tool import Record


def nested(levels: int) -> Any:
    """Returns a list in a list in a list, so many levels deep."""
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1e308,
    -1e308,
    2**53,
    2**63,
    10**400,
    "",
    "oops",
    "9" * 5000,
    "\x1b[31m\x00\u202e",
    [],
    [[]],
    [None, 1e308, 10**400],
    {},
    {"pass": "oops", "": None},
    nested(600),
]


def paths(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yields where there is a value: each field and item, however deep."""
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*at, key))


def mutants(record: Record, *, values: list[Any] = ODD) -> Iterator[Record]:
    """Yields copies of the record with an odd value at each place but its id, which is numbered."""
    text = json.dumps(record)
    for number, (path, odd) in enumerate((path, odd) for path in paths(record) for odd in values):
        copy = json.loads(text)
        place = copy
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = odd
        if path != ("id",):
            copy["id"] = f"{record['id']}-{number}"
        yield copy
