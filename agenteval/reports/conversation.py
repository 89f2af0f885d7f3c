"""A trajectory as a conversation: what the user said, and what the agent thought, said and called in reply.

Exports to other programs use it; those for training write it as chat messages.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agenteval.reports.answers import ReportedAnswer
from agenteval.reports.forms import ReportContext
from agenteval.streams.jsonl import encode
from agenteval.wire.records import Record, Step
from agenteval.wire.row import ERROR, FAIL, GRADER_ERROR, UNGRADED

NumberedStep = tuple[int, Step]  # its number in the trajectory, from 1
PENDING = ("pending", "in_progress")
TRL = "trl"
NOT_IN_A_NAME = re.compile("[^a-zA-Z0-9_-]")
LONGEST_NAME = 64
REASONS = {FAIL: "did not pass", ERROR: "agent failed", GRADER_ERROR: "grader erred", UNGRADED: "ungraded"}
NO_REPLY = "no text in the answer"


@dataclass
class ToolCall:
    """A call of a tool, with a name of its own in the conversation, and its result."""

    id: str
    step: Step

    @property
    def name(self) -> str:
        return self.step.name or "tool"

    @property
    def arguments(self) -> Record:
        """Its input as an object; any other value becomes the object's field `input`."""
        given = self.step.input
        return given if isinstance(given, dict) else {} if given is None else {"input": given}

    @property
    def result(self) -> str | None:
        """Its output as text; None if it was never answered."""
        output = self.step.output
        if output is None:
            return None if self.step.status in PENDING else ""
        return text_of(output)

    @property
    def failed(self) -> bool:
        return self.step.status == "failed"


@dataclass
class AgentTurn:
    """What an agent did before it read results of tools: thoughts, a text, then calls; with its first and last step."""

    first: Step | None = None
    last: Step | None = None
    thoughts: list[str] = field(default_factory=list)
    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    plans: list[Any] = field(default_factory=list)

    def takes(self, step: Step) -> bool:
        """Whether a step belongs to this turn, not to the next one."""
        if step.type == "tool_call":
            return not self.calls or _is_parallel(self.calls[-1].step, step)
        return not self.calls and (step.type == "plan" or not self.text)

    def add(self, step: Step, call_id: str) -> None:
        self.first, self.last = self.first or step, step
        if step.type == "tool_call":
            self.calls.append(ToolCall(call_id, step))
        elif step.type == "plan":
            self.plans.append(step.entries or [])
        elif step.type == "thought":
            self.thoughts.append(step.content or "")
        else:
            self.text = step.content or ""


@dataclass
class Exchange:
    """What the user said, and the turns of the agent until the user said more."""

    user: str
    turns: list[AgentTurn]


def _is_parallel(earlier: Step, later: Step) -> bool:
    """Whether a tool was called before the result of an earlier call was known; False if the times do not show it."""
    if earlier.status in PENDING:
        return True
    if earlier.timestamp is None or later.timestamp is None:
        return False
    return later.timestamp == earlier.timestamp or later.timestamp < earlier.timestamp + (earlier.duration or 0)


def exchanges(answer: ReportedAnswer) -> list[Exchange]:
    """The conversation of an answer, without its sub-agents; its last turn is the output, if there is any."""
    found = [
        Exchange(user, list(agent_turns(one for one in steps if not one[1].parent_id)))
        for user, steps in _parts(answer)
    ]
    if answer.attempt.output.strip():
        _end_with(found[-1].turns, answer.attempt.output)
    return found


def sub_agents(answer: ReportedAnswer) -> dict[str, list[NumberedStep]]:
    """The steps of each sub-agent, by the `callId` of the call that it worked for."""
    found: dict[str, list[NumberedStep]] = {}
    for number, step in enumerate(answer.steps, 1):
        if step.parent_id:
            found.setdefault(step.parent_id, []).append((number, step))
    return found


def _parts(answer: ReportedAnswer) -> Iterator[tuple[str, list[NumberedStep]]]:
    """Each text of the user, and the steps that followed it."""
    asked, steps = answer.row.input, list(enumerate(answer.steps, 1))
    texts = asked if isinstance(asked, list) else [asked or ""]
    given = answer.metadata.get("turnSteps")
    counts = given if isinstance(given, list) and all(type(count) is int and count >= 0 for count in given) else []
    if len(texts) < 2 or len(counts) != len(texts) or sum(counts) != len(steps):
        yield "\n\n".join(texts), steps
        return
    at = 0
    for text, count in zip(texts, counts, strict=True):
        yield text, steps[at : at + count]
        at += count


def agent_turns(steps: Iterable[NumberedStep]) -> Iterator[AgentTurn]:
    """The turns of an agent: a thought or a text after a call or a text begins a new one."""
    turn = AgentTurn()
    for number, step in steps:
        if not turn.takes(step):
            yield turn
            turn = AgentTurn()
        turn.add(step, f"call_{number}")
    if turn.first:
        yield turn


def _end_with(turns: list[AgentTurn], output: str) -> None:
    """Makes the output the last text: in place of the last texts if it has them in it, else after them."""
    last = AgentTurn(text=output)
    while turns and not turns[-1].calls and turns[-1].text.strip() in output:  # "" too: thoughts alone
        turn = turns.pop()
        last.first, last.last = turn.first, last.last or turn.last
        last.thoughts, last.plans = turn.thoughts + last.thoughts, turn.plans + last.plans
    turns.append(last)


def text_of(value: Any) -> str:
    """The output of a tool as text: a string as it is, the texts of a list of content blocks, else JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(block, dict) and "text" in block for block in value):
        return "\n".join(str(block["text"]) for block in value)
    return encode(value).decode()


# --- chat messages --------------------------------------------------------------------------------


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


def chat_of(answer: ReportedAnswer, reader: str = "") -> Chat:
    """The conversation of an answer, in the form that the reader takes; thoughts and plans are not part of it."""
    messages: list[Record] = []
    before, tools = 0, dict[str, Record]()
    for exchange in _spoken(answer):
        messages.append({"role": "user", "content": exchange.user})
        before = len(messages)
        for turn in exchange.turns:
            _add_turn(messages, turn, reader)
            tools |= {name: _tool(name, reader) for name in map(_function_name, turn.calls)}
    return Chat(messages, before, list(tools.values()))


def _spoken(answer: ReportedAnswer) -> list[Exchange]:
    """The conversation, which ends with the graded output alone: other texts since the last call are left out."""
    found = exchanges(answer)
    turns = found[-1].turns
    while answer.attempt.output.strip() and len(turns) > 1 and not turns[-2].calls:
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
                "name": _function_name(call),
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


def _function_name(call: ToolCall) -> str:
    """The name of a tool with the characters and the length that the API allows."""
    return NOT_IN_A_NAME.sub("_", call.name)[:LONGEST_NAME]


def _tool(name: str, reader: str) -> Record:
    """The definition of a tool of which only the name is known; some chat templates fail without a description."""
    described = {"description": ""} if reader == TRL else {}
    parameters = {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": name, **described, "parameters": parameters}}


def say_left_out(written: str, left_out: Counter[str], context: ReportContext) -> None:
    """Says in one line how many were written and why the others were not; nothing if all were."""
    if left_out:
        context.say(f"{written}; left out: " + ", ".join(f"{count:,} {why}" for why, count in left_out.items()))
