"""How events are decoded, and how compiled code looks up a value in them.

Where all paths of a schema are names and indices, an event is decoded to a Struct that has just the fields which the
paths read: the rest of the line is skipped, and a field costs no call. Otherwise it is a dict of just those fields.
What goes into the result as it came, such as the output of a tool, may stay JSON: a tree of objects is neither built
nor written, which takes a tenth of the time; a text that is not ASCII is neither decoded nor encoded, which takes a
third of it. A line in which most characters are escaped is read by orjson.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from keyword import iskeyword
from typing import Any, NamedTuple, TypedDict

import msgspec

from agenteval.adapters.conditions import Fields, LookUp, Use
from agenteval.adapters.jsonpath import ITEMS
from agenteval.streams.jsonl import Fragment, exact_decoder, exact_type, value_of

Tree = dict[str, Any]  # field → what is read below it; None: all of it
Decode = Callable[[str | bytes], Any]
# How many lists and objects may lie in each other where orjson reads an event; the id or the name of a tool is neither.
LEVELS: dict[Use, int] = {"given": 3, "copied": 3, "text": 2}


class EventShape:
    """The parts of an event that the paths of a schema read."""

    def __init__(
        self,
        reads: Iterable[Fields],
        names: dict[str, Any],
        written: Mapping[Use, set[Fields]] | None = None,
        *,
        as_struct: bool,
        as_json: bool = False,
    ) -> None:
        written = written or {}
        paths = {*reads}.union(*written.values())
        self.tree: Tree | None = None if () in paths else _tree(paths)
        self.as_struct = as_struct and self.tree is not None
        self.may_keep_json = as_json and self.as_struct
        copied, given, text = (
            {path for path in written.get(use, ()) if self.may_keep_json and not _is_read(path, reads, paths)}
            for use in ("copied", "given", "text")
        )
        self._json = copied | given | text
        self.names = names  # gets the names that look-ups use
        self._structs: dict[int, list[str]] = {}  # id of a tree → names of its types
        self.decode: Decode = self._decoder(None)
        levels = {path: LEVELS[use] for use, found in written.items() for path in found}
        exact = _Variant("Exact", None, leaf=lambda at: exact_type(levels.get(at, 0)))
        objects = _Variant("Objects", (copied | given) - text, objects_as_json)
        texts = _Variant("Texts", (copied | text) - given, texts_as_json)
        self.decoders: dict[str, Decode] = {
            "decode": self.decode,
            "decode_objects": self._later("decode_objects", objects) if objects.paths else self.decode,
            "decode_texts": self._later("decode_texts", texts) if texts.paths else self.decode,
            "decode_escaped": self._later("decode_escaped", exact),
        }

    def _later(self, name: str, variant: _Variant) -> Decode:
        """Returns a decoder that is made when it is called first: to make types takes time, and few lines need one."""

        def decode(line: str | bytes) -> Any:
            self.names[name] = self._decoder(variant)
            return self.names[name](line)

        return decode

    def _decoder(self, variant: _Variant | None) -> Decode:
        kind = self._type(variant)
        is_exact = variant is not None and variant.paths is None
        return exact_decoder(kind, self.decode) if is_exact else msgspec.json.Decoder(kind).decode

    def _type(self, variant: _Variant | None) -> Any:
        return Any if self.tree is None else self._object_type(self.tree, (), variant)

    def convert(self, event: dict[str, Any]) -> Any:
        """Returns an event that was decoded in another way, with its fields where look-ups expect them."""
        return self.decode(msgspec.json.encode(event).decode()) if self.as_struct else event

    def code(self, look_up: LookUp) -> str:
        """Returns the expression for a value."""
        path, place, base = look_up.path, look_up.place, look_up.base
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
        if base is None or (*base, *(path.reads or ())) not in self._json:
            return found
        return f"(event._as_json(v) if type(v := {found}) is Raw else v)"

    def _step(self, found: str, below: Tree | None, key: str | int, is_object: bool) -> tuple[str, Tree | None]:
        """Returns the expression for what is under a key of a value, and what is read below that."""
        value = found if found.isidentifier() else "v"
        given = found if found.isidentifier() else f"(v := {found})"
        if isinstance(key, int):
            enough = f"len({value}) > {key}" if key >= 0 else f"len({value}) >= {-key}"
            inner = below[ITEMS] if below is not None and ITEMS in below else None
            return f"({value}[{key}] if type({given}) is list and {enough} else None)", inner
        inner = None if below is None else below[key]
        is_struct = self.as_struct and below is not None
        field = f"{value}.{_attribute(list(below or ()).index(key), key)}" if is_struct else f"{value}.get({key!r})"
        return field if is_object else f"({field} if type({given}) {self._is_object(below)} else None)", inner

    def _object_type(self, tree: Tree, at: Fields, variant: _Variant | None) -> Any:
        """Returns the type of an object of which the tree is read."""
        fields = {key: self._value_type(below, (*at, key), variant) for key, below in tree.items() if key != ITEMS}
        if not self.as_struct:
            return TypedDict("Event", fields, total=False)  # type: ignore[operator]
        classes = self._structs.setdefault(id(tree), [])
        if variant and at and not variant.differs_below(at):
            return self.names[classes[0]]
        places = {key: n for n, key in enumerate(tree)}
        attributes = {_attribute(places[key], key): key for key in fields}
        typed = [(name, fields[key], None) for name, key in attributes.items()]
        name = f"{classes[0]}{variant.name}" if variant else f"Object{len(self._structs)}"
        classes.append(name)
        methods = {"_as_json": staticmethod(variant.as_json)} if variant and not at else None  # no field begins with _
        self.names[name] = msgspec.defstruct(name, typed, rename=attributes, namespace=methods, gc=False)
        self.names[f"Any{classes[0]}"] = tuple(self.names[name] for name in classes)
        return self.names[name]

    def _is_object(self, below: Tree | None) -> str:
        """Returns the second half of a test whether the type of a value is that of objects of which a tree is read."""
        classes = self._structs.get(id(below)) if self.as_struct else None
        if classes is None:
            return "is dict"
        if not self.may_keep_json:
            return f"is {classes[0]}"
        return f"in Any{classes[0]}"

    def _value_type(self, tree: Tree | None, at: Fields, variant: _Variant | None) -> Any:
        """Returns the type of a JSON value of which objects and lists are built only as far as the tree goes."""
        if tree is None:
            return variant.leaf(at) if variant and (variant.paths is None or at in variant.paths) else Any
        item: Any = self._value_type(tree[ITEMS], (*at, ITEMS), variant) if ITEMS in tree else Any
        scalar = exact_type(0) if variant and variant.paths is None else str | int | float | bool | None
        return self._object_type(tree, at, variant) | list[item] | scalar


# How a line is decoded, as code: objects stay JSON if there seems to be one in a long line, texts if the line is not
# ASCII. To keep what is short, or a text in ASCII, takes more time than to decode it. orjson is faster than msgspec if
# there are many characters as \uXXXX, which most agents never print: so one line is looked at for a whole record.
DECODE = """(
                decode(line) if len(line) < 400
                else decode_objects(line) if len(line) > 2000 and line.startswith('"', line.find("{", 300) + 1)
                else decode_texts(line.encode()) if not line.isascii()
                else decode_escaped(line) if escaped and "\\\\u" in line
                else decode(line)
            )"""
BEFORE = "escaped = are_escaped(lines)"  # the loop over lines
SAMPLE = 8  # lines at the end of a record


def are_escaped(lines: list[str]) -> bool:
    """Returns whether the last long line, if it is among the last lines, has many \\uXXXX after its first escape."""
    for line in lines[: -SAMPLE - 1 : -1]:
        if len(line) >= 400:
            at = line.find("\\")
            return line.count("\\u", at, at + 200) > 10
    return False


SHORT = 40  # bytes of a text that is decoded in any case
_OTHER_ESCAPE = re.compile(rb"\\[u/]")


def objects_as_json(found: msgspec.Raw) -> Any:
    """Returns an object or a list as JSON, to be written as it came; the value of anything else."""
    data = bytes(found)
    return Fragment(data) if data[0] in b"[{" and _can_stay(data) else value_of(data)


def texts_as_json(found: msgspec.Raw) -> Any:
    """Returns a text as JSON, in the form that encode() writes; the value of anything else."""
    data = bytes(found)
    return Fragment(data) if len(data) > SHORT and data.startswith(b'"') and _can_stay(data) else value_of(data)


def _can_stay(data: bytes) -> bool:
    """Whether JSON has no other escapes than encode() writes: a secret could hide in `\\u0073k-…`."""
    return b"\\" not in data or _OTHER_ESCAPE.search(data) is None  # most has none, and to look for one is quicker


class _Variant(NamedTuple):
    """Another way to decode events: at which paths values have another type, and what becomes of one that is Raw."""

    name: str
    paths: set[Fields] | None  # None: at all, and no number is rounded
    as_json: Callable[[msgspec.Raw], Any] = bytes
    leaf: Callable[[Fields], Any] = lambda at: msgspec.Raw

    def differs_below(self, at: Fields) -> bool:
        """Returns whether a value below a field has another type."""
        return self.paths is None or any(path[: len(at)] == at for path in self.paths)


def _is_read(path: Fields, reads: Iterable[Fields], paths: Iterable[Fields]) -> bool:
    """Whether something looks at what this path finds, or another path finds a part of it."""
    return path[-1] == ITEMS or path in reads or any(other[: len(path)] == path != other for other in paths)


def _attribute(number: int, key: str) -> str:
    """Returns the attribute of a Struct for a field."""
    plain = key.isidentifier() and key.isascii() and not key.startswith("_") and not iskeyword(key)
    return key if plain else f"field_{number}"


def _tree(paths: Iterable[Fields]) -> Tree:
    """Returns what is read as a tree; the shortest paths first, because each reads the whole value below it."""
    root: Tree = {}
    for *stem, leaf in sorted(paths, key=lambda path: (len(path), path)):
        tree: Tree | None = root
        for key in stem:
            tree = None if tree is None else tree.setdefault(key, {})
        if tree is not None:
            tree.setdefault(leaf, None)
    return root
