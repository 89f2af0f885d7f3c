"""The steps of one record as they come in: texts, pieces of texts, plans, tool calls and their results."""

from __future__ import annotations

from typing import Any

import msgspec

Step = dict[str, Any]
Time = int | float | None

STATUS_WORDS = {
    "pending": "pending queued scheduled created requested waiting proposed",
    "in_progress": "in_progress inprogress running started executing working active streaming updated",
    "completed": "completed complete success succeeded successful ok okay done finished passed true",
    "failed": "failed failure fail error errored cancelled canceled aborted rejected denied declined refused "
    "timeout timed_out timedout interrupted killed crashed false",
}
_STATUS = {word: status for status, words in STATUS_WORDS.items() for word in words.split()}
UNCHANGED = "unchanged"  # a status that is none: only more is known of the call
UNEXPLAINED = "the agent reports an error"
_FALSE_WORDS = frozenset(("", "0", "false", "no", "none", "null"))


def as_text(value: Any) -> str:
    """The value as a text: of content blocks their texts, of anything else its JSON; "" for None."""
    if type(value) is str:
        return value
    if value is None:
        return ""
    if type(value) is list:
        texts = [item.get("text") if type(item) is dict else item for item in value]
        found = [text for text in texts if type(text) is str]
        if found and all(type(item) in (str, dict) for item in value):
            return "".join(found)
    return msgspec.json.encode(value).decode()


def is_true(value: Any) -> bool:
    """Whether an agent that puts this value into an error field says that there was an error."""
    if type(value) is str:
        return value.strip().lower() not in _FALSE_WORDS
    return bool(value)


def status_of(word: Any) -> str | None:
    """The status that an agent's own word stands for, None for a word nobody knows."""
    if type(word) is bool:
        return "completed" if word else "failed"
    if type(word) is not str:
        return None
    return _STATUS.get(word) or _STATUS.get(word.strip().lower().replace("-", "_").replace(" ", "_"))


class Trajectory:
    """Steps in the order in which they began, and what else the lines read so far say.

    `time` is when the line now being read arrived; `result`, `result_errors` and `usage` are of this turn; `facts` are
    what the run tells of itself.
    """

    __slots__ = (
        "_closed",
        "_count",
        "_message",
        "_open",
        "_pieces",
        "_prefix",
        "errors",
        "facts",
        "result",
        "result_errors",
        "steps",
        "time",
        "tool_errors",
        "usage",
    )

    def __init__(self, record_id: str) -> None:
        self.steps: list[Step] = []
        self.time: Time = None
        self.tool_errors = False
        self.errors: list[str] = []
        self.result = ""
        self.result_errors: list[str] = []
        self.usage: dict[str, int | float] = {}
        self.facts: dict[str, Any] = {}
        self._prefix = record_id + "-step-"
        self._pieces: list[str] = []
        self._message: Any = None  # the id that the pieces came with
        self._open: dict[str | int | None, Step] = {}  # oldest first; a call that has no id is under a number
        self._closed: dict[str | None, Step] = {}
        self._count = 0

    def begin_turn(self) -> None:
        """Forget what belongs to one turn only."""
        self.result = ""
        self.result_errors = []
        self.usage = {}

    def end_turn(self) -> None:
        """Close what is open: the next turn may use the same ids again."""
        if self._pieces:
            self._join()
        self.fail(self.result_errors)
        for step in self._open.values():
            _leave_out_unknown(step)
        self._open.clear()
        self._closed.clear()

    def fail(self, errors: list[str]) -> None:
        """Add what the agent says went wrong, once; that something did, only where nothing is known of it."""
        self.errors.extend(error for error in dict.fromkeys(errors) if error not in self.errors)
        if len(self.errors) > 1 and UNEXPLAINED in self.errors:
            self.errors.remove(UNEXPLAINED)

    def text(self, kind: str, content: Any) -> None:
        """Add a thought or message, unless it is what the pieces just before it were joined to."""
        if type(content) is not str:
            if content is None:
                return
            content = as_text(content)
        if self._pieces:
            joined = self._join()
            if joined["type"] == kind and joined["content"] == content:
                return
        self._add({"type": kind, "content": content})

    def piece(self, kind: str, content: Any, message: Any = None) -> None:
        """Add a piece of a thought or message to those just before it, unless it names another message than they.

        An empty one says nothing, but where it names the message that it begins.
        """
        text = as_text(content)
        other = bool(self._pieces) and self.steps[-1]["type"] != kind
        if not text and (other or message is None or content is None):
            return
        if other or (self._pieces and message is not None and message != self._message):
            self._join()
        if not self._pieces:
            self._add({"type": kind, "content": ""})
            self._message = message
        self._pieces.append(text)

    def end_pieces(self) -> None:
        """What comes after this is not joined to what came before."""
        if self._pieces:
            self._join()

    def plan(self, entries: Any) -> None:
        """Add a plan."""
        if self._pieces:
            self._join()
        if type(entries) is not list:
            entries = [] if entries is None else [entries]
        self._add({"type": "plan", "entries": entries})

    def call(self, ident: Any, name: Any, given: Any) -> Step:
        """The step of a tool call, added unless it was announced before."""
        if type(ident) is not str and ident is not None:
            ident = as_text(ident)
        if type(name) is not str:
            name = as_text(name)
        if ident in self._open:
            if given is not None:
                self._open[ident]["input"] = given
            return self._open[ident]
        if self._pieces:
            self._join()
        step = {
            "type": "tool_call",
            "name": name or "unknown",
            "status": "pending",
            "input": given,
            "output": None,
            "duration": None,
        }
        if self.time is not None:
            step["timestamp"] = self.time
        step["stepId"] = f"{self._prefix}{len(self.steps) + 1}"
        self.steps.append(step)
        if ident is None:
            self._count += 1
            ident = self._count
        self._open[ident] = step
        return step

    def report(
        self,
        ident: Any,
        name: Any,
        given: Any,
        output: Any,
        word: Any,
        flag: Any,
        duration: Any,
        otherwise: str,
    ) -> Step:
        """The step after a call, how it goes, or what it gave; `otherwise` is its status if nothing else tells."""
        if word == UNCHANGED and not flag:
            return self._amend(ident, name, given, output)
        if flag is not None and flag is not False and is_true(flag):
            status = "failed"
        elif word is None or (status := status_of(word) or "") == "":
            status = otherwise if output is None and flag is None else "completed"
        if status == "pending":
            return self.call(ident, name, given)
        if type(ident) is not str and ident is not None:
            ident = as_text(ident)
        if name is not None and type(name) is not str:
            name = as_text(name)
        if self._pieces:
            self._join()
        step = self._step_for(ident, name, status)
        step["status"] = status
        if given is not None:
            step["input"] = given
        if output is not None:
            step["output"] = output
        if duration is not None and type(duration) in (int, float):
            step["duration"] = duration
        if name and step["name"] == "unknown":
            step["name"] = name
        if status == "in_progress":
            return step
        if status == "failed":
            self.tool_errors = True
        if ident is not None:
            self._closed[ident] = step
        _leave_out_unknown(step)
        return step

    def _amend(self, ident: Any, name: Any, given: Any, output: Any) -> Step:
        """The step with what else is known of it now, be the call open or closed."""
        if type(ident) is not str and ident is not None:
            ident = as_text(ident)
        step = self._open.get(ident) or self._closed.get(ident) or self.call(ident, name, given)
        if name and step["name"] == "unknown":
            step["name"] = as_text(name)
        if given is not None:
            step["input"] = given
        if output is not None:
            step["output"] = output
        return step

    def _step_for(self, ident: str | None, name: str | None, status: str) -> Step:
        """The step that a report is about; a call that nobody announced becomes one now."""
        opened = self._open
        key = ident if ident in opened else self._partner(ident, name, status)
        if key is None:
            if status != "in_progress" and ident in self._closed:
                return self._closed[ident]  # reported twice: the later report counts
            self.call(ident, name, None)
            if status != "in_progress":
                opened.popitem()
            return self.steps[-1]
        if status == "in_progress":
            return opened[key]
        step = opened.pop(key)
        if self.time is not None and "timestamp" in step:
            step["duration"] = self.time - step["timestamp"]
        return step

    def _partner(self, ident: str | None, name: str | None, status: str) -> str | int | None:
        """Key of the oldest open call that an event without a known id can be about."""
        for key, step in self._open.items():
            if ident is not None and type(key) is str:
                continue  # that call has an id, another one
            if name is not None and step["name"] != name:
                continue
            if status == "in_progress" and step["status"] != "pending":
                continue  # already running, so this is a second call
            return key
        return None

    def _join(self) -> Step:
        """The step that the pieces so far make."""
        step = self.steps[-1]
        step["content"] = "".join(self._pieces)
        self._pieces.clear()
        return step

    def _add(self, step: Step) -> None:
        steps = self.steps
        if self.time is not None:
            step["timestamp"] = self.time
        step["stepId"] = f"{self._prefix}{len(steps) + 1}"
        steps.append(step)


def _leave_out_unknown(step: Step) -> None:
    """Drop the places that were kept for a result: a field without a value is not written."""
    for field in ("input", "output", "duration"):
        if step.get(field, step) is None:
            del step[field]
