"""Records with one value replaced by an odd one, at every place there is: what no one foresaw in a field."""

from __future__ import annotations

import json
import random
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


def mutated_lines(data: bytes, rng: random.Random) -> bytes:
    """Returns a log with a few lines lost, doubled, cut off or changed in one place."""
    lines = data.split(b"\n") if data.startswith(b"{") else [data]
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(lines))
        how = rng.choice(["lose", "double", "cut", "flip", "change", "move"])
        if how == "lose":
            lines[at] = b""
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "cut":
            lines[at] = lines[at][: rng.randint(0, len(lines[at]))]
        elif how == "flip" and lines[at]:
            place = rng.randrange(len(lines[at]))
            lines[at] = lines[at][:place] + bytes([rng.randrange(256)]) + lines[at][place + 1 :]
        elif how == "move":
            lines.append(lines.pop(at))
        elif how == "change":
            lines[at] = _changed(lines[at], rng)
    return b"\n".join(lines)


def _changed(line: bytes, rng: random.Random) -> bytes:
    """Returns a line of JSON with an odd value in one place."""
    try:
        value = json.loads(line)
        places = [path for path in paths(value) if path]
        *way, last = rng.choice(places)
        inner = value
        for step in way:
            inner = inner[step]
        inner[last] = rng.choice(ODD)
        return json.dumps(value).encode()
    except (ValueError, IndexError, TypeError, KeyError, RecursionError):
        return line
