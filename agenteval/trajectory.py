"""The steps of one record as they come in: texts, pieces of texts, plans, tool calls and their results."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Step = dict[str, Any]
Time = int | float | None
Richness = Literal["full", "messages-only", "minimal"]

STATUS_WORDS = {
    "pending": "pending queued scheduled created requested waiting proposed",
    "in_progress": "in_progress inprogress running started executing working active streaming updated",
    "completed": "completed complete success succeeded successful ok okay done finished passed true",
    "failed": "failed failure fail error errored cancelled canceled aborted rejected denied declined refused "
    "timeout timed_out timedout interrupted killed crashed false",
}
_STATUS = {word: status for status, words in STATUS_WORDS.items() for word in words.split()}
_FALSE_WORDS = frozenset(("", "0", "false", "no", "none", "null"))
_UNKNOWN_UNTIL_RESULT = ("input", "output", "duration")


def richness(trajectory: list[Step]) -> Richness:
    """How much the trajectory tells: more than messages, messages only, or nothing."""
    kinds = {step.get("type") for step in trajectory}
    if kinds & {"thought", "tool_call", "plan"}:
        return "full"
    return "messages-only" if "message" in kinds else "minimal"


def as_text(value: Any) -> str:
    """The value as a text: of content blocks their texts, of anything else its JSON; "" for None."""
    if type(value) is str:
        return value
    if value is None:
        return ""
    if type(value) is list:
        texts = [item if type(item) is str else item.get("text") for item in value if type(item) in (str, dict)]
        if len(texts) == len(value) and any(type(text) is str for text in texts):
            return "".join(text for text in texts if type(text) is str)
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

    `time` is when the line now being read arrived; `result`, `result_errors` and `usage` are of this turn.
    """

    __slots__ = (
        "_closed",
        "_count",
        "_open",
        "_pieces",
        "_prefix",
        "errors",
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
        self._prefix = record_id + "-step-"
        self._pieces: list[str] = []
        self._open: dict[str | int, Step] = {}  # oldest first; a call that has no id is under a number
        self._closed: dict[str, Step] = {}
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
        """Add what the agent says went wrong, once."""
        self.errors.extend(error for error in dict.fromkeys(errors) if error not in self.errors)

    def text(self, kind: str, content: str) -> None:
        """Add a thought or message, unless it is what the pieces just before it were joined to."""
        if self._pieces:
            joined = self._join()
            if joined["type"] == kind and joined["content"] == content:
                return
        self._add({"type": kind, "content": content})

    def piece(self, kind: str, content: str) -> None:
        """Add a piece of a thought or message to those just before it."""
        if self._pieces and self.steps[-1]["type"] != kind:
            self._join()
        if content:
            if not self._pieces:
                self._add({"type": kind, "content": ""})
            self._pieces.append(content)

    def plan(self, entries: Any) -> None:
        """Add a plan."""
        if self._pieces:
            self._join()
        if type(entries) is not list:
            entries = [] if entries is None else [entries]
        self._add({"type": "plan", "entries": entries})

    def tool(
        self,
        ident: str | None,
        name: str | None,
        status: str,
        given: Any = None,
        output: Any = None,
        duration: Any = None,
    ) -> None:
        """Add a tool call, or complete the one that this is the result of."""
        if self._pieces:
            self._join()
        done = status == "completed" or status == "failed"
        if status == "failed":
            self.tool_errors = True
        key = ident if ident in self._open else self._partner(ident, name, status)
        if key is not None:
            step = self._open.pop(key) if done else self._open[key]
        elif done and ident is not None and ident in self._closed:
            step = self._closed[ident]  # reported twice: the later report counts
        else:
            step = self._begin(ident, name, done)
        _fill(step, name, status, given, output)
        if done:
            self._finish(step, duration, fresh=key is None)
            if ident is not None:
                self._closed[ident] = step

    def _partner(self, ident: str | None, name: str | None, status: str) -> str | int | None:
        """Key of the oldest open call that an event without a known id can be about."""
        if status == "pending":
            return None
        for key, step in self._open.items():
            if ident is not None and type(key) is str:
                continue  # that call has an id, another one
            if name is not None and step["name"] != name:
                continue
            if status == "in_progress" and step["status"] != "pending":
                continue  # already running, so this is a second call
            return key
        return None

    def _begin(self, ident: str | None, name: str | None, done: bool) -> Step:
        step: Step = {
            "type": "tool_call",
            "name": name or "unknown",
            "status": "pending",
            "input": None,
            "output": None,
            "duration": None,
        }
        self._add(step)
        if not done:
            self._count += 1
            self._open[self._count if ident is None else ident] = step
        return step

    def _finish(self, step: Step, duration: Any, fresh: bool) -> None:
        """Set how long the call took, where two lines or the agent itself tell."""
        if type(duration) is int or type(duration) is float:
            step["duration"] = duration
        elif not fresh and self.time is not None and "timestamp" in step:
            step["duration"] = self.time - step["timestamp"]
        _leave_out_unknown(step)

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


def _fill(step: Step, name: str | None, status: str, given: Any, output: Any) -> None:
    if status != "pending":  # a call that is announced twice does not go back
        step["status"] = status
    if given is not None:
        step["input"] = given
    if output is not None:
        step["output"] = output
    if name is not None and step["name"] == "unknown":
        step["name"] = name


def _leave_out_unknown(step: Step) -> None:
    """Drop the places that were kept for a result: a field without a value is not written."""
    for field in _UNKNOWN_UNTIL_RESULT:
        if field in step and step[field] is None:
            del step[field]
