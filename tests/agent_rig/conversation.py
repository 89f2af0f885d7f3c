"""Requests to a model and its replies, independent of the API."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

Body = dict[str, Any]
_numbers = itertools.count(1)


class ModelRequest(NamedTuple):
    """A request to the model."""

    prompt: str
    """The last message of the user."""
    ends_with_tool_result: bool
    tools: dict[str, Body]
    """Tool name → JSON Schema of its arguments."""
    answer_schema: Body | None = None
    """The JSON Schema that the answer must follow, if any."""


class Call(NamedTuple):
    """A tool call by the model."""

    name: str
    arguments: Body


class Usage(NamedTuple):
    """Token counts as billed: `cached` is part of `input`, `reasoning` part of `output`."""

    input: int
    cached: int
    output: int
    reasoning: int


class Reply(NamedTuple):
    """A reply of the model; with calls, the conversation goes on."""

    text: str
    usage: Usage
    thought: str = ""
    calls: tuple[Call, ...] = ()
    cut: bool = False
    """It ends at the limit of tokens."""


def new_id(kind: str) -> str:
    """Returns a unique id."""
    return f"{kind}_{next(_numbers):08d}"


def text_of(content: Any) -> str:
    """Returns the text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or "" for part in content or [] if isinstance(part, dict))


def halves(text: str) -> tuple[str, str]:
    """Returns the text in two pieces, as deltas of a stream."""
    middle = len(text) // 2
    return text[:middle], text[middle:]
