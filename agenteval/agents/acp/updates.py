"""A trajectory that tells, as updates of the Agent Client Protocol, what happens to it while an agent prints.

Read with the adapter `acp`, the updates give the same trajectory again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agenteval.adapters.trajectory import Step, Trajectory, as_text, status_of

Update = dict[str, Any]

CHUNKS = {"message": "agent_message_chunk", "thought": "agent_thought_chunk"}
SHOWN = 4000  # characters of a tool's output that a client shows to a person; rawOutput has all of it
TEXTS = ("content", "text", "step", "title", "description", "name")
PRIORITIES = ("high", "medium", "low")


class LiveTrajectory(Trajectory):
    """Steps as they come in, each told at once; a step's id is the id of its message or tool call."""

    __slots__ = ("tell",)

    def __init__(self, record_id: str, tell: Callable[[Update], None]) -> None:
        super().__init__(record_id)
        self.tell = tell

    def text(self, kind: str, content: Any) -> None:
        """Add a thought or message."""
        count = len(self.steps)
        super().text(kind, content)
        if len(self.steps) > count:
            self._tell_text(kind, self.steps[-1]["content"])

    def piece(self, kind: str, content: Any, message: Any = None) -> None:
        """Add a piece of a thought or message."""
        count = len(self.steps)
        super().piece(kind, content, message)
        if (text := as_text(content)) or len(self.steps) > count:
            self._tell_text(kind, text)

    def plan(self, entries: Any) -> None:
        """Add a plan."""
        super().plan(entries)
        given = self.steps[-1]["entries"]
        shown = [_entry(entry) for entry in given]
        self.tell(
            {"sessionUpdate": "plan", "entries": shown, **({} if shown == given else {"_meta": {"entries": given}})}
        )

    def call(self, ident: Any, name: Any, given: Any) -> Step:
        """Add a tool call."""
        count = len(self.steps)
        step = super().call(ident, name, given)
        if len(self.steps) > count:
            self.tell(_present({"sessionUpdate": "tool_call", **_named(step), "status": "pending", "rawInput": given}))
        elif given is not None:
            self.tell({"sessionUpdate": "tool_call_update", "toolCallId": step["stepId"], "rawInput": given})
        return step

    def report(
        self, ident: Any, name: Any, given: Any, output: Any, word: Any, flag: Any, duration: Any, otherwise: str
    ) -> Step:
        """Take in how a tool call goes, and what it gave."""
        step = super().report(ident, name, given, output, word, flag, duration, otherwise)
        if step["status"] != "pending":
            change = {**_named(step), "status": step["status"], "rawInput": given, "rawOutput": output}
            content = [{"type": "content", "content": _block(as_text(output)[:SHOWN])}] if output is not None else None
            self.tell(_present({"sessionUpdate": "tool_call_update", **change, "content": content}))
        return step

    def _tell_text(self, kind: str, text: str) -> None:
        self.tell({"sessionUpdate": CHUNKS[kind], "messageId": self.steps[-1]["stepId"], "content": _block(text)})


def result_chunk(text: str) -> Update:
    """A final text that no message had, for a person to see; it is no step of the trajectory."""
    return {"sessionUpdate": "agent_message_chunk", "content": _block(text), "_meta": {"result": True}}


def _named(step: Step) -> Update:
    return {"toolCallId": step["stepId"], "title": step["name"]}


def _block(text: str) -> Update:
    return {"type": "text", "text": text}


def _present(update: Update) -> Update:
    return {field: value for field, value in update.items() if value is not None}


def _entry(entry: Any) -> Update:
    """An entry of a plan as the protocol wants it: content, priority and status."""
    fields = entry if isinstance(entry, dict) else {"content": entry}
    content = next((fields[name] for name in TEXTS if isinstance(fields.get(name), str)), None)
    word = fields.get("status", fields.get("completed"))
    status = "completed" if word is True else status_of(word) if isinstance(word, str) else None
    priority = fields.get("priority")
    return {
        "content": as_text(entry) if content is None else content,
        "priority": priority if priority in PRIORITIES else "medium",
        "status": status if status in ("in_progress", "completed") else "pending",
    }
