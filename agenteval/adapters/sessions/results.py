"""Logs of sessions → results, one session at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from agenteval.adapters.sessions.logs import log_files, read_sessions
from agenteval.adapters.sessions.session import RecordedSession
from agenteval.adapters.sessions.session_file import SessionSchema
from agenteval.streams.console import Console
from agenteval.wire.records import Record


def session_results(paths: Iterable[str], schema: SessionSchema, console: Console) -> Iterator[Record]:
    """Yields the result of each session in these files and directories; one without a turn of the user is left out."""
    for path in paths:
        for file in log_files(path, schema):
            for session in read_sessions(file, schema, console):
                try:
                    found = _result(session)
                except Exception as error:
                    console.fault(session.name, error)
                else:
                    if found is not None:
                        yield found


def _result(session: RecordedSession) -> Record | None:
    stem = os.path.splitext(os.path.basename(session.name))[0]
    ident = session.id if isinstance(session.id, str) and session.id else stem
    found = session.result(ident)
    return found if found["input"] else None
