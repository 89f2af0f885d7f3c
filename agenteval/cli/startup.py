"""Imports Click, msgspec and orjson in half the time: without what they import themselves and hardly use.

Everything that makes a start faster by tricks is here, and `make test-lowest` runs its tests with the lowest versions
that pyproject.toml allows. While a package is imported, stand-ins take the place of modules that it asks for:

- inspect, of which Click uses only cleandoc on the way in (10 ms); the rest is fetched from the real one when used;
- gettext, with which Click looks for translations of each message: the suite has none;
- platform, of which uuid (for both packages) uses one name, and typing_extensions, which msgspec takes only for
  what Python 3.11 has itself (together 12 ms);
- dataclasses, json and zoneinfo, of which orjson takes a class each, for values that the suite does not write (15 ms).

And Click compares an unknown long option with all known ones, by difflib, even while it only tries whether `-o` is
a long option. Here that is done only when the error is shown.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any


def cleandoc(text: str) -> str:
    """Returns a docstring without its indentation, as inspect.cleandoc does for one without tabs."""
    first, _, rest = text.partition("\n")
    return (first.lstrip() + ("\n" + textwrap.dedent(rest) if rest else "")).strip("\n")


class _Inspect(ModuleType):
    cleandoc = staticmethod(cleandoc)

    def __getattr__(self, name: str) -> Any:
        import inspect

        return getattr(inspect, name)


def _module(name: str, **attributes: object) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(attributes)
    return module


_GETTEXT = _module("gettext", gettext=str, ngettext=lambda one, many, count: one if count == 1 else many)
_PLATFORM = _module("platform", system=lambda: os.uname().sysname)
_DATACLASSES = _module("dataclasses", _FIELD=object())
_JSON = _module("json", JSONDecodeError=ValueError)
_ZONEINFO = _module("zoneinfo", ZoneInfo=type("ZoneInfo", (), {}))


@contextmanager
def _instead(stand_ins: Mapping[str, ModuleType | None]) -> Iterator[None]:
    """Puts the stand-ins into sys.modules, except for modules that are there already."""
    added = {name: module for name, module in stand_ins.items() if name not in sys.modules}
    sys.modules.update(added)  # type: ignore[arg-type]  # None: an import of it fails
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


def import_json_packages() -> None:
    """Imports msgspec and orjson, so that a later import of them costs nothing."""
    with _instead({"typing_extensions": None, "platform": _PLATFORM}):
        import msgspec  # noqa: F401
    with _instead({"dataclasses": _DATACLASSES, "json": _JSON, "zoneinfo": _ZONEINFO}):
        import orjson  # noqa: F401


with _instead({"inspect": _Inspect("inspect"), "gettext": _GETTEXT, "platform": _PLATFORM}):
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

__all__ = ["cleandoc", "click", "import_json_packages"]
