"""The session schema: where a program keeps the logs of its sessions, and what is in them besides steps.

A session schema is an adapter schema (`outputEvents`, `splits`, `metadata`), which says what the events of the log
become, with a field `session`, which SessionLog describes. Each path of it is as in an adapter schema. The schemas are
in this folder; a SessionSchema is one of them, compiled.
"""

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, get_args

import msgspec

from agenteval.adapters.paths import Getter, Key, first_key
from agenteval.adapters.reader import Adapter
from agenteval.adapters.rules import Event, SchemaCompiler, Tests, all_hold, as_list, compile_match, first_of, values_at
from agenteval.adapters.schema_file import parse_headless
from agenteval.adapters.values import json_object
from agenteval.errors import UserError
from agenteval.streams.patterns import Pattern as CompiledPattern
from agenteval.wire.adapter_schema import Condition, Paths, Pattern, UsageField, UsagePaths, _Part
from agenteval.wire.validation import convert, explain

HERE = os.path.dirname(__file__)
# What an adapter schema must have to start a program, which a session schema does not.
NO_COMMAND = {"version": 1, "command": ["-"], "sessionMode": "stream", "prompt": {}}

Keys = tuple[Key, ...]
Change = Callable[[Any], Any]


class TurnRule(_Part):
    """The events that are a turn of the user."""

    match: Condition | list[Condition]
    """Conditions, all of which must hold."""
    content: Paths
    """The text of the turn; an event without a text is not a turn."""
    ignore: Pattern | None = None
    """A text that begins with this is not a turn: the program itself writes it in the user's name."""
    if_answered: Pattern | None = None
    """A text that begins with this is a turn only if steps follow: a command of the program."""


class SubAgents(_Part):
    """Sub-agents that have a log of their own."""

    id: Paths
    """In the log of the session: the name of a sub-agent."""
    call: Paths
    """In the same event: id of the tool call that started it."""
    files: list[str]
    """Its log, beside that of the session: {stem} is the session's file without extension, {session} its id, {id} the
    name of the sub-agent."""


class WholeCalls(_Part):
    """Events that report a tool call as a whole, where other events report it in parts."""

    match: Condition | list[Condition]
    """Conditions, all of which must hold."""
    id: Paths
    """Id of the call, in these events and in those that report parts of it, which are left out."""
    turn: Paths
    """Id of the turn in which the call began."""
    turn_end: Condition | list[Condition]
    """The event with which that turn ends; a call that ended after it has `afterTurn: true`."""


class ObjectForm(_Part):
    """An object of the log in the form that it has in the program's output."""

    path: str
    """Where the object is, or a list of such objects."""
    fields: dict[str, str]
    """The fields of that form, and where they are in the object or, with `entry`, in each of its entries."""
    flags: dict[str, Condition] = {}
    """Fields that are true where the condition holds, else false."""
    entry: str | None = None
    """The object becomes a list, ordered by name, with an object of each entry; this is the field for its name."""


class Database(_Part):
    """A SQLite database that holds the sessions."""

    sessions: str
    """Query for the id of each session, and that of the session and the call that started it, or null."""
    events: str
    """Query for the events of the session with the id `?`, each as JSON."""
    family: str | None = None
    """Query for the id of the session `?` itself and those of its sub-agents."""
    call: Paths | None = None
    """In an event: id of the tool call, as `sessions` has it for a sub-agent."""


class SessionUsage(UsagePaths):
    """Tokens and cost: reports of one session add up (`sum`), or the last one counts."""

    id: Paths | None = None
    """Reports with the same id are one: the last counts."""


class SessionLog(_Part):
    """Where a program keeps the logs of its sessions, and where in them the facts of a session are."""

    roots: list[str]
    """Folders of the logs; ~ and $VARIABLE are replaced, the first that exists counts."""
    files: list[str]
    """Patterns of the logs below such a folder."""
    id: Paths
    """Id of the session."""
    time: Paths
    """When an event was written: ISO 8601, or seconds or milliseconds since 1970."""
    turns: list[TurnRule]
    """The turns of the user."""
    cwd: Paths | None = None
    """Directory in which the agent worked."""
    cwd_file: str | None = None
    """File that holds this directory, relative to the log."""
    branch: Paths | None = None
    """Git branch in that directory."""
    model: Paths | None = None
    """Name of the model; one in angle brackets stands for none."""
    parent: Paths | None = None
    """In the first event: id of the session that started this one as a sub-agent."""
    nested: Paths | None = None
    """A list of events within a line or document."""
    key: Paths | None = None
    """An event with the same value here as an earlier one replaces the fields that it has."""
    whole_calls: WholeCalls | None = None
    """Events that report a tool call as a whole, where other events report it in parts."""
    command_lines: list[str] | None = None
    """Lists of words that become one line for a shell; a text on the way to them is decoded as JSON."""
    forms: list[ObjectForm] | None = None
    """Objects that have another form in the program's output."""
    usage: SessionUsage | None = None
    """Tokens and cost."""
    sub_agents: SubAgents | None = None
    """Sub-agents that have a log of their own."""
    database: Database | None = None
    """The logs are SQLite databases."""


# --- compiled -------------------------------------------------------------------------------------


class CompiledTurn(NamedTuple):
    """A kind of event that is a turn of the user."""

    tests: Tests
    content: Getter
    ignore: CompiledPattern | None
    if_answered: CompiledPattern | None


class CompiledUsage(NamedTuple):
    """Where an event reports tokens and cost."""

    tests: Tests
    id: Getter
    counts: dict[str, list[Getter]]
    adds_up: bool


class CompiledCalls(NamedTuple):
    """The events that report a tool call as a whole."""

    tests: Tests
    id: Getter
    turn: Getter
    turn_end: Tests


class SessionSchema:
    """A session schema, ready to read logs with."""

    def __init__(self, data: bytes, source: str) -> None:
        try:
            raw = msgspec.json.decode(data)
            log = convert(raw.pop("session"), SessionLog)
        except msgspec.ValidationError as error:
            raise UserError(f"{source}: session: {explain(str(error))}") from None
        self.name: str = raw["name"]
        self.log = log
        self.adapter = Adapter(parse_headless(msgspec.json.encode(raw | NO_COMMAND), source), source)
        self.adapter.otherwise = "final"  # a turn that ends with a tool call has no answer
        self._compiler = SchemaCompiler(source)
        self.id, self.time = self._find(log.id, "id"), self._find(log.time, "time")
        self.cwd, self.branch = self._find(log.cwd, "cwd"), self._find(log.branch, "branch")
        self.model, self.parent = self._find(log.model, "model"), self._find(log.parent, "parent")
        self.nested, self.key = self._find(log.nested, "nested"), self._find(log.key, "key")
        self.time_field = first_key(as_list(log.time)[0])
        self.whole_calls = self._whole_calls(log.whole_calls) if log.whole_calls else None
        self._changes = list(self._compile_changes())
        self.turns = [self._turn(rule, f"turns[{n}]") for n, rule in enumerate(log.turns)]
        self.usage = self._usage(log.usage) if log.usage else None
        sub_agents, database = log.sub_agents, log.database
        self.agent = self._find(sub_agents.id if sub_agents else None, "subAgents.id")
        self.call = self._find(sub_agents.call if sub_agents else database.call if database else None, "call")

    def rewrite(self, event: Event) -> None:
        """Gives the values that `commandLines` and `forms` name the form that they have in the program's output."""
        for keys, change in self._changes:
            holder: Any = event
            for key in keys[:-1]:
                inner = holder.get(key) if type(holder) is dict else None
                if type(inner) is str and type(decoded := json_object(inner)) is dict:
                    holder[key] = inner = decoded
                holder = inner
            if type(holder) is dict and keys[-1] in holder:
                holder[keys[-1]] = change(holder[keys[-1]])

    def _compile_changes(self) -> Iterator[tuple[Keys, Change]]:
        for n, path in enumerate(self.log.command_lines or []):
            yield self._keys(path, f"commandLines[{n}]"), command_line
        for n, form in enumerate(self.log.forms or []):
            field = f"forms[{n}]"
            finds = {name: self._find(path, f"{field}.fields.{name}") for name, path in form.fields.items()}
            for name, condition in form.flags.items():
                finds[name] = partial(all_hold, self._tests(condition, f"{field}.flags.{name}"))
            yield self._keys(form.path, f"{field}.path"), partial(reformed, finds, form.entry)

    def _keys(self, path: str, field: str) -> Keys:
        if not (keys := self._compiler.path(path, f"session.{field}").keys):
            raise self._compiler.error(f"session.{field}", f': "{path}" must lead to a field by names: $.a.b')
        return keys

    def _whole_calls(self, calls: WholeCalls) -> CompiledCalls:
        return CompiledCalls(
            self._tests(calls.match, "wholeCalls"),
            self._find(calls.id, "wholeCalls.id"),
            self._find(calls.turn, "wholeCalls.turn"),
            self._tests(calls.turn_end, "wholeCalls.turnEnd"),
        )

    def _find(self, paths: Paths | None, field: str) -> Getter:
        """Returns what finds the first of the paths that leads to something."""
        return first_of(values_at(self._compiler, paths, f"session.{field}"))

    def _tests(self, match: Condition | list[Condition] | None, field: str) -> Tests:
        return compile_match(self._compiler, match, f"session.{field}.match", with_items=False)[0]

    def _turn(self, rule: TurnRule, field: str) -> CompiledTurn:
        ignore, if_answered = (
            self._compiler.pattern(text, f"session.{field}") if text else None
            for text in (rule.ignore, rule.if_answered)
        )
        content = self._find(rule.content, f"{field}.content")
        return CompiledTurn(self._tests(rule.match, field), content, ignore, if_answered)

    def _usage(self, usage: SessionUsage) -> CompiledUsage:
        given = msgspec.to_builtins(usage)
        counts = {
            name: [self._find(path, f"usage.{name}") for path in as_list(given.get(name))]
            for name in get_args(UsageField)
        }
        return CompiledUsage(
            self._tests(usage.match, "usage"),
            self._find(usage.id, "usage.id"),
            {name: finds for name, finds in counts.items() if finds},
            usage.per_turn == "sum",
        )


# --- values in the form of the program's output ---------------------------------------------------


def reformed(finds: dict[str, Getter], entry: str | None, found: Any) -> Any:
    """Returns an object with these fields or, with `entry`, a list with one of each entry; anything else as it is."""
    if type(found) is list:
        return [reformed(finds, entry, item) for item in found]
    if type(found) is not dict:
        return found
    if entry is None:
        return {field: get(found) for field, get in finds.items()}
    return [{entry: key, **{field: get(found[key]) for field, get in finds.items()}} for key in sorted(found)]


def command_line(words: Any) -> Any:
    """Returns a list of words as one line for a shell; anything else as it is."""
    if type(words) is not list or not words or not all(type(word) is str for word in words):
        return words
    return " ".join(map(shell_word, words))


# In the order of preference: characters that need no quotes, those that may stand in '…', and those that may in "…".
_QUOTES = (
    ("", re.compile(r"[\w+./:@\]-]+", re.ASCII)),
    ("'", re.compile(r"\^?[^'^\\]*")),
    ('"', re.compile(r"[^`$!^]+")),
)


def shell_word(word: str) -> str:
    """Returns a word in quotes as Rust's `shlex` sets them, and so Codex in its output: part by part if need be."""
    done, at = "" if word else "''", 0
    while at < len(word):
        spans = [(found.end() if (found := pattern.match(word, at)) else at, quote) for quote, pattern in _QUOTES]
        end, quote = max(spans, key=lambda span: span[0])
        part = re.sub(r'["\\]', r"\\\g<0>", word[at:end]) if quote == '"' else word[at:end]
        done, at = f"{done}{quote}{part}{quote}", end
    return done


def session_formats() -> list[str]:
    """Returns the names of the session schemas that come with the suite."""
    return sorted(name.removesuffix(".json") for name in os.listdir(HERE) if name.endswith(".json"))


def load_session_schema(name: str) -> SessionSchema:
    """Loads the session schema of this name."""
    path = os.path.join(HERE, f"{name}.json")
    with open(path, "rb") as file:
        return SessionSchema(file.read(), path)
