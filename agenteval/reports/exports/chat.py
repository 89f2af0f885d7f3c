"""Chat messages with tool calls, as fine-tuning of OpenAI's API and TRL read them.

Arguments are JSON text: OpenAI's API takes nothing else, and TRL loads it. For TRL alone they are objects, as most chat
templates need them: some refuse text, others would teach a model to write JSON within JSON.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from agenteval.reports.exports.answers import ExportedAnswer
from agenteval.reports.exports.conversation import AgentTurn, Exchange, ToolCall, exchanges
from agenteval.streams.jsonl import encode
from agenteval.wire.records import Record

TRL = "trl"
NO_NAME = re.compile("[^a-zA-Z0-9_-]")
LONGEST_NAME = 64


class Chat(NamedTuple):
    """A conversation: all messages, how many of them come before the last reply of the agent, and the tools called."""

    messages: list[Record]
    before: int
    tools: list[Record]

    @property
    def prompt(self) -> list[Record]:
        """The messages that the last reply answers."""
        return self.messages[: self.before]

    @property
    def reply(self) -> list[Record]:
        """The last reply of the agent: its messages and the results of its tools."""
        return self.messages[self.before :]

    @property
    def complete(self) -> bool:
        """Whether it ends with a text of the agent."""
        return bool(self.reply) and self.reply[-1]["role"] == "assistant" and bool(self.reply[-1].get("content"))


def chat_of(answer: ExportedAnswer, reader: str = "") -> Chat:
    """The conversation of an answer, in the form that the reader takes; thoughts and plans are not part of it."""
    messages: list[Record] = []
    before, tools = 0, dict[str, Record]()
    for exchange in spoken(answer):
        messages.append({"role": "user", "content": exchange.user})
        before = len(messages)
        for turn in exchange.turns:
            _add_turn(messages, turn, reader)
            tools |= {name: tool(name, reader) for name in map(function_name, turn.calls)}
    return Chat(messages, before, list(tools.values()))


def spoken(answer: ExportedAnswer) -> list[Exchange]:
    """The conversation, which ends with the graded output alone: other texts since the last call are left out."""
    found = exchanges(answer)
    turns = found[-1].turns
    while answer.result.output.strip() and len(turns) > 1 and not turns[-2].calls:
        del turns[-2]
    return found


def _add_turn(messages: list[Record], turn: AgentTurn, reader: str) -> None:
    """Adds a turn of the agent; texts that no call separates are one message, for roles take turns."""
    if turn.text:
        last = messages[-1]
        if last["role"] == "assistant" and "tool_calls" not in last:
            last["content"] += f"\n\n{turn.text}"
        else:
            messages.append({"role": "assistant", "content": turn.text})
    if not turn.calls:
        return
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": function_name(call),
                "arguments": call.arguments if reader == TRL else encode(call.arguments).decode(),
            },
        }
        for call in turn.calls
    ]
    if messages[-1]["role"] == "assistant" and "tool_calls" not in messages[-1]:
        messages[-1]["tool_calls"] = calls
    else:
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
    messages += [{"role": "tool", "tool_call_id": call.id, "content": call.result or ""} for call in turn.calls]


def function_name(call: ToolCall) -> str:
    """The name of a tool with the characters and the length that the API allows."""
    return NO_NAME.sub("_", call.name)[:LONGEST_NAME]


def tool(name: str, reader: str) -> Record:
    """The definition of a tool of which only the name is known; some chat templates fail without a description."""
    described = {"description": ""} if reader == TRL else {}
    parameters = {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": name, **described, "parameters": parameters}}
