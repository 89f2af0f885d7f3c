"""The trajectory of one record, built step by step: texts, pieces of texts, plans, tool calls and their results."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from agenteval.adapters.values import (
    UNCHANGED,
    as_text,
    error_texts,
    is_true,
    joined,
    json_object,
    milliseconds,
    status_of,
)
from agenteval.streams.patterns import PER_RECORD, SlowPattern
from agenteval.wire.records import AGENT_SETUP, LARGEST, Richness

MOST_OPEN = 256  # calls among which an event without an id may find its own; a search of all is slow if they are many
MOST_STEPS = 100_000  # of a record: 60 MB
Step = dict[str, Any]
Time = int | float | None

UNEXPLAINED = "the agent reports an error"
DENIED = "denied"
PERMISSIONS = ("allowed", DENIED)
RICHNESS: tuple[Richness, ...] = ("full", "messages-only", "minimal")


class Trajectory:
    """Steps in the order in which they began, and what else the lines read so far contain.

    `time` is when the current line arrived; `result`, `result_errors` and `usage` are those of the current turn;
    `facts` are what the schema takes as metadata.
    """

    def __init__(self, record_id: str, most_steps: int | None = MOST_STEPS) -> None:
        self.most_steps = float("inf") if most_steps is None else most_steps
        self.steps: list[Step] = []
        self._last: Step = {}  # the step that was added last, also if it is one too many
        self.time: Time = None
        self.parent: Any = None  # the id of the tool call that the current step belongs to, for one of a sub-agent
        self.tool_errors = False
        self.errors: list[str] = []
        self.result: str | None = None  # the final text, which may be empty; None if the turn has named none
        self.stop: str | None = None
        self.result_errors: list[str] = []
        self.usage: dict[str, int | float] = {}
        self.facts: dict[str, Any] = {}
        self.cut_short = False  # whether there were more steps than are kept
        self.has_halves = False  # whether texts may have halves of surrogate pairs: see values.py
        self.patience = PER_RECORD  # seconds that the patterns of the schema may still take
        self._session: Any = None
        self._spare_session: str | None = None
        self._prefix = record_id + "-step-"
        self.pieces: list[str] = []
        self.open_kind = ""  # the type of the step that the pieces make, "" if there are no pieces
        self._message: Any = None  # the id that the pieces came with
        self._pieces_parent: Any = None
        self._open: dict[str | int | None, Step] = {}  # oldest first; a call without an id has a number as its key
        self._closed: dict[str | None, Step] = {}
        self._count = 0
        self._began: dict[str, float] = {}  # step id → when the call began by the agent's own clock
        self._outputs: dict[str, tuple[Step, list[str]]] = {}  # step id → a call and the pieces of its output

    @property
    def session_id(self) -> str | None:
        """The last id that the turn has given at the schema's path, else the last one at `$.session_id`."""
        return self._spare_session if self._session is None else as_text(self._session)

    def name_session(self, found: Any, spare: Any = None) -> None:
        """Takes in the session id at the schema's path, and that at `$.session_id`, which counts if there is no other.

        Either may be None.
        """
        if found is not None:
            self._session = found
        elif type(spare) is str:
            self._spare_session = spare

    def begin_turn(self) -> None:
        """Resets what belongs to one turn only."""
        self._session = self._spare_session = None
        self.result = self.stop = None
        self.result_errors = []
        self.usage = {}

    def end_turn(self) -> None:
        """Closes open calls and pieces: the next turn may use the same ids again."""
        if self.pieces:
            self._join()
        self.fail(self.result_errors)
        for step, pieces in self._outputs.values():
            step["output"] = "".join(pieces)
        self._outputs.clear()
        for step in self._open.values():
            if step.get("permission") == DENIED:  # some agents do not mention the call again
                step["status"], self.tool_errors = "failed", True
            _leave_out_unknown(step)
        self._open.clear()
        self._closed.clear()

    def fail(self, errors: list[str]) -> None:
        """Adds errors without duplicates; keeps the placeholder UNEXPLAINED only while there is no other."""
        self.errors.extend(error for error in dict.fromkeys(errors) if error not in self.errors)
        if len(self.errors) > 1 and UNEXPLAINED in self.errors:
            self.errors.remove(UNEXPLAINED)

    def lose_patience(self, slow: SlowPattern) -> None:
        """Adds a pattern that took too long to the errors; no more are tried on this record."""
        self.patience = 0.0
        self.fail([str(slow)])

    def error(self, content: Any) -> list[str]:
        """Adds what an event reports as an error, and returns it as texts."""
        errors = error_texts(content) or [UNEXPLAINED]
        self.fail(errors)
        return errors

    def conclude(self, content: Any, failed: Any, reason: Any, stop: str | None = None) -> None:
        """Sets the final text of the turn and why it ended; if the agent reports that it failed, the errors."""
        if stop is not None:
            self.facts["stopReason"] = self.stop = stop
        self.result = None if content is None else as_text(content)
        self.result_errors = (error_texts(reason) or [self.result or UNEXPLAINED]) if is_true(failed) else []

    def spend(self, numbers: dict[str, int | float | None], *, adds_up: bool) -> None:
        """Takes in those counts of the turn's usage that are not None; they replace earlier ones unless it adds up."""
        before = self.usage if adds_up else {}
        self.usage |= {name: n + before.get(name, 0) for name, n in numbers.items() if n is not None}

    def note(self, facts: dict[str, Any]) -> None:
        """Keeps those facts that are not None for the metadata."""
        self.facts |= {name: fact for name, fact in facts.items() if fact is not None}

    def note_setup(self, reports: dict[str, Any]) -> None:
        """Keeps what the agent reports about itself; the first report of each thing counts."""
        found = {name: report for name, report in reports.items() if report is not None}
        if found:
            self.facts[AGENT_SETUP] = found | self.facts.get(AGENT_SETUP, {})

    def set_parent(self, parent: Any) -> None:
        """Sets the id of the tool call that the next steps belong to, None for the agent itself."""
        self.parent = parent

    def text(self, kind: str, content: Any) -> None:
        """Adds a thought or message, unless it repeats the pieces just before it as a whole."""
        if content is None:
            return
        if type(content) is not str:
            content = as_text(content)
        if self.pieces:
            whole = self._join()
            if whole["type"] == kind and whole["content"] == content:
                return
        self._add({"type": kind, "content": content})

    def piece(self, kind: str, content: Any, message: Any = None) -> None:
        """Adds a piece of a thought or message to the pieces just before it, unless its message id is another one.

        An empty piece is ignored, unless it begins a message and gives its id.
        """
        other = self.open_kind != kind or self._pieces_parent != self.parent
        if content and type(content) is str and not other and (message is None or message == self._message):
            self.pieces.append(content)  # the usual case
            return
        text = as_text(content)
        if not text and (message is None or content is None or (other and self.pieces)):
            return
        if other or (message is not None and message != self._message):
            if self.pieces:
                self._join()
            self._add({"type": kind, "content": ""})
            self.open_kind, self._message, self._pieces_parent = kind, message, self._last.get("parentId")
        self.pieces.append(text)

    def step_of(self, ident: str) -> Step | None:
        """Returns the step of the tool call with this id in the current turn, None if there is none."""
        return self._open.get(ident) or self._closed.get(ident)

    def end_pieces(self) -> Step | None:
        """Ends the step that the pieces so far make, and returns it; None if there are no pieces."""
        return self._join() if self.pieces else None

    def plan(self, entries: Any) -> None:
        """Adds a plan."""
        if self.pieces:
            self._join()
        some = entries if type(entries) is list else [] if entries is None else [entries]
        self._add({"type": "plan", "entries": some})

    def call(self, ident: Any, name: Any, given: Any) -> Step:
        """Returns the step of a tool call, and adds it unless it is open already."""
        if type(ident) is not str and ident is not None:
            ident = as_text(ident)
        if type(name) is not str:
            name = as_text(name)
        if type(given) is str:
            given = json_object(given)
        if ident in self._open:
            if given is not None:
                self._open[ident]["input"] = given
            return self._open[ident]
        if self.pieces:
            self._join()
        name = name or "unknown"
        new = {"type": "tool_call", "name": name, "status": "pending", "input": given, "output": None, "duration": None}
        self._add(new)
        if ident is None:
            self._count += 1
            ident = self._count
        if not self.cut_short:
            self._open[ident] = new
        return new

    def report(
        self, ident: Any, name: Any, given: Any, output: Any, word: Any, flag: Any, duration: Any, otherwise: str
    ) -> Step:
        """Takes in a call, its progress or result, and returns the step; `otherwise` is the status by default."""
        if flag and is_true(flag):
            status = "failed"
        elif word == UNCHANGED and not flag:
            status = UNCHANGED
        elif (status := status_of(word) or "") == "":
            status = otherwise if output is None and flag is None else "completed"
        if status == "pending":
            return self.call(ident, name, given)
        if status == UNCHANGED:
            return self._amend(ident, name, given, output)
        return self.settle(ident, name, given, status, output, duration)

    def _amend(self, ident: Any, name: Any, given: Any, output: Any) -> Step:
        """Adds to what is known of a call, whether it is open or not."""
        return self._complete(self._step_named(ident, name, given), name, given, output)

    def ask(self, ident: Any, name: Any, given: Any, permission: Any) -> Step:
        """Takes in that permission was asked for a call, and whether it was given; what is known of the call stays."""
        step = self._step_named(ident, name, given)
        if permission in PERMISSIONS:
            step["permission"] = permission
        return self._complete(step, name, None if step.get("input") else given, None)

    def add_output(self, step: Step, piece: Any) -> Step:
        """Adds a piece to the output of a call, and returns its step."""
        if piece is not None:
            pieces = self._outputs.setdefault(step["stepId"], (step, []))[1]
            pieces.append(as_text(piece))
            step["output"] = ""  # until the pieces are joined
        return step

    def _step_named(self, ident: Any, name: Any, given: Any) -> Step:
        """Returns the step of the call with that id, whether it is open or not; adds one for an unknown call."""
        key = ident if ident is None else as_text(ident)
        return self._open.get(key) or self._closed.get(key) or self.call(ident, name, given)

    def settle(self, ident: Any, name: Any, given: Any, status: str, output: Any, duration: Any) -> Step:
        """Takes in that a call runs or has ended, and returns its step."""
        if type(ident) is not str and ident is not None:
            ident = as_text(ident)
        if self.pieces:
            self._join()
        ended = status != "in_progress"
        if ended and ident in self._open:  # the usual case
            step = self._ended(ident)
        else:
            step = self._step_for(ident, name if name is None or type(name) is str else as_text(name), status)
        step["status"] = status
        if duration is not None and type(duration) in (int, float) and abs(duration) <= LARGEST:
            step["duration"] = duration
        if given is not None or self._outputs or step["name"] == "unknown":
            self._complete(step, name, given, output)
        elif output is not None:
            step["output"] = output
        if ended:
            if status == "failed":
                self.tool_errors = True
            if ident is not None and not self.cut_short:
                self._closed[ident] = step
            if step.get("input") is None or step.get("output") is None or step.get("duration") is None:
                _leave_out_unknown(step)
        return step

    def _ended(self, key: str | int | None) -> Step:
        """Returns the step of an open call, which is open no longer, with how long it took."""
        step = self._open.pop(key)
        if self.time is not None and "timestamp" in step:
            step["duration"] = self.time - step["timestamp"]
        return step

    def clock(self, step: Step, start: Any, end: Any) -> Step:
        """Takes in when a call began and ended by the agent's own clock, and returns its step with the duration."""
        if (began := milliseconds(start)) is not None:
            self._began[step["stepId"]] = began
        if (ended := milliseconds(end)) is not None and step["stepId"] in self._began:
            took = round(ended - self._began.pop(step["stepId"]), 3)
            if 0 <= took <= LARGEST:
                step["duration"] = took
        return step

    def _step_for(self, ident: str | None, name: str | None, status: str) -> Step:
        """Returns the step that a report is about, and adds one for an unknown call."""
        opened = self._open
        key = ident if ident in opened else self._partner(ident, name, status)
        if key is None:
            if status != "in_progress" and ident in self._closed:
                return self._closed[ident]  # reported twice: the later report counts
            count = len(opened)
            self.call(ident, name, None)
            if status != "in_progress" and len(opened) > count:
                opened.popitem()
            return self._last
        return opened[key] if status == "in_progress" else self._ended(key)

    def _partner(self, ident: str | None, name: str | None, status: str) -> str | int | None:
        """Returns the key of the oldest open call that an event without a known id can be about."""
        if ident is not None and not self._count:
            return None  # all calls have ids
        for key, step in islice(self._open.items(), MOST_OPEN):
            if ident is not None and type(key) is str:
                continue  # that call has an id, another one
            if name is not None and step["name"] != name:
                continue
            if status == "in_progress" and step["status"] != "pending":
                continue  # already running, so this is a second call
            return key
        return None

    def _join(self) -> Step:
        """Joins the pieces so far, and returns their step."""
        step = self._last
        text = "".join(self.pieces)
        step["content"] = joined(text) if self.has_halves else text
        self.pieces.clear()
        self.open_kind = ""
        return step

    def _add(self, step: Step) -> None:
        if self.time is not None:
            step["timestamp"] = self.time
        step["stepId"] = f"{self._prefix}{(number := len(self.steps) + 1)}"
        if self.parent is not None:  # a step of a sub-agent
            step["parentId"] = parent = as_text(self.parent)
            if (caller := self.step_of(parent)) is not None:
                caller["callId"] = parent
        self._last = step
        if number <= self.most_steps:
            self.steps.append(step)
        elif not self.cut_short:
            self.cut_short = True
            self.fail([f"more than {self.most_steps} steps: the rest are left out (--max-steps)"])

    def _complete(self, step: Step, name: Any, given: Any, output: Any) -> Step:
        """Returns the step of a call with what an event adds to it."""
        if given is not None:
            step["input"] = json_object(given) if type(given) is str else given
        if output is not None:
            step["output"] = output
            if self._outputs:
                self._outputs.pop(step["stepId"], None)  # this is the complete output
        if name and step["name"] == "unknown":
            step["name"] = as_text(name)
        return step


def _leave_out_unknown(step: Step) -> None:
    """Removes the fields that were reserved for a result, in the order of fields, and have no value."""
    for field in ("input", "output", "duration"):
        if field in step and step[field] is None:
            del step[field]


_MORE_THAN_MESSAGES = frozenset(("thought", "tool_call", "plan"))


def richness_of(noted: object, step_types: Iterable[str | None]) -> Richness:
    """Returns how rich a trajectory is: what its record notes already, else what the types of its steps show."""
    for richness in RICHNESS:
        if noted == richness:
            return richness
    found: Richness = "minimal"
    for kind in step_types:
        if kind in _MORE_THAN_MESSAGES:
            return "full"
        found = "messages-only"
    return found
