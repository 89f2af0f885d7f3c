"""A compiled adapter schema reads what an agent printed: raw lines → trajectory, output, usage and errors.

Data flow: schema_file.py checks a schema; conditions.py and rules.py turn it into code, which handlers.py compiles; an
Adapter decodes each line and applies it to a Trajectory; a Reading keeps what the turns of a record gave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from time import monotonic
from typing import Any, get_args

from agenteval.adapters.conditions import Event, SchemaCompiler, Trace
from agenteval.adapters.handlers import CompiledSchema
from agenteval.adapters.parts import compile_line_patterns, compile_pattern, compile_unfolding
from agenteval.adapters.rules import compile_actions, compile_rules
from agenteval.adapters.surrogates import kept, may_have_halves, without_halves
from agenteval.adapters.trajectory import MOST_STEPS, Time, Trajectory
from agenteval.adapters.words import as_text
from agenteval.streams.jsonl import integer_of
from agenteval.streams.patterns import SlowPattern
from agenteval.wire.adapter_schema import HeadlessAdapter, UsageField

Times = list[int] | list[float] | list[int | float]


class Adapter:
    """A schema, ready to read; `source` is its name in error messages, `trace` is for --explain (see conditions.py)."""

    max_steps = MOST_STEPS

    def __init__(self, config: HeadlessAdapter, source: str, trace: Trace | None = None) -> None:
        self.config = config
        compiler = SchemaCompiler(source, trace)
        self.rules = compile_rules(compiler, config)
        self.actions = compile_actions(compiler, config)
        path = (config.resume.session_id_path if config.resume else None) or "$.session_id"
        self._session = compiler.path(path, "resume.sessionIdPath")
        self._unfold = compile_unfolding(compiler, config)
        self._prefix = compile_pattern(compiler, config.line_prefix, "linePrefix") if config.line_prefix else None
        self._line_event = compile_line_patterns(compiler, config.line_patterns or {})
        self.reads_text = config.output_mode == "text"
        self.compiled = CompiledSchema(compiler, self.rules, self.actions, self._session)
        self.reads_text_as_event = self.reads_text and bool(config.output_events)
        self.every_message = config.result is not None and config.result.otherwise == "all"
        self.cumulative = _cumulative_fields(config)

    def begin(self, record_id: str) -> Reading:
        """Returns a reading of one record, nothing read yet."""
        return Reading(self, Trajectory(record_id, self.max_steps))

    def read(
        self, lines: list[str], times: Times | None = None, turns: list[int] | None = None, record_id: str = ""
    ) -> Reading:
        """Reads all lines of a record; `times` are theirs in ms, `turns` the number of lines of each turn."""
        reading = self.begin(record_id)
        reading.add_turns(lines, times, turns)
        return reading

    def read_lines(self, lines: list[str], times: Iterable[Time], out: Trajectory) -> tuple[Any, str | None]:
        """Applies the rules to lines; returns the last session id at the schema's path, and at `$.session_id`."""
        if type(times) is not list or len(times) < len(lines):
            times = chain(times, repeat(None))
        read_event = self.read_event if self._unfold else None
        return self.compiled.read_lines(lines, times, out, self._decode_otherwise, read_event)

    def read_event(self, event: Event, time: Time, out: Trajectory) -> None:
        """Applies the rules to one event and those within it."""
        out.time, first = time, len(out.steps)
        for one in self._unfolded(event, out):
            if (handle := self.compiled.find(one)) is not None:
                handle(one, out)
        for step in out.steps[first:]:
            if step.get("duration") == 0:
                del step["duration"]  # a call and its result in one line do not show how long it took

    def _unfolded(self, event: Event, out: Trajectory) -> list[Event]:
        """Returns the events within an event, and itself; only itself if the patterns of its parts take too long."""
        if self._unfold is None or out.patience <= 0:
            return [event]
        began = monotonic()
        try:
            return self._unfold(event)
        except SlowPattern as slow:
            out.lose_patience(slow)
            return [event]
        finally:
            out.patience -= monotonic() - began

    def _decode_otherwise(self, line: str, out: Trajectory) -> Any:
        """Returns the event of a line that is not JSON as a whole, or not quite; None if there is none."""
        out.has_halves = out.has_halves or may_have_halves(line)
        prefix = _unless_slow(self._prefix.match, line, out) if self._prefix else None
        event = decode_leniently(line[prefix.end() :] if prefix else line, keep_halves=True)
        if type(event) is not dict and self._line_event:
            event = _unless_slow(self._line_event, line, out)
        return event if type(event) is dict else None


class Reading:
    """What the lines of one record contain, read turn by turn.

    Each turn is read once: by `add_turn`, or as its lines come by `begin_turn`, `take` and `end_turn`. `output` is that
    of the last turn; `usage` and `errors` are those of all turns so far; `session_id`, by which the session can be
    resumed, is the last one found.
    """

    def __init__(self, adapter: Adapter, out: Trajectory) -> None:
        self.adapter, self.out = adapter, out
        self.trajectory, self.errors, self.facts = out.steps, out.errors, out.facts
        self.output = ""
        self.usage: dict[str, int | float] = {}
        self.session_id: str | None = None
        self.turn_steps: list[int] = []  # of each turn, how many steps it has

    @property
    def turns(self) -> int:
        """How many turns are read."""
        return len(self.turn_steps)

    @property
    def tool_errors(self) -> bool:
        """Whether a tool call failed."""
        return self.out.tool_errors

    def add_turns(self, lines: list[str], times: Times | None = None, turns: list[int] | None = None) -> None:
        """Reads those turns of a record that are not read yet; `turns` is the number of lines of each."""
        for start, end in [*turn_spans(turns, len(lines))][self.turns :]:
            self.add_turn(lines[start:end], times[start:end] if times else ())

    def add_turn(self, lines: list[str], times: Iterable[Time] = ()) -> None:
        """Reads all lines of the next turn."""
        self.begin_turn()
        self.take(lines, times)
        self.end_turn()

    def begin_turn(self) -> None:
        """Begins a turn, to which the lines that follow belong."""
        self._first = len(self.trajectory)
        self.named: Any = None  # the session id at the schema's path
        self.spare: str | None = None  # the session id at $.session_id
        self._held: list[str] = []  # of a text, lines that are not in the trajectory yet
        self._time: Time = None
        self._has_text = False
        self.out.begin_turn()

    def take(self, lines: list[str], times: Iterable[Time] = ()) -> None:
        """Reads the next lines of the turn."""
        if self.adapter.reads_text:
            self._take_text(lines, times)
            return
        named, spare = self.adapter.read_lines(lines, times, self.out)
        self.named = self.named if named is None else named
        self.spare = spare or self.spare

    def _take_text(self, lines: list[str], times: Iterable[Time]) -> None:
        """Adds lines to the message that all lines of a turn are; blank lines alone are no message."""
        self._time = next(iter(times), None) if self._time is None else self._time
        self._held += lines
        if self.adapter.reads_text_as_event or not (self._has_text or any(lines)):
            return
        self.out.time = self._time
        self.out.piece("message", "\n".join(self._held))
        self._held, self._has_text = [""], True  # the next line begins after a line break

    def end_turn(self) -> None:
        """Ends the turn: its output, usage and session id are known."""
        if self._held and self.adapter.reads_text_as_event:
            self.adapter.read_event({"text": "\n".join(self._held)}, self._time, self.out)
        self.out.end_turn()
        if self.out.has_halves:
            self._join_halves()
        self.output = self._turn_output()
        self.usage = self.usage | {name: self._with_turn(name, number) for name, number in self.out.usage.items()}
        found = as_text(self.named) if self.named is not None else self.spare
        self.session_id = found or self.session_id
        self.turn_steps.append(len(self.trajectory) - self._first)

    def _join_halves(self) -> None:
        """Joins the halves of surrogate pairs in what was read, where both are there."""
        for step in self.trajectory:
            step |= without_halves(step)
        self.errors[:] = without_halves(self.errors)
        self.facts |= without_halves(self.facts)
        self.out.result = without_halves(self.out.result)

    def last_message(self) -> str:
        """Returns the last message of the turn that is not empty, "" if there is none."""
        found: str = next(reversed(self._messages()), "")
        return found

    def _messages(self) -> list[Any]:
        """Returns the messages of the turn that are not empty, without those of sub-agents."""
        steps = [step for step in self.trajectory[self._first :] if step["type"] == "message"]
        return [step["content"] for step in steps if step["content"] and "parentId" not in step]

    def _turn_output(self) -> str:
        if self.out.result:
            found: str = self.out.result
            return found
        return "\n".join(map(as_text, self._messages())) if self.adapter.every_message else self.last_message()

    def _with_turn(self, name: str, number: int | float) -> int | float:
        """Returns a usage count with that of one more turn, which may include the turns before."""
        before = self.usage.get(name, 0)
        return max(number, before) if name in self.adapter.cumulative else number + before  # a failed turn may report 0


def _unless_slow(search: Callable[[str], Any], line: str, out: Trajectory) -> Any:
    """Returns what is found in a line; None if patterns have taken too long on the lines of the record."""
    try:
        return search(line) if out.patience > 0 else None
    except SlowPattern as slow:
        out.lose_patience(slow)
        return None


def _cumulative_fields(config: HeadlessAdapter) -> frozenset[str]:
    """Returns the usage fields that include earlier turns; in iterative mode each turn is a session of its own."""
    given = config.usage.cumulative if config.usage and config.session_mode == "stream" else False
    return frozenset(given if isinstance(given, list) else get_args(UsageField) if given else ())


def turn_spans(turns: list[int] | None, total: int) -> Iterator[tuple[int, int]]:
    """Yields where the lines of each turn begin and end; lines beyond those counted belong to the last."""
    start = 0
    for count in (turns or [])[:-1]:
        yield start, start + count
        start += count
    yield start, total


def decode_leniently(line: str, *, keep_halves: bool = False) -> Any:
    """Decodes an event that strict JSON refuses but agents print: half a surrogate pair, NaN, a control character.

    With `keep_halves` a half can still be joined to the other: see surrogates.py.
    """
    text = line.strip().lstrip("\ufeff")
    if not text.startswith("{"):
        return None
    import json

    try:
        event = json.loads(text, parse_constant=lambda name: None, parse_int=integer_of, strict=False)
        event = _writable(event)
        return event if keep_halves else without_halves(event)
    except (ValueError, RecursionError):
        return None


def _writable(value: Any) -> Any:
    """Returns the value without what no encoder can write: half a surrogate pair is kept, an infinite number is not."""
    if type(value) is str:
        return kept(value)
    if type(value) is list:
        return [_writable(item) for item in value]
    if type(value) is dict:
        return {_writable(key): _writable(item) for key, item in value.items()}
    return None if type(value) is float and value in (float("inf"), float("-inf")) else value
