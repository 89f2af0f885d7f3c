"""A result built from what another harness recorded."""

from __future__ import annotations

from typing import Any

from agenteval.adapters.sessions.times import milliseconds
from agenteval.adapters.trajectory import Trajectory
from agenteval.wire.records import Record
from agenteval.wire.richness import richness_of


class ForeignResult:
    """Turns, steps, tokens and times of one answer, in the order in which they come."""

    def __init__(self, ident: str, agent: str) -> None:
        self.ident, self.agent = ident, agent
        self.out = Trajectory(ident, None)
        self.turns: list[str] = []
        self.turn_steps: list[int] = []
        self.metadata: Record = {}
        self.usage: Record = {}
        self.errors: list[str] = []
        self.output: str | None = None
        self.start: int | None = None
        self.end: int | None = None

    def at(self, time: Any) -> None:
        """Sets when what follows happened, if that is known."""
        now = milliseconds(time)
        if now is not None:
            self.start = now if self.start is None else min(self.start, now)
            self.end = now if self.end is None else max(self.end, now)
        self.out.time = None if now is None or self.start is None else now - self.start

    def turn(self, text: str) -> None:
        """Begins a turn of the user."""
        self._end_turn()
        self.turns.append(text)

    def _end_turn(self) -> None:
        self.out.end_turn()
        if self.turns:
            self.turn_steps.append(len(self.out.steps) - sum(self.turn_steps))

    def result(self) -> Record:
        """Returns the result; called once."""
        self._end_turn()
        steps = self.out.steps
        messages = [step["content"] for step in steps if step["type"] == "message" and "parentId" not in step]
        start, end = self.start or 0, self.end or 0
        result: Record = {
            "id": self.ident,
            "input": self.turns[0] if len(self.turns) == 1 else self.turns or "",
            "output": (messages or [""])[-1] if self.output is None else self.output,
            "trajectory": steps,
            "metadata": {
                **{name: value for name, value in self.metadata.items() if value is not None},
                "agent": self.agent,
                "trajectoryRichness": richness_of(None, (step["type"] for step in steps)),
                "turnCount": max(1, len(self.turns)),
                **({"turnSteps": self.turn_steps} if len(self.turns) > 1 else {}),
            },
            "timing": {"start": start, "end": end, "total": end - start, **self._numbers()},
            "toolErrors": self.out.tool_errors,
        }
        if self.errors:
            result["errors"] = self.errors
        return result

    def _numbers(self) -> Record:
        return {name: value for name, value in self.usage.items() if type(value) in (int, float)}
