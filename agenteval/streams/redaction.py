"""Replaces the values of environment variables that look like secrets in everything that is recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agenteval.streams.jsonl import encode
from agenteval.wire.records import Record

# All limits count characters.
SHORTEST = 8  # a shorter value occurs in too many texts by chance
LONGEST_WORD = 12  # up to here, a value of letters only is a word, not a secret
SHORTEST_LINE = 20  # of a secret with several lines: a key, or a file of settings with keys in it
SHORTEST_PIECE = 12  # of a secret that was cut off
LONGEST_PIECE = 500
# The fields that agents and graders write; the prompt's own are the user's.
DERIVED = ("output", "trajectory", "errors", "metadata", "score", "scores", "outcome", "graderError", "trials")

_KINDS = "PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIAL|API_?KEY|ACCESS_?KEY|SECRET_?KEY|PRIVATE_?KEY"
_SECRET = re.compile(
    rf"(?:^|_)(?:KEYS?|PASS|PAT|JWT|(?:{_KINDS})S?)\d*(?:_|$)|(?:{_KINDS})S?\d*$|_(?:PWD|AUTH)$|SSHPASS$",
    re.IGNORECASE,
)
_PLACE = re.compile(r"_(?:PATH|FILE|DIR|SOCK|NAME|LIMIT|COUNT)$", re.IGNORECASE)
_PASSWORD_IN_URL = re.compile(rf"://[^/\s:@]*:([^/\s@]{{{SHORTEST},}})@")


def looks_secret(name: str) -> bool:
    """Returns whether a variable of this name holds a secret, rather than its place or its size."""
    return _SECRET.search(name) is not None and _PLACE.search(name) is None


class Redactor:
    """Replaces secret values by [redacted:NAME], also where they are escaped in JSON."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._names: dict[str, str] = {}
        for name, value in environment.items():
            for secret in secrets_in(name, value):
                for form in (secret, *_escaped(secret)):
                    self._names.setdefault(form, name)
        longest_first = sorted(self._names, key=len, reverse=True)  # one secret may start with another
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """Returns the text without secrets."""
        return self._pattern.sub(self._replace, text) if self._pattern is not None else text

    def cut(self, text: str) -> str:
        """Returns a part of a longer text without secrets, and without pieces of them at its ends."""
        text = self(text)
        for secret, name in self._names.items():
            if len(secret) > LONGEST_PIECE:
                continue  # its lines are secrets of their own
            for size in range(len(secret) - 1, SHORTEST_PIECE - 1, -1):
                if text.startswith(secret[-size:]):
                    text = f"[redacted:{name}]{text[size:]}"
                if text.endswith(secret[:size]):
                    text = f"{text[:-size]}[redacted:{name}]"
        return text

    def record(self, record: Record) -> Record:
        """Returns the record without secrets in derived fields: pieces of output may have been joined there."""
        if self._pattern is None:
            return record
        return {name: self._within(value) if name in DERIVED else value for name, value in record.items()}

    def _within(self, value: Any) -> Any:
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {self(name): self._within(inner) for name, inner in value.items()}
        return [self._within(inner) for inner in value] if isinstance(value, list) else value

    def _replace(self, found: re.Match[str]) -> str:
        return f"[redacted:{self._names[found[0]]}]"


def secrets_in(name: str, value: str) -> Iterator[str]:
    """Yields the secrets in a variable: its value and each long line of it, or the password in a URL."""
    if not looks_secret(name):
        yield from _PASSWORD_IN_URL.findall(value)
        return
    value = value.strip()
    if len(value) < SHORTEST or (len(value) <= LONGEST_WORD and value.isalpha()):
        return
    yield value
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line for line in map(str.strip, lines) if len(line) >= SHORTEST_LINE and line[:5] != "-----")


def _escaped(value: str) -> Iterator[str]:
    """Yields the forms of a value in JSON, as various programs write it, and in JSON within JSON."""
    import json  # only where there is a secret

    value = value.encode("utf-8", "replace").decode()
    plain = encode(value).decode()[1:-1]
    ascii_only = json.dumps(value)[1:-1]
    yield plain
    yield encode(plain).decode()[1:-1]
    yield ascii_only
    yield json.dumps(ascii_only)[1:-1]
    yield ascii_only.replace("/", "\\/")
    for html in (plain, ascii_only):
        yield html.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
