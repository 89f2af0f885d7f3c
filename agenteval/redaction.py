"""Values of environment variables that look like secrets, kept out of everything that is recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agenteval.stream import encode

SHORTEST = 8  # a shorter value stands in too many texts by chance
_SECRET = re.compile(
    r"(?:^|_)(?:API_?KEYS?|ACCESS_?KEYS?|KEYS?|TOKENS?|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|PASS|CREDENTIALS?|PAT)(?:_|$)",
    re.IGNORECASE,
)
_PLACE = re.compile(r"_(?:PATH|FILE|DIR|SOCK|NAME|LIMIT|COUNT)$", re.IGNORECASE)


def looks_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret, rather than say where one is or how long it may be."""
    return _SECRET.search(name) is not None and _PLACE.search(name) is None


class Redactor:
    """Puts [redacted:NAME] in the place of secret values, also as they stand inside JSON."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._names: dict[str, str] = {}
        for name, value in environment.items():
            if looks_secret(name) and len(value) >= SHORTEST:
                for form in (value, *_escaped(value)):
                    self._names.setdefault(form, name)
        longest_first = sorted(self._names, key=len, reverse=True)  # one secret may begin with another
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        return self._pattern.sub(self._replace, text) if self._pattern is not None else text

    def _replace(self, found: re.Match[str]) -> str:
        return f"[redacted:{self._names[found[0]]}]"


def _escaped(value: str) -> list[str]:
    """How the value may stand inside a JSON text: once, and in a JSON text inside of one."""
    forms = []
    for _ in range(2):
        value = encode(value.encode("utf-8", "replace").decode()).decode()[1:-1]
        forms.append(value)
    return forms
