"""Rules of a schema: what each kind of event adds to the trajectory, as source code.

A rule calls one method of Trajectory with what its paths find. handlers.py puts the code of the rules that can match a
kind of event into one function, because calls are most of what reading costs.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from agenteval.adapters.conditions import (
    CompiledCondition,
    Fields,
    SchemaCompiler,
    Use,
    as_list,
    compile_match,
    wanted_test,
)
from agenteval.adapters.jsonpath import ITEMS, compile_path
from agenteval.adapters.words import is_true, status_of
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
USES: dict[str, Use] = {"extract.input": "given", "extract.output": "copied", "extract.content": "text"}

Code = list[str]  # statements, four spaces per level; their names: event, item, out and those of SchemaCompiler.names


class Rule(msgspec.Struct, frozen=True):
    """What to do with an event or, with `item`, with each item of its list that fits.

    `code` is for an event, `item_code` for an item of a list in it. `lone`: its match is a single condition,
    agent-eval-harness' form. `also`: later rules get the event, too.
    """

    tests: tuple[CompiledCondition, ...]
    item: CompiledCondition | None
    code: Code
    item_code: Code = []
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
        base = (*(item.path.reads or ()), ITEMS) if item else None
        code = step_code(_Source(compiler, field, "event"), event) if item is None else []
        item_code = step_code(_Source(compiler, field, "item", base), event)
        rules.append(Rule(tests, item, code, item_code, isinstance(event.match, Condition), event.also))
    return rules


def step_code(source: _Source, event: OutputEvent, *, inlined: bool = True) -> Code:
    """Returns the code for what becomes of a matched event or item; `inlined`: pieces of texts need no call."""
    paths = {f"extract.{name}": given for name, given in msgspec.to_builtins(event.extract or {}).items()}
    uses = USES | {"extract.content": "looked at"} if event.delta or event.emit_as == "error" else USES
    found = {name: source.values(given, name, uses.get(name, "looked at")) for name, given in paths.items()}
    delta = source.values(event.delta, "delta") if isinstance(event.delta, str) else []
    kind, content = repr(event.emit_as), found.get("extract.content")
    if parent := found.pop("extract.parent", None):
        own = msgspec.structs.replace(event, extract=msgspec.structs.replace(event.extract, parent=None))  # type: ignore[type-var]
        inner = step_code(source, own, inlined=False)
        return [source.set("parent", {"extract.parent": _first(parent)}), *inner, "out.parent = None"]
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
            return [f"if is_true({_first(delta)}):", f"    {piece}", "else:", f"    {code}"]
        if event.delta is True and inlined and source.compiler.trace is None and not found.get("extract.id"):
            return _piece(kind, text["extract.content"])
    return [code]


def is_piece(code: Code) -> bool:
    """Returns whether this is the code for a piece of a text, whatever else is in the event."""
    return bool(code) and code[0].startswith(PIECE)


def _piece(kind: str, content: str) -> Code:
    """Returns the code for a piece of a text; the usual case, one more piece of the same kind, without a call."""
    is_next = f"out.open_kind == {kind} and type(piece) is str and piece"
    return [f"{PIECE}{content}", f"if {is_next}: out.pieces.append(piece)", f"else: out.piece({kind}, piece)"]


PIECE = "piece = "
RESULT = ("extract.output", "extract.duration")


def known_status(found: dict[str, list[str]]) -> str | None:
    """Returns the status of a call if the schema gives it as a literal, whatever is in the event."""
    words = found.get("extract.status", [])
    if found.get("extract.isError") or len(words) != 1 or not words[0].startswith(("'", '"')):
        return None
    return status_of(words[0][1:-1])


def _tool_call(source: _Source, found: dict[str, list[str]]) -> str:
    """Returns the statement for a call or a result, and for the times that the agent itself gives."""
    times = _firsts(found, "extract.start", "extract.end")
    call = _call_or_result(source, found)
    if found.get("extract.outputDelta"):
        call = source.call("add_output", {"step": call, **_firsts(found, "extract.outputDelta")})
    return source.call("clock", {"step": call, **times}) if any(found.get(name) for name in times) else call


def _call_or_result(source: _Source, found: dict[str, list[str]]) -> str:
    given = _firsts(found, "extract.id", "extract.title", "extract.input")
    result = _firsts(found, "extract.output", "extract.status", "extract.isError", "extract.duration")
    if found.get("extract.permission"):
        return source.call("ask", {**given, **_firsts(found, "extract.permission")})
    if not any(found.get(name) for name in result):
        return source.call("call", given)
    status = known_status(found) if source.compiler.trace is None else None
    if status == "pending":
        return source.call("call", given)
    if status is not None:
        return source.call("settle", {**given, "status": repr(status), **_firsts(found, *RESULT)})
    result["extract.isError"] = _any_true(found.get("extract.isError", []))
    # An event that names no tool can only be the result of a call.
    otherwise = "pending" if found.get("extract.title") or found.get("extract.input") else "completed"
    return source.call("report", {**given, **result, "otherwise": repr(otherwise)})


# --- result, usage, metadata --------------------------------------------------------------------


def compile_actions(compiler: SchemaCompiler, config: HeadlessAdapter) -> list[Rule]:
    """Compiles the rules for what a schema takes from events besides steps."""
    actions = []
    if config.result:
        actions.append(_compile_result(_Source(compiler, "result", "event"), config.result))
    if config.usage:
        actions.append(_compile_usage(_Source(compiler, "usage", "event"), config.usage))
    if config.metadata:
        source = _Source(compiler, "metadata", "event")
        facts = {name: _first(source.values(paths, name)) for name, paths in config.metadata.items()}
        actions.append(Rule((), None, source.call_if_any("note", facts)))
    return actions


def _compile_result(source: _Source, result: ResultEvent) -> Rule:
    path = source.compiler.path(result.match_path, "result.matchPath")
    found = {
        "contentPath": _first(source.values(result.content_path, "contentPath", "text")),
        "isErrorPath": _any_true(source.values(result.is_error_path, "isErrorPath")),
        "errorPath": _first(source.values(result.error_path, "errorPath")),
    }
    if reasons := source.values(result.stop_reason_path, "stopReasonPath"):
        found["stopReasonPath"] = f"stop_reason({', '.join(reasons)})"
    test = CompiledCondition(path, None, *wanted_test(result.match_value))
    return Rule((test,), None, [source.call("conclude", found)])


def _compile_usage(source: _Source, usage: UsagePaths) -> Rule:
    tests, item = compile_match(source.compiler, usage.match, "usage.match")
    if item is not None:
        raise source.compiler.error("usage.match", " may not have [*]")
    code = _usage_code(source, usage)
    given = msgspec.to_builtins(usage)
    paths = [path for name in get_args(UsageField) for path in as_list(given.get(name))]
    if source.compiler.trace is None and usage.fallback is None and (shared := source.shared_field(paths)):
        code = [f"if {shared} is not None:", *(f"    {line}" for line in code)]  # most events have no usage
    return Rule(tests, None, code)


def _usage_code(source: _Source, usage: UsagePaths) -> Code:
    """Returns the code for the counts of an event, and for where else to look if it has none."""
    given = msgspec.to_builtins(usage)
    counts = {name: source.values(given.get(name), name) for name in get_args(UsageField)}
    totals = {name: _total(values) for name, values in counts.items() if values}
    code = source.call_if_any("add_usage" if usage.per_turn == "sum" else "set_usage", totals)
    if usage.fallback is None:
        return code
    *values, call = code
    call = f"if {_any_found(len(totals))}: {call}" if source.compiler.trace is not None else call
    other = _usage_code(_Source(source.compiler, f"{source.field}.fallback", "event"), usage.fallback)
    return [*values, call, "else:", *(f"    {line}" for line in other)]


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


# --- source -------------------------------------------------------------------------------------


class _Source:
    """Code that calls a method of Trajectory with what the paths of one field of the schema find.

    Its values are looked up in `place`: the event, or an item of the list at `base` in the event, where a path with ^
    is looked up in the event.
    """

    def __init__(self, compiler: SchemaCompiler, field: str, place: str, base: Fields | None = ()) -> None:
        self.compiler, self.field, self.place, self.base = compiler, field, place, base
        self.is_step = field.startswith(("outputEvents", TYPE_VALUES))

    def values(self, texts: str | list[str] | None, name: str, use: Use = "looked at") -> list[str]:
        """Returns the expression of the value of each path."""
        return [self._value(text, f"{self.field}.{name}", use) for text in as_list(texts) if text]

    def _value(self, text: str, field: str, use: Use) -> str:
        upward = self.is_step and text.startswith("^")
        path = self.compiler.path(text[upward:], field, () if upward else self.base, use)
        return self.compiler.look_up(path, *(("event",) if upward else (self.place, self.base)))

    def shared_field(self, paths: list[str]) -> str | None:
        """Returns the expression of the field of an event that all these paths lead through, None if there is none."""
        first = {path.keys[0] if (path := compile_path(text)).keys else None for text in paths}
        name = first.pop() if len(first) == 1 else None
        return self.compiler.look_up(compile_path(f"$.{name}")) if isinstance(name, str) else None

    def call(self, method: str, values: dict[str, str], arguments: str = "") -> str:
        """Returns the statement that calls a method of the trajectory with values, by the fields they come from."""
        if self.compiler.trace is not None:
            item = self.place if self.is_step else None
            return f"trace({self.field!r}, {item}, out.{method}, {_dict(values)})"
        return f"out.{method}({arguments or ', '.join(values.values())})"

    def set(self, attribute: str, values: dict[str, str]) -> str:
        """Returns the statement that sets an attribute of the trajectory to a value."""
        if self.compiler.trace is not None:
            return self.call(f"set_{attribute}", values)
        return f"out.{attribute} = {', '.join(values.values())}"

    def call_if_any(self, method: str, values: dict[str, str]) -> Code:
        """Returns statements that call a method with a dict of the values, if one is not None."""
        found = {name: f"found{n}" for n, name in enumerate(values)}
        call = self.call(method, found, _dict(found))
        if self.compiler.trace is None:
            call = f"if {_any_found(len(found))}: {call}"
        return [*(f"{found[name]} = {value}" for name, value in values.items()), call]


def _any_found(count: int) -> str:
    return " or ".join(f"found{n} is not None" for n in range(count)) or "False"


def _dict(values: dict[str, str]) -> str:
    return f"{{{', '.join(f'{name!r}: {value}' for name, value in values.items())}}}"


def _first(values: list[str]) -> str:
    """Returns the expression of the first of the values that is not None."""
    *others, last = values or ["None"]
    return "".join(f"found if (found := {value}) is not None else " for value in others) + last


def _firsts(found: dict[str, list[str]], *names: str) -> dict[str, str]:
    return {name: _first(found.get(name, [])) for name in names}


def _total(values: list[str]) -> str:
    """Returns the expression of the total of the values, without a call for a single one that is not there."""
    if len(values) > 1:
        return f"total({', '.join(values)})"
    return f"(None if (number := {values[0]}) is None else total(number))"


def _any_true(values: list[str]) -> str:
    return f"any_true({', '.join(values)})" if len(values) > 1 else _first(values)
