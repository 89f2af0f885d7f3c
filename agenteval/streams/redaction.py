"""Replaces the values of environment variables that look like secrets in everything that is recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from agenteval.streams.jsonl import encode
from agenteval.streams.secrets import forms_of, secrets_in
from agenteval.wire.records import Record

# Limits of a piece of a secret that was cut off, in characters.
SHORTEST_PIECE = 12
LONGEST_PIECE = 500
# The fields that agents and graders write; the prompt's own are the user's.
DERIVED = frozenset(
    ("output", "trajectory", "errors", "error", "metadata", "rawLines", "stderr", "retried")
    + ("score", "scores", "outcome", "reasoning", "graderError", "trials")
)


class Redactor:
    """Replaces secret values by [redacted:NAME], also where they are escaped or encoded.

    Most texts have no secret. To look for each form by itself is 20 times as fast as a regular expression, so that one
    is used only where a form is found.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.secrets: dict[str, str] = {}  # value, in each form → variable
        for name, value in environment.items():
            for secret in secrets_in(name, value):
                for form in forms_of(secret):
                    self.secrets.setdefault(form, name)
        self._signs = _without_superstrings(self.secrets)
        as_json = (encode(form.encode("utf-8", "replace").decode())[1:-1] for form in self._signs)
        self._signs_in_json = _without_superstrings(form.decode() for form in as_json)
        self._bytes_in_json = [sign.encode() for sign in self._signs_in_json]

    def __call__(self, text: str) -> str:
        """Returns the text without secrets."""
        for sign in self._signs:
            if sign in text:
                return self._pattern.sub(self._replace, text)
        return text

    def lines(self, lines: list[str]) -> list[str]:
        """Returns the lines without secrets."""
        return list(map(self, lines)) if self.secrets else lines

    def cut(self, text: str) -> str:
        """Returns a part of a longer text without secrets, and without pieces of them at its ends."""
        text = self(text)
        for secret, name in self.secrets.items():
            if len(secret) > LONGEST_PIECE:
                continue  # its lines are secrets of their own
            for size in range(len(secret) - 1, SHORTEST_PIECE - 1, -1):
                if text.startswith(secret[-size:]):
                    text = f"[redacted:{name}]{text[size:]}"
                if text.endswith(secret[:size]):
                    text = f"{text[:-size]}[redacted:{name}]"
        return text

    def split_off_begun(self, text: str) -> tuple[str, str]:
        """Splits a text that goes on: its end may be the beginning of a secret, which is found only if it is whole."""
        begun = 0
        for secret in self.secrets:
            for size in range(min(len(secret) - 1, len(text)), begun, -1):
                if text.endswith(secret[:size]):
                    begun = size
                    break
        return text[: len(text) - begun], text[len(text) - begun :]

    def record(self, record: Record) -> Record:
        """Returns the record without secrets in derived fields: pieces of output may have been joined there."""
        if not self.secrets:
            return record
        return {name: self.value(value) if name in DERIVED else value for name, value in record.items()}

    def line(self, record: Record) -> bytes:
        """Returns the record as JSON, without secrets in derived fields."""
        data = encode(record)
        return encode(self.record(record)) if self.found_in(data) else data

    def found_in(self, data: bytes) -> bool:
        """Returns whether there is a secret in this JSON."""
        return bool(self.secrets) and any(sign in data for sign in self._bytes_in_json)

    def value(self, value: Any) -> Any:
        """Returns the JSON value without secrets."""
        return replace_texts(value, self) if self.secrets else value

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self.secrets, key=len, reverse=True)  # one secret may start with another
        return re.compile("|".join(map(re.escape, longest_first)))

    def _replace(self, found: re.Match[str]) -> str:
        return f"[redacted:{self.secrets[found[0]]}]"


def replace_texts(value: Any, replace: Callable[[str], str]) -> Any:
    """Returns the JSON value with its texts replaced; in a loop, because it may be nested deeper than calls may be."""
    top = [value]
    left: list[Any] = [top]
    while left:
        place = left.pop()
        for key, inner in place.items() if isinstance(place, dict) else enumerate(place):
            if isinstance(inner, str):
                place[key] = replace(inner)
            elif isinstance(inner, dict | list):
                copy = {replace(name): value for name, value in inner.items()} if isinstance(inner, dict) else inner[:]
                place[key] = copy
                left.append(copy)
    return top[0]


def _without_superstrings(forms: Iterable[str]) -> list[str]:
    """Returns the forms that do not contain another one: where one of the others is, one of these is."""
    kept: list[str] = []
    for form in sorted(forms, key=len):
        if not any(other in form for other in kept):
            kept.append(form)
    return kept
