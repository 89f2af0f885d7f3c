"""An agent of another version than the adapter was proven on: which of our flags it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterable

_REFUSAL = re.compile(
    r"""(?:unknown|unrecogni[sz]ed|unexpected|invalid|unsupported|no\ such|not\ a\ valid|found|undefined|bad|illegal)
        \s+(?:command[- ]line\s+)?(?:option|argument|flag|parameter|switch|value)s?\b[^\n]{0,40}?
        (?P<flag>-{0,2}[A-Za-z][\w-]*)
      | flag\ provided\ but\ not\ defined:\s*(?P<go>-{1,2}[\w-]+)""",
    re.VERBOSE | re.IGNORECASE,
)
_LISTED = re.compile(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*")
SEVERAL = 5  # flags in a text that is the help of a program
_FLAG = re.compile(r"-{1,2}[A-Za-z][\w-]*")


def refused_flag(texts: Iterable[str], argv: list[str]) -> str | None:
    """Returns the flag of a command line that a message refuses, None if there is no such message."""
    flags = {found[0].lstrip("-").lower(): found[0] for word in argv[1:] if (found := _FLAG.match(word))}
    for text in texts:
        for found in _REFUSAL.finditer(text):
            words = re.findall(r"[A-Za-z][\w-]*", text[found.start() : found.end() + 40])
            if named := next((flags[word.lower()] for word in words if word.lower() in flags), None):
                return named
        listed = set(_LISTED.findall(text))
        if len(listed) >= SEVERAL and (missing := [flag for flag in flags.values() if flag not in listed]):
            return missing[0]  # it printed its help instead, which does not have the flag
    return None


def explain_refusal(flag: str, adapter: str, proven_on: str | None) -> str:
    """Returns what the refusal of a flag means, to be added to the error."""
    proven = f", which was proven on {proven_on}" if proven_on else ""
    return f" (it refuses {flag} of the adapter {adapter}{proven}: use that version, or a schema without the flag)"
