"""Paths into an event: `'literal'`, `$.a.b[0].c`, `$.list[*].a`, and full RFC 9535 JSONPath.

The plain forms are closures over dict.get; only other expressions load the RFC 9535 package, which is
slow to import. Names after a dot may hold dashes and the like (`$.a-b`), as in agent-eval-harness.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from agenteval.adapters.filters import NotPlainError, compile_query
from agenteval.streams.patterns import Pattern
from agenteval.streams.text import whole_number

Getter = Callable[[Any], Any]
Key = str | int

DEEPEST = 30  # keys that are looked up in compiled code, where each is in parentheses of its own
ITEMS = "*"  # in `Path.reads`: every item of a list

# These are compiled for paths that are not just `$.a.b`.
_SEGMENT = r"""(?x)\.(?P<name>[^\s.\[\]*?@()'",:]+)
      | \[(?P<index>0|-?[1-9][0-9]*)\]
      | \['(?P<single>[^'\\]*)'\]
      | \["(?P<double>[^"\\]*)"\]"""
# agent-eval-harness takes anything between dots as a name: `$.exit code.@value`.
_LOOSE_NAME = r"\.([^.\[\]]+)"
_LOOSE_NAMES = r"\$(\.[^.\[\]]+)+"


class PathError(ValueError):
    """Reports text that is not a path, and why."""


class Path(msgspec.Struct, frozen=True):
    """A compiled path.

    `reads` is the part of a value that it looks at, None for no part and () for all of it; `keys` is set if
    the path is just these names and indices, which compiled code looks up without a call; `rest` is applied to what
    they find.
    """

    text: str
    get: Getter
    reads: tuple[str, ...] | None
    keys: tuple[Key, ...] | None = None
    rest: Getter | None = None

    @property
    def name(self) -> str | None:
        """The name, if the path is just one."""
        keys = self.keys if self.keys and self.rest is None else ()
        return keys[0] if len(keys) == 1 and isinstance(keys[0], str) else None


def compile_path(text: str) -> Path:
    """Compiles a path to a function of a value, which returns None if nothing is found."""
    if not text:
        return Path(text, nothing, None)
    if len(text) > 1 and text[0] == text[-1] == "'":
        literal = text[1:-1]
        return Path(text, lambda value: literal, None)
    if not text.startswith("$"):
        raise PathError("a path starts with $, a literal is in single quotes")
    keys = _plain_keys(text)
    if keys is not None:
        return _plain(text, keys)
    if wildcard := split_wildcard(text):
        return _over_items(text, *wildcard)
    if values := _over_values(text):
        return values
    try:
        return _rfc9535(text)
    except PathError:
        if not re.fullmatch(_LOOSE_NAMES, text):
            raise
        return _plain(text, tuple(re.findall(_LOOSE_NAME, text)))


def split_wildcard(text: str) -> tuple[Path, Path] | None:
    """Returns the list and the path inside its items, for `$.a.list[*].b`; None for any other path."""
    head, star, rest = text.partition("[*]")
    keys = _plain_keys(head)
    inner = _plain_keys("$" + rest)
    if not star or keys is None or inner is None:
        return None
    return _plain(head, keys), _plain("$" + rest, inner)


def _plain_keys(text: str) -> tuple[Key, ...] | None:
    """Returns the keys of a path of names and indices, None for any other expression."""
    root, *names = text.split(".")
    if root == "$" and all(map(str.isidentifier, names)):
        return tuple(names)
    if "*" in text[1:] and "'" not in text and '"' not in text:
        return None
    keys, end = _leading_keys(text)
    return keys if end >= len(text) else None


def _leading_keys(text: str) -> tuple[tuple[Key, ...], int]:
    """Returns the names and indices that a path begins with, and where they end."""
    keys: list[Key] = []
    at = 1
    segment = re.compile(_SEGMENT)
    while found := segment.match(text, at):
        index = found["index"]
        keys.append(int(index) if index else next(key for key in found.groups() if key is not None))
        at = found.end()
    return tuple(keys), at


def _plain(text: str, keys: tuple[Key, ...]) -> Path:
    ambiguous = any(isinstance(key, str) and key.isdigit() for key in keys)  # a field, or an item of a list
    spelled_out = len(keys) <= DEEPEST and not ambiguous
    return Path(text, _getter(keys), _reads(keys[:DEEPEST]), keys if spelled_out else None)


def _getter(keys: tuple[Key, ...]) -> Getter:
    """Returns what looks up the value under these keys; for one or two names, the usual paths, a fast function."""
    if not keys:
        return _itself
    if len(keys) > 2 or any(isinstance(key, int) or key.isdigit() for key in keys):
        return lambda value: _walk(value, keys)
    first, second = keys[0], keys[-1]
    if len(keys) == 1:
        return lambda value: value.get(first) if type(value) is dict else None
    return lambda value: inner.get(second) if type(value) is dict and type(inner := value.get(first)) is dict else None


def _itself(value: Any) -> Any:
    return value


def nothing(value: Any) -> None:
    """Returns None: what an empty path finds."""


def _walk(value: Any, keys: tuple[Key, ...]) -> Any:
    for key in keys:
        if type(value) is dict:
            value = value.get(key)
        elif type(value) is list:
            # `$.list.0` is `$.list[0]` in agent-eval-harness, because it is in JavaScript
            index = key if isinstance(key, int) else whole_number(key)
            value = value[index] if index is not None and -len(value) <= index < len(value) else None
        else:
            return None
    return value


def _over_items(text: str, items: Path, inner: Path) -> Path:
    """Compiles `$.list[*]` to the list itself, as in agent-eval-harness; `$.list[*].a` to what the items hold."""
    reads = (*(items.reads or ()), ITEMS, *(inner.reads or ()))
    if inner.reads == ():
        get = items.get
        return Path(text, lambda value: found if type(found := get(value)) is list else None, reads)

    def collect(value: Any) -> Any:
        found = items.get(value)
        if type(found) is not list:
            return None
        return _collapse([part for item in found if (part := inner.get(item)) is not None])

    return Path(text, collect, reads)


def _over_values(text: str) -> Path | None:
    """Compiles `$.a.*.b`, what all fields of an object hold; None for any other path."""
    head, star, rest = text.partition(".*")
    keys, inner = _plain_keys(head), _plain_keys("$" + rest)
    if not star or not keys or inner is None:
        return None
    outer, get = _plain(head, keys), _getter(inner)

    def collect(found: Any) -> Any:
        values = found.values() if type(found) is dict else found if type(found) is list else ()
        return _collapse([part for value in values if (part := get(value)) is not None])

    return Path(text, lambda value: collect(outer.get(value)), outer.reads, outer.keys, collect)


def _collapse(values: list[Any]) -> Any:
    """Returns what a query found as one value: texts are joined."""
    if len(values) < 2:
        return values[0] if values else None
    return "".join(values) if all(type(value) is str for value in values) else values


def _rfc9535(text: str) -> Path:
    import jsonpath_rfc9535

    try:
        query = _environment().compile(text)
    except (jsonpath_rfc9535.JSONPathError, RecursionError) as error:
        raise PathError(str(error).split("\n")[0]) from None

    def get(value: Any) -> Any:
        try:
            return _collapse(query.find(value).values())
        except (jsonpath_rfc9535.JSONPathError, RecursionError):  # nested too deeply for a descendant query
            return None

    try:
        find = compile_query(query)
        return Path(text, lambda value: _collapse(find(value, value)), _prefix(text))
    except NotPlainError:
        return Path(text, get, _prefix(text))


@cache
def _environment() -> Any:
    """Returns RFC 9535 with a limit of time for the regular expressions in filters, which an event may contain."""
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


def _prefix(text: str) -> tuple[str, ...]:
    """Returns what a query reads, as far as it begins with names; all, where a filter may look elsewhere."""
    keys, end = _leading_keys(text)
    return () if "$" in text[end:] else _reads(keys)


def _reads(keys: tuple[Key, ...]) -> tuple[str, ...]:
    """Returns the keys as parts of a value; an index may be any item, a numeric name an item or a field."""
    names: list[str] = []
    for key in keys:
        if isinstance(key, str) and (key.isdigit() or key == ITEMS):
            break
        names.append(ITEMS if isinstance(key, int) else key)
    return tuple(names)
