"""Logs of sessions → results: finds the files, reads each session with its sub-agents, and makes a result of it.

A RecordedSession takes in the events of a log one by one. The log of a sub-agent is read when the event that started it
is met, and nested below that tool call.
"""

from __future__ import annotations

import glob
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from agenteval.adapters.reader import Reading
from agenteval.adapters.rules import Event, all_hold
from agenteval.adapters.sessions.schema import CompiledTurn, SessionSchema
from agenteval.adapters.trajectory import Step, richness_of
from agenteval.adapters.values import as_text, epoch_milliseconds, total
from agenteval.errors import BadRecord, StrictStop, UserError
from agenteval.streams.console import Console
from agenteval.streams.jsonl import decode, encode
from agenteval.streams.source import Refusals, read_objects, report_unreadable
from agenteval.wire.records import Record

DEEPEST = 8  # sub-agents of sub-agents that are read

Usage = dict[str, int | float]


def default_root(schema: SessionSchema) -> str:
    """Returns the folder in which the program keeps its logs; UserError if there is none."""
    for root in schema.log.roots:
        path = os.path.expanduser(os.path.expandvars(root))
        if "$" not in path and os.path.exists(path):
            return path
    shown = schema.log.roots[-1]
    raise UserError(f"{shown}: no sessions of {schema.name} there; give the files or a directory")


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
    return any(before and name.startswith(before) and name.endswith(after) for before, after in names)


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
    for event in log_events(path, schema, refusals):
        session.add(event)
        if depth < DEEPEST and (found := session.sub_agent(event)) is not None:
            agent, call = found
            if session.is_open_to(call) and (child := _child_file(path, session.id, agent, schema)) is not None:
                session.nest(_read_file(child, schema, refusals, depth + 1), call)
    if schema.log.cwd_file and session.cwd is None:
        with suppress(OSError), open(os.path.join(os.path.dirname(path), schema.log.cwd_file)) as file:
            session.cwd = file.read().strip()
    return session


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
        if os.path.isfile(found := os.path.join(folder, file)) and not os.path.samefile(found, path):
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
    ended: set[Any] = set()
    calls: dict[Any, Event | None] = {}
    for event in events:
        if all_hold(whole.turn_end, event):
            ended.add(whole.turn(event))
        elif all_hold(whole.tests, event):
            calls[whole.id(event)] = {**event, "afterTurn": True} if whole.turn(event) in ended else event
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


def _read_database(path: str, schema: SessionSchema, refusals: Refusals) -> Iterator[RecordedSession]:
    """Yields the sessions in a SQLite database, each with those of its sub-agents."""
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


# --- one session ----------------------------------------------------------------------------------


class RecordedSession:
    """What the events of one session contain, read one by one."""

    def __init__(self, schema: SessionSchema, name: str) -> None:
        self.schema, self.name = schema, name
        self.id: Any = None
        self.cwd: Any = None
        self.branch: Any = None
        self.model: Any = None
        self.start: int | None = None
        self.end: int | None = None
        self.turns: list[str] = []
        self.children: dict[int, list[Step]] = {}  # by the id() of the step that started the sub-agent
        self.reading: Reading = schema.adapter.begin("")
        self._usages: dict[Any, Usage] = {}
        self._only_if_answered = False
        self._counts: list[int] = []  # steps of each turn
        self.reading.begin_turn()

    def add(self, event: Event) -> None:
        """Reads one event."""
        schema = self.schema
        if (time := epoch_milliseconds(schema.time(event))) is not None:
            self.start = time if self.start is None else min(self.start, time)
            self.end = time if self.end is None else max(self.end, time)
        self.id = self.id or schema.id(event)
        self.cwd = self.cwd or schema.cwd(event)
        self.branch = schema.branch(event) or self.branch
        model = schema.model(event)
        self.model = model if type(model) is str and model and model[0] != "<" else self.model
        self._add_usage(event)
        for rule in schema.turns:
            if all_hold(rule.tests, event) and self._is_turn(event, rule):
                return
        self.reading.take([encode(event).decode()], [None if time is None or self.start is None else time - self.start])

    def sub_agent(self, event: Event) -> tuple[str, str] | None:
        """Returns the name of the sub-agent of which an event reports, and the id of the call that started it."""
        agent, call = self.schema.agent(event), self.schema.call(event)
        return (agent, call) if type(agent) is str and type(call) is str else None

    def is_open_to(self, call: str) -> bool:
        """Returns whether a call of this id can take the session of a sub-agent, which it has not yet."""
        step = self.reading.out.step_of(call)
        return step is not None and id(step) not in self.children

    def nest(self, child: RecordedSession, call: str) -> None:
        """Takes in the session of a sub-agent, which the tool call with this id has started."""
        parent = self.reading.out.step_of(call)
        if parent is None:
            return
        child.close_turn()
        offset = (child.start or 0) - (self.start or 0)
        steps = child.steps()
        for step in steps:
            if "timestamp" in step:
                step["timestamp"] += offset
            step.setdefault("parentId", call)
        parent["callId"] = call
        self.children.setdefault(id(parent), []).extend(steps)
        for usage in child._usages.values():
            self._usages[len(self._usages), "child"] = usage
        if child.reading.tool_errors:
            self.reading.out.tool_errors = True

    # --- turns ---

    def _is_turn(self, event: Event, rule: CompiledTurn) -> bool:
        """Begins a turn if the event has the text of one; returns whether the event is used up and not a step."""
        text = as_text(rule.content(event)).strip()
        if not text:
            return False
        if rule.ignore and rule.ignore.match(text):
            return True
        answered = len(self.reading.trajectory) > sum(self._counts)
        if self.turns and not answered and text == self.turns[-1]:
            return True  # the same turn, reported in two ways
        self.close_turn()
        self._only_if_answered = bool(rule.if_answered and rule.if_answered.match(text))
        self.turns.append(text)
        self.reading.errors.clear()  # the session went on after them
        self.reading.begin_turn()
        return True

    def close_turn(self) -> None:
        """Ends the turn; one that counts only if it is answered may be removed."""
        self.reading.end_turn()
        count = len(self.reading.trajectory) - sum(self._counts)
        if self._only_if_answered and not count:
            self.turns.pop()
        elif self.turns:
            self._counts.append(count)
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

    def usage(self) -> Usage:
        """Returns the tokens and cost so far, those of sub-agents that are nested included."""
        names = self.schema.usage.counts if self.schema.usage else {}
        sums = {name: total(*(usage.get(name) for usage in self._usages.values())) for name in names}
        found = {name: number for name, number in sums.items() if number is not None}
        if found.get("costUsd") == 0 and any(found.values()):
            del found["costUsd"]  # the program knows no price of its model
        return found

    # --- result ---

    def steps(self) -> list[Step]:
        """Returns all steps in order, those of a sub-agent after the one that started it."""
        return [one for step in self.reading.trajectory for one in (step, *self.children.get(id(step), ()))]

    def result(self, ident: str) -> Record:
        """Returns the result of the session; called once."""
        self.close_turn()
        reading, turns = self.reading, self.turns
        steps = self.steps()
        for number, step in enumerate(steps, 1):
            step["stepId"] = f"{ident}-step-{number}"
        start, end = self.start or 0, self.end or 0
        facts = {"model": self.model, "gitBranch": self.branch}
        result: Record = {
            "id": ident,
            "input": turns[0] if len(turns) == 1 else turns,
            "output": reading.output or (reading.last_message() if reading.errors else ""),
            "trajectory": steps,
            "metadata": {
                **{name: fact for name, fact in facts.items() if type(fact) is str and fact},
                **reading.facts,
                "agent": self.schema.name,
                "trajectoryRichness": richness_of(None, (step["type"] for step in steps)),
                "turnCount": len(turns),
                **({"turnSteps": self._turn_steps()} if len(turns) > 1 else {}),
            },
            "timing": {"start": start, "end": end, "total": end - start, **self.usage()},
            "toolErrors": reading.tool_errors,
        }
        if reading.errors:
            result["errors"] = reading.errors
        if type(self.cwd) is str and self.cwd:
            result["cwd"] = self.cwd
        return result

    def _turn_steps(self) -> list[int]:
        """Returns how many steps each turn has, those of sub-agents included."""
        counts, at = [], 0
        for count in self._counts:
            steps = self.reading.trajectory[at : at + count]
            counts.append(sum(1 + len(self.children.get(id(step), ())) for step in steps))
            at += count
        return counts
