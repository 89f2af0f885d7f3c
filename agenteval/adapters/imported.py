"""A result built from what another program recorded: a session log, or a file of another harness."""

from typing import Any

from agenteval.adapters.trajectory import Step, Trajectory, richness_of
from agenteval.adapters.values import epoch_milliseconds
from agenteval.wire.records import Record
from agenteval.wire.row import combine


class ImportedResult:
    """Turns, steps, tokens and times of one answer, in the order in which they come."""

    def __init__(self, ident: str, agent: str, out: Trajectory | None = None) -> None:
        self.ident, self.agent = ident, agent
        self.out = out or Trajectory(ident, None)
        self.turns: list[str] = []
        self.turn_steps: list[int] = []
        self.metadata: Record = {}
        self.usage: Record = {}
        self.errors: list[str] = []
        self.verdicts: dict[str, Record] = {}
        self.overall: Record | None = None
        self.output: str | None = None
        self.hint: str | None = None
        self.start: int | None = None
        self.end: int | None = None

    def at(self, time: Any) -> None:
        """Sets when what follows happened, if that is known."""
        now = epoch_milliseconds(time)
        if now is not None:
            self.start = now if self.start is None else min(self.start, now)
            self.end = now if self.end is None else max(self.end, now)
        self.out.time = None if now is None or self.start is None else now - self.start

    def turn(self, text: str) -> None:
        """Begins a turn of the user."""
        self.end_turn()
        self.turns.append(text)

    def end_turn(self) -> None:
        """Ends the turn, if one has begun."""
        self.out.end_turn()
        if self.turns:
            self.turn_steps.append(self.new_steps())

    def new_steps(self) -> int:
        """Returns how many steps there are since the last turn that ended."""
        return len(self.out.steps) - sum(self.turn_steps)

    def add_verdict(self, name: str, verdict: Record) -> None:
        """Adds the verdict of one grader; a second of the same name gets a number."""
        number = 1
        while (label := name if number == 1 else f"{name}-{number}") in self.verdicts:
            number += 1
        self.verdicts[label] = verdict

    def result(self) -> Record:
        """Returns the result; called once."""
        self.end_turn()
        return self.built(self.out.steps)

    def built(self, steps: list[Step]) -> Record:
        """Returns the result with these steps, the last turn ended."""
        messages = [step["content"] for step in steps if step["type"] == "message" and "parentId" not in step]
        start, end = self.start or 0, self.end or 0
        usage = {name: value for name, value in self.usage.items() if type(value) in (int, float)}
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
            "timing": {"start": start, "end": end, "total": end - start, **usage},
            "toolErrors": self.out.tool_errors,
        }
        if self.hint:
            result["hint"] = self.hint
        if self.errors:
            result["errors"] = self.errors
        elif self.verdicts or self.overall:
            result["score"] = self.overall or combine(list(self.verdicts.values()))
            result |= {"scores": self.verdicts} if len(self.verdicts) > 1 else {}
        return result


def verdict(score: Any, passed: Any, reasoning: Any) -> Record | None:
    """Returns the verdict as a grader result; None if the score is not from 0 to 1. By default only 1 passes."""
    if type(score) not in (int, float, bool) or not 0 <= score <= 1:
        return None
    found: Record = {"pass": passed if type(passed) is bool else score == 1, "score": float(score)}
    return found | ({"reasoning": reasoning} if type(reasoning) is str and reasoning else {})


def as_object(value: Any) -> Record:
    """Returns the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[Record]:
    """Returns the objects in a list; an empty list for any other value."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
