"""Halves of surrogate pairs: agents that print a text in pieces may cut a character in two (`\\ud83d`, then `\\ude00`).

No encoder writes half a pair, and no Struct holds one. So a half is kept as a character of the last private-use plane
until its text is whole: then two halves become the character they stand for, and one alone becomes U+FFFD.
"""

from __future__ import annotations

import re
from typing import Any

from agenteval.streams.redaction import replace_texts

_PLANE = 0x10F800 - 0xD800
# These are compiled when there is one, or a line that is not quite JSON.
_LONE = "[\ud800-\udfff]"
_ANY = r"\\u[dD][89a-fA-F]|" + _LONE
_KEPT = "[\U0010f800-\U0010fbff][\U0010fc00-\U0010ffff]|[\U0010f800-\U0010ffff]"


def may_have_halves(line: str) -> bool:
    """Returns whether there is half a pair, or any escaped surrogate, in a line of JSON."""
    return bool(re.search(_ANY, line))


def kept(text: str) -> str:
    """Returns the text with its halves as characters that can be written."""
    return re.sub(_LONE, lambda half: chr(ord(half[0]) + _PLANE), text)


def joined(text: str) -> str:
    """Returns a whole text: its kept halves joined to characters, those without a partner replaced."""
    return re.sub(_KEPT, _character, text)


def held_back(text: str) -> tuple[str, str]:
    """Returns a piece of a text without the first half of a pair at its end, and that half, "" if there is none."""
    return (text[:-1], text[-1]) if "\U0010f800" <= text[-1:] <= "\U0010fbff" else (text, "")


def without_halves(value: Any) -> Any:
    """Returns a JSON value with all its texts joined."""
    return replace_texts(value, joined)


def _character(found: re.Match[str]) -> str:
    halves = "".join(chr(ord(half) - _PLANE) for half in found[0])
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le") if len(halves) == 2 else "\ufffd"
