"""Rules of a schema: what each kind of event adds to the trajectory, as functions of an event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec

from agenteval.adapters.conditions import CompiledCondition, SchemaCompiler, as_list, compile_match, wanted_test
from agenteval.adapters.jsonpath import compile_path
from agenteval.adapters.trajectory import Trajectory
from agenteval.adapters.words import is_true, status_of, stop_reason
from agenteval.wire.adapter_schema import (
    Condition,
    Extract,
    HeadlessAdapter,
    OutputEvent,
    PassthroughTypeMap,
    ResultEvent,
    StepKind,
    UsageField,
    UsagePaths,
)
from agenteval.wire.records import LARGEST

TYPE_VALUES = "passthroughTypeMap.typeValues"

Value = Callable[[Any, Any], Any]  # item, event → what a path finds; the item is the event itself, or in a list of it
Act = Callable[[Any, Any, Trajectory], Any]  # item, event, out


class Rule(msgspec.Struct, frozen=True):
    """What to do with an event or, with `item`, with each item of its list that fits.

    `lone`: its match is a single condition, agent-eval-harness' form. `also`: later rules get the event, too.
    """

    tests: tuple[CompiledCondition, ...]
    item: CompiledCondition | None
    act: Act
    lone: bool = False
    also: bool = False


# --- outputEvents -------------------------------------------------------------------------------


def output_events(config: HeadlessAdapter) -> dict[str, OutputEvent]:
    """Returns the kinds of events by their field in the schema; in passthrough mode they come from the type map."""
    if config.output_mode != "passthrough":
        return {f"outputEvents[{n}]": event for n, event in enumerate(config.output_events or [])}
    types = config.passthrough_type_map or PassthroughTypeMap()
    path = f"$[{msgspec.json.encode(types.type_field).decode()}]"
    steps = {kind: kind for kind in get_args(StepKind)} | (types.type_values or {})
    names = ("content", "status", "id", "input", "output", "duration", "entries")
    extract = Extract(title=["$.name", "$.title"], **{name: f"$.{name}" for name in names})
    return {
        f"{TYPE_VALUES}.{word}": OutputEvent(match=Condition(path=path, value=word), emit_as=kind, extract=extract)
        for word, kind in steps.items()
    }


def compile_rules(compiler: SchemaCompiler, config: HeadlessAdapter) -> list[Rule]:
    """Compiles the kinds of events of a schema, in order."""
    rules = []
    for field, event in output_events(config).items():
        if event.match == []:
            raise compiler.error(f"{field}.match", " must have a condition")
        tests, item = compile_match(compiler, event.match, f"{field}.match")
        act = step_act(_Source(compiler, field), event)
        rules.append(Rule(tests, item, act, isinstance(event.match, Condition), event.also))
    return rules


def step_act(source: _Source, event: OutputEvent) -> Act:
    """Returns what becomes of a matched event or item."""
    found = {
        f"extract.{name}": source.values(given, f"extract.{name}")
        for name, given in msgspec.to_builtins(event.extract or {}).items()
    }
    delta = source.values(event.delta, "delta") if isinstance(event.delta, str) else []
    parent = found.pop("extract.parent", None)
    kind, content = _constant(event.emit_as), found.get("extract.content")
    if event.emit_as == "tool_call":
        act = _tool_call(source, found, as_list(event.extract and event.extract.status))
    elif event.emit_as == "end":
        act = source.call("end_pieces", {})
    elif event.emit_as == "plan":
        act = source.call("plan", _firsts(found, "extract.entries"))
    elif event.emit_as == "error":
        act = source.call("error", {"extract.content": _first(content or source.values("$", "extract.content"))})
    else:
        text = {"emitAs": kind, "extract.content": _first(content) if content else _constant("")}
        piece = source.call("piece", {**text, **_firsts(found, "extract.id")})
        act = piece if event.delta is True else source.call("text", text)
        if delta:
            act = _either(_first(delta), piece, act)
    return _within(source.call("set_parent", {"extract.parent": _first(parent)}), act) if parent else act


def _either(is_piece: Value, piece: Act, whole: Act) -> Act:
    return lambda item, event, out: (piece if is_true(is_piece(item, event)) else whole)(item, event, out)


def _within(set_parent: Act, act: Act) -> Act:
    def within(item: Any, event: Any, out: Trajectory) -> None:
        set_parent(item, event, out)
        act(item, event, out)
        out.parent = None

    return within


def _tool_call(source: _Source, found: dict[str, list[Value]], status: list[str]) -> Act:
    """Returns what takes in a call or a result, and the times that the agent itself gives."""
    act = _call_or_result(source, found, status)
    if found.get("extract.outputDelta"):
        act = source.then(act, "add_output", _firsts(found, "extract.outputDelta"))
    if found.get("extract.start") or found.get("extract.end"):
        act = source.then(act, "clock", _firsts(found, "extract.start", "extract.end"))
    return act


def _call_or_result(source: _Source, found: dict[str, list[Value]], status: list[str]) -> Act:
    given = _firsts(found, "extract.id", "extract.title", "extract.input")
    result = _firsts(found, "extract.output", "extract.status", "extract.isError", "extract.duration")
    if found.get("extract.permission"):
        return source.call("ask", {**given, **_firsts(found, "extract.permission")})
    if not any(found.get(name) for name in result):
        return source.call("call", given)
    if source.compiler.trace is None and len(status) == 1 and status[0][0] == "'" and not found.get("extract.isError"):
        known = status_of(status[0][1:-1])  # whatever is in the event
        if known == "pending":
            return source.call("call", given)
        if known is not None:
            ending = {"status": _constant(known), **_firsts(found, "extract.output", "extract.duration")}
            return source.call("settle", {**given, **ending})
    result["extract.isError"] = _any_true(found.get("extract.isError", []))
    # An event that names no tool can only be the result of a call.
    otherwise = "pending" if found.get("extract.title") or found.get("extract.input") else "completed"
    return source.call("report", {**given, **result, "otherwise": _constant(otherwise)})


# --- result, usage, metadata --------------------------------------------------------------------


def compile_actions(compiler: SchemaCompiler, config: HeadlessAdapter) -> list[Rule]:
    """Compiles the rules for what a schema takes from events besides steps."""
    actions = []
    if config.result:
        actions.append(_compile_result(_Source(compiler, "result"), config.result))
    if config.usage:
        tests, item = compile_match(compiler, config.usage.match, "usage.match")
        if item is not None:
            raise compiler.error("usage.match", " may not have [*]")
        actions.append(Rule(tests, None, _usage(_Source(compiler, "usage"), config.usage)))
    if config.metadata:
        source = _Source(compiler, "metadata")
        facts = {name: _first(source.values(paths, name)) for name, paths in config.metadata.items()}
        actions.append(Rule((), None, source.call_if_any("note", facts)))
    return actions


def _compile_result(source: _Source, result: ResultEvent) -> Rule:
    path = source.compiler.path(result.match_path, "result.matchPath")
    reasons = source.values(result.stop_reason_path, "stopReasonPath")
    found = {
        "contentPath": _first(source.values(result.content_path, "contentPath")),
        "isErrorPath": _any_true(source.values(result.is_error_path, "isErrorPath")),
        "errorPath": _first(source.values(result.error_path, "errorPath")),
    }
    if reasons:
        found["stopReasonPath"] = lambda item, event: stop_reason(*[get(item, event) for get in reasons])
    test = CompiledCondition(path, None, *wanted_test(result.match_value))
    return Rule((test,), None, source.call("conclude", found))


def _usage(source: _Source, usage: UsagePaths) -> Act:
    """Returns what takes the counts of an event, and where else to look if it has none."""
    given = msgspec.to_builtins(usage)
    counts = {name: source.values(given.get(name), name) for name in get_args(UsageField)}
    totals = {name: _total(values) for name, values in counts.items() if values}
    method = "add_usage" if usage.per_turn == "sum" else "set_usage"
    other = _usage(_Source(source.compiler, f"{source.field}.fallback"), usage.fallback) if usage.fallback else None
    act = source.call_if_any(method, totals, other)
    texts = [text for name in counts for text in as_list(given.get(name))]
    fields = {keys[0] if (keys := compile_path(text).keys) else None for text in texts}
    field = fields.pop() if len(fields) == 1 else None
    if not isinstance(field, str) or usage.fallback or source.compiler.trace:
        return act
    # All counts are in one field, which most events do not have.
    return lambda item, event, out: None if event.get(field) is None else act(item, event, out)


def any_true(*values: Any) -> bool | None:
    """Returns whether any value stands for true, None if all are None."""
    found = [value for value in values if value is not None]
    return any(map(is_true, found)) if found else None


def total(*values: Any) -> int | float | None:
    """Returns the sum of the numbers, those in lists included; None if there are none that can be counted."""
    numbers: list[int | float] = []
    left = [*reversed(values)]
    while left:  # in a loop, because lists may be nested deeper than calls may be
        value = left.pop()
        if type(value) is list:
            left += reversed(value)
        elif (type(value) is int or type(value) is float) and -LARGEST <= value <= LARGEST:
            numbers.append(value)
    return sum(numbers) if numbers else None


# --- functions ----------------------------------------------------------------------------------


class _Source:
    """Makes functions that call a method of Trajectory with what the paths of one field of the schema find."""

    def __init__(self, compiler: SchemaCompiler, field: str) -> None:
        self.compiler, self.field = compiler, field
        self.is_step = field.startswith(("outputEvents", TYPE_VALUES))

    def values(self, texts: str | list[str] | None, name: str) -> list[Value]:
        """Returns what looks up each path; one that begins with ^ in the event, others in the item."""
        return [self._value(text, f"{self.field}.{name}") for text in as_list(texts) if text]

    def _value(self, text: str, field: str) -> Value:
        if self.is_step and text.startswith("^"):
            get = self.compiler.path(text[1:], field).get
            return lambda item, event: get(event)
        path = self.compiler.path(text, field)
        get, name = path.get, path.name
        if name is not None:  # the usual path, without a second call
            return lambda item, event: item.get(name) if type(item) is dict else None
        return lambda item, event: get(item)

    def call(self, method: str, values: dict[str, Value]) -> Act:
        """Returns what calls a method of the trajectory with the values."""
        if self.compiler.trace is not None:
            return self._traced(method, values)
        getters = tuple(values.values())
        # By name: ae-headless has a subclass of Trajectory.
        return lambda item, event, out: getattr(out, method)(*[get(item, event) for get in getters])

    def then(self, first: Act, method: str, values: dict[str, Value]) -> Act:
        """Returns what calls a method with the step that `first` returns, and the values."""

        def act(item: Any, event: Any, out: Trajectory) -> Any:
            step = first(item, event, out)
            return self.call(method, {"step": _constant(step), **values})(item, event, out)

        return act

    def call_if_any(self, method: str, values: dict[str, Value], otherwise: Act | None = None) -> Act:
        """Returns what calls a method with a dict of the values if one is not None, else does something else."""
        trace = self.compiler.trace

        def act(item: Any, event: Any, out: Trajectory) -> None:
            found = {name: get(item, event) for name, get in values.items()}
            is_any = any(value is not None for value in found.values())
            if trace is not None and (is_any or otherwise is None):
                trace(self.field, None, getattr(out, method), found)
            elif is_any:
                getattr(out, method)(found)
            elif otherwise is not None:
                otherwise(item, event, out)

        return act

    def _traced(self, method: str, values: dict[str, Value]) -> Act:
        trace, field, is_step = self.compiler.trace, self.field, self.is_step

        def act(item: Any, event: Any, out: Trajectory) -> Any:
            found = {name: get(item, event) for name, get in values.items()}
            return trace(field, item if is_step else None, getattr(out, method), found)  # type: ignore[misc]

        return act


def _constant(value: Any) -> Value:
    return lambda item, event: value


def _first(values: list[Value]) -> Value:
    """Returns what finds the first of the values that is not None."""
    if not values:
        return _constant(None)
    if len(values) == 1:
        return values[0]

    def first(item: Any, event: Any) -> Any:
        for get in values:
            if (found := get(item, event)) is not None:
                return found
        return None

    return first


def _firsts(found: dict[str, list[Value]], *names: str) -> dict[str, Value]:
    return {name: _first(found.get(name, [])) for name in names}


def _total(values: list[Value]) -> Value:
    if len(values) == 1:
        (get,) = values
        return lambda item, event: None if (found := get(item, event)) is None else total(found)
    return lambda item, event: total(*[get(item, event) for get in values])


def _any_true(values: list[Value]) -> Value:
    return _first(values) if len(values) < 2 else lambda item, event: any_true(*[get(item, event) for get in values])
