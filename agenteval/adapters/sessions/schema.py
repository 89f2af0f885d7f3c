"""The session schema: where a program keeps the logs of its sessions, and what is in them besides steps.

A session schema is an adapter schema (`outputEvents`, `splits`, `metadata`), which says what the events of the log
become, with a field `session`. Each path of it is as in an adapter schema.
"""

from __future__ import annotations

from agenteval.wire.adapter_schema import Condition, Paths, Pattern, UsagePaths, _Part


class TurnRule(_Part):
    """The events that are a turn of the user."""

    match: Condition | list[Condition]
    """Conditions, all of which must hold."""
    content: Paths
    """The text of the turn; an event without one is no turn."""
    ignore: Pattern | None = None
    """A text in which this is found at the start is no turn: what the program itself writes in the user's name."""
    if_answered: Pattern | None = None
    """A text in which this is found at the start is a turn only if steps follow: a command of the program."""


class SubAgents(_Part):
    """Sub-agents that have a log of their own."""

    id: Paths
    """In the log of the session: the name of a sub-agent."""
    call: Paths
    """In the same event: id of the tool call that started it."""
    files: list[str]
    """Its log, beside that of the session: {stem} is the session's file without extension, {id} the name."""


class Database(_Part):
    """A SQLite database that holds the sessions."""

    sessions: str
    """Query for the id of each session, and that of the session and the call that started it, or null."""
    events: str
    """Query for the events of the session with the id `?`, each as JSON."""
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
    nested: Paths | None = None
    """A list of events within a line or document."""
    key: Paths | None = None
    """An event with the same value here as an earlier one replaces it."""
    usage: SessionUsage | None = None
    """Tokens and cost."""
    sub_agents: SubAgents | None = None
    """Sub-agents that have a log of their own."""
    database: Database | None = None
    """The logs are SQLite databases."""
