"""Imports Click, msgspec and orjson in half the time: without what they import themselves and hardly use.

Everything that makes a start faster by tricks is here, and `make test-lowest` runs its tests with the lowest versions
that pyproject.toml allows. While a package is imported, stand-ins take the place of modules that it asks for:

- inspect, of which Click uses only cleandoc on the way in (10 ms); the rest is fetched from the real one when used;
- gettext, with which Click looks for translations of each message: the suite has none;
- datetime, whose Python code is replaced by that in C right after it has run (1 ms);
- click.termui, which asks questions and colours text;
- threading and weakref, of which Click takes a class each that Python has built in (1 ms);
- typing_extensions, which msgspec takes only for what Python 3.11 has itself;
- dataclasses, decimal, json, uuid and zoneinfo, of which the packages take a class each, for values that the suite
  neither reads nor writes (15 ms);
- modules of msgspec that describe types, which only ae-schemas needs, and that read other formats (3 ms).

typing.TypedDict makes plain classes meanwhile: Click has ten, which only type checkers look at (1 ms).
The garbage collector is off until all is imported (5 ms), and never looks at what was.
And Click compares an unknown long option with all known ones, by difflib, even while it only tries whether `-o` is
a long option. Here that is done only when the error is shown.
"""

from __future__ import annotations

import _datetime  # type: ignore[import-not-found]
import _signal as signal  # type: ignore[import-not-found]
import _thread
import gc
import os
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

# A program that imports this package gets the real modules.
IS_TOOL = os.path.basename(sys.argv[0]).startswith("ae-")


def cleandoc(text: str) -> str:
    """Returns a docstring without its indentation, as inspect.cleandoc does for one without tabs."""
    first, *rest = text.split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=sys.maxsize)
    return "\n".join([first.lstrip(), *(line[margin:] for line in rest)]).strip("\n")


class _Deferred(ModuleType):
    """A module that is imported when something of it is used."""

    def __getattr__(self, name: str) -> Any:
        return _attribute(self.__name__, name)


class _Inspect(_Deferred):
    cleandoc = staticmethod(cleandoc)


class _DeferredFunctions(ModuleType):
    """A module of functions, which is imported when one of them is called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments, **named: _attribute(self.__name__, name)(*arguments, **named)


def _attribute(module: str, name: str) -> Any:
    from importlib import import_module

    return getattr(import_module(module), name)


def _module(name: str, **attributes: object) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(attributes)
    return module


def _without_values(module: str, name: str) -> ModuleType:
    """Returns a module with one class, of which there are no objects."""
    return _module(module, **{name: type(name, (), {})})


class _Uuid:
    unknown = None  # of the enum SafeUUID


_UUID = _module("uuid", UUID=_Uuid, SafeUUID=_Uuid, NAMESPACE_DNS=_Uuid())
_CLICK = {
    "inspect": _Inspect("inspect"),
    "gettext": _module("gettext", gettext=str, ngettext=lambda one, many, count: one if count == 1 else many),
    "click.termui": _DeferredFunctions("click.termui"),
    "datetime": _datetime,
    "threading": _module("threading", local=_thread._local),
    "uuid": _UUID,
    "weakref": _module("weakref", WeakKeyDictionary=dict),
}
_MSGSPEC = {
    "typing_extensions": None,  # an import of it fails
    "datetime": _datetime,
    "decimal": _without_values("decimal", "Decimal"),
    "uuid": _UUID,
    "msgspec._json_schema": _DeferredFunctions("msgspec._json_schema"),
    **{name: _Deferred(name) for name in ("msgspec.inspect", "msgspec.msgpack", "msgspec.toml", "msgspec.yaml")},
}
_ORJSON = {
    "dataclasses": _module("dataclasses", _FIELD=object()),
    "datetime": _datetime,
    "json": _module("json", JSONDecodeError=ValueError),
    "uuid": _UUID,
    "zoneinfo": _without_values("zoneinfo", "ZoneInfo"),
}


class _TypedDict(dict[str, Any]):
    def __init_subclass__(cls, total: bool = True) -> None:
        pass


@contextmanager
def _instead(stand_ins: Mapping[str, ModuleType | None]) -> Iterator[None]:
    """Puts the stand-ins into sys.modules, except for modules that are there already."""
    added = {name: module for name, module in stand_ins.items() if IS_TOOL and name not in sys.modules}
    sys.modules.update(added)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


@contextmanager
def _plain_typed_dicts() -> Iterator[None]:
    """Makes subclasses of typing.TypedDict plain classes."""
    real = typing.TypedDict
    if IS_TOOL:
        typing.TypedDict = _TypedDict  # type: ignore[assignment]
    try:
        yield
    finally:
        typing.TypedDict = real


def resume_collector() -> None:
    """Starts the garbage collector again; it finds hardly anything: records are trees, which reference counts free."""
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


def import_json_packages() -> None:
    """Imports msgspec and orjson, so that a later import of them costs nothing."""
    with _instead(_MSGSPEC):
        import msgspec  # noqa: F401
    with _instead(_ORJSON):
        import orjson  # noqa: F401


with _instead(_CLICK), _plain_typed_dicts():
    import click
    import click.parser


class _NoSuchOption(click.NoSuchOption):
    """Looks for similar options when it is shown, not when it is raised."""

    def __init__(
        self, option_name: str, message: str | None = None, possibilities: Any = None, ctx: Any = None
    ) -> None:
        super().__init__(option_name, message, None, ctx)
        self._candidates = list(possibilities or ())

    def format_message(self) -> str:
        from difflib import get_close_matches

        close = get_close_matches(self.option_name, self._candidates)
        return self.message + (f" Did you mean {' or '.join(sorted(close))}?" if close else "")


click.parser.NoSuchOption = _NoSuchOption  # type: ignore[attr-defined]

__all__ = ["cleandoc", "click", "import_json_packages", "resume_collector", "signal"]
