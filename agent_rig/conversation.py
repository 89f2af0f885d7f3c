"""What a model is asked and what it replies, whatever API it is said in."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

Body = dict[str, Any]
_numbers = itertools.count(1)


class Asked(NamedTuple):
    """A request to the model."""

    prompt: str
    """What the user said last."""
    answered: bool
    """The last word is a tool's result."""
    tools: dict[str, Body]
    """The JSON Schema of each tool's arguments."""
    form: Body | None = None
    """The JSON Schema that the answer has to follow, where one was given."""


class Call(NamedTuple):
    """A tool that the model wants to be run."""

    name: str
    arguments: Body


class Usage(NamedTuple):
    """Tokens as one would pay them: `cached` is part of `input`, `reasoning` part of `output`."""

    input: int
    cached: int
    output: int
    reasoning: int


class Reply(NamedTuple):
    """What the model says; with a call it wants to go on."""

    text: str
    usage: Usage
    thought: str = ""
    call: Call | None = None


def new_id(kind: str) -> str:
    """An id that no other reply has."""
    return f"{kind}_{next(_numbers):08d}"


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or "" for part in content or [] if isinstance(part, dict))


def halves(text: str) -> tuple[str, str]:
    """The text in two pieces, as a stream would bring it."""
    middle = len(text) // 2
    return text[:middle], text[middle:]
