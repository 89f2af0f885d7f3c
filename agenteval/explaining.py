"""Which rule of an adapter schema takes which raw line, and what it takes: for somebody who writes one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from agenteval.adapter import Adapter, Reading, decode_leniently
from agenteval.headless import HeadlessAdapter
from agenteval.records import Record
from agenteval.report.text import one_line
from agenteval.stream import encode
from agenteval.trajectory import Step

SHOWN = 100  # characters of a line or of a value
KINDS_SHOWN = 8


class Taken(NamedTuple):
    """What one part of the schema took from a line."""

    kind: str
    rule: str
    what: str


class Explainer:
    """An adapter taken apart: one for each of its rules with all those before it, one for each other part."""

    def __init__(self, config: HeadlessAdapter, source: str) -> None:
        bare = replace(config, result=None, usage=None, metadata=None, output_events=[])
        events = config.output_events or []
        self.prefixes = [Adapter(replace(bare, output_events=events[:n]), source) for n in range(len(events) + 1)]
        self.parts = {
            name: Adapter(replace(bare, **{name: part}), source)
            for name in ("result", "usage", "metadata")
            if (part := getattr(config, name)) is not None
        }
        self.whole = config.output_mode != "jsonpath"

    def explain(self, raw: Record) -> Iterator[str]:
        """The lines of one raw record, each with what was taken from it; at the end what no rule took."""
        lines: list[str] = raw["rawLines"]
        yield f"{raw['id']}: {len(lines)} lines"
        if self.whole:
            yield "   the lines of a turn are read together, not one by one (outputMode)"
            return
        missed: Counter[str] = Counter()
        session: str | None = None
        for number, line in enumerate(lines, 1):
            taken = list(self.taken(line))
            if (found := self.prefixes[0].session_id([line])) not in (None, session):
                session = found
                taken.append(Taken("session", "resume", _value(found)))
            if not taken:
                kind = kind_of(line)
                missed[kind] += 1
                taken = [Taken("-", kind, one_line(line, SHOWN)[:SHOWN])]
            for place, (kind, rule, what) in enumerate(taken):
                yield f"{number if place == 0 else '':>6}  {kind:<9}  {rule:<18}  {what}".rstrip()
        if missed:
            shown = ", ".join(f"{kind} ({count})" for kind, count in missed.most_common(KINDS_SHOWN))
            yield f"        {missed.total()} of {len(lines)} lines matched no rule: {shown}"

    def taken(self, line: str) -> Iterator[Taken]:
        """What the schema takes from a line."""
        before = self.prefixes[0].read([line])
        for number, adapter in enumerate(self.prefixes[1:]):
            after = adapter.read([line])
            for kind, what in _added(before, after):
                yield Taken(kind, f"outputEvents[{number}]", what)
            before = after
        for name, adapter in self.parts.items():
            reading = adapter.read([line])
            if reading.output or reading.usage or reading.facts:
                found = reading.usage or reading.facts
                shown = ", ".join(f"{key}={_value(value)}" for key, value in found.items()) or _value(reading.output)
                yield Taken("output" if reading.output else name, name, shown)
            for error in reading.errors:
                yield Taken("error", name, _value(error))


def _added(before: Reading, after: Reading) -> Iterator[tuple[str, str]]:
    """The steps and errors that one more rule gave, or changed, wherever they stand."""
    known = [_shown(step) for step in before.trajectory]
    for step in after.trajectory:
        shown = _shown(step)
        if shown in known:
            known.remove(shown)
        else:
            yield step["type"], shown
    for error in after.errors[len(before.errors) :]:
        yield "error", _value(error)


def _shown(step: Step) -> str:
    fields = ("content", "name", "status", "input", "output", "entries")
    return " ".join(f"{field}={_value(step[field])}" for field in fields if step.get(field) is not None)


def _value(value: Any) -> str:
    text = encode(value).decode() if not isinstance(value, str) else f'"{value}"'
    shown = one_line(text, SHOWN)
    return shown if len(shown) <= SHOWN else shown[:SHOWN] + "…"


def kind_of(line: str) -> str:
    """What an unread line is, in a word: its type, its first field, or that it is no event."""
    event = decode_leniently(line)
    if not isinstance(event, dict):
        return "no JSON object" if line.strip() else "blank"
    for name in ("type", "event", "kind", "method"):
        if isinstance(event.get(name), str):
            return f"{name} {one_line(event[name], 40)[:40]}"
    return f"has {next(iter(event), 'nothing')}"
