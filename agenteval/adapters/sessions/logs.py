"""Files of session logs → sessions: finds them, reads them, and nests sub-agents."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from agenteval.adapters.conditions import Event
from agenteval.adapters.sessions.session import RecordedSession
from agenteval.adapters.sessions.session_file import SessionSchema
from agenteval.errors import BadRecord, StrictStop, UserError
from agenteval.streams.jsonl import decode
from agenteval.streams.source import Refusals, read_objects, report_unreadable

DEEPEST = 8  # sub-agents of sub-agents that are read


def default_root(schema: SessionSchema) -> str:
    """Returns the folder in which the program keeps its logs; UserError if there is none."""
    for root in schema.log.roots:
        path = os.path.expanduser(os.path.expandvars(root))
        if "$" not in path and os.path.exists(path):
            return path
    shown = schema.log.roots[-1]
    raise UserError(f"{shown}: no sessions of {schema.name} there; give the files or a directory")


def log_files(path: str, schema: SessionSchema) -> Iterator[str]:
    """Yields the logs below a directory by name, or the file itself."""
    if not os.path.isdir(path):
        yield path
        return
    found = {
        file
        for pattern in schema.log.files
        for file in glob.iglob(os.path.join(glob.escape(path), pattern), recursive=True, include_hidden=True)
    }
    if not found:
        tail = schema.log.files[0].rpartition("/")[2]
        found = set(glob.iglob(os.path.join(glob.escape(path), "**", tail), recursive=True, include_hidden=True))
        found -= {file for file in found if _is_child(file, schema)}
    yield from sorted(file for file in found if os.path.isfile(file) and not _is_child(file, schema))


def _is_child(file: str, schema: SessionSchema) -> bool:
    """Returns whether a file is the log of a sub-agent, which is read with that of its session."""
    sub_agents = schema.log.sub_agents
    names = [os.path.basename(pattern).split("{id}") for pattern in sub_agents.files] if sub_agents else []
    name = os.path.basename(file)
    return any(name.startswith(before) and name.endswith(after) for before, after in names)


def read_sessions(path: str, schema: SessionSchema, refusals: Refusals) -> Iterator[RecordedSession]:
    """Yields the sessions in a log; what cannot be read is reported."""
    if schema.log.database is not None:
        yield from _read_database(path, schema, refusals)
        return
    try:
        yield _read_file(path, schema, refusals, 0)
    except StrictStop:
        raise
    except (UserError, OSError) as error:
        report_unreadable(path, error, refusals)


def _read_file(path: str, schema: SessionSchema, refusals: Refusals, depth: int) -> RecordedSession:
    session = RecordedSession(schema, path)
    for event in _revised(_events(path, schema, refusals), schema):
        session.add(event)
        if depth < DEEPEST and (found := session.sub_agent(event)) is not None:
            agent, call = found
            if session.is_open_to(call) and (child := _child_file(path, agent, schema)) is not None:
                session.nest(_read_file(child, schema, refusals, depth + 1), call)
    if schema.log.cwd_file and session.cwd is None:
        with suppress(OSError), open(os.path.join(os.path.dirname(path), schema.log.cwd_file)) as file:
            session.cwd = file.read().strip()
    return session


def _child_file(path: str, agent: str, schema: SessionSchema) -> str | None:
    """Returns the log of a sub-agent, None if it is not there."""
    assert schema.log.sub_agents is not None
    if os.sep in agent:
        return None
    folder, name = os.path.split(path)
    for pattern in schema.log.sub_agents.files:
        file = pattern.replace("{stem}", os.path.splitext(name)[0]).replace("{id}", agent)
        if os.path.isfile(found := os.path.join(folder, file)) and not os.path.samefile(found, path):
            return found
    return None


def _events(path: str, schema: SessionSchema, refusals: Refusals) -> Iterator[Event]:
    """Yields the events of a log, and those within them."""
    for event in read_objects(path, refusals):
        yield event
        inner = schema.nested(event)
        if type(inner) is list:
            yield from (item for item in inner if type(item) is dict)


def _revised(events: Iterable[Event], schema: SessionSchema) -> Iterable[Event]:
    """Returns the events in order, of those with the same key the last, in the place of the first."""
    if schema.log.key is None:
        return events
    kept: dict[object, Event] = {}
    for event in events:
        key = schema.key(event)
        kept[key if type(key) is str else len(kept)] = event
    return kept.values()


# --- databases ------------------------------------------------------------------------------------


def _read_database(path: str, schema: SessionSchema, refusals: Refusals) -> Iterator[RecordedSession]:
    """Yields the sessions in a SQLite database, each with those of its sub-agents."""
    import sqlite3
    from urllib.parse import quote

    assert schema.log.database is not None
    query = schema.log.database
    children: dict[str, list[tuple[str, str]]] = {}
    try:
        with open(path, "rb"):
            pass
        database = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro", uri=True)
        try:
            found = database.execute(query.sessions).fetchall()
            for ident, parent, call in found:
                if parent is not None:
                    children.setdefault(parent, []).append((ident, call))
            known = {ident for ident, _, _ in found}

            def read(ident: str, depth: int) -> RecordedSession:
                session = RecordedSession(schema, f"{path}:{ident}")
                for (text,) in database.execute(query.events, (ident,)):
                    try:
                        event = decode(text)
                    except BadRecord as error:
                        refusals.refuse(f"{path}:{ident}", str(error))
                        continue
                    session.add(event)
                    for child, call in children.get(ident, ()) if depth < DEEPEST else ():
                        if call and schema.call(event) == call and session.is_open_to(call):
                            session.nest(read(child, depth + 1), call)
                return session

            for ident, parent, _ in found:
                if parent is None or parent not in known:
                    yield read(ident, 0)
        finally:
            database.close()
    except (OSError, sqlite3.Error) as error:
        refusals.refuse(
            path, str(error.strerror) if isinstance(error, OSError) else f"not a database of sessions: {error}"
        )
