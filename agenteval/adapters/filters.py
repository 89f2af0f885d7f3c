"""Filters of RFC 9535 as closures: `$.list[?@.type == 'a' && !$.b].c` without an object for each value on the way.

The package parses all queries, and evaluates those that are not made of names, indices, filters, literals, == and !=.
Its classes are compared by name, because only one module imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Find = Callable[[Any, Any], list[Any]]  # value, root → all that is found in the value
Holds = Callable[[Any, Any], bool]  # item, root
Step = Callable[[list[Any], Any], list[Any]]

LITERALS = ("StringLiteral", "BooleanLiteral", "IntegerLiteral", "FloatLiteral", "NullLiteral")


class NotPlainError(Exception):
    """Reports a query that the package has to evaluate."""


def compile_query(query: Any) -> Find:
    """Compiles a parsed query; raises NotPlainError for one with other selectors or functions."""
    steps = [_step(segment) for segment in query.segments]

    def find(value: Any, root: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = step(found, root)
        return found

    return find


def _step(segment: Any) -> Step:
    if _kind(segment) != "JSONPathChildSegment" or len(segment.selectors) != 1:
        raise NotPlainError
    (selector,) = segment.selectors
    if _kind(selector) == "NameSelector":
        name = selector.name
        return lambda found, root: [value[name] for value in found if type(value) is dict and name in value]
    if _kind(selector) == "IndexSelector":
        at = selector.index
        return lambda found, root: [
            value[at] for value in found if type(value) is list and -len(value) <= at < len(value)
        ]
    if _kind(selector) == "FilterSelector":
        holds = _condition(selector.expression.expression)
        return lambda found, root: [item for value in found for item in _items(value) if holds(item, root)]
    raise NotPlainError


def _items(value: Any) -> Any:
    return value if type(value) is list else value.values() if type(value) is dict else ()


def _condition(expression: Any) -> Holds:
    kind = _kind(expression)
    if kind == "LogicalExpression":
        left, right = _condition(expression.left), _condition(expression.right)
        if expression.operator == "&&":
            return lambda item, root: left(item, root) and right(item, root)
        return lambda item, root: left(item, root) or right(item, root)
    if kind == "PrefixExpression":
        inner = _condition(expression.right)
        return lambda item, root: not inner(item, root)
    if kind == "ComparisonExpression":
        return _comparison(expression.left, expression.operator, expression.right)
    find = _filter_query(expression)
    return lambda item, root: bool(find(item, root))


def _comparison(left: Any, operator: str, right: Any) -> Holds:
    if _kind(left) in LITERALS:
        left, right = right, left
    if operator not in ("==", "!=") or _kind(right) not in LITERALS:
        raise NotPlainError
    find, wanted, equal = _filter_query(left), right.value, operator == "=="
    is_flag = type(wanted) is bool

    def holds(item: Any, root: Any) -> bool:
        # In Python true equals 1, in JSON it does not; what is not there equals nothing.
        found = find(item, root)
        return (bool(found) and found[0] == wanted and (type(found[0]) is bool) == is_flag) == equal

    return holds


def _filter_query(expression: Any) -> Find:
    """Compiles a query within a filter: of the item, or of the root."""
    if _kind(expression) not in ("RelativeFilterQuery", "RootFilterQuery") or not expression.query.segments:
        raise NotPlainError
    find = compile_query(expression.query)
    if _kind(expression) == "RootFilterQuery":
        return lambda item, root: find(root, root)
    return lambda item, root: find(item, item)  # as the package does it, the item is the root of filters in its query


def _kind(node: Any) -> str:
    return type(node).__name__
