"""Sends the steps of a trajectory as session updates of the Agent Client Protocol while an agent prints.

Read with the adapter `acp`, the updates give the same trajectory again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agenteval.adapters.trajectory import Step, Trajectory
from agenteval.adapters.values import as_text, held_back, status_of, without_halves
from agenteval.streams.redaction import Redactor

Update = dict[str, Any]

NOTHING_SECRET = Redactor({})
CHUNKS = {"message": "agent_message_chunk", "thought": "agent_thought_chunk"}
SHOWN = 4000  # characters of a tool's output for clients to display; rawOutput has all of it
TEXTS = ("content", "text", "step", "title", "description", "name")
PRIORITIES = ("high", "medium", "low")


class LiveTrajectory(Trajectory):
    """A trajectory that sends each change as an update; a step's id is the id of its message or tool call."""

    def __init__(self, record_id: str, send: Callable[[Update], None], redact: Redactor = NOTHING_SECRET) -> None:
        super().__init__(record_id, None)  # each step is sent at once, and a session may be long
        self._send = send
        self.pieces = _SentPieces(lambda text: self._send_text(self.open_kind, text), redact)

    def send(self, update: Update) -> None:
        """Sends an update, with the tool call that it belongs to if it is that of a sub-agent."""
        if self.parent is not None:
            parent = as_text(self.parent)
            caller = self.step_of(parent) or {}
            update["_meta"] = {"claudeCode": {"parentToolUseId": caller.get("stepId", parent)}}
        self._send(without_halves(update) if self.has_halves else update)

    def text(self, kind: str, content: Any) -> None:
        """Adds a thought or message."""
        count = len(self.steps)
        super().text(kind, content)
        if len(self.steps) > count:
            self._send_text(kind, self.steps[-1]["content"])

    def plan(self, entries: Any) -> None:
        """Adds a plan."""
        super().plan(entries)
        given = self.steps[-1]["entries"]
        shown = [_entry(entry) for entry in given]
        self.send(
            {"sessionUpdate": "plan", "entries": shown, **({} if shown == given else {"_meta": {"entries": given}})}
        )

    def call(self, ident: Any, name: Any, given: Any) -> Step:
        """Adds a tool call."""
        count = len(self.steps)
        step = super().call(ident, name, given)
        if len(self.steps) > count:
            self.send(_present({"sessionUpdate": "tool_call", **_named(step), "status": "pending", "rawInput": given}))
        elif given is not None:
            self.send({"sessionUpdate": "tool_call_update", "toolCallId": step["stepId"], "rawInput": given})
        return step

    def settle(self, ident: Any, name: Any, given: Any, status: str, output: Any, duration: Any) -> Step:
        """Adds that a tool call runs, or its result."""
        return self._send_change(super().settle(ident, name, given, status, output, duration), given, output)

    def _amend(self, ident: Any, name: Any, given: Any, output: Any) -> Step:
        return self._send_change(super()._amend(ident, name, given, output), given, output)

    def add_output(self, step: Step, piece: Any) -> Step:
        """Adds a piece to the output of a tool call."""
        if piece is not None:
            delta = {"terminal_output_delta": {"data": as_text(piece), "terminal_id": step["stepId"]}}
            self.send({"sessionUpdate": "tool_call_update", "toolCallId": step["stepId"], "_meta": delta})
        return super().add_output(step, piece)

    def _send_change(self, step: Step, given: Any, output: Any) -> Step:
        status = step["status"] if step["status"] != "pending" else None
        change = {**_named(step), "status": status, "rawInput": given, "rawOutput": output}
        shown = None if output is None else [{"type": "content", "content": text_block(as_text(output)[:SHOWN])}]
        self.send(_present({"sessionUpdate": "tool_call_update", **change, "content": shown}))
        return step

    def _send_text(self, kind: str, text: str) -> None:
        self.send({"sessionUpdate": CHUNKS[kind], "messageId": self.steps[-1]["stepId"], "content": text_block(text)})


class _SentPieces(list[str]):
    """The pieces of a text, each of which is sent when it is added: compiled schemas add them without a call.

    Half a character at the end of a piece, or what may be the beginning of a secret, is sent with the next one, or when
    the text ends.
    """

    def __init__(self, send: Callable[[str], None], redact: Redactor) -> None:
        super().__init__()
        self.send, self.redact, self._half = send, redact, ""

    def append(self, text: str) -> None:
        """Adds a piece; an empty one is sent only if it begins the text."""
        is_first = not self
        super().append(text)
        whole, half = held_back(self._half + text)
        whole, begun = self.redact.split_off_begun(whole)
        self._half = begun + half
        if whole or is_first:
            self.send(whole)

    def clear(self) -> None:
        """Forgets the pieces of a text that has ended."""
        if self._half:
            self.send(self._half)
            self._half = ""
        super().clear()


def result_chunk(text: str) -> Update:
    """Returns an update with an output that no message had, for a person to read; the adapter `acp` ignores it."""
    return {"sessionUpdate": "agent_message_chunk", "content": text_block(text), "_meta": {"result": True}}


def _named(step: Step) -> Update:
    return {"toolCallId": step["stepId"], "title": step["name"]}


def text_block(text: str) -> Update:
    """Returns a content block."""
    return {"type": "text", "text": text}


def _present(update: Update) -> Update:
    return {field: value for field, value in update.items() if value is not None}


def _entry(entry: Any) -> Update:
    """Returns an entry of a plan with the fields of the protocol: content, priority and status."""
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
