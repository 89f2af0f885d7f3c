"""Finds and loads adapter schemas: those that come with the suite, by name, and files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from agenteval.errors import UserError, nearest

if TYPE_CHECKING:  # to list names needs no compiler
    from agenteval.adapters.reader import Adapter

PREFIX = "bundled:"  # names a schema of the suite, whatever files there are
BUNDLED = os.path.join(os.path.dirname(__file__), "schemas")


def bundled_adapters() -> list[str]:
    """Returns the names of the schemas that come with the suite."""
    return sorted(name.removesuffix(".json") for name in os.listdir(BUNDLED) if name.endswith(".json"))


def bundled_path(name: str) -> str:
    """Returns the file of a schema that comes with the suite."""
    return os.path.join(BUNDLED, name + ".json")


def load_adapter(ref: str) -> Adapter:
    """Loads the schema in a file, or the one that comes with the suite under this name; see Adapter.

    A file of that name in the current directory wins, unless the name has the prefix.
    """
    path = source = ref
    if ref.startswith(PREFIX) and ref.removeprefix(PREFIX) in bundled_adapters():
        path = bundled_path(ref.removeprefix(PREFIX))
    elif not ("/" in ref or ref.endswith(".json") or os.path.isfile(ref)):
        if ref not in bundled_adapters():
            hint = nearest(ref, bundled_adapters())
            raise UserError(f'no adapter schema is named "{ref}", and there is no such file; {hint}')
        path = bundled_path(ref)
    elif ref in bundled_adapters():
        source = f"./{ref} (a file here; the schema of the suite is -s {PREFIX}{ref})"
    try:
        with open(path, "rb") as file:
            return parse_adapter(file.read(), source)
    except OSError as error:
        raise UserError(f"{source}: {error.strerror}") from None


def parse_adapter(data: bytes, source: str) -> Adapter:
    """Compiles the schema in this JSON; UserError names `source` and the field that is wrong."""
    from agenteval.adapters.reader import Adapter
    from agenteval.adapters.schema_file import parse_headless

    return Adapter(parse_headless(data, source), source)
