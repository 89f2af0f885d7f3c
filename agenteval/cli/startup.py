"""Click, imported and used in half the time.

Click imports `inspect` for one function, cleandoc; with what inspect pulls in, that is 10 ms of a start that
should take 50. It looks for a translation of every word it might say, in a suite that speaks English. And it looks
for a long option close to every short one it meets, with difflib, before it tries the short one. Here it gets a
stand-in for inspect that knows cleandoc and fetches the real module when anything else is asked of it, another for
gettext that gives back what it is given, and looks for close options only to show them.
"""

from __future__ import annotations

import sys
import textwrap
from types import ModuleType
from typing import Any


class _Inspect(ModuleType):
    @staticmethod
    def cleandoc(text: str) -> str:
        first, _, rest = text.partition("\n")
        return (first.lstrip() + ("\n" + textwrap.dedent(rest) if rest else "")).strip("\n")

    def __getattr__(self, name: str) -> Any:
        import inspect

        return getattr(inspect, name)


def _gettext() -> ModuleType:
    stand_in = ModuleType("gettext")
    stand_in.gettext = lambda text: text  # type: ignore[attr-defined]
    stand_in.ngettext = lambda one, many, n: one if n == 1 else many  # type: ignore[attr-defined]
    return stand_in


_stand_ins = {"inspect": _Inspect("inspect"), "gettext": _gettext()}
_added = [name for name in _stand_ins if name not in sys.modules]
sys.modules.update({name: _stand_ins[name] for name in _added})
try:
    import click
finally:
    for _name in _added:
        del sys.modules[_name]

import click.parser  # noqa: E402


class _NoSuchOption(click.NoSuchOption):
    """Names close options when it is shown, not when it is raised."""

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

__all__ = ["click"]
