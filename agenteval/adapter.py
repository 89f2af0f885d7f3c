"""An adapter schema, compiled: the raw lines of an agent → trajectory, output, usage and errors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, NamedTuple, get_args

import msgspec

from agenteval import headless
from agenteval.dispatch import Dispatch
from agenteval.errors import UserError
from agenteval.headless import Extract, HeadlessAdapter, OutputEvent, PassthroughTypeMap
from agenteval.jsonpath import decoder_for
from agenteval.mapping import Schema, compile_result, compile_rules, compile_usage
from agenteval.trajectory import Step, Time, Trajectory, richness

__all__ = ["Adapter", "Reading", "bundled_adapters", "load_adapter", "parse_adapter", "richness"]

BUNDLED = os.path.join(os.path.dirname(__file__), "adapters")
Times = list[int] | list[float] | list[int | float]

_CHOICES = {
    "version": (1,),
    "sessionMode": get_args(headless.SessionMode),
    "outputMode": get_args(headless.OutputMode),
    "emitAs": get_args(headless.EmitAs),
    "stdinFormat": get_args(headless.StdinFormat),
    "perTurn": get_args(headless.PerTurn),
    "cumulative": get_args(headless.UsageField),
    "typeValues": get_args(headless.StepKind),
}
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Reading(NamedTuple):
    """What the raw lines of one record say."""

    trajectory: list[Step]
    output: str
    usage: dict[str, int | float]
    errors: list[str]
    tool_errors: bool
    session_id: str | None


class Adapter:
    """One schema, ready to read; `source` is what error messages call it."""

    def __init__(self, config: HeadlessAdapter, source: str) -> None:
        self.config = config
        schema = Schema(source)
        _check(schema, config)
        rules = compile_rules(schema, _output_events(config))
        actions = [compile_result(schema, config.result)] if config.result else []
        if config.usage:
            actions.append(compile_usage(schema, config.usage))
        self._dispatch = Dispatch(rules, actions)
        path = (config.resume.session_id_path if config.resume else None) or "$.session_id"
        self._session = schema.path(path, "resume.sessionIdPath").get
        schema.reads.add(("session_id",))
        self._decode = decoder_for(schema.reads)

    def read(
        self,
        lines: list[str],
        times: Times | None = None,
        turns: list[int] | None = None,
        record_id: str = "",
    ) -> Reading:
        """What the lines say; `times` are theirs in ms, `turns` the number of lines of each turn."""
        out = Trajectory(record_id)
        output, usage, session_id = "", {}, None
        follow = self._follow_text if self.config.output_mode == "text" else self._follow
        for start, end in _spans(turns, len(lines)):
            first = len(out.steps)
            out.begin_turn()
            session_id = follow(lines[start:end], times[start:end] if times else (), out) or session_id
            out.end_turn()
            output = self._output(out, first)
            usage = self._add_usage(usage, out.usage)
        return Reading(out.steps, output, usage, out.errors, out.tool_errors, session_id)

    def turn_output(self, lines: list[str]) -> str:
        """The output text of one turn."""
        return self.read(lines).output

    def session_id(self, lines: Iterable[str]) -> str | None:
        """The id under which the session can be resumed, the last one seen; None if no line has one."""
        found = None
        for line in lines:
            event = self._event(line)
            if event is not None:
                found = self._session_of(event) or found
        return found

    def _follow(self, lines: list[str], times: Iterable[Time], out: Trajectory) -> str | None:
        """Hand the events of one turn to the trajectory; the session id comes back."""
        decode, session, dispatch = self._decode, self._session, self._dispatch
        tell, table, other = dispatch.tell, dispatch.table, dispatch.other
        session_id = None
        for line, time in zip(lines, _padded(times, len(lines)), strict=True):
            try:
                event = decode(line)
            except (ValueError, RecursionError):
                event = _decode_leniently(line)
                if event is None:
                    continue
            if type(event) is not dict:
                continue
            try:
                handle = table.get(tell(event), other)
            except TypeError:  # not hashable: a list where other events have a word
                handle = dispatch.any
            if handle is not None:
                out.time = time
                handle(event, out)
            if (found := session(event)) is not None:
                session_id = found
        return session_id if type(session_id) is str else None

    def _follow_text(self, lines: list[str], times: Iterable[Time], out: Trajectory) -> str | None:
        """Take all lines of one turn as one message."""
        out.time = next(iter(times), None)
        if any(lines):
            out.text("message", "\n".join(lines))
        return None
