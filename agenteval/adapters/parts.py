"""What lies within an event: other events in a list (`nestedEvents`), several things in one text (`splits`).

And events in lines of plain text (`linePatterns`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from time import monotonic
from typing import Any

import msgspec

from agenteval.adapters.conditions import Event, SchemaCompiler
from agenteval.adapters.jsonpath import compile_path, nothing, split_wildcard
from agenteval.adapters.words import decoded
from agenteval.streams.patterns import SECONDS, Pattern
from agenteval.wire.adapter_schema import HeadlessAdapter, Split

Unfold = Callable[[Event], list[Event]]
ReadLine = Callable[[str], Event | None]
Patterns = list[tuple[str, Pattern]]
Part = dict[str, Any]


class Piece(msgspec.Struct, frozen=True):
    """A part and where in the text it is."""

    start: int
    end: int
    part: Part


_NUMBER = r"([+-]?[0-9][0-9,]*(?:\.[0-9]+)?|[+-]?\.[0-9]+)\s*([kKmM]?)"  # compiled when an agent prints one as text
_SCALE = {"": 1, "k": 1_000, "m": 1_000_000}


def compile_unfolding(compiler: SchemaCompiler, config: HeadlessAdapter) -> Unfold | None:
    """Compiles what turns an event into those within it and, last, itself, texts split; None if nothing is to do."""
    splits = [compile_split(compiler, split, f"splits[{n}]") for n, split in enumerate(config.splits or [])]
    nested = compiler.path(config.nested_events, "nestedEvents").get if config.nested_events else None
    decodes = [compile_decode(compiler, path, f"decode[{n}]") for n, path in enumerate(config.decode or [])]
    if nested is None and not splits and not decodes:
        return None
    get, trace = nested or nothing, compiler.trace

    def unfold(event: Event) -> list[Event]:
        found = get(event) if trace is None else trace("nestedEvents", None, get, {"": event})
        events = [item for item in found if type(item) is dict] if type(found) is list else []
        events.append(event)
        for one in events:
            for change in (*decodes, *splits):
                change(one)
        return events

    return unfold


def compile_decode(compiler: SchemaCompiler, text: str, field: str) -> Callable[[Event], None]:
    """Compiles what decodes a text in an event, or in each item of a list there, where it is."""
    compiler.path(text, field)
    items, inner = split_wildcard(text) or (None, compile_path(text))
    *way, last = inner.keys or ("",)
    if not isinstance(last, str) or not last:
        raise compiler.error(field, f': "{text}" must lead to a field by names: $.a.b or $.list[*].b')
    holder = compile_path("".join(["$", *(f"[{key}]" if isinstance(key, int) else f"['{key}']" for key in way)]))

    def act(event: Event) -> None:
        found = items.get(event) if items else [event]
        for item in found if type(found) is list else ():
            holds = holder.get(item)
            if type(holds) is dict and type(given := holds.get(last)) is str:
                holds[last] = decoded(given)

    return act


def compile_split(compiler: SchemaCompiler, split: Split, field: str) -> Callable[[Event], None]:
    """Compiles what adds the parts of a text to an event; an event without the text stays as it is."""
    path = compiler.path(split.path, f"{field}.path")
    patterns = [
        (name, compile_pattern(compiler, text, f"{field}.patterns.{name}")) for name, text in split.patterns.items()
    ]
    groups = {group for _, pattern in patterns for group in pattern.groups}
    for name in chain(split.numbers or (), split.json_groups or ()):
        if name not in groups:
            raise compiler.error(field, f' has no group "{name}" in its patterns')
    converters = dict.fromkeys(split.numbers or (), as_number) | dict.fromkeys(split.json_groups or (), as_json)
    trace = compiler.trace

    def act(event: Event) -> None:
        text = path.get(event)
        if type(text) is str:
            found: dict[str, Any] = {"text": text, "patterns": patterns}
            pieces = pieces_of(text, patterns) if trace is None else trace(field, None, pieces_of, found)
            event[split.into] = [_converted(piece.part, converters) for piece in pieces]

    return act


def compile_line_patterns(compiler: SchemaCompiler, patterns: dict[str, str]) -> ReadLine | None:
    """Compiles what makes an event of a line that holds no JSON object; None if there are no patterns."""
    compiled = [(name, compile_pattern(compiler, text, f"linePatterns.{name}")) for name, text in patterns.items()]
    trace = compiler.trace

    def read_line(line: str) -> Event | None:
        for name, pattern in compiled:
            if match := pattern.search(line):
                return {"type": name, **_groups(match)}
        return None

    if trace is not None and compiled:
        return lambda line: trace("linePatterns", None, read_line, {"line": line})
    return read_line if compiled else None


def compile_pattern(compiler: SchemaCompiler, text: str, field: str) -> Pattern:
    """Compiles a regular expression of a schema."""
    try:
        pattern = Pattern(text, multiline=True)
    except ValueError as error:
        raise compiler.error(field, f" is {error}") from None
    if pattern.search(""):
        raise compiler.error(field, " matches an empty text, and so matches everywhere")
    return pattern


def pieces_of(text: str, patterns: Patterns) -> list[Piece]:
    """Returns the parts of a text in order; of two matches the one that begins first counts, then the first pattern."""
    pieces: list[Piece] = []
    at, began = 0, monotonic()

    def search(pattern: Pattern) -> Any:
        return pattern.search(text, at, seconds=began + SECONDS - monotonic())

    def add_text(end: int) -> None:
        if between := text[at:end].strip():
            start = text.index(between, at)
            pieces.append(Piece(start, start + len(between), {"type": "text", "text": between}))

    ahead = [(name, pattern, match) for name, pattern in patterns if (match := search(pattern))]
    while ahead:
        name, _, match = min(ahead, key=lambda one: one[2].start())
        add_text(match.start())
        pieces.append(Piece(match.start(), match.end(), {"type": name, **_groups(match)}))
        at = max(match.end(), match.start() + 1)  # an empty match must not stop the loop from advancing
        ahead = [(n, p, m) for n, p, old in ahead if (m := old if old.start() >= at else search(p))]
    add_text(len(text))
    return pieces


def _groups(match: Any) -> Part:
    """Returns the named groups that have matched."""
    return {group: found for group, found in match.groupdict().items() if found is not None}


def _converted(part: Part, converters: dict[str, Callable[[str], Any]]) -> Part:
    for name, convert in converters.items():
        if name in part:
            part[name] = convert(part[name])
    return part


def as_number(text: str) -> int | float | None:
    """Returns the number as people write it, 2700 for 2.7k; None if it is not a number."""
    match = re.fullmatch(_NUMBER, text.strip())
    if match is None:
        return None
    digits, unit = match[1].replace(",", ""), _SCALE[match[2].lower()]
    number = float(digits) * unit
    if number in (float("inf"), float("-inf")):
        return None
    return round(number) if unit > 1 or "." not in digits else number


def as_json(text: str) -> Any:
    """Returns the JSON value in the text, or the text if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text
