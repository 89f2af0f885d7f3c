"""How a metadata key was read; streams/rows.py is the one place now."""

from __future__ import annotations

import sys
from typing import Any

from agenteval.streams.text import plain_text


def metadata_path(key: str) -> tuple[str, ...]:
    """The path below `metadata` of a key with dots; a leading `metadata.` may be left out."""
    return tuple(key.removeprefix("metadata.").split("."))


def metadata_text(metadata: dict[str, Any] | None, path: tuple[str, ...] | None) -> str | None:
    """The value at a path below `metadata` as text; None if there is none."""
    value: Any = metadata if path else None
    for key in path or ():
        value = value.get(key) if isinstance(value, dict) else None
    return None if value is None else sys.intern(plain_text(value))
