"""What the log of an agent's session says about tokens and model, which its output may not.

Agents do not print the tokens of sub-agents, or those of a turn that was cut short, but most write them into the log of
the session. The log is found by the session's id; a sub-agent has a log of its own, which belongs to that of the
session.
"""

import glob
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache

from agenteval.adapters.rules import Event
from agenteval.adapters.sessions.logs import RecordedSession, connect, log_events, log_files, roots, rows, stored_events
from agenteval.adapters.sessions.schema import SessionSchema, load_session_schema
from agenteval.adapters.values import total
from agenteval.errors import UserError
from agenteval.streams.files import LARGEST, is_regular
from agenteval.streams.source import read_objects
from agenteval.wire.records import Record

NAMED_BY = 8  # characters of the session's id that the name of its log has at least

_schema = cache(load_session_schema)


def session_log(name: str, session_id: str, env: Mapping[str, str]) -> Record | None:
    """Returns the tokens and the model in the log of a session and of its sub-agents; None if there is no such log.

    `name` is that of a session schema, `env` the agent's environment.
    """
    schema = _schema(name)
    sessions: list[RecordedSession] = []
    with suppress(OSError, UserError, sqlite3.Error, UnicodeDecodeError):
        read = _in_databases if schema.log.database else _in_files
        for root in roots(schema, env):
            if sessions := [session for session in read(root, schema, session_id) if session.spent()]:
                break
    if not sessions:
        return None
    usages = [session.spent() for session in sessions]
    sums = {field: total(*(usage.get(field) for usage in usages)) for field in usages[0]}
    found: Record = {field: number for field, number in sums.items() if number is not None}
    return found | ({"model": sessions[0].model} if sessions[0].model else {})


def _in_files(root: str, schema: SessionSchema, session_id: str) -> Iterator[RecordedSession]:
    """Yields the session, then its sub-agents."""
    files = list(filter(is_regular, log_files(root, schema)))
    for file in files:
        if (
            session_id[:NAMED_BY] in os.path.basename(file)
            and (session := _read(file, schema)).session_id == session_id
        ):
            yield session
            yield from _beside(file, session_id, schema)
            since = (session.start or 0) / 1000
            yield from _started_by({session_id}, [other for other in files if _changed(other) >= since], schema)
            return


def _read(file: str, schema: SessionSchema) -> RecordedSession:
    return _session(log_events(file, schema, _Unreported()), schema)


def _session(events: Iterable[Event], schema: SessionSchema) -> RecordedSession:
    session = RecordedSession(schema, "")
    for event in events:
        session.add(event)
    return session


def _beside(file: str, session_id: str, schema: SessionSchema) -> Iterator[RecordedSession]:
    """Yields the sub-agents in files that are named after the session or its log."""
    folder, name = os.path.split(file)
    names = {"{stem}": os.path.splitext(name)[0], "{session}": session_id}
    for pattern in schema.log.sub_agents.files if schema.log.sub_agents else []:
        if found := next((word for word in names if word in pattern), None):
            beside = pattern.replace(found, glob.escape(names[found])).replace("{id}", "*")
            files = sorted(glob.glob(os.path.join(glob.escape(folder), beside)))
            yield from (_read(child, schema) for child in files if is_regular(child))


def _started_by(parents: set[str], files: Iterable[str], schema: SessionSchema) -> Iterator[RecordedSession]:
    """Yields the sessions that name one of these as the one that started them, and those started by them."""
    if schema.log.parent is None:
        return
    for file in sorted(files, key=_changed):
        first = next(iter(read_objects(file, _Unreported())), {})
        if schema.parent(first) in parents:
            session = _read(file, schema)
            parents.add(session.session_id)
            yield session


def _changed(file: str) -> float:
    with suppress(OSError):
        return os.stat(file).st_mtime
    return 0.0


def _in_databases(root: str, schema: SessionSchema, session_id: str) -> Iterator[RecordedSession]:
    """Yields the session, then its sub-agents."""
    query = schema.log.database
    assert query is not None
    for file in log_files(root, schema):
        with connect(file) as database:
            family = list(rows(database, query.family, session_id)) if query.family else [(session_id,)]
            for (ident,) in family:
                yield _session(stored_events(database, query, ident, file, _Unreported()), schema)


class _Unreported:
    """Takes note of nothing: the last line of a log may be cut off if the agent was killed."""

    strict = False
    max_line = LARGEST

    def refuse(self, where: str, why: str) -> None:
        """Ignores a line that cannot be read."""
