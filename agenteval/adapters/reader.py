"""Reads what an agent printed, by an adapter schema: raw lines → trajectory, output, usage and errors → result.

An Adapter is a compiled schema: it decodes each line to an event, unfolds what is within it (parts.py), and applies the
rules (rules.py), which call methods of a Trajectory. A Reading keeps what the turns of one record gave. `result_of`
makes a result of a raw record and its reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from time import monotonic
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from agenteval.adapters.parts import compile_line_patterns, compile_unfolding
from agenteval.adapters.rules import Event, RuleSet, SchemaCompiler, compile_actions, compile_step_rules
from agenteval.adapters.skills import skills_used
from agenteval.adapters.trajectory import MOST_STEPS, Time, Trajectory, richness_of
from agenteval.adapters.values import decode_leniently, may_have_halves, without_halves
from agenteval.streams.jsonl import encode
from agenteval.streams.patterns import SlowPattern
from agenteval.wire.adapter_schema import HeadlessAdapter, UsageField
from agenteval.wire.records import SKILLS_USED, VERDICT_FIELDS, Record

if TYPE_CHECKING:
    from agenteval.adapters.explain import Tracer

Times = list[int] | list[float] | list[int | float]

# Fields that become something else in a result; all others of a raw record stay as they are.
ENDING = ("exitCode", "signal", "timedOut")
RAW_ONLY = frozenset(("rawLines", "lineTimes", "turns", "permissions", "sessionLog", *ENDING, "error"))
NOT_GRADED_YET = frozenset(VERDICT_FIELDS)  # a verdict on an earlier extraction does not apply to this one
CANCELLED = "cancelled"

_decode = msgspec.json.Decoder().decode
_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeEncodeError, RecursionError)


class Adapter:
    """A schema, ready to read; `source` is its name in error messages, `trace` is for --explain."""

    max_steps = MOST_STEPS

    def __init__(self, config: HeadlessAdapter, source: str, trace: Tracer | None = None) -> None:
        self.config = config
        compiler = SchemaCompiler(source, trace)
        self.rules = RuleSet(compile_step_rules(compiler, config), compile_actions(compiler, config))
        self._unfold = compile_unfolding(compiler, config)
        self._prefix = compiler.pattern(config.line_prefix, "linePrefix") if config.line_prefix else None
        self._line_event = compile_line_patterns(compiler, config.line_patterns or {})
        self.reads_text = config.output_mode == "text"
        self.reads_text_as_event = self.reads_text and bool(config.output_events)
        self.otherwise = config.result.otherwise if config.result else "last"
        # The usage fields that include earlier turns; in iterative mode each turn is a session of its own.
        given = config.usage.cumulative if config.usage and config.session_mode == "stream" else False
        self.cumulative = frozenset(given if isinstance(given, list) else get_args(UsageField) if given else ())

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

    def read_lines(self, lines: list[str], times: Iterable[Time], out: Trajectory) -> None:
        """Applies the rules to the event of each line that has one."""
        self.rules.apply(self._events(lines, times, out), out)

    def read_event(self, event: Event, time: Time, out: Trajectory) -> None:
        """Applies the rules to one event and those within it."""
        out.time = time
        self.rules.apply(self._unfolded(event, out), out)

    def _events(self, lines: list[str], times: Iterable[Time], out: Trajectory) -> Iterator[Event]:
        """Yields the event of each line that has one, after those within it."""
        unfolds = self._unfold is not None
        for line, out.time in zip(lines, chain(times, repeat(None)), strict=False):
            try:
                event = _decode(line)
            except _DECODE_ERRORS:
                event = None
            if type(event) is dict or (event := self._decode_otherwise(line, out)) is not None:
                if not unfolds:
                    yield event
                else:
                    yield from self._unfolded(event, out)

    def _unfolded(self, event: Event, out: Trajectory) -> Iterator[Event]:
        """Yields the events within an event, then itself; only itself if the patterns of its parts take too long."""
        first = len(out.steps)
        began = monotonic()
        try:
            events = self._unfold(event) if self._unfold and out.patience > 0 else [event]
        except SlowPattern as slow:
            out.lose_patience(slow)
            events = [event]
        out.patience -= monotonic() - began
        yield from events
        for step in out.steps[first:]:
            if step.get("duration") == 0:
                del step["duration"]  # a call and its result in one line do not show how long it took

    def _decode_otherwise(self, line: str, out: Trajectory) -> Any:
        """Returns the event of a line that is not JSON as a whole, or not quite; None if there is none."""
        out.has_halves = out.has_halves or may_have_halves(line)
        prefix = _unless_slow(self._prefix.match, line, out) if self._prefix else None
        event = decode_leniently(line[prefix.end() :] if prefix else line, keep_halves=True)
        if type(event) is not dict and self._line_event:
            event = _unless_slow(self._line_event, line, out)
        return event if type(event) is dict else None


def _unless_slow(search: Callable[[str], Any], line: str, out: Trajectory) -> Any:
    """Returns what is found in a line; None if patterns have taken too long on the lines of the record."""
    try:
        return search(line) if out.patience > 0 else None
    except SlowPattern as slow:
        out.lose_patience(slow)
        return None


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
        self._held: list[str] = []  # of a text, lines that are not in the trajectory yet
        self._time: Time = None
        self._has_text = False
        self.out.begin_turn()

    def take(self, lines: list[str], times: Iterable[Time] = ()) -> None:
        """Reads the next lines of the turn."""
        if self.adapter.reads_text:
            self._take_text(lines, times)
        else:
            self.adapter.read_lines(lines, times, self.out)

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
        if self.out.stop != CANCELLED or any(self.out.usage.values()):  # a cancelled turn reports 0 for unknown
            self.usage = self.usage | {name: self._with_turn(name, number) for name, number in self.out.usage.items()}
        if self.usage.get("costUsd") == 0 and any(self.usage.values()):
            del self.usage["costUsd"]  # the agent knows no price of its model
        self.session_id = self.out.session_id or self.session_id
        self.turn_steps.append(len(self.trajectory) - self._first)

    def _join_halves(self) -> None:
        """Joins the halves of surrogate pairs in what was read, where both are there."""
        for step in self.trajectory:
            step |= without_halves(step)
        self.errors[:] = without_halves(self.errors)
        self.facts |= without_halves(self.facts)
        if self.out.result is not None:
            self.out.result = without_halves(self.out.result)

    def last_message(self) -> str:
        """Returns the last message of the turn that is not empty, "" if there is none."""
        return next(reversed(self._messages()), "")

    def _messages(self) -> list[str]:
        """Returns the messages of the turn that are not empty, without those of sub-agents."""
        steps = [step for step in self.trajectory[self._first :] if step["type"] == "message"]
        return [step["content"] for step in steps if step["content"] and "parentId" not in step]

    def _turn_output(self) -> str:
        """Returns the final text; one that is there and empty is the answer."""
        if self.out.result is not None:
            return self.out.result
        if self.adapter.otherwise == "all":
            return "\n".join(self._messages())
        return self._final_message() if self.adapter.otherwise == "final" else self.last_message()

    def _final_message(self) -> str:
        """Returns the message that ends the turn, "" if it ends with a tool call."""
        for step in reversed(self.trajectory[self._first :]):
            if step["type"] in ("message", "tool_call") and "parentId" not in step:
                return str(step.get("content", ""))
        return ""

    def _with_turn(self, name: str, number: int | float) -> int | float:
        """Returns a usage count with that of one more turn, which may include the turns before."""
        before = self.usage.get(name, 0)
        return max(number, before) if name in self.adapter.cumulative else number + before  # a failed turn may report 0


def turn_spans(turns: list[int] | None, total: int) -> Iterator[tuple[int, int]]:
    """Yields where the lines of each turn begin and end; lines beyond those counted belong to the last."""
    start = 0
    for count in (turns or [])[:-1]:
        yield start, start + count
        start += count
    yield start, total


# --- raw record → result ------------------------------------------------------------------------


def read_raw(raw: Record, adapter: Adapter, reading: Reading | None = None) -> Reading:
    """Reads a raw record; a `reading` that has its first turns already is continued."""
    turns = raw.get("turns")
    counts = [turn["lines"] for turn in turns] if turns else None
    reading = reading or adapter.begin(raw["id"])
    reading.add_turns(answered_lines(raw), raw.get("lineTimes"), counts)
    return reading


def answered_lines(raw: Record) -> list[str]:
    """Returns the lines of a raw record; a request for permission has the answer that was given in `permission`."""
    lines: list[str] = raw["rawLines"]
    if answers := raw.get("permissions"):
        lines = list(lines)
        for answer in answers:
            at = answer["line"] - 1
            if at < len(lines) and (line := lines[at].rstrip()).endswith("}"):
                lines[at] = f'{line[:-1]},"permission":{encode(answer["outcome"]).decode()}}}'
    return lines


def result_of(raw: Record, adapter: Adapter, *, keep_raw: bool = False, reading: Reading | None = None) -> Record:
    """Returns the result of a raw record: fields in the order of the contract, then its unknown ones.

    A `reading` that has the first turns of this record already is continued.
    """
    reading = read_raw(raw, adapter, reading)
    error = raw.get("error")
    ended = [*(raw.get("errors") or ()), *([error] if error else ())]  # how the process ended
    # What the agent says comes first, unless it ran out of time: its exit code or the end of its stderr explain less.
    errors = [*ended, *reading.errors] if raw.get("timedOut") else [*reading.errors, *ended]
    output = reading.output or (reading.last_message() if errors else "")
    log = raw.get("sessionLog") or {}
    own_name = reading.facts.get("agent")  # the schema of ACP reads many agents
    # In a turn that timed out, a tool call without a result has used up the time.
    hung = raw.get("timedOut") and any(step.get("status") in ("pending", "in_progress") for step in reading.trajectory)
    result: Record = {"id": raw["id"], "input": raw["input"], "output": output}
    if "hint" in raw:
        result["hint"] = raw["hint"]
    result["trajectory"] = reading.trajectory
    reasons = (adapter.config.error_reasons or {}).items()
    reason = next((reason for text, reason in reasons if any(text in error for error in errors)), None)
    result["metadata"] = {
        **(raw.get("metadata") or {}),
        **({"stopReason": reason} if reason else {}),
        **reading.facts,
        **({"model": log["model"]} if "model" in log else {}),
        "agent": own_name if own_name and isinstance(own_name, str) else adapter.config.name,
        "trajectoryRichness": richness_of(None, (step["type"] for step in reading.trajectory)),
        "turnCount": len(raw["input"]) if isinstance(raw["input"], list) else 1,
        **({"turnSteps": reading.turn_steps} if reading.turns > 1 else {}),
        **({SKILLS_USED: used} if (used := skills_used(reading.trajectory)) else {}),
        **{field: raw[field] for field in ENDING if field in raw},
    }
    result["timing"] = {**raw["timing"], **_usage(raw, reading, log)}
    result["toolErrors"] = reading.tool_errors or bool(hung)
    if errors:
        result["errors"] = errors
    for field, value in raw.items():
        if field not in result and field not in NOT_GRADED_YET and (keep_raw or field not in RAW_ONLY):
            result[field] = value
    return result


def _usage(raw: Record, reading: Reading, log: Record) -> Record:
    """Returns tokens and cost: of what the agent printed and what its log has, each time the larger number.

    They are partial if the agent was ended before it reported those of its last turn, and the log has no more.
    """
    usage: Record = dict(reading.usage)
    more = {name: log[name] for name in get_args(UsageField) if name in log and log[name] > usage.get(name, 0)}
    cut_short = (raw.get("timedOut") or raw.get("signal")) and reading.out.stop is None
    partial = {"tokensPartial": True} if usage and cut_short and not more else {}
    return {**usage, **more, **partial}


def failed_result(raw: Record, adapter: Adapter, reason: str) -> Record:
    """Returns the result of a raw record that could not be read: nothing but what the run recorded, and the reason."""
    unread = {field: value for field, value in raw.items() if field not in RAW_ONLY}
    found: Record = {"output": "", "trajectory": [], "toolErrors": False}
    metadata = {**(raw.get("metadata") or {}), "agent": adapter.config.name}
    errors = [*(raw.get("errors") or ()), reason]
    return {**unread, **found, "metadata": metadata, "errors": errors}
