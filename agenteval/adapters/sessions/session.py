"""The events of one session → a result: turns of the user, steps, sub-agents, tokens and times."""

from __future__ import annotations

from typing import Any

from agenteval.adapters.reader import Reading
from agenteval.adapters.rules import Event
from agenteval.adapters.sessions.session_file import CompiledTurn, SessionSchema
from agenteval.adapters.trajectory import Step
from agenteval.adapters.values import as_text, total
from agenteval.adapters.values import epoch_milliseconds as milliseconds
from agenteval.streams.jsonl import encode
from agenteval.wire.records import Record
from agenteval.wire.richness import richness_of

Usage = dict[str, int | float]


class RecordedSession:
    """What the events of one session contain, read one by one."""

    def __init__(self, schema: SessionSchema, name: str) -> None:
        self.schema, self.name = schema, name
        self.id: Any = None
        self.cwd: Any = None
        self.branch: Any = None
        self.model: Any = None
        self.start: int | None = None
        self.end: int | None = None
        self.turns: list[str] = []
        self.children: dict[int, list[Step]] = {}  # by the id() of the step that started the sub-agent
        self.reading: Reading = schema.adapter.begin("")
        self._usages: dict[Any, Usage] = {}
        self._only_if_answered = False
        self._counts: list[int] = []  # steps of each turn
        self.reading.begin_turn()

    def add(self, event: Event) -> None:
        """Reads one event."""
        schema = self.schema
        if (time := milliseconds(schema.time(event))) is not None:
            self.start = time if self.start is None else min(self.start, time)
            self.end = time if self.end is None else max(self.end, time)
        self.id = self.id or schema.id(event)
        self.cwd = self.cwd or schema.cwd(event)
        self.branch = schema.branch(event) or self.branch
        model = schema.model(event)
        self.model = model if type(model) is str and model and model[0] != "<" else self.model
        self._add_usage(event)
        for rule in schema.turns:
            if all(test.holds(event) for test in rule.tests) and self._is_turn(event, rule):
                return
        self.reading.take([encode(event).decode()], [None if time is None or self.start is None else time - self.start])

    def sub_agent(self, event: Event) -> tuple[str, str] | None:
        """Returns the name of the sub-agent of which an event reports, and the id of the call that started it."""
        agent, call = self.schema.agent(event), self.schema.call(event)
        return (agent, call) if type(agent) is str and type(call) is str else None

    def is_open_to(self, call: str) -> bool:
        """Returns whether a call of this id can take the session of a sub-agent, which it has not yet."""
        step = self.reading.out.step_of(call)
        return step is not None and id(step) not in self.children

    def nest(self, child: RecordedSession, call: str) -> None:
        """Takes in the session of a sub-agent, which the tool call with this id has started."""
        parent = self.reading.out.step_of(call)
        if parent is None:
            return
        child.close_turn()
        offset = (child.start or 0) - (self.start or 0)
        steps = child.steps()
        for step in steps:
            if "timestamp" in step:
                step["timestamp"] += offset
            step.setdefault("parentId", call)
        parent["callId"] = call
        self.children.setdefault(id(parent), []).extend(steps)
        for usage in child._usages.values():
            self._usages[len(self._usages), "child"] = usage
        if child.reading.tool_errors:
            self.reading.out.tool_errors = True

    # --- turns ---

    def _is_turn(self, event: Event, rule: CompiledTurn) -> bool:
        """Begins a turn if the event has the text of one; returns whether the event is no step in any case."""
        text = as_text(rule.content(event)).strip()
        if not text:
            return False
        if rule.ignore and rule.ignore.match(text):
            return True
        answered = len(self.reading.trajectory) > sum(self._counts)
        if self.turns and not answered and text == self.turns[-1]:
            return True  # the same turn, reported in two ways
        self.close_turn()
        self._only_if_answered = bool(rule.if_answered and rule.if_answered.match(text))
        self.turns.append(text)
        self.reading.errors.clear()  # the session went on after them
        self.reading.begin_turn()
        return True

    def close_turn(self) -> None:
        """Ends the turn; one that is only a turn if it is answered may be none."""
        self.reading.end_turn()
        count = len(self.reading.trajectory) - sum(self._counts)
        if self._only_if_answered and not count:
            self.turns.pop()
        elif self.turns:
            self._counts.append(count)
        self._only_if_answered = False

    # --- tokens ---

    def _add_usage(self, event: Event) -> None:
        usage = self.schema.usage
        if usage is None or not all(test.holds(event) for test in usage.tests):
            return
        found = {name: total(*(find(event) for find in finds)) for name, finds in usage.counts.items()}
        if numbers := {name: number for name, number in found.items() if number is not None}:
            ident = as_text(usage.id(event)) or (len(self._usages) if usage.adds_up else 0)
            self._usages[ident] = numbers

    def _usage(self) -> Usage:
        names = self.schema.usage.counts if self.schema.usage else {}
        sums = {name: total(*(usage.get(name) for usage in self._usages.values())) for name in names}
        return {name: number for name, number in sums.items() if number is not None}

    # --- result ---

    def steps(self) -> list[Step]:
        """Returns all steps in order, those of a sub-agent after the one that started it."""
        return [one for step in self.reading.trajectory for one in (step, *self.children.get(id(step), ()))]

    def result(self, ident: str) -> Record:
        """Returns the result of the session; called once."""
        self.close_turn()
        reading, turns = self.reading, self.turns
        steps = self.steps()
        for number, step in enumerate(steps, 1):
            step["stepId"] = f"{ident}-step-{number}"
        start, end = self.start or 0, self.end or 0
        facts = {"model": self.model, "gitBranch": self.branch}
        result: Record = {
            "id": ident,
            "input": turns[0] if len(turns) == 1 else turns,
            "output": reading.output,
            "trajectory": steps,
            "metadata": {
                **{name: fact for name, fact in facts.items() if type(fact) is str and fact},
                **reading.facts,
                "agent": self.schema.name,
                "trajectoryRichness": richness_of(None, (step["type"] for step in steps)),
                "turnCount": len(turns),
                **({"turnSteps": self._turn_steps()} if len(turns) > 1 else {}),
            },
            "timing": {"start": start, "end": end, "total": end - start, **self._usage()},
            "toolErrors": reading.tool_errors,
        }
        if reading.errors:
            result["errors"] = reading.errors
        if type(self.cwd) is str and self.cwd:
            result["cwd"] = self.cwd
        return result

    def _turn_steps(self) -> list[int]:
        """Returns how many steps each turn has, those of sub-agents included."""
        counts, at = [], 0
        for count in self._counts:
            steps = self.reading.trajectory[at : at + count]
            counts.append(sum(1 + len(self.children.get(id(step), ())) for step in steps))
            at += count
        return counts
