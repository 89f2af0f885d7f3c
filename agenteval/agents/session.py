"""One prompt, run to its end: turn by turn, with retries, into a raw record."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from agenteval.agents.environment import TEMPORARY, Environment
from agenteval.agents.kinds import DEFAULT_TIMEOUT, AcpAgent, Agent, Invocation, SchemaAgent, TurnAgent
from agenteval.agents.rate_limit import RateLimiter
from agenteval.agents.raw_record import RawRecordBuilder
from agenteval.agents.warm_up import WarmUp
from agenteval.processes.outcome import Outcome, failure_of
from agenteval.processes.process import Command
from agenteval.processes.scratch import discard
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.patterns import PER_RECORD, SECONDS, Pattern, SlowPattern
from agenteval.streams.redaction import Redactor
from agenteval.wire.records import Record

if TYPE_CHECKING:
    from agenteval.adapters.reader import Reading
    from agenteval.agents.acp.client import Client

DEFAULT_MAX_OUTPUT = 64 << 20
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
REASON_LENGTH = 300  # characters that are kept of a reason to try again
FEW_LINES = 5  # that an agent may print about a failed start
REFUSAL_LENGTH = 8192  # bytes of stdout in which a refused flag is looked for
COMMAND_LENGTH = 2000  # characters of a command line that --debug shows
# How providers ask for fewer requests; compiled when an agent has failed.
OVERLOAD = (
    r"(?i)(?<!\d)(?:429|529)(?!\d)|rate.?limit|too many requests|overloaded|resource.?exhausted|try again later"
    r"|server is busy"
)
# What agents print when another one sets up the same HOME at the same time.
RACE = (
    rb"(?i)database (?:file )?is locked|SQLITE_BUSY|SQLITE_LOCKED|EEXIST|migration|(?:CREATE|ALTER) TABLE"
    rb"|table \S+ already exists|no such table"
)


class Limits(msgspec.Struct, frozen=True):
    """What a prompt may take; timeout in ms, None if the user named none."""

    timeout: float | None = None
    max_output: int = DEFAULT_MAX_OUTPUT
    retries: int = 0
    retry_on: Pattern | None = None  # output that is worth another try


class Conditions(msgspec.Struct, frozen=True):
    """What all prompts of a run have in common."""

    pacer: RateLimiter
    limits: Limits = Limits()
    environment: Environment = Environment()
    warm_up: WarmUp = WarmUp(wanted=False)
    redact: Redactor = Redactor({})
    say: Callable[[str], None] = lambda _message: None  # takes a message for the user


class Answer(msgspec.Struct, frozen=True):
    """The raw record of a prompt; `reading` is what the agent's adapter had to read in it, some turns or all."""

    raw: Record
    reading: Reading | None = None


class _Attempt(msgspec.Struct, frozen=True):
    """One try at a prompt: why another might do better, and whether that is because the provider was overloaded."""

    answer: Answer
    retry_reason: str | None = None
    overload: bool = False


class TurnReader:
    """Reads what an agent printed with its adapter: each turn once, and none before it is needed."""

    def __init__(self, agent: TurnAgent, record_id: str) -> None:
        self.agent, self.record_id = agent, record_id
        self.reading: Reading | None = None
        self._unread: list[tuple[list[str], list[int]]] = []

    def add(self, lines: list[str], times: list[int]) -> None:
        """Adds a turn to be read."""
        self._unread.append((lines, times))

    def read(self) -> Reading:
        """Returns a reading of all turns so far."""
        if self.reading is None:
            self.reading = self.agent.adapter().begin(self.record_id)
        for lines, times in self._unread:
            self.reading.add_turn(lines, times)
        self._unread.clear()
        return self.reading


class PromptJob:
    """One prompt and how to run it.

    `prepare` is the directory to run in, or a function that makes it for each try; `trace` takes each command line.
    """

    def __init__(
        self,
        prompt: Record,
        agent: Agent,
        processes: ProcessSupervisor,
        key: int,
        *,
        prepare: Callable[[], str] | str,
        conditions: Conditions,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self.prompt, self.agent, self.processes, self.key = prompt, agent, processes, key
        self.prepare, self.conditions, self.trace = prepare, conditions, trace
        self.timeout: float = (  # per turn, in ms
            prompt.get("timeout") or conditions.limits.timeout or agent.timeout or DEFAULT_TIMEOUT
        )
        self.temporary: str | None = None  # the agent's TMPDIR

    def run(self) -> Answer:
        """Runs the prompt when it may start, until a try succeeds or there are no retries left."""
        if self.conditions.warm_up.done:
            return self._run()
        with self.conditions.warm_up.turn():
            return self._run()

    def _run(self) -> Answer:
        retried: list[str] = []
        while True:
            self._wait_for_start()
            attempt = self._try()
            if attempt.retry_reason is None:
                break
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** len(retried))
            if attempt.overload:  # after the last try, too: the next prompt would meet the same overload
                self.conditions.pacer.hold(pause)
            if len(retried) >= self.conditions.limits.retries or self.processes.stopping:
                break
            retried.append(attempt.retry_reason)
            self.processes.pause(pause)
        raw = attempt.answer.raw
        if retried:
            raw.update(attempts=len(retried) + 1, retried=retried)
        return Answer({**self.prompt, **raw}, attempt.answer.reading)

    def broken_off(self, reason: str) -> Answer:
        """Returns the record of a prompt that could not be run."""
        raw = RawRecordBuilder(self.conditions.redact)
        raw.errors.append(reason)
        return Answer({**self.prompt, **raw.fields("")})

    def _wait_for_start(self) -> None:
        pacer, holds = self.conditions.pacer, -1
        while holds != pacer.holds:  # starts were held back meanwhile, and this one needs another place
            holds = pacer.holds
            if wait := pacer.wait():
                self.processes.pause(wait)

    def _try(self) -> _Attempt:
        """Runs the prompt once, with a directory for temporary files that is removed when its processes have ended."""
        own = self.agent.config.env or {} if isinstance(self.agent, SchemaAgent) else {}
        if TEMPORARY in own or TEMPORARY in self.conditions.environment.chosen:
            return self._run_once()
        try:
            self.temporary = self.processes.scratch.new_directory()
        except OSError:  # a full disk: the agent may do without
            self.temporary = None
            return self._run_once()
        try:
            return self._run_once()
        finally:
            discard(self.temporary)

    def _run_once(self) -> _Attempt:
        raw = RawRecordBuilder(self.conditions.redact)
        cwd = self.prepare if isinstance(self.prepare, str) else self.prepare()
        given = self.prompt["input"]
        texts = given if isinstance(given, list) else [given]
        reading = None
        if isinstance(self.agent, AcpAgent):
            self._converse(texts, self.agent, cwd, raw)
        else:
            reading = self._run_turns(texts, self.agent, cwd, raw)
        if raw.left_helpers:
            self.processes.terminate_tree(self.key)  # what the agent left running ends with its prompt
        raw.errors += self.processes.left_running(self.key)
        answer = Answer(raw.fields(cwd), None if raw.redacted else reading)  # what was read had the secrets in it
        return self._assess(answer, raw) if self.conditions.limits.retries else _Attempt(answer)

    def _run_turns(self, texts: list[str], agent: TurnAgent, cwd: str, raw: RawRecordBuilder) -> Reading | None:
        """Runs one process per turn, until one fails; returns what had to be read of the first turns."""
        session, reader = agent.open(), TurnReader(agent, self.prompt["id"])
        for number, text in enumerate(texts, 1):
            try:
                invocation = session.next_command(text, cwd)
            except ValueError as error:
                raw.fail(number, len(texts), str(error))
                break
            outcome = raw.without_secrets(self._run_process(invocation, cwd, raw.size))
            reader.add(*raw.add_turn(outcome))
            session.observe(text, reader.read)
            if problem := self._too_much(outcome) or failure_of(outcome, self.timeout):
                raw.fail(number, len(texts), problem + _refusal(agent, invocation, outcome))
                break
        return reader.reading

    def _converse(self, texts: list[str], agent: AcpAgent, cwd: str, raw: RawRecordBuilder) -> None:
        """Runs one process for all turns, with a client that converses with it."""
        from agenteval.agents.acp.conversation import ConversingProcess

        invocation, client = agent.start_client(texts, cwd)
        command, limit = self._command(invocation, cwd), self.conditions.limits.max_output
        process = ConversingProcess(self.processes, self.key, command, self.timeout / 1000, limit, client)
        outcome = raw.without_secrets(process.run())
        raw.add_conversation(outcome, client)
        if problem := self._too_much(outcome) or conversation_failure(outcome, client, self.timeout):
            raw.fail(client.turn, len(texts), problem)

    def _run_process(self, invocation: Invocation, cwd: str, printed: int) -> Outcome:
        """Runs one turn of an agent that has printed so many bytes before."""
        command, limit = self._command(invocation, cwd), self.conditions.limits.max_output
        return self.processes.run(self.key, command, timeout=self.timeout / 1000, max_output=limit - printed)

    def _command(self, invocation: Invocation, cwd: str) -> Command:
        if self.trace is not None:
            import shlex

            self.trace(f"in {cwd}: {shlex.join(invocation.argv)[:COMMAND_LENGTH]}")
        environment = self.conditions.environment
        env = environment.with_own(invocation.env, self.temporary)
        return Command(invocation.program, invocation.argv, cwd, env, invocation.stdin, environment.alone)

    def _too_much(self, outcome: Outcome) -> str | None:
        if not outcome.too_much:
            return None
        return f"output exceeded {self.conditions.limits.max_output} bytes (--max-output); the agent was ended"

    def _assess(self, answer: Answer, raw: RawRecordBuilder) -> _Attempt:
        """Returns the attempt with a reason to try again: a timeout, a failed start, an overloaded provider."""
        fields, last = answer.raw, raw.last
        if raw.no_session or (last is not None and (last.timed_out or failed_to_start(last, fields["rawLines"]))):
            return _Attempt(answer, fields["errors"][0])
        from agenteval.adapters.extract import read_raw  # which --simple and --shell need only here

        reading = read_raw({"id": self.prompt["id"], **fields}, self.agent.adapter(), answer.reading)
        answer = Answer(fields, reading)
        stderr = fields.get("stderr", "").splitlines()
        errors = [*fields.get("errors", ()), *reading.errors]
        complaints = [*errors, *stderr] if errors else []
        if overload := next((line for line in complaints if re.search(OVERLOAD, line)), None):
            return _Attempt(answer, overload[:REASON_LENGTH], overload=True)
        if (retry_on := self.conditions.limits.retry_on) is not None:
            everything = (*errors, *stderr, *fields["rawLines"])
            try:
                found = first_match(retry_on, everything)
            except SlowPattern as slow:
                self.conditions.say(f"{self.prompt['id']}: not retried: --retry-on: {slow}")
                found = None
            if found is not None:
                return _Attempt(answer, found[:REASON_LENGTH], overload=True)
        return _Attempt(answer)


def _refusal(agent: TurnAgent, invocation: Invocation, outcome: Outcome) -> str:
    """Returns what it means if an agent that failed refuses a flag of its schema, else ""."""
    if not isinstance(agent, SchemaAgent) or not outcome.exit_code:
        return ""
    from agenteval.agents.refusals import explain_refusal, refused_flag

    given = invocation.argv if agent.config.prompt.stdin else invocation.argv[:-1]
    texts = [outcome.stderr.decode("utf-8", "replace"), outcome.stdout[:REFUSAL_LENGTH].decode("utf-8", "replace")]
    flag = refused_flag(texts, given)
    return explain_refusal(flag, agent.config.name, agent.config.proven_on) if flag else ""


def failed_to_start(outcome: Outcome, lines: list[str]) -> bool:
    """Whether a process failed before it did anything, as when several set up an empty HOME at once.

    Its output (`lines`) is then nothing, or a few lines about that and no event.
    """
    if outcome.error is not None and outcome.started is None:
        return True
    if not outcome.exit_code and outcome.signal is None:
        return False
    printed = outcome.stderr.strip() + "\n".join(lines).strip().encode()
    if len(lines) > FEW_LINES or any(line.startswith("{") for line in lines):
        return False
    return not printed or bool(re.search(RACE, printed))


def first_match(pattern: Pattern, texts: Iterable[str]) -> str | None:
    """Returns the first text that matches; raises SlowPattern if the search of all of them takes too long."""
    deadline = time.monotonic() + PER_RECORD
    for text in texts:
        if pattern.search(text, seconds=min(SECONDS, deadline - time.monotonic())):
            return text
    return None


def conversation_failure(outcome: Outcome, client: Client, timeout: float) -> str | None:
    """Returns why the agent did not answer every turn; how it ended after that is no failure."""
    if outcome.timed_out:
        return f"timeout: {client.waiting} not answered within {timeout:g} ms"
    if client.done or outcome.error is not None:
        return outcome.error or client.problem
    if outcome.lingered:
        return f"the agent closed its stdout before it answered {client.waiting}"
    ending = failure_of(outcome, timeout) or "exited with code 0"
    how, colon, why = ending.partition(": ")
    return f"{how} before it answered {client.waiting}{colon}{why}"
