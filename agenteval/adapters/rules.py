"""Rules of a schema, compiled: what each kind of event adds to the trajectory.

A rule calls one method of Trajectory with what its paths find. The call is compiled from source, because there a plain
name is looked up without a function call, and calls are most of what reading costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_args

import msgspec

from agenteval.adapters.conditions import CompiledCondition, SchemaCompiler, as_list, compile_match, wanted_test
from agenteval.adapters.jsonpath import ITEMS
from agenteval.adapters.trajectory import is_true
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

TYPE_VALUES = "passthroughTypeMap.typeValues"

Emit = Callable[..., None]  # emit(item, out, event): the item or event, the trajectory, the event that the item is in


class Rule(msgspec.Struct, frozen=True):
    """A compiled rule: what to do with an event or, with `item`, with each item of its list that fits.

    `lone`: its match is a single condition, agent-eval-harness' form. `also`: later rules get the event, too.
    """

    tests: tuple[CompiledCondition, ...]
    item: CompiledCondition | None
    emit: Emit
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
        base = (*(item.path.reads or ()), ITEMS) if item else ()
        emit = compile_emit(_Source(compiler, field, base), event)
        rules.append(Rule(tests, item, emit, isinstance(event.match, Condition), event.also))
    return rules


def compile_emit(source: _Source, event: OutputEvent) -> Emit:
    """Compiles what becomes of a matched event or item."""
    paths = {f"extract.{name}": given for name, given in msgspec.to_builtins(event.extract or {}).items()}
    found = {name: source.values(given, name) for name, given in paths.items()}
    delta = source.values(event.delta, "delta") if isinstance(event.delta, str) else []
    kind, content = repr(event.emit_as), found.get("extract.content")
    if event.emit_as == "tool_call":
        code = _tool_call(source, found)
    elif event.emit_as == "end":
        code = source.call("end_pieces", {})
    elif event.emit_as == "plan":
        code = source.call("plan", _firsts(found, "extract.entries"))
    elif event.emit_as == "error":
        code = source.call("error", {"extract.content": _first(content or source.values("$", "extract.content"))})
    else:
        text = {"emitAs": kind, "extract.content": _first(content or ["''"])}
        piece = source.call("piece", {**text, **_firsts(found, "extract.id")})
        code = piece if event.delta is True else source.call("text", text)
        if delta:
            code = f"if is_true({_first(delta)}): {piece}\n else: {code}"
    return source.function(code)


def _tool_call(source: _Source, found: dict[str, list[str]]) -> str:
    given = _firsts(found, "extract.id", "extract.title", "extract.input")
    result = _firsts(found, "extract.output", "extract.status", "extract.isError", "extract.duration")
    if not any(found.get(name) for name in result):
        return source.call("call", given)
    result["extract.isError"] = _any_true(found.get("extract.isError", []))
    # An event that names no tool can only be the result of a call.
    otherwise = "pending" if found.get("extract.title") or found.get("extract.input") else "completed"
    return source.call("report", {**given, **result, "otherwise": repr(otherwise)})


# --- result, usage, metadata --------------------------------------------------------------------


def compile_actions(compiler: SchemaCompiler, config: HeadlessAdapter) -> list[Rule]:
    """Compiles the rules for what a schema takes from events besides steps."""
    actions = []
    if config.result:
        actions.append(_compile_result(_Source(compiler, "result"), config.result))
    if config.usage:
        actions.append(_compile_usage(_Source(compiler, "usage"), config.usage))
    if config.metadata:
        source = _Source(compiler, "metadata")
        facts = {name: _first(source.values(paths, name)) for name, paths in config.metadata.items()}
        actions.append(Rule((), None, source.function(source.call_if_any("note", facts))))
    return actions


def _compile_result(source: _Source, result: ResultEvent) -> Rule:
    path = source.compiler.path(result.match_path, "result.matchPath")
    found = {
        "contentPath": _first(source.values(result.content_path, "contentPath")),
        "isErrorPath": _any_true(source.values(result.is_error_path, "isErrorPath")),
        "errorPath": _first(source.values(result.error_path, "errorPath")),
    }
    test = CompiledCondition(path, None, *wanted_test(result.match_value))
    return Rule((test,), None, source.function(source.call("conclude", found)))


def _compile_usage(source: _Source, usage: UsagePaths) -> Rule:
    tests, item = compile_match(source.compiler, usage.match, "usage.match")
    if item is not None:
        raise source.compiler.error("usage.match", " may not have [*]")
    given = msgspec.to_builtins(usage)
    counts = {name: source.values(given.get(name), name) for name in get_args(UsageField)}
    totals = {name: f"total({', '.join(values)})" for name, values in counts.items() if values}
    method = "add_usage" if usage.per_turn == "sum" else "set_usage"
    return Rule(tests, None, source.function(source.call_if_any(method, totals)))


def any_true(*values: Any) -> bool | None:
    """Returns whether any value stands for true, None if all are None."""
    found = [value for value in values if value is not None]
    return any(map(is_true, found)) if found else None


def total(*values: Any) -> int | float | None:
    """Returns the sum of the numbers, those in lists included; None if there are none."""
    numbers = [number for value in values for number in _numbers(value)]
    return sum(numbers) if numbers else None


def _numbers(value: Any) -> Iterable[int | float]:
    if type(value) is list:
        return [number for item in value for number in _numbers(item)]
    return (value,) if type(value) is int or type(value) is float else ()


# --- source -------------------------------------------------------------------------------------


class _Source:
    """Source of a function that calls a method of Trajectory with what the paths of one field of the schema find.

    Its values are looked up in `item`. In a rule of `outputEvents`, `base` is where in the event the items are, and a
    path with ^ is looked up in `event`; elsewhere (`base` is None) the item is the event.
    """

    def __init__(self, compiler: SchemaCompiler, field: str, base: tuple[str, ...] | None = None) -> None:
        self.compiler, self.field, self.base = compiler, field, base
        self.names: dict[str, Any] = {"trace": compiler.trace, "is_true": is_true, "any_true": any_true, "total": total}

    def values(self, texts: str | list[str] | None, name: str) -> list[str]:
        """Returns the expression of the value of each path."""
        return [self._value(text, f"{self.field}.{name}") for text in as_list(texts) if text]

    def _value(self, text: str, field: str) -> str:
        upward = self.base is not None and text.startswith("^")
        path = self.compiler.path(text[upward:], field, () if upward else self.base or ())
        place = "event" if upward else "item"
        if path.reads is None:
            return repr(path.get(None))  # a literal
        if path.name is not None:
            look_up = f"{place}.get({path.name!r})"
            is_event = upward or self.base is None  # an event is an object, an item may be anything
            return look_up if is_event else f"({look_up} if type({place}) is dict else None)"
        getter = f"get{len(self.names)}"
        self.names[getter] = path.get
        return f"{getter}({place})"

    def call(self, method: str, values: dict[str, str], arguments: str = "") -> str:
        """Returns the statement that calls a method of the trajectory with values, by the fields they come from."""
        if self.compiler.trace is not None:
            item = None if self.base is None else "item"
            return f"trace({self.field!r}, {item}, out.{method}, {_dict(values)})"
        return f"out.{method}({arguments or ', '.join(values.values())})"

    def call_if_any(self, method: str, values: dict[str, str]) -> str:
        """Returns statements that call a method with a dict of the values, if one is not None."""
        found = {name: f"found{n}" for n, name in enumerate(values)}
        call = self.call(method, found, _dict(found))
        if self.compiler.trace is None:
            call = f"if {' or '.join(f'{value} is not None' for value in found.values()) or False}: {call}"
        return "\n ".join([*(f"{found[name]} = {value}" for name, value in values.items()), call])

    def function(self, body: str) -> Emit:
        """Compiles the function with this body."""
        exec(f"def compiled(item, out, event=None):\n {body}", self.names)
        compiled: Emit = self.names["compiled"]
        return compiled


def _dict(values: dict[str, str]) -> str:
    return f"{{{', '.join(f'{name!r}: {value}' for name, value in values.items())}}}"


def _first(values: list[str]) -> str:
    """Returns the expression of the first of the values that is not None."""
    *others, last = values or ["None"]
    return "".join(f"found if (found := {value}) is not None else " for value in others) + last


def _firsts(found: dict[str, list[str]], *names: str) -> dict[str, str]:
    return {name: _first(found.get(name, [])) for name in names}


def _any_true(values: list[str]) -> str:
    return f"any_true({', '.join(values)})" if len(values) > 1 else _first(values)
