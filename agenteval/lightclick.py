"""Click, imported in half the time.

Click imports `inspect` for one function, cleandoc; with what inspect pulls in, that is 10 ms of a start
that should take 50. Click gets a stand-in that knows cleandoc and fetches the real module when anything
else is asked of it.
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


if "inspect" in sys.modules:
    import click
else:
    sys.modules["inspect"] = _Inspect("inspect")
    import click

    del sys.modules["inspect"]

__all__ = ["click"]
