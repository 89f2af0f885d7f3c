"""What is done with each agent, and what its record has to show then."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from agent_rig.catalogue import EXIT, KILLED, RUNNING, THOUGHT_TOKENS, THOUGHTS, TOKENS, TOOLS, Agent
from agent_rig.script import (
    AGAIN,
    ANSWER,
    BEFORE,
    CODEWORD,
    COMPLETE,
    FILE,
    REFUSAL,
    REMEMBERED,
    SUBMIT,
    THOUGHT,
    Script,
)
from agent_rig.server import Model

PROMPT = f"Please create {FILE} with a shell command, then tell me the answer. The codeword is {CODEWORD}."
PROMPT_AGAIN = f"{AGAIN}: what was the answer?"
SAID = "it-was-written"
BEGAN = "began.txt"
FOREVER = "nohup tail -f /dev/null"  # some agents refuse to run `sleep`
LIMIT = 20_000  # ms until the time-out: enough for every agent to start and to call its tool
PATIENCE = 400_000  # ms: some agents ask a model that fails for five minutes
ENDS_WITHIN = 6.0  # seconds from the time-out or Ctrl-C to the end of the tool; two of them are the agent's grace
INTERRUPTED = 130

Record = dict[str, Any]
Problems = Iterator[str]


class Run(NamedTuple):
    """A scenario that was run with an agent."""

    agent: Agent
    record: Record
    code: int
    stderr: str
    workspace: Path
    model: Model
    began: bool
    """The tool had begun, or the model had been asked where there is none, when the run was cut short."""
    overtime: float
    """Seconds from the time-out or Ctrl-C to the end."""

    def tells(self, fact: str) -> bool:
        """Whether the program prints that at all."""
        return fact not in self.agent.untold


class Scenario(NamedTuple):
    """One column of the table."""

    name: str
    script: Script
    check: Callable[[Run], Problems]
    prompt: str | list[str] = PROMPT
    timeout: int = PATIENCE
    interrupted: bool = False
    needs_tool: bool = False
    """It says nothing of an agent that has no tools."""


# --- what a record shows --------------------------------------------------------------------------


def tool_used(run: Run) -> Problems:
    """One prompt, one tool, one answer."""
    yield from _no_trouble(run)
    yield from _output(run, ANSWER)
    yield from _tool_step(run, "completed")
    yield from _steps(run)
    yield from _tokens(run)
    yield from _file(run)


def tool_failed(run: Run) -> Problems:
    """The command exits 3: the step failed, the agent did not."""
    yield from _no_trouble(run)
    yield from _output(run, ANSWER)
    yield from _tool_step(run, "failed" if run.tells(EXIT) else "completed")
    if run.tells(TOOLS) and run.tells(EXIT) and not run.record["toolErrors"]:
        yield "toolErrors is false"
    yield from _tokens(run)


def resumed(run: Run) -> Problems:
    """The second turn knows of the first; tokens are those of both."""
    yield from _no_trouble(run)
    yield from _output(run, REMEMBERED)
    yield from _tool_step(run, "completed")
    yield from _tokens(run)
    yield from _file(run)


def refused(run: Run) -> Problems:
    """The model answers 500: the agent's own words are in the errors."""
    if run.code:
        yield f"ae-capture exited with {run.code}"
    if not run.model.refused:
        yield "the model was not asked"
    errors = run.record.get("errors") or []
    if not any(REFUSAL in error or run.agent.failure in error for error in errors):
        yield f"errors do not tell of the refusal: {errors}"
    if run.record["metadata"].get("timedOut"):
        yield "it did not give up in time"


def timed_out(run: Run) -> Problems:
    """Cut off in the middle: the record is there, with what the agent had printed."""
    yield from _cut_short(run, code=0)
    if not run.record["metadata"].get("timedOut"):
        yield "timedOut is false"
    if not any("timeout" in error for error in run.record.get("errors") or []):
        yield f"errors do not tell of the time-out: {run.record.get('errors')}"
    if run.tells(TOOLS) and run.tells(RUNNING):
        yield from _pending(run)


def interrupted(run: Run) -> Problems:
    """Ctrl-C: the tool ends at once."""
    yield from _cut_short(run, code=INTERRUPTED)


def child_left(run: Run) -> Problems:
    """The tool leaves a process behind: the answer comes, the process goes."""
    yield from _no_trouble(run)
    yield from _output(run, ANSWER)


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("tool", Script(f"echo hello > {FILE} && echo {SAID}"), tool_used),
        Scenario("failing tool", Script(f"echo {SAID}; sh -c 'exit 3'"), tool_failed, needs_tool=True),
        Scenario("two turns", Script(f"echo hello > {FILE} && echo {SAID}"), resumed, [PROMPT, PROMPT_AGAIN]),
        Scenario("500", Script("true", status=500), refused),
        Scenario("child left", Script(f"{FOREVER} >/dev/null 2>&1 & echo started"), child_left, needs_tool=True),
        Scenario("time-out", Script(f"echo > {BEGAN}; {FOREVER}", waits=True), timed_out, timeout=LIMIT),
        Scenario("Ctrl-C", Script(f"echo > {BEGAN}; {FOREVER}", waits=True), interrupted, interrupted=True),
    )
}


# --- parts ----------------------------------------------------------------------------------------


def _no_trouble(run: Run) -> Problems:
    if run.code:
        yield f"ae-capture exited with {run.code}: {run.stderr.strip()[-300:]}"
    if errors := run.record.get("errors"):
        yield f"errors: {errors}"


def _output(run: Run, wanted: str) -> Problems:
    output = run.record.get("output")
    exact = run.tells(TOOLS)
    if not isinstance(output, str) or not (output.strip() == wanted if exact else wanted in output):
        yield f"output is {_short(output)}"


def _trajectory(run: Run) -> list[Record]:
    """The steps without the tool by which some agents end."""
    return [step for step in run.record["trajectory"] if not _is_ending(step)]


def _is_ending(step: Record) -> bool:
    return step.get("name") == COMPLETE or SUBMIT in json.dumps(step.get("input"))


def _calls(run: Run) -> list[Record]:
    return [step for step in _trajectory(run) if step["type"] == "tool_call"]


def _tool_step(run: Run, status: str) -> Problems:
    if not run.tells(TOOLS):
        return
    calls = _calls(run)
    if len(calls) != 1:
        yield f"{len(calls)} tool calls instead of one: {_short([call['name'] for call in calls])}"
        return
    call = calls[0]
    if f"echo {SAID}" not in json.dumps(call.get("input")):
        yield f"tool input is {_short(call.get('input'))}"
    if SAID not in json.dumps(call.get("output")):
        yield f"tool output is {_short(call.get('output'))}"
    if call["status"] != status:
        yield f"tool status is {call['status']}, not {status}"


def _pending(run: Run) -> Problems:
    calls = _calls(run)
    if len(calls) != 1 or (calls[0]["status"] == "completed" and run.tells(KILLED)):
        yield f"the tool that did not end is {_short([(call['name'], call['status']) for call in calls])}"


def _steps(run: Run) -> Problems:
    """Thought, message, tool and answer, each once and in this order."""
    if not run.tells(TOOLS):
        return
    wanted = [("thought", THOUGHT)] * run.tells(THOUGHTS) + [
        ("message", BEFORE),
        ("tool_call", ""),
        ("message", ANSWER),
    ]
    steps = [(step["type"], step.get("content", "").strip()) for step in _trajectory(run)]
    if steps != wanted:
        yield f"steps are {_short(steps)}"


def _tokens(run: Run) -> Problems:
    timing = run.record["timing"]
    if not run.tells(TOKENS):
        return
    main, aside = run.model.spent()
    unsaid = 0 if run.tells(THOUGHT_TOKENS) else main.reasoning
    for name, paid, beside in (
        ("inputTokens", main.input, aside.input),
        ("cachedTokens", main.cached, aside.cached),
        ("outputTokens", main.output - unsaid, aside.output),
    ):
        wanted = paid + beside * run.agent.counts_asides
        if timing.get(name) != wanted:
            yield f"{name} is {timing.get(name)}, not {wanted} (asides {beside})"


def _file(run: Run) -> Problems:
    if not run.agent.writes:
        return
    path = run.workspace / FILE
    if not path.exists():
        yield f"{FILE} was not written"
    elif path.read_text().strip() != "hello":
        yield f"{FILE} holds {_short(path.read_text())}"


def _cut_short(run: Run, code: int) -> Problems:
    if run.code != code:
        yield f"ae-capture exited with {run.code}, not {code}: {run.stderr.strip()[-300:]}"
    if not run.began:
        yield "the tool had not begun"
    if run.overtime > ENDS_WITHIN:
        yield f"the end took {run.overtime:.1f} s"


def _short(value: object) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 300 else f"{shown[:300]}…"
