"""Finds and compiles the session schemas that come with the suite."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from agenteval.adapters.parts import compile_pattern
from agenteval.adapters.reader import Adapter
from agenteval.adapters.rules import CompiledCondition, SchemaCompiler, as_list, compile_match
from agenteval.adapters.schema_file import parse_headless
from agenteval.adapters.sessions.schema import SessionLog, SessionUsage, TurnRule
from agenteval.errors import UserError
from agenteval.streams.patterns import Pattern
from agenteval.wire.adapter_schema import Condition, Paths, UsageField
from agenteval.wire.validation import explain

HERE = os.path.dirname(__file__)
# A session schema starts no program: what an adapter schema must have for that.
NO_COMMAND = {"version": 1, "command": ["-"], "sessionMode": "stream", "prompt": {}}
USAGE: dict[UsageField, str] = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cachedTokens": "cached_tokens",
    "costUsd": "cost_usd",
}

Find = Callable[[Any], Any]


class CompiledTurn(NamedTuple):
    """A kind of event that is a turn of the user."""

    tests: tuple[CompiledCondition, ...]
    content: Find
    ignore: Pattern | None
    if_answered: Pattern | None


class CompiledUsage(NamedTuple):
    """Where an event reports tokens and cost."""

    tests: tuple[CompiledCondition, ...]
    id: Find
    counts: dict[str, list[Find]]
    adds_up: bool


class SessionSchema:
    """A session schema, ready to read logs with."""

    def __init__(self, data: bytes, source: str) -> None:
        try:
            raw = msgspec.json.decode(data)
            log = msgspec.convert(raw.pop("session"), SessionLog)
        except msgspec.ValidationError as error:
            raise UserError(f"{source}: session: {explain(str(error))}") from None
        self.name: str = raw["name"]
        self.log = log
        self.adapter = Adapter(parse_headless(msgspec.json.encode(raw | NO_COMMAND), source), source)
        self._compiler = SchemaCompiler(source)
        self.id, self.time = self._find(log.id, "id"), self._find(log.time, "time")
        self.cwd, self.branch = self._find(log.cwd, "cwd"), self._find(log.branch, "branch")
        self.model = self._find(log.model, "model")
        self.nested, self.key = self._find(log.nested, "nested"), self._find(log.key, "key")
        self.turns = [self._turn(rule, f"turns[{n}]") for n, rule in enumerate(log.turns)]
        self.usage = self._usage(log.usage) if log.usage else None
        sub_agents, database = log.sub_agents, log.database
        self.agent = self._find(sub_agents.id if sub_agents else None, "subAgents.id")
        self.call = self._find(sub_agents.call if sub_agents else database.call if database else None, "call")

    def _find(self, paths: Paths | None, field: str) -> Find:
        """Returns what finds the first of the paths that leads to something."""
        getters = [self._compiler.path(text, f"session.{field}").get for text in as_list(paths)]
        if len(getters) == 1:
            return getters[0]
        return lambda event: next((found for get in getters if (found := get(event)) is not None), None)

    def _tests(self, match: Condition | list[Condition] | None, field: str) -> tuple[CompiledCondition, ...]:
        tests, item = compile_match(self._compiler, match, f"session.{field}.match")
        if item is not None:
            raise self._compiler.error(f"session.{field}.match", " may not have [*]")
        return tests

    def _turn(self, rule: TurnRule, field: str) -> CompiledTurn:
        ignore, if_answered = (
            compile_pattern(self._compiler, text, f"session.{field}") if text else None
            for text in (rule.ignore, rule.if_answered)
        )
        content = self._find(rule.content, f"{field}.content")
        return CompiledTurn(self._tests(rule.match, field), content, ignore, if_answered)

    def _usage(self, usage: SessionUsage) -> CompiledUsage:
        counts = {
            name: [self._find(path, f"usage.{name}") for path in as_list(getattr(usage, field))]
            for name, field in USAGE.items()
        }
        return CompiledUsage(
            self._tests(usage.match, "usage"),
            self._find(usage.id, "usage.id"),
            {name: finds for name, finds in counts.items() if finds},
            usage.per_turn == "sum",
        )


def session_formats() -> list[str]:
    """Returns the names of the session schemas that come with the suite."""
    return sorted(name.removesuffix(".json") for name in os.listdir(HERE) if name.endswith(".json"))


def load_session_schema(name: str) -> SessionSchema:
    """Loads the session schema of this name."""
    path = os.path.join(HERE, f"{name}.json")
    with open(path, "rb") as file:
        return SessionSchema(file.read(), path)
