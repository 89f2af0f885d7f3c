"""A trajectory as a conversation: what the user said, and what the agent thought, said and called in reply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agenteval.reports.exports.answers import ExportedAnswer
from agenteval.streams.jsonl import encode
from agenteval.wire.records import Record, Step

NumberedStep = tuple[int, Step]  # its number in the trajectory, from 1
PENDING = ("pending", "in_progress")
FAILED_CALL = "failed"


@dataclass
class ToolCall:
    """A call of a tool, with a name of its own in the conversation, and its result."""

    id: str
    step: Step

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.step.name or "tool"

    @property
    def arguments(self) -> Record:
        """Its input as an object: what is no object becomes its `input`."""
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
        """Whether the tool failed."""
        return self.step.status == FAILED_CALL


@dataclass
class AgentTurn:
    """What an agent did before it read results of tools: thoughts, a text, then calls; `first` is its first step."""

    first: Step | None = None
    thoughts: list[str] = field(default_factory=list)
    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    plans: list[Any] = field(default_factory=list)

    def takes(self, step: Step) -> bool:
        """Whether a step belongs to this turn, and not to the next one."""
        if step.type == "tool_call":
            return not self.calls or is_parallel(self.calls[-1].step, step)
        return not self.calls and (step.type == "plan" or not self.text)

    def add(self, step: Step, call_id: str) -> None:
        """Adds a step."""
        self.first = self.first or step
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


def is_parallel(earlier: Step, later: Step) -> bool:
    """Whether a tool was called before the result of an earlier call was known; False if the times do not show it."""
    if earlier.status in PENDING:
        return True
    if earlier.timestamp is None or later.timestamp is None:
        return False
    return later.timestamp == earlier.timestamp or later.timestamp < earlier.timestamp + (earlier.duration or 0)


def exchanges(answer: ExportedAnswer) -> list[Exchange]:
    """The conversation of an answer, without its sub-agents; its last turn is the output, if there is any."""
    parts = list(_parts(answer))
    found = [Exchange(user, list(agent_turns(one for one in steps if not one[1].parent_id))) for user, steps in parts]
    _end_with(found[-1].turns, answer.result.output)
    return found


def sub_agents(answer: ExportedAnswer) -> dict[str, list[NumberedStep]]:
    """The steps of each sub-agent, by the `callId` of the call that it worked for."""
    found: dict[str, list[NumberedStep]] = {}
    for number, step in enumerate(answer.steps, 1):
        if step.parent_id:
            found.setdefault(step.parent_id, []).append((number, step))
    return found


def _parts(answer: ExportedAnswer) -> Iterator[tuple[str, list[NumberedStep]]]:
    """Each text of the user, and the steps that followed it."""
    texts, steps = user_texts(answer), list(enumerate(answer.steps, 1))
    given = answer.metadata.get("turnSteps")
    counts = given if isinstance(given, list) and all(type(count) is int and count >= 0 for count in given) else []
    if len(texts) < 2 or len(counts) != len(texts) or sum(counts) != len(steps):
        yield "\n\n".join(texts), steps
        return
    at = 0
    for text, count in zip(texts, counts, strict=True):
        yield text, steps[at : at + count]
        at += count


def user_texts(answer: ExportedAnswer) -> list[str]:
    """What the user said, turn by turn."""
    given = answer.result.input
    return [given or ""] if isinstance(given, str | None) else given


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
    if not output.strip():
        return
    last = AgentTurn()
    while turns and not turns[-1].calls and turns[-1].text.strip() in output:  # "" too: thoughts alone
        turn = turns.pop()
        last.first = turn.first
        last.thoughts, last.plans = turn.thoughts + last.thoughts, turn.plans + last.plans
    last.text = output
    turns.append(last)


def text_of(value: Any) -> str:
    """The output of a tool as text: a string as it is, the texts of a list of content blocks, else JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(block, dict) and "text" in block for block in value):
        return "\n".join(str(block["text"]) for block in value)
    return encode(value).decode()
