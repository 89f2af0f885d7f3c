"""How events are decoded, and how compiled code looks up a value in them.

Where all paths of a schema are names and indices, an event is decoded to a Struct that has just the fields which the
paths read: the rest of the line is skipped, and a field costs no call. Otherwise it is a dict of just those fields.
What goes into the result as it came, such as the output of a tool, may stay JSON: a tree of objects is neither built
nor written, which takes a tenth of the time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from keyword import iskeyword
from typing import Any, TypedDict

import msgspec

from agenteval.adapters.conditions import LookUp
from agenteval.adapters.jsonpath import ITEMS
from agenteval.streams.jsonl import Fragment

Tree = dict[str, Any]  # field → what is read below it; None: all of it


class EventShape:
    """The parts of an event that the paths of a schema read."""

    def __init__(
        self,
        reads: Iterable[tuple[str, ...]],
        names: dict[str, Any],
        *,
        as_struct: bool,
        copies: Iterable[tuple[str, ...]] = (),
        as_json: bool = False,
    ) -> None:
        paths = [*reads, *copies]
        self._json = {path for path in copies if as_json and as_struct and not _is_read(path, reads)}
        self.tree: Tree | None = None if () in paths else _tree(paths)
        self.as_struct = as_struct and self.tree is not None
        self.names = names  # gets the names that look-ups use
        self._structs: dict[int, str] = {}
        kind: Any = Any if self.tree is None else self._object_type(self.tree)
        self.kind = kind if self.as_struct else dict  # the type of a decoded event
        self.decode: Callable[[str], Any] = msgspec.json.Decoder(kind).decode

    def convert(self, event: dict[str, Any]) -> Any:
        """Returns an event that was decoded in another way, with its fields where look-ups expect them."""
        return self.decode(msgspec.json.encode(event).decode()) if self.as_struct else event

    def code(self, look_up: LookUp) -> str:
        """Returns the expression for a value."""
        path, place, base = look_up
        if path.keys is None:
            name = f"get{len(self.names)}"
            self.names[name] = path.get
            return f"{name}({place})"
        below = None if base is None else self.tree
        for key in base or ():
            below = None if below is None else below[key]
        found, is_object = place, place == "event"
        for step in path.keys:
            found, below = self._step(found, below, step, is_object)
            is_object = False
        if path.rest is not None:
            name = f"rest{len(self.names)}"
            self.names[name] = path.rest
            return f"{name}({found})"
        return f"as_json({found})" if base is not None and (*base, *(path.reads or ())) in self._json else found

    def _step(self, found: str, below: Tree | None, key: str | int, is_object: bool) -> tuple[str, Tree | None]:
        """Returns the expression for what is under a key of a value, and what is read below that."""
        value = found if found.isidentifier() else "v"
        given = found if found.isidentifier() else f"(v := {found})"
        if isinstance(key, int):
            enough = f"len({value}) > {key}" if key >= 0 else f"len({value}) >= {-key}"
            inner = below[ITEMS] if below is not None and ITEMS in below else None
            return f"({value}[{key}] if type({given}) is list and {enough} else None)", inner
        inner = None if below is None else below[key]
        struct = self._structs.get(id(below)) if self.as_struct else None
        field = f"{value}.{_attribute(list(below).index(key), key)}" if struct and below else f"{value}.get({key!r})"
        return field if is_object else f"({field} if type({given}) is {struct or 'dict'} else None)", inner

    def _object_type(self, tree: Tree, at: tuple[str, ...] = ()) -> Any:
        fields = {key: self._value_type(below, (*at, key)) for key, below in tree.items() if key != ITEMS}
        if not self.as_struct:
            return TypedDict("Event", fields, total=False)  # type: ignore[operator]
        places = {key: n for n, key in enumerate(tree)}
        attributes = {_attribute(places[key], key): key for key in fields}
        typed = [(name, fields[key], None) for name, key in attributes.items()]
        name = f"Object{len(self._structs)}"
        self._structs[id(tree)] = name
        self.names[name] = msgspec.defstruct(name, typed, rename=attributes, gc=False)
        return self.names[name]

    def _value_type(self, tree: Tree | None, at: tuple[str, ...]) -> Any:
        """Returns the type of a JSON value of which objects and lists are built only as far as the tree goes."""
        if tree is None:
            return msgspec.Raw if at in self._json else Any
        item: Any = self._value_type(tree[ITEMS], (*at, ITEMS)) if ITEMS in tree else Any
        return self._object_type(tree, at) | list[item] | str | int | float | bool | None


_OBJECT_IN_TEXT = re.compile(rb'"(?:\s|\\[nrt])*\{')


def as_json(found: msgspec.Raw | None) -> Any:
    """Returns JSON that is written as it came; None for null, as for what is not there."""
    if found is None:
        return None
    data = bytes(found)
    if data[:1] == b'"' and _OBJECT_IN_TEXT.match(data):  # it may be the input of a tool
        return msgspec.json.decode(data)
    return None if data == b"null" else Fragment(data)


def _is_read(path: tuple[str, ...], reads: Iterable[tuple[str, ...]]) -> bool:
    """Whether another path reads what this one finds, or a part of it."""
    return path[-1] == ITEMS or any(other[: len(path)] == path for other in reads)


def _attribute(number: int, key: str) -> str:
    """Returns the attribute of a Struct for a field."""
    plain = key.isidentifier() and key.isascii() and not key.startswith("_") and not iskeyword(key)
    return key if plain else f"field_{number}"


def _tree(paths: list[tuple[str, ...]]) -> Tree:
    """Returns what is read as a tree; the shortest paths first, because each reads the whole value below it."""
    root: Tree = {}
    for *stem, leaf in sorted(paths, key=lambda path: (len(path), path)):
        tree: Tree | None = root
        for key in stem:
            tree = None if tree is None else tree.setdefault(key, {})
        if tree is not None:
            tree.setdefault(leaf, None)
    return root
