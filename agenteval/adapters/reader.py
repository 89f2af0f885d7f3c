"""An adapter schema, compiled: the raw lines of an agent → trajectory, output, usage and errors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import Any, get_args

import msgspec

from agenteval.adapters.dispatch import Dispatch
from agenteval.adapters.jsonpath import decoder_for
from agenteval.adapters.parts import SawParts, compile_pattern, compile_unfolding
from agenteval.adapters.rules import (
    Action,
    Event,
    Rule,
    Schema,
    compile_metadata,
    compile_result,
    compile_rules,
    compile_usage,
)
from agenteval.adapters.schema_file import parse_headless
from agenteval.adapters.trajectory import Step, Time, Trajectory, as_text
from agenteval.errors import UserError, nearest
from agenteval.wire.adapter_schema import (
    Condition,
    Extract,
    HeadlessAdapter,
    OutputEvent,
    PassthroughTypeMap,
    StepKind,
    UsageField,
)
from agenteval.wire.richness import Richness, richness_of

__all__ = ["Adapter", "Reading", "bundled_adapters", "load_adapter", "parse_adapter"]

BUNDLED = os.path.join(os.path.dirname(__file__), "schemas")
Numbers = dict[str, int | float]
Times = list[int] | list[float] | list[int | float]

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Reading(msgspec.Struct):
    """What the raw lines of one record say."""

    trajectory: list[Step]
    output: str
    usage: Numbers
    errors: list[str]
    tool_errors: bool
    session_id: str | None
    facts: dict[str, Any] = {}


class Adapter:
    """One schema, ready to read; `source` is what error messages call it."""

    def __init__(self, config: HeadlessAdapter, source: str, saw_parts: SawParts | None = None) -> None:
        self.config = config
        schema = Schema(source)
        self.events = _output_events(config)
        rules = compile_rules(schema, self.events)
        actions = [compile_result(schema, config.result)] if config.result else []
        if config.usage:
            actions.append(compile_usage(schema, config.usage))
        if config.metadata:
            actions.append(compile_metadata(schema, config.metadata))
        self._dispatch = self.dispatch(rules, actions)
        self._unfold = compile_unfolding(schema, config, saw_parts)
        path = (config.resume.session_id_path if config.resume else None) or "$.session_id"
        self._session = schema.path(path, "resume.sessionIdPath")
        self._spare_session = path != "$.session_id"
        schema.reads.add(("session_id",))
        self._cumulative = _cumulative_fields(config)
        self._decode = decoder_for(schema.reads)
        self._prefix = compile_pattern(schema, config.line_prefix, "linePrefix") if config.line_prefix else None

    def dispatch(self, rules: list[Rule], actions: list[Action]) -> Dispatch:
        """The rules and actions behind one lookup; where a schema is explained they are watched."""
        return Dispatch(rules, actions)

    def read(
        self,
        lines: list[str],
        times: Times | None = None,
        turns: list[int] | None = None,
        record_id: str = "",
    ) -> Reading:
        """What the lines say; `times` are theirs in ms, `turns` the number of lines of each turn."""
        reader = Reader(self, Trajectory(record_id))
        for start, end in turn_spans(turns, len(lines)):
            reader.begin_turn()
            reader.take(lines[start:end], times[start:end] if times else ())
            reader.end_turn()
        return reader.reading()

    def turn_output(self, lines: list[str]) -> str:
        """The output text of one turn."""
        return self.read(lines).output

    def session_id(self, lines: Iterable[str]) -> str | None:
        """The id under which the session can be resumed, the last one seen; None if no line has one."""
        return self.read(list(lines)).session_id

    def follow(self, lines: list[str], times: Iterable[Time], out: Trajectory) -> tuple[Any, str | None]:
        """Hand the events of lines to the trajectory; a session id as the schema names it, and any other, come back."""
        decode, dispatch, spare, unfold = self._decode, self._dispatch, self._spare_session, self._unfold
        table, other = dispatch.table, dispatch.other
        tell, tell_name = dispatch.tell.get, dispatch.tell.name
        session, session_name = self._session.get, self._session.name
        session_id = spare_id = None
        for line, time in zip(lines, chain(times, repeat(None))):  # noqa: B905
            try:
                event = decode(line)
            except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
                event = self._decode_otherwise(line)
            if type(event) is not dict:
                continue
            try:
                handle = table.get(event.get(tell_name) if tell_name else tell(event), other)
            except TypeError:  # a list where other events have a word
                handle = dispatch.any
            if unfold is not None:
                self.hand(event, time, out)
            elif handle is not None:
                out.time = time
                handle(event, out)
            if (found := event.get(session_name) if session_name else session(event)) is not None:
                session_id = found
            elif spare and type(found := event.get("session_id")) is str:
                spare_id = found
        return session_id, spare_id

    def _decode_otherwise(self, line: str) -> Any:
        """What a line says that is not JSON as a whole, or not quite."""
        prefix = self._prefix.match(line) if self._prefix else None
        return decode_leniently(line[prefix.end() :] if prefix else line)

    def hand(self, event: Event, time: Time, out: Trajectory) -> None:
        """Hand one event, and those within it, to the trajectory."""
        out.time, first = time, len(out.steps)
        for one in self._unfold(event) if self._unfold else [event]:
            if (handle := self._dispatch.find(one)) is not None:
                handle(one, out)
        for step in out.steps[first:]:
            if step.get("duration") == 0:
                del step["duration"]  # a call and its result that come at once do not tell how long it took

    def output_of(self, out: Trajectory, first: int) -> str:
        """The output of a turn whose steps begin at `first`."""
        if out.result:
            return out.result
        texts = [step["content"] for step in out.steps[first:] if step["type"] == "message"]
        texts = [text for text in texts if text]
        every = self.config.result is not None and self.config.result.otherwise == "all"
        return "\n".join(texts if every else texts[-1:])

    def add_usage(self, usage: Numbers, turn: Numbers) -> Numbers:
        """Usage with that of one more turn, in which some fields may include the turns before."""
        join = {name: max if name in self._cumulative else sum for name in turn}  # a turn that failed may tell 0
        added = {name: join[name]((n, usage.get(name, 0))) for name, n in turn.items()}
        return {**usage, **added}


class Reader:
    """Reads one record turn by turn, and within a turn as its lines come: `begin_turn`, `take`, `end_turn`."""

    def __init__(self, adapter: Adapter, out: Trajectory) -> None:
        self.adapter, self.out = adapter, out
        self.output, self.usage = "", Numbers()
        self.session_id: str | None = None
        self._plain = adapter.config.output_mode == "text"
        self._gathers = self._plain and bool(adapter.config.output_events)

    def begin_turn(self) -> None:
        """A new turn: what is taken from now on belongs to it."""
        self._gathered: list[str] = []
        self._time: Time = None
        self._first = len(self.out.steps)
        self._named: Any = None
        self._spare: str | None = None
        self._blank: int | None = 0  # lines before the first that says something
        self.out.begin_turn()

    def take(self, lines: list[str], times: Iterable[Time] = ()) -> None:
        """What came next."""
        if self._gathers:
            self._time = next(iter(times), None) if self._time is None else self._time
            self._gathered += lines
            return
        if self._plain:
            self._take_text(lines, times)
            return
        named, spare = self.adapter.follow(lines, times, self.out)
        self._named = self._named if named is None else named
        self._spare = spare or self._spare

    def end_turn(self) -> None:
        """The turn is over: its output, usage and session id are known."""
        if self._gathered:
            self.adapter.hand({"text": "\n".join(self._gathered)}, self._time, self.out)
        self.out.end_turn()
        self.output = self.adapter.output_of(self.out, self._first)
        self.usage = self.adapter.add_usage(self.usage, self.out.usage)
        found = as_text(self._named) if self._named is not None else self._spare
        self.session_id = found or self.session_id

    def last_message(self) -> str:
        """The last message of the turn that says something; "" if there is none."""
        contents = (step["content"] for step in reversed(self.out.steps[self._first :]) if step["type"] == "message")
        return next(filter(None, contents), "")

    def reading(self) -> Reading:
        """All that the turns so far say."""
        out = self.out
        return Reading(out.steps, self.output, self.usage, out.errors, out.tool_errors, self.session_id, out.facts)

    def _take_text(self, lines: list[str], times: Iterable[Time]) -> None:
        """All lines of a turn are one message; blank ones alone are none."""
        if self._blank is not None:
            if not any(lines):
                self._blank += len(lines)
                return
            lines = [""] * self._blank + lines
            self._blank = None
            self.out.time = next(iter(times), None)
            self.out.piece("message", "\n".join(lines))
        elif lines:
            self.out.piece("message", "\n".join(["", *lines]))


def _cumulative_fields(config: HeadlessAdapter) -> frozenset[str]:
    """The usage fields that include earlier turns; in iterative mode each turn is a session of its own."""
    given = config.usage.cumulative if config.usage and config.session_mode == "stream" else False
    return frozenset(given if isinstance(given, list) else get_args(UsageField) if given else ())


def turn_spans(turns: list[int] | None, total: int) -> Iterator[tuple[int, int]]:
    """Where the lines of each turn begin and end; lines beyond those counted belong to the last."""
    start = 0
    for count in (turns or [])[:-1]:
        yield start, start + count
        start += count
    yield start, total


def decode_leniently(line: str) -> Any:
    """An event that strict JSON refuses but agents do print: half an emoji, NaN, a control character."""
    text = line.strip().lstrip("\ufeff")
    if not text.startswith("{"):
        return None
    import json

    try:
        return _writable(json.loads(text, parse_constant=lambda name: None, strict=False))
    except (ValueError, RecursionError):
        return None


def _writable(value: Any) -> Any:
    """The value without what no encoder can write: lone surrogates and infinite numbers."""
    if type(value) is str:
        return _LONE_SURROGATE.sub("\ufffd", value)
    if type(value) is list:
        return [_writable(item) for item in value]
    if type(value) is dict:
        return {_writable(key): _writable(item) for key, item in value.items()}
    return None if type(value) is float and value in (float("inf"), float("-inf")) else value


def _output_events(config: HeadlessAdapter) -> list[OutputEvent]:
    """The kinds of events, in passthrough mode made from the type map."""
    if config.output_mode != "passthrough":
        return config.output_events or []
    types = config.passthrough_type_map or PassthroughTypeMap()
    path = f"$[{msgspec.json.encode(types.type_field).decode()}]"
    steps = {kind: kind for kind in get_args(StepKind)} | (types.type_values or {})
    extract = Extract(
        content="$.content",
        title=["$.name", "$.title"],
        status="$.status",
        id="$.id",
        input="$.input",
        output="$.output",
        duration="$.duration",
        entries="$.entries",
    )
    return [
        OutputEvent(match=Condition(path=path, value=word), emit_as=kind, extract=extract)
        for word, kind in steps.items()
    ]


def bundled_adapters() -> list[str]:
    """Names of the schemas that ship with the suite."""
    return sorted(name.removesuffix(".json") for name in os.listdir(BUNDLED) if name.endswith(".json"))


def bundled_path(name: str) -> str:
    """The file of a schema that ships with the suite."""
    return os.path.join(BUNDLED, name + ".json")


def tells(config: HeadlessAdapter) -> Richness:
    """How much a trajectory read with this schema can tell."""
    if config.output_mode == "passthrough":
        return "full"
    return richness_of(None, ("message", *(event.emit_as for event in config.output_events or [])))


def load_adapter(ref: str) -> Adapter:
    """The adapter in a file, or the one that ships with the suite under this name."""
    path = ref
    if not ("/" in ref or ref.endswith(".json") or os.path.isfile(ref)):
        if ref not in bundled_adapters():
            hint = nearest(ref, bundled_adapters())
            raise UserError(f'no adapter schema is named "{ref}", and there is no such file; {hint}')
        path = bundled_path(ref)
    try:
        with open(path, "rb") as file:
            return parse_adapter(file.read(), ref)
    except OSError as error:
        raise UserError(f"{ref}: {error.strerror}") from None


def parse_adapter(data: bytes, source: str) -> Adapter:
    """The adapter that this JSON describes; UserError names `source` and the field that is wrong."""
    return Adapter(parse_headless(data, source), source)
