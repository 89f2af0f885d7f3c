"""The rules of a schema, compiled to functions: which events a rule matches, and what it adds to the trajectory.

A condition becomes a test of an event. An entry of `outputEvents`, `result`, `usage` or `metadata` becomes a Rule:
tests, and an act that calls a method of the Trajectory with what paths find. A RuleSet gives each event to the rules
that match it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from agenteval.adapters.paths import Getter, Path, PathError, compile_path, first_key, split_wildcard
from agenteval.adapters.trajectory import Trajectory
from agenteval.adapters.values import any_true, is_true, stop_reason, total
from agenteval.errors import UserError
from agenteval.streams.jsonl import encode
from agenteval.streams.patterns import Pattern
from agenteval.wire.adapter_schema import (
    Condition,
    Extract,
    HeadlessAdapter,
    OutputEvent,
    PassthroughTypeMap,
    Paths,
    ResultEvent,
    StepKind,
    UsageField,
    UsagePaths,
    Wanted,
)

if TYPE_CHECKING:
    from agenteval.adapters.explain import Tracer

TYPE_VALUES = "passthroughTypeMap.typeValues"
SESSION_ID = "$.session_id"  # where the session id is by default

Event = dict[str, Any]
Test = Callable[[Any], bool]
Value = Callable[[Any, Any], Any]  # item, event → what a path finds; the item is the event itself, or in a list of it
Fields = frozenset[str | int] | None  # the fields of an event in which paths begin; None: any
Act = Callable[[Any, Any, Trajectory], object]  # item, event, trajectory


class SchemaCompiler:
    """Compiles the paths and patterns of one schema file, and names a wrong one in its error."""

    def __init__(self, source: str, trace: Tracer | None = None) -> None:
        self.source, self.trace = source, trace

    def error(self, field: str, why: str) -> UserError:
        """Returns the error about a field, to be raised."""
        return UserError(f"{self.source}: {field}{why}")

    def path(self, text: str, field: str) -> Path:
        """Compiles a path."""
        try:
            return compile_path(text)
        except PathError as error:
            raise self.error(field, f": {encode(text).decode()} is not a JSONPath ({error})") from None

    def pattern(self, text: str, field: str) -> Pattern:
        """Compiles a regular expression."""
        try:
            pattern = Pattern(text, multiline=True)
        except ValueError as error:
            raise self.error(field, f" is {error}") from None
        if pattern.search(""):
            raise self.error(field, " matches the empty string, and so matches everywhere")
        return pattern

    def traced(self, field: str, act: Act) -> Act:
        """Returns the act of a field of the schema; with --explain, one that notes what it does."""
        return self.trace.rule(field, act) if self.trace else act


def as_list(value: Any) -> list[Any]:
    """Returns one or many as a list; nothing for None and for an empty path."""
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]


# --- conditions ---------------------------------------------------------------------------------


class CompiledCondition(msgspec.Struct, frozen=True):
    """A condition on the value at a path or, where `kind` is set, on each item of the list there.

    `kind` looks up what is compared of an item; `words` are the strings that the test accepts, None if it is of another
    kind.
    """

    path: Path
    kind: Getter | None
    test: Test
    words: frozenset[str] | None

    def holds(self, event: Event) -> bool:
        """Returns whether the value at the path passes the test."""
        return self.test(self.path.get(event))

    def fits(self, item: Any) -> bool:
        """Returns whether an item of the list passes the test."""
        return self.kind is not None and self.test(self.kind(item))


_UNTYPED = object()  # equals nothing, but is not None: "*" takes items of any type or none


def item_kind(item: Any) -> Any:
    """Returns what is compared of a list item: its type, or a string or number itself."""
    if type(item) is not dict:
        return item
    kind = item.get("type")
    return _UNTYPED if kind is None else kind


def wanted_test(wanted: Wanted) -> tuple[Test, frozenset[str] | None]:
    """Returns a test for the wanted values, and the values themselves if all are strings."""
    values = as_list(wanted) or [wanted]
    if "*" in values:
        return (lambda value: value is not None), None
    if all(type(value) is str for value in values):
        words = frozenset(values)
        return (lambda value: type(value) is str and value in words), words
    pairs = [(type(value) is bool, value) for value in values]  # in Python true equals 1, in JSON it does not
    return (lambda value: any(value == one and (type(value) is bool) == flag for flag, one in pairs)), None


def compile_condition(compiler: SchemaCompiler, condition: Condition, field: str) -> CompiledCondition:
    """Compiles a condition on an event or, with `[*]` in its path, on the items of a list."""
    if (condition.value is None) == (condition.not_ is None):
        has = "neither" if condition.value is None else "both"
        raise compiler.error(field, f" must have exactly one of value and not, has {has}")
    if condition.value is not None:
        test, words = wanted_test(condition.value)
    else:
        positive, words = wanted_test(condition.not_)[0], None  # type: ignore[arg-type]
        test = lambda value: not positive(value)  # noqa: E731
    if (wildcard := split_wildcard(condition.path)) is None:
        return CompiledCondition(compiler.path(condition.path, f"{field}.path"), None, test, words)
    items, inner = wildcard
    return CompiledCondition(items, inner.get if inner.keys else item_kind, test, words)


Tests = tuple[CompiledCondition, ...]


def all_hold(tests: Tests, event: Event) -> bool:
    """Returns whether an event passes all tests."""
    return all(test.holds(event) for test in tests)


def compile_match(
    compiler: SchemaCompiler, match: Condition | list[Condition] | None, field: str, *, with_items: bool = True
) -> tuple[Tests, CompiledCondition | None]:
    """Compiles the conditions on the event, and the one on list items if there is one."""
    if isinstance(match, Condition):
        compiled = [compile_condition(compiler, match, field)]
    else:
        compiled = [compile_condition(compiler, one, f"{field}[{n}]") for n, one in enumerate(match or [])]
    items = [condition for condition in compiled if condition.kind]
    if items and not with_items:
        raise compiler.error(field, " may not have [*]")
    if len(items) > 1:
        raise compiler.error(field, " may have [*] in only one condition")
    return tuple(condition for condition in compiled if not condition.kind), items[0] if items else None


# --- what paths find ----------------------------------------------------------------------------


def values_at(compiler: SchemaCompiler, texts: Paths | None, field: str, *, in_items: bool = False) -> list[Value]:
    """Returns a function for each path; with `in_items`, one that begins with ^ starts at the whole event."""
    return [_value(compiler, text, field, in_items) for text in as_list(texts) if text]


def _value(compiler: SchemaCompiler, text: str, field: str, in_items: bool) -> Value:
    if in_items and text.startswith("^"):
        get = compiler.path(text[1:], field).get
        return lambda item, event: get(event)
    return compiler.path(text, field).get


def first_of(values: list[Value]) -> Getter:
    """Returns what finds the first of the values that is not None."""
    if len(values) == 1:
        return values[0]

    def first(item: Any, event: Any = None) -> Any:
        for get in values:
            if (found := get(item, event)) is not None:
                return found
        return None

    return first


def _any_true(values: list[Value]) -> Value:
    return first_of(values) if len(values) < 2 else lambda item, event: any_true([get(item, event) for get in values])


# --- rules for steps ----------------------------------------------------------------------------


class Rule(msgspec.Struct, frozen=True):
    """What to do with an event or, with `item`, with each item of its list that fits.

    `lone`: its match is a single condition, agent-eval-harness' form. `also`: later rules get the event, too. `fields`:
    the act takes nothing from an event with none of these fields.
    """

    tests: Tests
    item: CompiledCondition | None
    act: Act
    lone: bool = False
    also: bool = False
    fields: Fields = None


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


def compile_step_rules(compiler: SchemaCompiler, config: HeadlessAdapter) -> list[Rule]:
    """Compiles the kinds of events of a schema, in order."""
    rules = []
    for field, event in output_events(config).items():
        if event.match == []:
            raise compiler.error(f"{field}.match", " must have a condition")
        tests, item = compile_match(compiler, event.match, f"{field}.match")
        act = compiler.traced(field, _step_act(compiler, field, event))
        rules.append(Rule(tests, item, act, isinstance(event.match, Condition), event.also))
    return rules


def _step_act(compiler: SchemaCompiler, field: str, event: OutputEvent) -> Act:
    """Returns what becomes of a matched event or item."""
    found = {
        name: values_at(compiler, paths, f"{field}.extract.{name}", in_items=True)
        for name, paths in msgspec.to_builtins(event.extract or {}).items()
    }
    parent = found.pop("parent", None)
    is_piece: bool | Value = event.delta is True
    if isinstance(event.delta, str):
        is_piece = first_of(values_at(compiler, event.delta, f"{field}.delta", in_items=True))
    if event.emit_as == "tool_call":
        act = _tool_act(found, event.extract.status if event.extract else None)
    elif event.emit_as == "plan":
        entries = first_of(found.get("entries", []))
        act = lambda item, event, out: out.plan(entries(item, event))  # noqa: E731
    elif event.emit_as == "error":
        content = first_of(found.get("content") or [lambda item, event: item])
        act = lambda item, event, out: out.error(content(item, event))  # noqa: E731
    elif event.emit_as == "end":
        act = lambda item, event, out: out.end_pieces()  # noqa: E731
    else:
        act = _text_act(event.emit_as, found, is_piece)
    return _within(first_of(parent), act) if parent else act


def _text_act(kind: str, found: dict[str, list[Value]], is_piece: bool | Value) -> Act:
    """Returns what adds a text or a piece of one; `is_piece` may depend on the event."""
    content = first_of(found.get("content") or [lambda item, event: ""])
    ident = first_of(found["id"]) if found.get("id") else None

    def piece(item: Any, event: Any, out: Trajectory) -> None:
        out.piece(kind, content(item, event), ident and ident(item, event))

    def whole(item: Any, event: Any, out: Trajectory) -> None:
        out.text(kind, content(item, event))

    if isinstance(is_piece, bool):
        return piece if is_piece else whole
    return lambda item, event, out: (piece if is_true(is_piece(item, event)) else whole)(item, event, out)


def _tool_act(found: dict[str, list[Value]], status_path: Paths | None) -> Act:
    """Returns what takes in a call or a result, and the times that the agent itself gives."""

    def first(name: str) -> Value | None:
        return first_of(found[name]) if found.get(name) else None

    ident, name, given, output, status, duration = map(first, ("id", "title", "input", "output", "status", "duration"))
    permission, piece, start, end = map(first, ("permission", "outputDelta", "start", "end"))
    failed = _any_true(found["isError"]) if found.get("isError") else None
    is_call = status_path == "'pending'" and not found.get("isError")
    is_call = is_call or not any(found.get(name) for name in ("output", "status", "isError", "duration"))
    # An event that names no tool can only be the result of a call.
    otherwise = "pending" if found.get("title") or found.get("input") else "completed"

    def ask(item: Any, event: Any, out: Trajectory) -> Any:
        asked = permission and permission(item, event)
        return out.ask(ident and ident(item, event), name and name(item, event), given and given(item, event), asked)

    def call(item: Any, event: Any, out: Trajectory) -> Any:
        return out.call(ident and ident(item, event), name and name(item, event), given and given(item, event))

    def report(item: Any, event: Any, out: Trajectory) -> Any:
        return out.report(
            ident and ident(item, event),
            name and name(item, event),
            given and given(item, event),
            output and output(item, event),
            status and status(item, event),
            failed and failed(item, event),
            duration and duration(item, event),
            otherwise,
        )

    take_in = ask if found.get("permission") else call if is_call else report

    def act(item: Any, event: Any, out: Trajectory) -> None:
        step = take_in(item, event, out)
        out.add_output(step, piece and piece(item, event))
        out.clock(step, start and start(item, event), end and end(item, event))

    return act if found.keys() & {"outputDelta", "start", "end"} else take_in


def _within(parent: Value, act: Act) -> Act:
    def within(item: Any, event: Any, out: Trajectory) -> None:
        out.set_parent(parent(item, event))
        act(item, event, out)
        out.set_parent(None)

    return within


# --- rules for the result, usage, metadata and the session id ------------------------------------


def compile_actions(compiler: SchemaCompiler, config: HeadlessAdapter) -> list[Rule]:
    """Compiles the rules for what a schema takes from events besides steps."""
    actions = []
    if config.result:
        path = compiler.path(config.result.match_path, "result.matchPath")
        test = CompiledCondition(path, None, *wanted_test(config.result.match_value))
        actions.append(Rule((test,), None, compiler.traced("result", _result_act(compiler, config.result))))
    if config.usage:
        tests, _ = compile_match(compiler, config.usage.match, "usage.match", with_items=False)
        act = _usage_act(compiler, "usage", config.usage)
        actions.append(Rule(tests, None, act, fields=None if tests else _fields(_usage_paths(config.usage))))
    if config.metadata:
        facts = {
            name: first_of(values_at(compiler, paths, f"metadata.{name}")) for name, paths in config.metadata.items()
        }

        def note(item: Any, event: Any, out: Trajectory) -> None:
            out.note({name: get(item, event) for name, get in facts.items()})

        act = compiler.traced("metadata", note)
        actions.append(Rule((), None, act, fields=_fields([*config.metadata.values()])))
    if config.setup:
        reports = {name: first_of(values_at(compiler, paths, f"setup.{name}")) for name, paths in config.setup.items()}

        def note_setup(item: Any, event: Any, out: Trajectory) -> None:
            out.note_setup({name: get(item, event) for name, get in reports.items()})

        act = compiler.traced("setup", note_setup)
        actions.append(Rule((), None, act, fields=_fields([*config.setup.values()])))
    path = compiler.path((config.resume and config.resume.session_id_path) or SESSION_ID, "resume.sessionIdPath")
    get = path.get

    def name_session(item: Any, event: Any, out: Trajectory) -> None:
        out.name_session(get(event), event.get("session_id"))

    def name_usual_session(item: Any, event: Any, out: Trajectory) -> None:
        out.name_session(event["session_id"])

    act = name_usual_session if path.text == SESSION_ID else name_session
    actions.append(Rule((), None, act, fields=_fields([path.text, SESSION_ID])))
    return actions


def _fields(paths: list[Paths]) -> Fields:
    """Returns the fields of an event in which these paths begin; None if one of them may begin in any."""
    keys = [first_key(text) for texts in paths for text in as_list(texts)]
    return None if None in keys else frozenset(key for key in keys if key is not None)


def _usage_paths(usage: UsagePaths | None) -> list[Paths]:
    if usage is None:
        return []
    given = msgspec.to_builtins(usage)
    return [given[name] for name in get_args(UsageField) if name in given] + _usage_paths(usage.fallback)


def _result_act(compiler: SchemaCompiler, result: ResultEvent) -> Act:
    content = first_of(values_at(compiler, result.content_path, "result.contentPath"))
    failed = _any_true(values_at(compiler, result.is_error_path, "result.isErrorPath"))
    error = first_of(values_at(compiler, result.error_path, "result.errorPath"))
    reasons = values_at(compiler, result.stop_reason_path, "result.stopReasonPath")

    def conclude(item: Any, event: Any, out: Trajectory) -> None:
        stop = stop_reason([get(item, event) for get in reasons])
        out.conclude(content(item, event), failed(item, event), error(item, event), stop)

    return conclude


def _usage_act(compiler: SchemaCompiler, field: str, usage: UsagePaths) -> Act:
    """Returns what takes the counts of an event, and looks elsewhere if there are none."""
    given = msgspec.to_builtins(usage)
    counts = {name: values_at(compiler, given.get(name), f"{field}.{name}") for name in get_args(UsageField)}
    counts = {name: values for name, values in counts.items() if values}
    every = values_at(compiler, usage.total_tokens, f"{field}.totalTokens")
    otherwise = _usage_act(compiler, f"{field}.fallback", usage.fallback) if usage.fallback else None

    def act(item: Any, event: Any, out: Trajectory) -> None:
        found = {name: total(*[get(item, event) for get in values]) for name, values in counts.items()}
        if every and (whole := total(*[get(item, event) for get in every])) is not None:
            found["outputTokens"] = max(found.get("outputTokens") or 0, whole - (found.get("inputTokens") or 0))
        if any(number is not None for number in found.values()):
            out.spend(found, adds_up=usage.per_turn == "sum")
        elif otherwise:
            otherwise(item, event, out)

    return compiler.traced(field, act)


# --- which rules get an event -------------------------------------------------------------------


MISSED = object()  # returned by an act that found nothing to take: later rules get the event

Candidate = tuple[Act, bool]  # the bool: whether no later rule gets the event
Action = tuple[str | int | None, Act]  # the field without which the act takes nothing, if it is a single one
Choice = tuple[Act | None, list[Action]]


class RuleSet:
    """Gives events to rules: of `steps` the first that matches gets it, of `actions` all that match.

    Most events of an agent match nothing. So the path that most rules compare with a string, usually `$.type`, is
    looked up first, and an event is given only to the rules that may match the word found there.
    """

    def __init__(self, steps: list[Rule], actions: list[Rule]) -> None:
        self.steps, self.actions = steps, actions
        tests = [test for rule in (*steps, *actions) for test in rule.tests if test.words is not None]
        counts = Counter(test.path.text for test in tests)
        path = max((test.path for test in tests), key=lambda path: counts[path.text], default=compile_path(""))
        self._key, self._get_word = path.text, path.get
        names = [key for key in path.keys or () if isinstance(key, str)]
        self._name = names[0] if path.keys and len(names) == len(path.keys) == 1 else None  # of a field, the usual case
        words = {word for test in tests if test.path.text == path.text for word in test.words or ()}
        self._by_word = {word: self._choice_for(word) for word in words}
        self._other = self._choice_for(None)
        self._of_list = self._choice_for(None, is_list=True)

    def apply(self, events: Iterable[Event], out: Trajectory) -> None:
        """Applies the rules to events."""
        name, get_word, by_word, other = self._name, self._get_word, self._by_word, self._other
        for event in events:
            word = event.get(name) if name else get_word(event)
            if type(word) is str:
                step, actions = by_word.get(word, other)
            else:
                step, actions = self._of_list if type(word) is list else other
            if step:
                step(event, event, out)
            for field, act in actions:
                if field is None or field in event:
                    act(event, event, out)

    def _choice_for(self, word: str | None, *, is_list: bool = False) -> Choice:
        """Returns what handles events that have this word at the path, or another value (None)."""

        def is_decided(rule: Rule, test: CompiledCondition) -> bool:
            looks_into_list = rule.lone and is_list
            return test.words is not None and test.path.text == self._key and not looks_into_list

        def possible(rules: list[Rule]) -> Iterator[Rule]:
            for rule in rules:
                if all(word in (test.words or ()) for test in rule.tests if is_decided(rule, test)):
                    left = tuple(test for test in rule.tests if not is_decided(rule, test))
                    yield msgspec.structs.replace(rule, tests=left)

        return _in_turn(_ordered(list(possible(self.steps)))), [_action(rule) for rule in possible(self.actions)]


def _action(rule: Rule) -> Action:
    """Returns a rule with the field that an event must have; one that needs any of several looks for them itself."""
    fields, act = rule.fields, _tested(rule)
    if not fields or len(fields) == 1:
        return (next(iter(fields)) if fields else None), act

    def act_on_fields(item: Any, event: Event, out: Trajectory) -> object:
        return MISSED if fields.isdisjoint(event) else act(item, event, out)

    return None, act_on_fields


def _in_turn(candidates: list[Candidate]) -> Act | None:
    """Returns what gives an event to one rule after the other until one takes it; None if there are none."""
    if len(candidates) < 2:
        return candidates[0][0] if candidates else None

    def act_in_turn(item: Any, event: Event, out: Trajectory) -> None:
        for act, takes in candidates:
            if act(item, event, out) is not MISSED and takes:
                break

    return act_in_turn


def _tested(rule: Rule) -> Act:
    """Returns the act of a rule for events that pass its tests."""
    tests, act = rule.tests, rule.act
    if not tests:
        return act
    return lambda item, event, out: act(item, event, out) if all_hold(tests, event) else MISSED


def _ordered(rules: list[Rule]) -> list[Candidate]:
    """Returns the rules with their acts; neighbours that look at the same list are one."""
    found: list[Candidate] = []
    previous = None
    for n, rule in enumerate(rules):
        if rule.item is None:
            found.append((_lone(rule) if rule.lone and rule.tests else _tested(rule), not rule.also))
        elif rule.item.path.text != previous:
            found.append((_over_list(rules, n, rule.item.path), True))
        previous = rule.item and rule.item.path.text
    return found


def _lone(rule: Rule) -> Act:
    """Returns the act of a rule with a single condition: in agent-eval-harness it looks at each item of a list."""
    (condition,), act = rule.tests, rule.act

    def act_on_each(item: Any, event: Event, out: Trajectory) -> object:
        found = condition.path.get(event)
        if type(found) is not list:
            fitting = [event] if condition.test(found) else []
        else:
            fitting = [item for item in found if condition.test(item_kind(item))]
        for item in fitting:
            act(item, event, out)
        return None if fitting else MISSED

    return act_on_each


def _over_list(rules: list[Rule], start: int, items: Path) -> Act:
    """Returns what gives each item of a list to the first rule that fits it, in the order of the items."""
    members = [rule for rule in rules if rule.item is not None and rule.item.path.text == items.text]
    run: list[Rule] = []  # of neighbours: if only others fit, a rule between these and them may come first
    for rule in rules[start:]:
        if rule.item is None or rule.item.path.text != items.text:
            break
        run.append(rule)
    if any(rule.also for rule in members):
        members = run  # the others get the event later
    if members == run and all(_decides_by_type(rule) for rule in run):
        return _by_type(run, items)
    leads = {id(rule) for rule in run}

    def act_on_each(item: Any, event: Event, out: Trajectory) -> object:
        found = items.get(event)
        if type(found) is not list:
            return MISSED
        able = [rule for rule in members if all_hold(rule.tests, event)]
        chosen = [(rule, item) for item in found for rule in _fitting(able, item)]
        if not any(id(rule) in leads for rule, _ in chosen):
            return MISSED
        for rule, item in chosen:
            rule.act(item, event, out)
        return MISSED if all(rule.also for rule, _ in chosen) else None

    return act_on_each


def _decides_by_type(rule: Rule) -> bool:
    """Returns whether the type of an item alone decides that this rule, and no other, takes it."""
    item = rule.item
    return item is not None and item.words is not None and item.kind is item_kind and not (rule.tests or rule.also)


def _by_type(rules: list[Rule], items: Path) -> Act:
    """Returns what gives each item of a list to the first rule for its type: what most schemas ask for."""
    words = {word: rule.act for rule in reversed(rules) for word in (rule.item and rule.item.words) or ()}

    def act_on_each(item: Any, event: Event, out: Trajectory) -> object:
        found = items.get(event)
        taken: object = MISSED
        for item in found if type(found) is list else ():
            word = item_kind(item)
            if type(word) is str and word in words:
                words[word](item, event, out)
                taken = None
        return taken

    return act_on_each


def _fitting(rules: list[Rule], item: Any) -> Iterator[Rule]:
    """Yields the first rule that fits the item, and those with `also` before it that fit it."""
    for rule in rules:
        if rule.item is not None and rule.item.fits(item):
            yield rule
            if not rule.also:
                return
