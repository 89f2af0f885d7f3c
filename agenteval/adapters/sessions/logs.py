"""Logs of sessions → results: finds the files, reads each session with its sub-agents, and makes a result of it.

A RecordedSession takes in the events of a log one by one. The log of a sub-agent is read when the event that started it
is met, and nested below that tool call.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any
from urllib.parse import quote

from agenteval.adapters.imported import ImportedResult
from agenteval.adapters.reader import Reading
from agenteval.adapters.rules import Event, all_hold
from agenteval.adapters.sessions.schema import CompiledTurn, Database, SessionSchema
from agenteval.adapters.trajectory import Step
from agenteval.adapters.values import as_text, total
from agenteval.errors import BadRecord, StrictStop, UserError
from agenteval.streams.console import Console
from agenteval.streams.files import LARGEST, describe_kind, is_regular, open_regular, read_regular
from agenteval.streams.jsonl import decode, encode
from agenteval.streams.source import Refusals, read_objects, report_unreadable
from agenteval.wire.records import Record

DEEPEST = 8  # sub-agents of sub-agents that are read
LONGEST_PATH = 1 << 16
ROW_SECONDS = 20.0  # that a database may take for one row
STEPS = 100_000  # of SQLite's machine between two looks at the clock

Usage = dict[str, int | float]


def roots(schema: SessionSchema, env: Mapping[str, str]) -> Iterator[str]:
    """Yields the folders of logs that exist for a program with this environment."""
    for root in schema.log.roots:
        path = re.sub(r"\$(\w+)", lambda found: env.get(found[1]) or found[0], root)
        path = re.sub(r"^~", lambda _: env.get("HOME") or os.path.expanduser("~"), path)
        if "$" not in path and os.path.isdir(path):
            yield path


def default_root(schema: SessionSchema) -> str:
    """Returns the folder in which the program keeps its logs; raises UserError if there is none."""
    for root in roots(schema, os.environ):
        return root
    raise UserError(f"{schema.log.roots[-1]}: contains no sessions of {schema.name}; give the files or a directory")


def session_results(paths: Iterable[str], schema: SessionSchema, console: Console) -> Iterator[Record]:
    """Yields the result of each session in these files and directories; one without a turn of the user is left out."""
    paths = list(paths)
    for file in (file for path in paths for file in log_files(path, schema)):
        if file not in paths and not is_regular(file):
            console.refuse(file, f"is {describe_kind(os.lstat(file).st_mode)}, not a regular file")
            continue
        for session in read_sessions(file, schema, console):
            try:
                found = session.result()
            except Exception as error:
                console.fault(session.name, error)
            else:
                if found["input"]:
                    yield found


def log_files(path: str, schema: SessionSchema) -> Iterator[str]:
    """Yields the logs below a directory by name, or the file itself."""
    if not os.path.isdir(path):
        yield path
        return
    tail = schema.log.files[0].rpartition("/")[2]
    for patterns in (schema.log.files, [f"**/{tail}"]):
        found = [file for pattern in patterns for file in _matching(path, pattern.split("/"))]
        if found:
            break
    once = {(status.st_dev, status.st_ino): file for file in sorted(found, reverse=True) if (status := os.lstat(file))}
    yield from sorted(file for file in once.values() if not _is_child(file, schema))


def _matching(folder: str, pattern: list[str]) -> Iterator[str]:
    """Yields the files below a folder that match a pattern of names; links to folders are not followed."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and pattern[0] == "**":
                yield from _matching(entry.path, pattern)
            if fnmatchcase(entry.name, pattern[0]) and pattern[0] != "**":
                if is_folder and len(pattern) > 1:
                    yield from _matching(entry.path, pattern[1:])
                elif not is_folder and len(pattern) == 1:
                    yield entry.path
    if pattern[0] == "**":
        yield from _matching(folder, pattern[1:])


def _is_child(file: str, schema: SessionSchema) -> bool:
    """Returns whether a file is the log of a sub-agent, which is read with that of its session."""
    sub_agents = schema.log.sub_agents
    names = [os.path.basename(pattern).split("{id}") for pattern in sub_agents.files] if sub_agents else []
    name = os.path.basename(file)
    return any(before and name.startswith(before) and name.endswith(after) for before, after in names)


def read_sessions(path: str, schema: SessionSchema, console: Console) -> Iterator[RecordedSession]:
    """Yields the sessions in a log; what cannot be read is reported."""
    try:
        if schema.log.database is None:
            yield _read_file(path, schema, console, 0, set())
        else:
            yield from _read_database(path, schema, schema.log.database, console)
    except StrictStop:
        raise
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter where SQLite quotes a broken name
        console.refuse(path, f"not a database of sessions: {error}")
    except (UserError, OSError) as error:
        report_unreadable(path, error, console)
    except Exception as error:
        console.fault(path, error)


def _read_file(
    path: str, schema: SessionSchema, refusals: Refusals, depth: int, seen: set[tuple[int, int]]
) -> RecordedSession:
    """Reads a session with its sub-agents; `seen` are the files that were read for it, each once."""
    if path != "-":
        seen.add(_identity(path))
    session = RecordedSession(schema, path)
    for event in log_events(path, schema, refusals):
        session.add(event)
        agent, call = schema.agent(event), schema.call(event)
        if type(agent) is str and type(call) is str and depth < DEEPEST and session.can_nest(call):
            child = _child_file(path, session.session_id, agent, schema)
            if child is not None and _identity(child) not in seen:
                session.nest(_read_file(child, schema, refusals, depth + 1, seen), call)
    if schema.log.cwd_file and session.cwd is None:
        with suppress(FileNotFoundError):
            folder = read_regular(os.path.join(os.path.dirname(path), schema.log.cwd_file), LONGEST_PATH)
            session.cwd = folder.decode("utf-8", "replace").strip()
    return session


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _child_file(path: str, session_id: Any, agent: str, schema: SessionSchema) -> str | None:
    """Returns the log of a sub-agent, None if it is not there."""
    assert schema.log.sub_agents is not None
    session_id = as_text(session_id)
    if os.sep in agent or os.sep in session_id:
        return None
    folder, name = os.path.split(path)
    for pattern in schema.log.sub_agents.files:
        file = pattern.replace("{stem}", os.path.splitext(name)[0])
        file = file.replace("{session}", session_id).replace("{id}", agent)
        if is_regular(found := os.path.join(folder, file)):
            return found
    return None


def log_events(path: str, schema: SessionSchema, refusals: Refusals) -> Iterable[Event]:
    """Returns the events of a log, each once: the last of those with the same key, and tool calls as a whole."""
    return _with_whole_calls(_revised(_events(path, schema, refusals), schema), schema)


def _events(path: str, schema: SessionSchema, refusals: Refusals) -> Iterator[Event]:
    """Yields the events of a log, and those within them."""
    for line in read_objects(path, refusals):
        events = [line]
        while events:
            event = events.pop()
            schema.rewrite(event)
            yield event
            inner = schema.nested(event)
            if type(inner) is list:
                events += [item for item in reversed(inner) if type(item) is dict]


def _revised(events: Iterable[Event], schema: SessionSchema) -> Iterable[Event]:
    """Returns the events in order; one with the key of an earlier one replaces its fields, but not its place and time.

    A program that resumes a session may write its messages again, with less than it knew when they were new.
    """
    if schema.log.key is None:
        return events
    time = schema.time_field
    kept: dict[object, Event] = {}
    for event in events:
        key = schema.key(event)
        if type(key) is not str:
            kept[len(kept)] = event
        elif (earlier := kept.get(key)) is None:
            kept[key] = event
        else:
            kept[key] = {**earlier, **event, **({time: earlier[time]} if time in earlier else {})}
    return kept.values()


def _with_whole_calls(events: Iterable[Event], schema: SessionSchema) -> Iterable[Event]:
    """Returns the events; one that reports a call as a whole takes the place of those that report it in parts."""
    if (whole := schema.whole_calls) is None:
        return events
    events = list(events)
    ended: set[str] = set()
    calls: dict[str, Event | None] = {}
    for event in events:
        call, turn = whole.id(event), whole.turn(event)
        if all_hold(whole.turn_end, event):
            if type(turn) is str:
                ended.add(turn)
        elif type(call) is str and all_hold(whole.tests, event):
            calls[call] = {**event, "afterTurn": True} if type(turn) is str and turn in ended else event
    found = []
    for event in events:
        call = whole.id(event)
        if type(call) is not str or call not in calls:
            found.append(event)
        elif (first := calls[call]) is not None:
            found.append(first)
            calls[call] = None
    return found


# --- databases ------------------------------------------------------------------------------------


# What a read belongs to: our own query, or a common table expression of a `family` in the session schemas.
OF_NO_VIEW = (None, "family", "parts")


def connect(path: str) -> closing[sqlite3.Connection]:
    """Opens a SQLite database for reading; views are refused, because one may have endless rows."""
    path = os.path.realpath(path)
    os.close(open_regular(path))  # its error says why; SQLite's does not
    database = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST)
    database.text_factory = lambda data: data.decode("utf-8", "replace")
    database.set_authorizer(lambda *call: sqlite3.SQLITE_OK if call[-1] in OF_NO_VIEW else sqlite3.SQLITE_DENY)
    return closing(database)


def rows(database: sqlite3.Connection, query: str, *values: str) -> Iterator[Any]:
    """Yields the rows of a query; sqlite3.Error if one of them takes too long."""
    deadline = time.monotonic() + ROW_SECONDS
    sqlite3.enable_callback_tracebacks(
        True
    )  # the exception of a signal goes to sys.unraisablehook, which sends it again
    database.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
    try:
        for row in database.execute(query, values):
            yield row
            deadline = time.monotonic() + ROW_SECONDS
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise
        time.sleep(0.1)  # for the signal
        raise sqlite3.OperationalError("a query took too long") from None


def stored_events(
    database: sqlite3.Connection, query: Database, ident: str, where: str, refusals: Refusals
) -> Iterator[Event]:
    """Yields the events of a session in a database."""
    for (text,) in rows(database, query.events, ident):
        try:
            event = decode(text)
        except BadRecord as error:
            refusals.refuse(where, str(error))
        else:
            yield event


def _read_database(path: str, schema: SessionSchema, query: Database, refusals: Refusals) -> Iterator[RecordedSession]:
    """Yields the sessions in a SQLite database, each with those of its sub-agents."""
    with connect(path) as database:
        found = list(rows(database, query.sessions))
        children = {(parent, call): child for child, parent, call in reversed(found) if call}

        def read(ident: str, depth: int, seen: set[str]) -> RecordedSession:
            session = RecordedSession(schema, f"{path}:{ident}")
            seen.add(ident)
            for event in stored_events(database, query, ident, session.name, refusals):
                session.add(event)
                call = schema.call(event)
                child = children.get((ident, call)) if type(call) is str and depth < DEEPEST else None
                if child is not None and child not in seen and session.can_nest(call):
                    session.nest(read(child, depth + 1, seen), call)
            return session

        known = {ident for ident, _, _ in found}
        for ident, parent, _ in found:
            if parent not in known:
                yield read(ident, 0, set())


# --- one session ----------------------------------------------------------------------------------


class RecordedSession(ImportedResult):
    """What the events of one session contain, read one by one."""

    def __init__(self, schema: SessionSchema, name: str) -> None:
        self.reading: Reading = schema.adapter.begin("")
        super().__init__("", schema.name, self.reading.out)
        self.schema, self.name = schema, name
        self.session_id: Any = None
        self.cwd: Any = None
        self.branch: Any = None
        self.model: Any = None
        self.children: dict[int, list[Step]] = {}  # by the id() of the step that started the sub-agent
        self._usages: dict[Any, Usage] = {}
        self._only_if_answered = False
        self.reading.begin_turn()

    def add(self, event: Event) -> None:
        """Reads one event."""
        schema = self.schema
        self.at(schema.time(event))
        self.session_id = self.session_id or schema.id(event)
        self.cwd = self.cwd or schema.cwd(event)
        self.branch = schema.branch(event) or self.branch
        model = schema.model(event)
        self.model = model if type(model) is str and model and model[0] != "<" else self.model
        self._add_usage(event)
        if not any(all_hold(rule.tests, event) and self._is_turn(event, rule) for rule in schema.turns):
            self.reading.take([encode(event).decode()], [self.out.time])

    def can_nest(self, call: str) -> bool:
        """Returns whether there is a call of this id without the session of a sub-agent."""
        step = self.out.step_of(call)
        return step is not None and id(step) not in self.children

    def nest(self, child: RecordedSession, call: str) -> None:
        """Takes in the session of a sub-agent, which the tool call with this id has started."""
        parent = self.out.step_of(call)
        assert parent is not None
        child.end_turn()
        offset = (child.start or 0) - (self.start or 0)
        self.children[id(parent)] = child.steps()
        for step in self.children[id(parent)]:
            if "timestamp" in step:
                step["timestamp"] += offset
            step.setdefault("parentId", call)
        parent["callId"] = call
        for usage in child._usages.values():
            self._usages[len(self._usages), "child"] = usage
        self.out.tool_errors |= child.out.tool_errors

    # --- turns ---

    def _is_turn(self, event: Event, rule: CompiledTurn) -> bool:
        """Begins a turn if the event has the text of one; returns whether the event is used up and not a step."""
        text = as_text(rule.content(event)).strip()
        if not text:
            return False
        if rule.ignore and rule.ignore.match(text):
            return True
        if self.turns and not self.new_steps() and text == self.turns[-1]:
            return True  # the same turn, reported in two ways
        self.turn(text)
        self._only_if_answered = bool(rule.if_answered and rule.if_answered.match(text))
        self.reading.errors.clear()  # the session went on after them
        self.reading.begin_turn()
        return True

    def end_turn(self) -> None:
        """Ends the turn; one that counts only if it is answered may be removed."""
        self.reading.end_turn()
        if self._only_if_answered and not self.new_steps():
            self.turns.pop()
        elif self.turns:
            self.turn_steps.append(self.new_steps())
        self._only_if_answered = False

    # --- tokens ---

    def _add_usage(self, event: Event) -> None:
        usage = self.schema.usage
        if usage is None or not all_hold(usage.tests, event):
            return
        found = {name: total(*(find(event) for find in finds)) for name, finds in usage.counts.items()}
        if numbers := {name: number for name, number in found.items() if number is not None}:
            ident = as_text(usage.id(event)) or (len(self._usages) if usage.adds_up else 0)
            self._usages[ident] = numbers

    def spent(self) -> Usage:
        """Returns the tokens and cost so far, those of sub-agents that are nested included."""
        names = self.schema.usage.counts if self.schema.usage else {}
        sums = {name: total(*(usage.get(name) for usage in self._usages.values())) for name in names}
        found = {name: number for name, number in sums.items() if number is not None}
        if found.get("costUsd") == 0 and any(found.values()):
            del found["costUsd"]  # the program knows no price of its model
        return found

    def steps(self) -> list[Step]:
        """Returns all steps in order, those of a sub-agent after the one that started it."""
        return [one for step in self.reading.trajectory for one in (step, *self.children.get(id(step), ()))]

    def result(self) -> Record:
        """Returns the result of the session; called once."""
        self.end_turn()
        reading, steps = self.reading, self.steps()
        named = type(self.session_id) is str and self.session_id
        self.ident = self.session_id if named else os.path.splitext(os.path.basename(self.name))[0]
        for number, step in enumerate(steps, 1):
            step["stepId"] = f"{self.ident}-step-{number}"
        facts = {"model": self.model, "gitBranch": self.branch}
        self.metadata = {name: fact for name, fact in facts.items() if type(fact) is str and fact} | reading.facts
        self.output = reading.output or (reading.last_message() if reading.errors else "")
        self.errors, self.usage = reading.errors, self.spent()
        counts = iter(1 + len(self.children.get(id(step), ())) for step in reading.trajectory)
        self.turn_steps = [sum(islice(counts, own)) for own in self.turn_steps]
        cwd = {"cwd": self.cwd} if type(self.cwd) is str and self.cwd else {}
        return self.built(steps) | cwd
