"""Paths into an event: `'literal'`, `$.a.b[0].c`, `$.list[*].a`, `$.map.*.a`, and full RFC 9535 JSONPath.

A path is compiled to a function of a value. The usual forms are closures over dict.get; only other expressions load
the RFC 9535 package. Names after a dot may have dashes and the like (`$.a-b`), as in agent-eval-harness.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from agenteval.streams.patterns import Pattern
from agenteval.streams.text import whole_number

Getter = Callable[..., Any]  # of a value; a second argument is ignored, so that a getter is a Value of rules.py
Key = str | int

_SEGMENT = re.compile(
    r"""\.(?P<name>[^\s.\[\]*?@()'",:]+)
      | \[(?P<index>0|-?[1-9][0-9]*)\]
      | \['(?P<single>[^'\\]*)'\]
      | \["(?P<double>[^"\\]*)"\]""",
    re.VERBOSE,
)
# agent-eval-harness takes anything between dots as a name: `$.exit code.@value`.
_LOOSE_NAME = r"\.([^.\[\]]+)"
_LOOSE_NAMES = r"\$(\.[^.\[\]]+)+"


class PathError(ValueError):
    """Reports text that is not a path, and why."""


class Path(msgspec.Struct, frozen=True):
    """A compiled path: `get` returns what it finds in a value, or None.

    `keys` are the names and indices that the path consists of; None for any other expression.
    """

    text: str
    get: Getter
    keys: tuple[Key, ...] | None = None


def compile_path(text: str) -> Path:
    """Compiles a path; an empty one finds nothing."""
    if not text:
        return Path(text, lambda value, event=None: None)
    if len(text) > 1 and text[0] == text[-1] == "'":
        literal = text[1:-1]
        return Path(text, lambda value, event=None: literal)
    if not text.startswith("$"):
        raise PathError("a path starts with $, a literal is in single quotes")
    keys = _plain_keys(text)
    if keys is not None:
        return Path(text, _getter(keys), keys)
    if wildcard := split_wildcard(text):
        return _over_items(text, *wildcard)
    if (wildcard := split_wildcard(text, ".*")) and wildcard[0].keys:
        return _over_items(text, *wildcard, of_objects=True)
    try:
        return Path(text, _rfc9535(text))
    except PathError:
        if not re.fullmatch(_LOOSE_NAMES, text):
            raise
        keys = tuple(re.findall(_LOOSE_NAME, text))
        return Path(text, _getter(keys), keys)


def split_wildcard(text: str, star: str = "[*]") -> tuple[Path, Path] | None:
    """Returns the list and the path inside its items, for `$.a.list[*].b`; None for any other path."""
    head, found, rest = text.partition(star)
    outer, inner = _plain_keys(head), _plain_keys("$" + rest)
    if not found or outer is None or inner is None:
        return None
    return Path(head, _getter(outer), outer), Path("$" + rest, _getter(inner), inner)


def first_key(text: str) -> Key | None:
    """Returns the name or index that a path begins with; None for a literal and for other expressions."""
    keys = _plain_keys(re.split(r"\[\*\]|\.\*", text)[0])
    return keys[0] if keys else None


def _plain_keys(text: str) -> tuple[Key, ...] | None:
    """Returns the keys of a path of names and indices; None for any other expression."""
    keys: list[Key] = []
    at = 1
    while found := _SEGMENT.match(text, at):
        index = found["index"]
        keys.append(int(index) if index else next(key for key in found.groups() if key is not None))
        at = found.end()
    return tuple(keys) if text.startswith("$") and at >= len(text) else None


def _getter(keys: tuple[Key, ...]) -> Getter:
    """Returns a function that looks up the value under these keys."""
    if not keys:
        return lambda value, event=None: value
    if len(keys) > 2 or any(isinstance(key, int) or key.isdigit() for key in keys):
        return _walker(keys)
    first, second = keys[0], keys[-1]

    def get(value: Any, event: Any = None) -> Any:
        try:
            return value.get(first)
        except AttributeError:  # of JSON values, only an object has `get`
            return None

    def get_inner(value: Any, event: Any = None) -> Any:
        inner = value.get(first) if type(value) is dict else None
        return inner.get(second) if type(inner) is dict else None

    return get if len(keys) == 1 else get_inner


def _walker(keys: tuple[Key, ...]) -> Getter:
    """Returns the same for any number of keys, those of list items among them."""
    # `$.list.0` is `$.list[0]` in agent-eval-harness, because it is in JavaScript
    steps = [(key, key if isinstance(key, int) else whole_number(key)) for key in keys]

    def walk(value: Any, event: Any = None) -> Any:
        for key, index in steps:
            if type(value) is dict:
                value = value.get(key)
            elif type(value) is list and index is not None and -len(value) <= index < len(value):
                value = value[index]
            else:
                return None
        return value

    return walk


def _over_items(text: str, outer: Path, inner: Path, *, of_objects: bool = False) -> Path:
    """Compiles `$.list[*].a` to what the items have there, `$.list[*]` to the list itself, as in agent-eval-harness.

    With `of_objects` it compiles `$.map.*.a` to what the fields of an object, or the items of a list, have there.
    """
    get_all, get_one = outer.get, inner.get

    def collect(value: Any, event: Any = None) -> Any:
        found = get_all(value)
        if of_objects and type(found) is dict:
            found = list(found.values())
        if type(found) is not list:
            return None
        if not inner.keys and not of_objects:
            return found
        return _collapse([part for item in found if (part := get_one(item)) is not None])

    return Path(text, collect)


def _collapse(values: list[Any]) -> Any:
    """Returns what a query found as one value: texts are joined."""
    if len(values) < 2:
        return values[0] if values else None
    return "".join(values) if all(type(value) is str for value in values) else values


def _rfc9535(text: str) -> Getter:
    import jsonpath_rfc9535

    try:
        query = _environment().compile(text)
    except (jsonpath_rfc9535.JSONPathError, RecursionError) as error:
        raise PathError(str(error).split("\n")[0]) from None

    def get(value: Any, event: Any = None) -> Any:
        try:
            return _collapse(query.find(value).values())
        except (jsonpath_rfc9535.JSONPathError, RecursionError):  # nested too deeply for a descendant query
            return None

    return get


@cache
def _environment() -> Any:
    """Returns RFC 9535 with a limit of time for the regular expressions in filters, which may come from an event."""
    import jsonpath_rfc9535
    from iregexp_check import check
    from jsonpath_rfc9535.function_extensions import Match, Search
    from jsonpath_rfc9535.function_extensions._pattern import map_re

    def found(text: object, pattern: object, *, whole: bool) -> bool:
        if not isinstance(text, str) or not isinstance(pattern, str) or not check(pattern):
            return False
        try:
            compiled = Pattern(map_re(pattern), version_1=not whole)  # as the package itself does it
        except ValueError:
            return False
        return bool(compiled.fullmatch(text) if whole else compiled.search(text))

    class BoundedMatch(Match):
        def __call__(self, string: object, pattern: object) -> bool:
            return found(string, pattern, whole=True)

    class BoundedSearch(Search):
        def __call__(self, string: object, pattern: object) -> bool:
            return found(string, pattern, whole=False)

    environment = jsonpath_rfc9535.JSONPathEnvironment()
    environment.function_extensions |= {"match": BoundedMatch(), "search": BoundedSearch()}
    return environment
