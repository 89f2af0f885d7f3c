"""What lies within an event: other events in a list, several things in one text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from agenteval.adapters.rules import Event, Schema
from agenteval.wire.adapter_schema import HeadlessAdapter, Split

Unfold = Callable[[Event], list[Event]]
Patterns = list[tuple[str, re.Pattern[str]]]
Part = dict[str, Any]


class Piece(NamedTuple):
    """A part and where in the text it is."""

    start: int
    end: int
    part: Part


SawParts = Callable[[str, str, list[Piece]], None]  # the field of the schema, the text, its pieces

_NUMBER = re.compile(r"([+-]?[0-9][0-9,]*(?:\.[0-9]+)?|[+-]?\.[0-9]+)\s*([kKmM]?)")
_SCALE = {"": 1, "k": 1_000, "m": 1_000_000}


def compile_unfolding(schema: Schema, config: HeadlessAdapter, saw: SawParts | None = None) -> Unfold | None:
    """From an event to those within it and, last, itself, with their texts taken apart; None if there is no need."""
    splits = [compile_split(schema, split, f"splits[{n}]", saw) for n, split in enumerate(config.splits or [])]
    nested = schema.path(config.nested_events, "nestedEvents") if config.nested_events else None
    if nested is None and not splits:
        return None
    if nested is not None:
        schema.reads.add(())  # paths of the rules start at the events within, too

    def unfold(event: Event) -> list[Event]:
        found = nested.get(event) if nested else None
        events = [item for item in found if type(item) is dict] if type(found) is list else []
        events.append(event)
        for one in events:
            for split in splits:
                split(one)
        return events

    return unfold


def compile_split(schema: Schema, split: Split, field: str, saw: SawParts | None = None) -> Callable[[Event], None]:
    """Put the parts of a text into an event; one without the text stays as it is."""
    path = schema.path(split.path, f"{field}.path")
    patterns = [
        (name, compile_pattern(schema, text, f"{field}.patterns.{name}")) for name, text in split.patterns.items()
    ]
    groups = {group for _, pattern in patterns for group in pattern.groupindex}
    for name in chain(split.numbers or (), split.json_groups or ()):
        if name not in groups:
            raise schema.wrong(field, f' has no group "{name}" in its patterns')
    readers = dict.fromkeys(split.numbers or (), as_number) | dict.fromkeys(split.json_groups or (), as_json)

    def act(event: Event) -> None:
        text = path.get(event)
        if type(text) is str:
            pieces = list(pieces_of(text, patterns))
            event[split.into] = [_read(piece.part, readers) for piece in pieces]
            if saw:
                saw(field, text, pieces)

    return act


def compile_pattern(schema: Schema, text: str, field: str) -> re.Pattern[str]:
    """A regular expression of a schema."""
    try:
        pattern = re.compile(text, re.MULTILINE)
    except re.error as error:
        raise schema.wrong(field, f" is not a regular expression ({error})") from None
    if pattern.search(""):
        raise schema.wrong(field, " fits an empty text, and so is everywhere")
    return pattern


def pieces_of(text: str, patterns: Patterns) -> Iterator[Piece]:
    """The parts of a text in order; where two patterns fit, what begins first counts, then the one named first."""
    at = 0
    ahead = [(name, pattern, pattern.search(text)) for name, pattern in patterns]
    while True:
        ahead = [(n, p, p.search(text, at) if m and m.start() < at else m) for n, p, m in ahead]
        name, match = min(((n, m) for n, _, m in ahead if m), key=lambda one: one[1].start(), default=("", None))
        yield from _between(text, at, match.start() if match else len(text))
        if match is None:
            return
        groups = {group: found for group, found in match.groupdict().items() if found is not None}
        yield Piece(*match.span(), {"type": name, **groups})
        at = max(match.end(), match.start() + 1)  # a match of nothing must not hold us up


def _between(text: str, start: int, end: int) -> Iterator[Piece]:
    words = text[start:end].strip()
    if words:
        start = text.index(words, start)
        yield Piece(start, start + len(words), {"type": "text", "text": words})


def _read(part: Part, readers: dict[str, Callable[[str], Any]]) -> Part:
    for name, reader in readers.items():
        if name in part:
            part[name] = reader(part[name])
    return part


def as_number(text: str) -> int | float | None:
    """The number that a person wrote, 2.7k for 2700; None if it is none."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    digits, unit = match[1].replace(",", ""), _SCALE[match[2].lower()]
    number = float(digits) * unit
    return round(number) if unit > 1 or "." not in digits else number


def as_json(text: str) -> Any:
    """The value that the text says in JSON, else the text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text
