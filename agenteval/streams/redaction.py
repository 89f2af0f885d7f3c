"""Values of environment variables that look like secrets, kept out of everything that is recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agenteval.streams.jsonl import encode
from agenteval.wire.records import Record

SHORTEST = 8  # a shorter value stands in too many texts by chance
SHORTEST_LINE = 20  # of a secret that has several lines: a key, or a file of settings with keys in it
SHORTEST_PIECE = 12  # of a secret that was cut off
LONGEST_PIECE = 500
WORD = 12  # a value of only letters is a word, up to here
# What agents and graders have put into a record; the prompt's own fields are the user's.
DERIVED = ("output", "trajectory", "errors", "metadata", "score", "scores", "outcome", "trials")

_KINDS = "PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIAL|API_?KEY|ACCESS_?KEY|SECRET_?KEY|PRIVATE_?KEY"
_SECRET = re.compile(
    rf"(?:^|_)(?:KEYS?|PASS|PAT|JWT|(?:{_KINDS})S?)\d*(?:_|$)|(?:{_KINDS})S?\d*$|_(?:PWD|AUTH)$|SSHPASS$",
    re.IGNORECASE,
)
_PLACE = re.compile(r"_(?:PATH|FILE|DIR|SOCK|NAME|LIMIT|COUNT)$", re.IGNORECASE)
_PASSWORD_IN_URL = re.compile(rf"://[^/\s:@]*:([^/\s@]{{{SHORTEST},}})@")


def looks_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret, rather than say where one is or how long it may be."""
    return _SECRET.search(name) is not None and _PLACE.search(name) is None


class Redactor:
    """Puts [redacted:NAME] in the place of secret values, also as they stand inside JSON."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._names: dict[str, str] = {}
        for name, value in environment.items():
            for secret in secrets_in(name, value):
                for form in (secret, *_escaped(secret)):
                    self._names.setdefault(form, name)
        longest_first = sorted(self._names, key=len, reverse=True)  # one secret may begin with another
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        return self._pattern.sub(self._replace, text) if self._pattern is not None else text

    def cut(self, text: str) -> str:
        """A text that was cut out of a longer one, without secrets and without pieces of them at its ends."""
        text = self(text)
        for secret, name in self._names.items():
            if len(secret) > LONGEST_PIECE:
                continue  # it has lines, which are here too
            for size in range(len(secret) - 1, SHORTEST_PIECE - 1, -1):
                if text.startswith(secret[-size:]):
                    text = f"[redacted:{name}]{text[size:]}"
                if text.endswith(secret[:size]):
                    text = f"{text[:-size]}[redacted:{name}]"
        return text

    def record(self, record: Record) -> Record:
        """The record, without secrets in what was made of the agent's words: they may have been put together since."""
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
    """What is secret of a variable: its value, each long line of it, or the password in an address."""
    if not looks_secret(name):
        yield from _PASSWORD_IN_URL.findall(value)
        return
    value = value.strip()
    if len(value) < SHORTEST or (len(value) <= WORD and value.isalpha()):
        return
    yield value
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line for line in map(str.strip, lines) if len(line) >= SHORTEST_LINE and line[:5] != "-----")


def _escaped(value: str) -> Iterator[str]:
    """How the value may stand inside a JSON text, as various programs write it, and in a JSON text inside of one."""
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
