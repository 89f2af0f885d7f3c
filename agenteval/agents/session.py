"""One prompt, run to its end: turn by turn, with retries, into a raw record."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from agenteval.agents.environment import Environment
from agenteval.agents.kinds import DEFAULT_TIMEOUT, AcpAgent, Agent, Invocation, TurnAgent
from agenteval.agents.rate_limit import RateLimiter
from agenteval.processes.loop import Call, EndTree, Job, Pause, RunProcess
from agenteval.processes.outcome import Outcome, failure_of, printed_lines
from agenteval.processes.process import Command, ProcessPeer
from agenteval.streams.redaction import Redactor
from agenteval.wire.records import Record

if TYPE_CHECKING:
    from agenteval.agents.acp.client import Client

DEFAULT_MAX_OUTPUT = 64 << 20
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
SHOWN = 300  # characters of a reason to try again
# What providers say when they want to be asked more slowly.
OVERLOAD = re.compile(
    r"(?<!\d)(?:429|529)(?!\d)|rate.?limit|too many requests|overloaded|resource.?exhausted|try again later"
    r"|server is busy",
    re.IGNORECASE,
)
TRACED = 2000  # characters of a command line that --debug shows


class Limits(NamedTuple):
    """What a prompt may take; timeout in ms, None where the user named none."""

    timeout: float | None = None
    max_output: int = DEFAULT_MAX_OUTPUT
    retries: int = 0
    retry_on: re.Pattern[str] | None = None  # what an agent may say that is worth another try


class Conditions(NamedTuple):
    """What all prompts of a run have in common."""

    pacer: RateLimiter
    limits: Limits = Limits()
    environment: Environment = Environment()
    redact: Redactor = Redactor({})


class Attempt(NamedTuple):
    """One try at a prompt; `again` says why another might do better, `overload` that others would fare the same."""

    fields: Record
    again: str | None = None
    overload: bool = False


def run_prompt(
    prompt: Record,
    agent: Agent,
    *,
    key: int,
    prepare: Callable[[], str] | str,
    conditions: Conditions,
    trace: Callable[[str], None] | None = None,
) -> Job[Record]:
    """The raw record of a prompt; `prepare` is the directory to run in, or makes it anew for each try."""
    retried: list[str] = []
    while True:
        yield from _wait_for_place(conditions.pacer)
        attempt = yield from _try_prompt(prompt, agent, key, prepare, conditions, trace)
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** len(retried))
        if attempt.overload:
            conditions.pacer.hold(pause)  # also when this was the last try: the next prompt would be told the same
        if attempt.again is None or len(retried) >= conditions.limits.retries:
            break
        retried.append(attempt.again)
        yield Pause(pause)
    if retried:
        attempt.fields.update(attempts=len(retried) + 1, retried=retried)
    return {**prompt, **attempt.fields}


def _wait_for_place(pacer: RateLimiter) -> Job[None]:
    holds = -1
    while holds != pacer.holds:  # held while it waited: its place is not free any more
        holds = pacer.holds
        if wait := pacer.wait():
            yield Pause(wait)


def _try_prompt(
    prompt: Record,
    agent: Agent,
    key: int,
    prepare: Callable[[], str] | str,
    conditions: Conditions,
    trace: Callable[[str], None] | None,
) -> Job[Attempt]:
    texts = prompt["input"] if isinstance(prompt["input"], list) else [prompt["input"]]
    limits = conditions.limits
    timeout = prompt.get("timeout") or limits.timeout or agent.timeout or DEFAULT_TIMEOUT
    raw = RawRecordBuilder(conditions.redact)
    try:
        cwd = prepare if isinstance(prepare, str) else (yield Call(prepare))
    except OSError as error:
        raw.errors.append(f"cannot prepare the workspace: {error}")
        return Attempt(raw.fields(""))
    place = _Place(key, cwd, timeout, limits.max_output, conditions.environment, trace)
    if isinstance(agent, AcpAgent):
        yield from _talk(texts, agent, place, raw)
    else:
        yield from _turn_by_turn(texts, agent, place, raw)
    if raw.helpers:
        yield EndTree(key)  # what the agent left running ends with its prompt
    fields = raw.fields(cwd)
    return _judge(fields, raw.last, agent, limits) if limits.retries else Attempt(fields)


def _judge(fields: Record, last: Outcome | None, agent: Agent, limits: Limits) -> Attempt:
    """The try, and whether another might do better: it timed out, did not start, or was told to slow down."""
    if last is not None and (last.timed_out or (last.started is None and last.error is not None)):
        return Attempt(fields, fields["errors"][0])
    counts = [turn["lines"] for turn in fields["turns"]]
    reading = agent.adapter().read(fields["rawLines"], None, counts, "")
    said = [*fields.get("errors", ()), *reading.errors]
    if said:
        said += fields.get("stderr", "").splitlines()
    if overloaded := next(filter(OVERLOAD.search, said), None):
        return Attempt(fields, overloaded[:SHOWN], overload=True)
    if limits.retry_on is not None:
        everything = (*said, *fields.get("stderr", "").splitlines(), *fields["rawLines"])
        if found := next(filter(limits.retry_on.search, everything), None):
            return Attempt(fields, found[:SHOWN], overload=True)
    return Attempt(fields)


class _Place(NamedTuple):
    """Where a prompt runs, and within what limits."""

    key: int
    cwd: str
    timeout: float
    max_output: int
    environment: Environment
    trace: Callable[[str], None] | None

    def process(self, said: Invocation, size: int, peer: ProcessPeer | None = None) -> RunProcess:
        """The request to run a command, of whose agent so much output is there already."""
        if self.trace is not None:
            self.trace(f"in {self.cwd}: {shlex.join(said.argv)[:TRACED]}")
        env = self.environment.with_own(said.env)
        command = Command(said.program, said.argv, self.cwd, env, said.stdin, self.environment.alone)
        return RunProcess(self.key, command, self.timeout / 1000, self.max_output - size, peer)

    def too_much(self, outcome: Outcome) -> str | None:
        """The error of an agent that was ended for what it printed."""
        said = f"output exceeded {self.max_output} bytes (--max-output); the agent was ended"
        return said if outcome.too_much else None


def _turn_by_turn(texts: list[str], agent: TurnAgent, place: _Place, raw: RawRecordBuilder) -> Job[None]:
    """One process per turn, until one fails."""
    conversation = agent.open()
    for number, text in enumerate(texts, 1):
        try:
            said = conversation.next_command(text, place.cwd)
        except ValueError as error:
            raw.fail(number, len(texts), str(error))
            return
        outcome = raw.cleaned((yield place.process(said, raw.size)))
        conversation.observe(text, raw.add_turn(outcome))
        problem = place.too_much(outcome) or failure_of(outcome, place.timeout)
        if problem:
            raw.fail(number, len(texts), problem)
            return


def _talk(texts: list[str], agent: AcpAgent, place: _Place, raw: RawRecordBuilder) -> Job[None]:
    """One process for all turns, and a client that talks with it."""
    said, client = agent.start_client(texts, place.cwd)
    outcome = raw.cleaned((yield place.process(said, 0, client)))
    raw.add_talk(outcome, client)
    problem = place.too_much(outcome) or _talk_failure(outcome, client, place.timeout)
    if problem:
        raw.fail(client.turn, len(texts), problem)


def _talk_failure(outcome: Outcome, client: Client, timeout: float) -> str | None:
    """Why the agent did not answer every turn; how it ended after that is no failure."""
    if outcome.timed_out:
        return f"timeout: {client.waiting} not answered within {timeout:g} ms"
    if client.done or outcome.error is not None:
        return outcome.error or client.problem
    if outcome.dismissed:
        return f"the agent closed its stdout before it answered {client.waiting}"
    ending = failure_of(outcome, timeout) or "exited with code 0"
    how, colon, why = ending.partition(": ")
    return f"{how} before it answered {client.waiting}{colon}{why}"


class RawRecordBuilder:
    """The fields of a raw record while its turns come in."""

    def __init__(self, redact: Redactor) -> None:
        self.redact = redact
        self.epoch, self.zero = time.time(), time.monotonic()
        self.lines: list[str] = []
        self.times: list[int] = []
        self.turns: list[Record] = []
        self.errors: list[str] = []
        self.size = 0
        self.stderr = b""
        self.creation: int | None = None
        self.first: int | None = None
        self.last: Outcome | None = None
        self.turn_start = self.zero
        self.helpers = False

    def cleaned(self, outcome: Outcome) -> Outcome:
        """The outcome, without secrets on its stderr: what is cut out of that later has none either."""
        if not outcome.stderr:
            return outcome
        return outcome._replace(stderr=self.redact.cut(outcome.stderr.decode("utf-8", "replace")).encode())

    def add_turn(self, outcome: Outcome) -> list[str]:
        """Take in what a turn printed; returns its lines as text."""
        lines = self._add_output(outcome)
        if self.creation is None and outcome.started is not None:
            self.creation = self._ms(outcome.started)
        self._end_turn(len(lines), time.monotonic(), outcome)
        return lines

    def add_talk(self, outcome: Outcome, client: Client) -> None:
        """Take in what an agent printed for all turns; the last one answered, or cut short, ended with the process."""
        left = len(self._add_output(outcome))
        if client.session_began is not None:
            self.creation = self._ms(client.session_began)
        if client.first_update is not None:
            self.first = self._ms(client.first_update)
        before = 0
        for heard, moment in client.ends[: client.turn - 1]:
            self._end_turn(heard - before, moment)
            left -= heard - before
            before = heard
        answered = client.ends[client.turn - 1 :]
        self._end_turn(left, answered[0][1] if answered else time.monotonic(), outcome)

    def _add_output(self, outcome: Outcome) -> list[str]:
        lines = printed_lines(outcome)
        self.lines += map(self.redact, lines)
        if lines and (outcome.timed_out or outcome.too_much):
            self.lines[-1] = self.redact.cut(self.lines[-1])
        for number, moment in outcome.arrivals:
            self.times += [self._ms(moment)] * number
        self.size += len(outcome.stdout)
        self.stderr = (self.stderr + outcome.stderr)[-8192:]
        self.helpers = self.helpers or outcome.left_helpers
        self.last = outcome
        return lines

    def _end_turn(self, lines: int, now: float, outcome: Outcome | None = None) -> None:
        """Note a turn, and how its process ended; None: it went on."""
        ending = (outcome.exit_code, outcome.signal, outcome.timed_out) if outcome else (None, None, False)
        turn: Record = {"lines": lines, **dict(zip(("exitCode", "signal", "timedOut"), ending, strict=True))}
        turn["total"] = round((now - self.turn_start) * 1000)
        self.turns.append(turn)
        self.turn_start = now

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
        first = self.first if self.first is not None else next(iter(self.times), None)
        if first is not None:
            timing["firstResponse"] = first
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
            fields["errors"] = list(map(self.redact, self.errors))
        return fields

    def _ms(self, moment: float) -> int:
        return round((moment - self.zero) * 1000)
