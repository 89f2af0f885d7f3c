"""Conditions of a schema: which events, or which items of a list in an event, a rule is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from agenteval.adapters.jsonpath import Getter, Path, PathError, compile_path, split_wildcard
from agenteval.errors import UserError
from agenteval.streams.jsonl import encode
from agenteval.wire.adapter_schema import Condition, Wanted

Event = dict[str, Any]
Test = Callable[[Any], bool]
# trace(field of the schema, item, function, values) calls the function with the values and returns its result; it sees
# which field did what with which item, and which fields the values come from.
Trace = Callable[[str, Any, Callable[..., Any], dict[str, Any]], Any]

_UNTYPED = object()  # equals nothing, but is not None: "*" takes items of any type or none


class SchemaCompiler:
    """Compiles the paths of one schema file, and names a wrong one in its error; only --explain sets `trace`."""

    def __init__(self, source: str, trace: Trace | None = None) -> None:
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


def as_list(value: Any) -> list[Any]:
    """Returns one or many as a list; nothing for None and for an empty path."""
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]


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


def item_kind(item: Any) -> Any:
    """Returns what is compared of a list item: its type, or a string or number itself."""
    if type(item) is not dict:
        return item
    kind = item.get("type")
    return _UNTYPED if kind is None else kind


def compile_condition(compiler: SchemaCompiler, condition: Condition, field: str) -> CompiledCondition:
    """Compiles a condition on an event or, with `[*]` in its path, on the items of a list."""
    if (condition.value is None) == (condition.not_ is None):
        has = "neither" if condition.value is None else "both"
        raise compiler.error(field, f" must have exactly one of value and not, has {has}")
    if condition.not_ is None:
        test, words = wanted_test(condition.value)  # type: ignore[arg-type]
    else:
        positive, words = wanted_test(condition.not_)[0], None
        test = lambda value: not positive(value)  # noqa: E731
    wildcard = split_wildcard(condition.path)
    if wildcard is None:
        return CompiledCondition(compiler.path(condition.path, f"{field}.path"), None, test, words)
    items, inner = wildcard
    return CompiledCondition(items, inner.get if inner.reads else item_kind, test, words)


def compile_match(
    compiler: SchemaCompiler, match: Condition | list[Condition] | None, field: str
) -> tuple[tuple[CompiledCondition, ...], CompiledCondition | None]:
    """Compiles the conditions on the event, and the one on list items if there is one."""
    if isinstance(match, Condition):
        compiled = [compile_condition(compiler, match, field)]
    else:
        compiled = [compile_condition(compiler, one, f"{field}[{n}]") for n, one in enumerate(match or [])]
    items = [condition for condition in compiled if condition.kind]
    if len(items) > 1:
        raise compiler.error(field, " may have [*] in one condition only")
    return tuple(condition for condition in compiled if not condition.kind), items[0] if items else None
