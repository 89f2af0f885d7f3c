"""Builds small adapter schemas and events."""

from __future__ import annotations

import json
from typing import Any

from agenteval.adapters.explain import Explainer
from agenteval.adapters.reader import Adapter, Reading
from agenteval.adapters.schema_file import parse_adapter

BASE: dict[str, Any] = {
    "version": 1,
    "name": "my",
    "command": ["my"],
    "sessionMode": "stream",
    "prompt": {"flag": "-p"},
}


def adapter(**fields: Any) -> Adapter:
    return parse_adapter(json.dumps(BASE | fields).encode(), "my.json")


def event(match: Any, emit_as: str, **extract: Any) -> dict[str, Any]:
    return {"match": match, "emitAs": emit_as, "extract": extract}


def is_type(value: Any) -> dict[str, Any]:
    return {"path": "$.type", "value": value}


def lines(*events: Any) -> list[str]:
    return [one if isinstance(one, str) else json.dumps(one) for one in events]


def brief(reading: Reading) -> list[tuple[Any, ...]]:
    """Returns each step as a tuple: type, then content or name, status, input, output."""
    return [
        tuple(step[key] for key in ("type", "content", "name", "status", "input", "output") if key in step)
        for step in reading.trajectory
    ]


def contents(reading: Reading) -> dict[str, Any]:
    """All that a reading gives."""
    return {name: getattr(reading, name) for name in NOTHING}


def facts(reading: Reading) -> Any:
    """Returns what a reading gives, to compare it with another."""
    return reading.trajectory, reading.output, reading.usage, reading.errors, reading.facts, reading.session_id


def read_traced(schema: Adapter, raw_lines: list[str]) -> Reading:
    """Reads lines as --explain does."""
    explainer = Explainer(schema.config, "test")
    list(explainer.explain({"id": "", "input": "", "rawLines": raw_lines}))
    return explainer.reading


NOTHING: dict[str, Any] = {
    "trajectory": [],
    "output": "",
    "usage": {},
    "errors": [],
    "tool_errors": False,
    "session_id": None,
    "facts": {},
}
BLOCKS = "$.content[*]"
TOOLS = [
    event(is_type("text"), "message", content="$.text"),
    event(is_type("call"), "tool_call", id="$.id", title="$.name", input="$.in"),
    event(
        is_type("end"),
        "tool_call",
        id="$.id",
        title="$.name",
        output="$.out",
        status="$.status",
        isError="$.err",
    ),
]


def call(**fields: Any) -> dict[str, Any]:
    return {"type": "call", **fields}


def end(**fields: Any) -> dict[str, Any]:
    return {"type": "end", **fields}
