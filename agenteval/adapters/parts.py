"""Events within events, before the rules look at them: nested events, JSON in texts, texts split into parts.

`compile_unfolding` is for `nestedEvents`, `decode` and `splits`; `compile_line_patterns` makes events of lines of plain
text (`linePatterns`).
"""

import re
from collections.abc import Callable
from time import monotonic
from typing import Any

import msgspec

from agenteval.adapters.paths import Path, compile_path, split_wildcard
from agenteval.adapters.rules import Event, SchemaCompiler
from agenteval.adapters.values import json_object
from agenteval.streams.patterns import SECONDS, Pattern
from agenteval.wire.adapter_schema import HeadlessAdapter, Split

Unfold = Callable[[Event], list[Event]]
ReadLine = Callable[[str], Event | None]
Part = dict[str, Any]

_NUMBER = r"([+-]?[0-9][0-9,]*(?:\.[0-9]+)?|[+-]?\.[0-9]+)\s*([kKmM]?)"
_SCALE = {"": 1, "k": 1_000, "m": 1_000_000}


class Piece(msgspec.Struct, frozen=True):
    """A part and where in the text it is."""

    start: int
    end: int
    part: Part


def compile_unfolding(compiler: SchemaCompiler, config: HeadlessAdapter) -> Unfold | None:
    """Compiles what turns an event into those within it and, last, itself, texts split; None if nothing is to do."""
    splits = [_compile_split(compiler, split, f"splits[{n}]") for n, split in enumerate(config.splits or [])]
    nested = compiler.path(config.nested_events or "", "nestedEvents")
    decodes = [_compile_decode(compiler, path, f"decode[{n}]") for n, path in enumerate(config.decode or [])]
    if not nested.text and not splits and not decodes:
        return None

    def unfold(event: Event) -> list[Event]:
        found = nested.get(event)
        events = [item for item in found if type(item) is dict] if type(found) is list else []
        if compiler.trace and events:
            compiler.trace.nested_events(events)
        events.append(event)
        for one in events:
            for change in (*decodes, *splits):
                change(one)
        return events

    return unfold


def _compile_decode(compiler: SchemaCompiler, text: str, field: str) -> Callable[[Event], None]:
    """Compiles what replaces a text in an event, or in each item of a list there, by the JSON object that it is."""
    compiler.path(text, field)
    items, inner = split_wildcard(text) or (None, compile_path(text))
    *way, last = inner.keys or ("",)
    if not isinstance(last, str) or not last:
        raise compiler.error(field, f': "{text}" must lead to a field by names: $.a.b or $.list[*].b')
    holder = compile_path("".join(["$", *(f"[{key}]" if isinstance(key, int) else f"['{key}']" for key in way)]))

    def decode(event: Event) -> None:
        found = items.get(event) if items else [event]
        for item in found if type(found) is list else ():
            holds = holder.get(item)
            if type(holds) is dict and type(given := holds.get(last)) is str:
                holds[last] = json_object(given)

    return decode


def _compile_split(compiler: SchemaCompiler, split: Split, field: str) -> Callable[[Event], None]:
    """Compiles what adds the parts of a text to an event; an event without the text stays as it is."""
    path: Path = compiler.path(split.path, f"{field}.path")
    patterns = {name: compiler.pattern(text, f"{field}.patterns.{name}") for name, text in split.patterns.items()}
    numbers, json_groups = split.numbers or [], split.json_groups or []
    groups = {group for pattern in patterns.values() for group in pattern.groups}
    for name in (*numbers, *json_groups):
        if name not in groups:
            raise compiler.error(field, f' has no group "{name}" in its patterns')

    def add_parts(event: Event) -> None:
        text = path.get(event)
        if type(text) is not str:
            return
        pieces = _pieces(text, patterns)
        if compiler.trace:
            compiler.trace.parts(field, text, pieces)
        event[split.into] = [piece.part for piece in pieces]
        for part in event[split.into]:
            part.update({name: _as_number(part[name]) for name in numbers if name in part})
            part.update({name: _as_json(part[name]) for name in json_groups if name in part})

    return add_parts


def compile_line_patterns(compiler: SchemaCompiler, patterns: dict[str, str]) -> ReadLine | None:
    """Compiles what makes an event of a line without a JSON object; None if there are no patterns."""
    compiled = {name: compiler.pattern(text, f"linePatterns.{name}") for name, text in patterns.items()}

    def read_line(line: str) -> Event | None:
        for name, pattern in compiled.items():
            if match := pattern.search(line):
                event = {"type": name, **_groups(match)}
                if compiler.trace:
                    compiler.trace.line_event(event)
                return event
        return None

    return read_line if compiled else None


def _pieces(text: str, patterns: dict[str, Pattern]) -> list[Piece]:
    """Returns the parts of a text in order; of two matches the one that begins first counts, then the first pattern."""
    pieces: list[Piece] = []
    at, began = 0, monotonic()

    def search(pattern: Pattern) -> Any:
        return pattern.search(text, at, seconds=began + SECONDS - monotonic())

    def add_text(end: int) -> None:
        if between := text[at:end].strip():
            start = text.index(between, at)
            pieces.append(Piece(start, start + len(between), {"type": "text", "text": between}))

    ahead = [(name, pattern, match) for name, pattern in patterns.items() if (match := search(pattern))]
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


def _as_number(text: str) -> int | float | None:
    """Returns the number as people write it, 2700 for 2.7k; None if it is not a number."""
    match = re.fullmatch(_NUMBER, text.strip())
    if match is None:
        return None
    digits, unit = match[1].replace(",", ""), _SCALE[match[2].lower()]
    number = float(digits) * unit
    if number in (float("inf"), float("-inf")):
        return None
    return round(number) if unit > 1 or "." not in digits else number


def _as_json(text: str) -> Any:
    """Returns the JSON value in the text, or the text if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text
