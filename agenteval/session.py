"""One prompt, run to its end: turn by turn, with retries, into a raw record."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from agenteval.agents import DEFAULT_TIMEOUT, Agent
from agenteval.loop import Call, EndTree, Job, Pause, RunProcess
from agenteval.process import Command, Outcome
from agenteval.records import Record

DEFAULT_MAX_OUTPUT = 64 << 20
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
TRACED = 2000  # characters of a command line that --debug shows


class Limits(NamedTuple):
    """What a prompt may take; timeout in ms, None where the user named none."""

    timeout: float | None = None
    max_output: int = DEFAULT_MAX_OUTPUT
    retries: int = 0


class Attempt(NamedTuple):
    """One try at a prompt; `again` says that another might do better."""

    fields: Record
    again: bool


def run_prompt(
    prompt: Record,
    agent: Agent,
    *,
    key: int,
    prepare: Callable[[], str] | str,
    limits: Limits,
    trace: Callable[[str], None] | None = None,
) -> Job[Record]:
    """The raw record of a prompt; `prepare` is the directory to run in, or makes it anew for each try."""
    attempts = 0
    while True:
        attempts += 1
        attempt = yield from _try_prompt(prompt, agent, key, prepare, limits, trace)
        if not attempt.again or attempts > limits.retries:
            break
        yield Pause(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempts - 1)))
    if attempts > 1:
        attempt.fields["attempts"] = attempts
    return {**prompt, **attempt.fields}


def _try_prompt(
    prompt: Record,
    agent: Agent,
    key: int,
    prepare: Callable[[], str] | str,
    limits: Limits,
    trace: Callable[[str], None] | None,
) -> Job[Attempt]:
    texts = prompt["input"] if isinstance(prompt["input"], list) else [prompt["input"]]
    timeout = prompt.get("timeout") or limits.timeout or agent.timeout or DEFAULT_TIMEOUT
    raw = _RawFields()
    try:
        cwd = prepare if isinstance(prepare, str) else (yield Call(prepare))
    except OSError as error:
        raw.errors.append(f"cannot prepare the workspace: {error}")
        return Attempt(raw.fields(""), again=False)
    conversation = agent.open()
    helpers = again = False
    for number, text in enumerate(texts, 1):
        try:
            said = conversation.say(text, cwd)
        except ValueError as error:
            raw.fail(number, len(texts), str(error))
            break
        command = Command(said.program, said.argv, cwd, said.env, said.stdin)
        if trace is not None:
            trace(f"in {cwd}: {shlex.join(said.argv)[:TRACED]}")
        outcome = yield RunProcess(key, command, timeout / 1000, limits.max_output - raw.size)
        helpers = helpers or outcome.left_helpers
        lines = raw.add_turn(outcome)
        conversation.hear(text, lines)
        problem = failure_of(outcome, timeout)
        if outcome.too_much:
            problem = f"output exceeded {limits.max_output} bytes (--max-output); the agent was ended"
        if problem:
            raw.fail(number, len(texts), problem)
            again = outcome.timed_out or (outcome.started is None and outcome.error is not None)
            break
    if helpers:
        yield EndTree(key)  # what the agent left running ends with its prompt
    return Attempt(raw.fields(cwd), again)


def failure_of(outcome: Outcome, timeout: float) -> str | None:
    """Why a process counts as failed, in one line; None when it does not."""
    if outcome.error is not None:
        return outcome.error
    if outcome.too_much:
        return "printed too much"
    if outcome.timed_out:
        return f"timeout: not done after {timeout:g} ms"
    last = outcome.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2].strip()
    because = f": {last[:300]}" if last else ""
    if outcome.signal is not None:
        return f"killed by {outcome.signal}{because}"
    if outcome.exit_code:
        return f"exited with code {outcome.exit_code}{because}"
    return None


class _RawFields:
    """The fields of a raw record while its turns come in."""

    def __init__(self) -> None:
        self.epoch, self.zero = time.time(), time.monotonic()
        self.lines: list[str] = []
        self.times: list[int] = []
        self.turns: list[Record] = []
        self.errors: list[str] = []
        self.size = 0
        self.stderr = b""
        self.creation: int | None = None
        self.last: Outcome | None = None
        self.turn_start = self.zero

    def add_turn(self, outcome: Outcome) -> list[str]:
        """Take in what a turn printed; returns its lines as text."""
        now = time.monotonic()
        lines = outcome.stdout.decode("utf-8", "replace").split("\n")
        if not lines[-1]:
            lines.pop()
        self.lines += lines
        for number, moment in outcome.arrivals:
            self.times += [self._ms(moment)] * number
        self.size += len(outcome.stdout)
        self.stderr = (self.stderr + outcome.stderr)[-8192:]
        if self.creation is None and outcome.started is not None:
            self.creation = self._ms(outcome.started)
        turn: Record = {"lines": len(lines), "exitCode": outcome.exit_code, "signal": outcome.signal}
        turn |= {"timedOut": outcome.timed_out, "total": round((now - self.turn_start) * 1000)}
        self.turns.append(turn)
        self.turn_start = now
        self.last = outcome
        return lines

    def fail(self, turn: int, turns: int, problem: str) -> None:
        """Note a failure, and which turn it was where there are several."""
        self.errors.append(f"turn {turn} of {turns}: {problem}" if turns > 1 else problem)

    def fields(self, cwd: str) -> Record:
        """The raw record's own fields, in the order of the contract."""
        total = self._ms(time.monotonic())
        start = round(self.epoch * 1000)
        timing: dict[str, Any] = {"start": start, "end": start + total, "total": total}
        if self.creation is not None:
            timing["sessionCreation"] = self.creation
        if self.times:
            timing["firstResponse"] = self.times[0]
        fields: Record = {"rawLines": self.lines, "lineTimes": self.times, "turns": self.turns}
        if self.stderr:
            fields["stderr"] = self.stderr.decode("utf-8", "replace")
        last = self.last
        fields |= {
            "cwd": os.fsencode(cwd).decode("utf-8", "replace"),  # a directory's name may be any bytes
            "timing": timing,
            "exitCode": last.exit_code if last else None,
            "signal": last.signal if last else None,
            "timedOut": last.timed_out if last else False,
        }
        if self.errors:
            fields["errors"] = self.errors
        return fields

    def _ms(self, moment: float) -> int:
        return round((moment - self.zero) * 1000)
