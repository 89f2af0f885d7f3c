"""What a schema says about one kind of event, compiled: conditions, extracts, result and usage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from agenteval.adapters.jsonpath import ITEMS, Getter, Path, PathError, compile_path, nothing, split_wildcard
from agenteval.adapters.trajectory import UNEXPLAINED, Trajectory, as_text, is_true
from agenteval.errors import UserError
from agenteval.wire.adapter_schema import Condition, OutputEvent, ResultEvent, UsagePaths, Wanted

Event = dict[str, Any]
Emit = Callable[[Any, Event, Trajectory], None]  # the item or event, the event it is in
Handler = Callable[[Event, Trajectory], bool | None]  # True: this was it, look no further
Test = Callable[[Any], bool]

_UNTYPED = object()  # equals nothing, but is not None: "*" takes items of any type or none


class Schema:
    """Compiles the paths of one schema file: a wrong one is named, and what they read is remembered."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.reads: set[tuple[str, ...]] = set()

    def wrong(self, field: str, why: str) -> UserError:
        """The error for a field, to be raised."""
        return UserError(f"{self.source}: {field}{why}")

    def path(self, text: str, field: str, base: tuple[str, ...] = ()) -> Path:
        """The path compiled; `base` is where in the event the value lies that it is applied to."""
        try:
            path = compile_path(text)
        except PathError as error:
            raise self.wrong(field, f': "{text}" is not a JSONPath ({error})') from None
        if path.reads is not None:
            self.reads.add((*base, *path.reads))
        return path

    def each(self, paths: str | list[str] | None, field: str) -> list[Path]:
        """The paths compiled, one by one."""
        return [self.path(text, field) for text in as_list(paths)]


class EventTest(msgspec.Struct, frozen=True):
    """A condition on the whole event; `words` are the texts it asks for, None where it asks otherwise."""

    path: Path
    test: Test
    words: frozenset[str] | None

    def holds(self, event: Event) -> bool:
        """Whether the event fits."""
        return self.test(self.path.get(event))


class ItemTest(msgspec.Struct, frozen=True):
    """A condition on each item of a list of the event."""

    items: Path
    kind: Getter
    test: Test
    words: frozenset[str] | None


class Rule(msgspec.Struct, frozen=True):
    """One of `outputEvents`, compiled; `lone` if its match is a single condition, the seed's form."""

    tests: tuple[EventTest, ...]
    item: ItemTest | None
    emit: Emit
    lone: bool
    also: bool


class Action(msgspec.Struct, frozen=True):
    """What else is to be done with an event when the tests hold: take the result or the usage from it."""

    tests: tuple[EventTest, ...]
    act: Handler


def as_list(value: Any) -> list[Any]:
    """One or many as a list; nothing for None and for an empty path."""
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]


def first_of(paths: list[Path]) -> Path | None:
    """One path for several: the first value that is found."""
    if len(paths) < 2:
        return paths[0] if paths else None

    def get(value: Any) -> Any:
        return next((found for path in paths if (found := path.get(value)) is not None), None)

    return Path(" or ".join(path.text for path in paths), get, ())


def any_true(paths: list[Path]) -> Path | None:
    """One path for several: true if any finds something true, None if none finds anything."""
    if len(paths) < 2:
        return paths[0] if paths else None

    def get(value: Any) -> bool | None:
        found = [one for path in paths if (one := path.get(value)) is not None]
        return any(map(is_true, found)) if found else None

    return Path(" or ".join(path.text for path in paths), get, ())


def wanted_test(wanted: Wanted) -> tuple[Test, frozenset[str] | None]:
    """Whether a value is one of those wanted, and these as words where all are plain texts."""
    values = as_list(wanted) or [wanted]
    if "*" in values:
        return (lambda value: value is not None), None
    if all(type(value) is str for value in values):
        words = frozenset(values)
        return (lambda value: type(value) is str and value in words), words
    pairs = [(type(value) is bool, value) for value in values]  # in Python true equals 1, in JSON it does not
    return (lambda value: any(value == one and (type(value) is bool) == flag for flag, one in pairs)), None


def compile_condition(schema: Schema, condition: Condition, field: str) -> EventTest | ItemTest:
    """The condition as a test of the event or, with `[*]` in its path, of the items of a list."""
    if (condition.value is None) == (condition.not_ is None):
        has = "neither" if condition.value is None else "both"
        raise schema.wrong(field, f" must have exactly one of value and not, has {has}")
    if condition.not_ is None:
        test, words = wanted_test(condition.value)  # type: ignore[arg-type]
    else:
        positive, words = wanted_test(condition.not_)[0], None
        test = lambda value: not positive(value)  # noqa: E731
    wildcard = split_wildcard(condition.path)
    if wildcard is None:
        return EventTest(schema.path(condition.path, f"{field}.path"), test, words)
    items, inner = wildcard
    base = (*(items.reads or ()), ITEMS)
    if inner.reads == ():
        schema.reads.add((*base, "type"))
        return ItemTest(items, item_kind, test, words)
    schema.reads.add((*base, *(inner.reads or ())))
    return ItemTest(items, inner.get, test, words)


def item_kind(item: Any) -> Any:
    """What of a list item is compared: its type, of a text or number itself."""
    if type(item) is not dict:
        return item
    kind = item.get("type")
    return _UNTYPED if kind is None else kind


def compile_match(
    schema: Schema, match: Condition | list[Condition] | None, field: str
) -> tuple[tuple[EventTest, ...], ItemTest | None]:
    """The conditions on the event, and the one on list items if there is one."""
    if isinstance(match, Condition):
        tests = [compile_condition(schema, match, field)]
    else:
        tests = [compile_condition(schema, one, f"{field}[{n}]") for n, one in enumerate(match or [])]
    items = [test for test in tests if isinstance(test, ItemTest)]
    if len(items) > 1:
        raise schema.wrong(field, " may have [*] in one condition only")
    return tuple(test for test in tests if isinstance(test, EventTest)), items[0] if items else None


def compile_rules(schema: Schema, events: list[OutputEvent]) -> list[Rule]:
    """The `outputEvents` of a schema, compiled in order."""
    rules = []
    for n, event in enumerate(events):
        field = f"outputEvents[{n}]"
        if event.match == []:
            raise schema.wrong(f"{field}.match", " must have a condition")
        tests, item = compile_match(schema, event.match, f"{field}.match")
        base = (*(item.items.reads or ()), ITEMS) if item else ()
        lone = isinstance(event.match, Condition)
        rules.append(Rule(tests, item, compile_emit(schema, event, field, base), lone, event.also))
    return rules


def compile_emit(schema: Schema, event: OutputEvent, field: str, base: tuple[str, ...]) -> Emit:
    """What becomes of a matched event or item: a call of a method of Trajectory with what was extracted."""
    reach = _Reach(schema, event, field, base)
    if event.emit_as == "tool_call":
        emit = _tool_emit(reach)
    elif event.emit_as == "end":
        emit = passing("end_pieces")
    elif event.emit_as == "plan":
        emit = passing("plan", reach.first("extract.entries"))
    elif event.emit_as == "error":
        emit = passing("fail", _with_errors(reach.first("extract.content") or reach.whole()))
    else:
        emit = _text_emit(event, reach)
    if reach.pairs:
        return lambda item, event, out: emit((item, event), event, out)
    return emit


def passing(method: str, *arguments: Path | str | None) -> Emit:
    """A function that calls a method of Trajectory with what the paths find, and with texts as they are.

    It is made as source, because there a plain name is looked up without a call, and calls are what
    reading a trajectory costs.
    """
    known: dict[str, Any] = {}
    parts = []
    for n, argument in enumerate(arguments):
        if argument is None or isinstance(argument, str):
            parts.append(repr(argument))
        elif argument.name is not None:
            parts.append(f"item.get({argument.name!r}) if type(item) is dict else None")
        else:
            known[f"get{n}"] = argument.get
            parts.append(f"get{n}(item)")
    exec(f"def emit(item, event, out): out.{method}({', '.join(parts)})", known)
    emit: Emit = known["emit"]
    return emit


class _Reach:
    """Paths for the extracts of one of `outputEvents`: relative to the item, or with ^ to the event.

    Only where a ^ is used they take the pair of both; to pass the pair always would slow down all others.
    """

    def __init__(self, schema: Schema, event: OutputEvent, field: str, base: tuple[str, ...]) -> None:
        self.schema, self.field, self.base = schema, field, base
        extract = msgspec.to_builtins(event.extract or {})
        texts = {f"extract.{name}": as_list(paths) for name, paths in extract.items()}
        texts["delta"] = [event.delta] if isinstance(event.delta, str) else []
        self.pairs = any(text.startswith("^") for some in texts.values() for text in some)
        self.paths = {
            name: [self._path(text, f"{field}.{name}") for text in some if text] for name, some in texts.items()
        }

    def each(self, name: str) -> list[Path]:
        return self.paths.get(name, [])

    def first(self, name: str) -> Path | None:
        return first_of(self.each(name))

    def whole(self) -> Path:
        return self._path("$", self.field)

    def _path(self, text: str, field: str) -> Path:
        upward = text.startswith("^")
        path = self.schema.path(text[upward:], field, () if upward else self.base)
        if not self.pairs:
            return path
        at, get = 1 if upward else 0, path.get
        return Path(text, lambda pair: get(pair[at]), path.reads)


def _text_emit(event: OutputEvent, reach: _Reach) -> Emit:
    content = reach.first("extract.content") or ""
    message = [ident] if (ident := reach.first("extract.id")) else []
    whole, piece = passing("text", event.emit_as, content), passing("piece", event.emit_as, content, *message)
    delta = reach.first("delta")
    if delta is None:
        return piece if event.delta is True else whole
    get = delta.get
    return lambda item, event, out: (piece if is_true(get(item)) else whole)(item, event, out)


def _tool_emit(reach: _Reach) -> Emit:
    ident, title, given = map(reach.first, ("extract.id", "extract.title", "extract.input"))
    output, status, duration = map(reach.first, ("extract.output", "extract.status", "extract.duration"))
    flag = any_true(reach.each("extract.isError"))
    if not (output or status or duration or flag):
        return passing("call", ident, title, given)
    # What names no tool can only be the answer to a call.
    otherwise = "pending" if title or given else "completed"
    return passing("report", ident, title, given, output, status, flag, duration, otherwise)


def _with_errors(path: Path) -> Path:
    get = path.get
    return Path(path.text, lambda item: error_texts(get(item)) or [UNEXPLAINED], path.reads)


def error_texts(value: Any) -> list[str]:
    """The value as error texts: each of a list, none for an empty one."""
    if type(value) is list and all(type(item) is str for item in value):
        return [item for item in value if item]
    text = as_text(value)
    return [text] if text else []


def compile_result(schema: Schema, result: ResultEvent) -> Action:
    """Take the final text and the agent's own word on whether it failed."""
    test, words = wanted_test(result.match_value)
    match = EventTest(schema.path(result.match_path, "result.matchPath"), test, words)
    text = first_of(schema.each(result.content_path, "result.contentPath"))
    content = text.get if text else nothing
    failed = any_true(schema.each(result.is_error_path, "result.isErrorPath"))
    reason = first_of(schema.each(result.error_path, "result.errorPath"))

    def act(event: Event, out: Trajectory) -> None:
        out.result = as_text(content(event))
        out.result_errors = []
        if failed and is_true(failed.get(event)):
            found = error_texts(reason.get(event)) if reason else []
            out.result_errors = found or [out.result or UNEXPLAINED]

    return Action((match,), act)


def compile_usage(schema: Schema, usage: UsagePaths) -> Action:
    """Take the tokens and cost that an event reports."""
    tests, item = compile_match(schema, usage.match, "usage.match")
    if item is not None:
        raise schema.wrong("usage.match", " may not have [*]")
    names = ("inputTokens", "outputTokens", "cachedTokens", "costUsd")
    paths = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cost_usd)
    fields = [
        (name, [path.get for path in schema.each(texts, f"usage.{name}")])
        for name, texts in zip(names, paths, strict=True)
    ]
    adds_up = usage.per_turn == "sum"

    def act(event: Event, out: Trajectory) -> None:
        for name, getters in fields:
            numbers = [n for get in getters for n in numbers_in(get(event))]
            if numbers:
                out.usage[name] = sum(numbers) + (out.usage.get(name, 0) if adds_up else 0)

    return Action(tests, act)


def numbers_in(value: Any) -> list[int | float]:
    """The number, or those of a list."""
    if type(value) is list:
        return [n for item in value for n in numbers_in(item)]
    return [value] if type(value) is int or type(value) is float else []


def compile_metadata(schema: Schema, facts: dict[str, str | list[str]]) -> Action:
    """Keep what an event tells of the run itself."""
    fields = {name: schema.each(texts, f"metadata.{name}") for name, texts in facts.items()}
    plain = [(name, paths[0].name) for name, paths in fields.items() if len(paths) == 1 and paths[0].name]

    def act(event: Event, out: Trajectory) -> None:
        for name, paths in fields.items():
            for path in paths:
                if (value := path.get(event)) is not None:
                    out.facts[name] = value
                    break

    def act_plainly(event: Event, out: Trajectory) -> None:
        for name, key in plain:  # every event is looked at, and hardly any has it
            if key in event and event[key] is not None:
                out.facts[name] = event[key]

    return Action((), act_plainly if len(plain) == len(fields) else act)
