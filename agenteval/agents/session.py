"""One prompt, run to its end: when it may start, turn by turn, with retries, into a raw record.

Data flow: PromptJob.run waits until an agent may start (WarmUp, RateLimiter) → each turn's command (kinds.py) is run as
a process, or one process converses about all turns (acp/) → raw_record.py puts together what was printed → if the
attempt failed in a way that may not last, it is tried again after a pause.
"""

import re
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import msgspec
from msgspec import structs

from agenteval.adapters.reader import Reading, read_raw
from agenteval.adapters.sessions.spent import session_log
from agenteval.agents.acp.client import Client
from agenteval.agents.acp.conversation import ConversingProcess
from agenteval.agents.isolation import SessionPlace, Surroundings
from agenteval.agents.kinds import (
    DEFAULT_TIMEOUT,
    TEMPORARY,
    AcpAgent,
    Agent,
    Environment,
    Invocation,
    SchemaAgent,
    TurnAgent,
)
from agenteval.agents.raw_record import RawRecordBuilder
from agenteval.agents.sandbox import Sandbox
from agenteval.errors import WorkspaceError
from agenteval.processes.process import Command, Outcome, failure_of
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.patterns import PER_RECORD, SECONDS, Pattern, SlowPattern
from agenteval.streams.redaction import Redactor
from agenteval.wire.records import Record

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
RATE_UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "hour": 3600.0}


# --- when an agent may start --------------------------------------------------------------------


def parse_rate(text: str) -> float:
    """Returns the starts per second of a text such as `30/min`; raises ValueError if it is not a rate."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)/([a-z]+)", text.strip().lower())
    if match is None or match[2] not in RATE_UNITS or float(match[1]) <= 0:
        raise ValueError(f"{text!r} is not a rate such as 2/s, 30/min or 500/h")
    return float(match[1]) / RATE_UNITS[match[2]]


class RateLimiter:
    """Assigns a slot to each start, evenly spaced; used by many threads."""

    def __init__(self, per_second: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = 1 / per_second if per_second else 0.0
        self._clock = clock
        self._held_until = 0.0
        self._next = 0.0
        self._lock = threading.Lock()
        self.holds = 0  # calls of hold(): a slot assigned before the last one is void

    def wait(self) -> float:
        """Takes the next slot and returns how many seconds to wait for it."""
        with self._lock:
            now = self._clock()
            start = max(now, self._next)
            self._next = start + self._interval
            return start - now

    def hold(self, seconds: float) -> None:
        """Delays all starts by that many seconds: a provider that limits one agent limits the others too."""
        with self._lock:
            self._held_until = max(self._held_until, self._clock() + seconds)
            self._next = self._held_until
            self.holds += 1


class WarmUp:
    """Lets the first agent finish, however it ends, before others start; with `wanted` false, all start at once.

    Agents set up their HOME at the first start: several that do so at once in an empty one may fail.
    """

    def __init__(self, wanted: bool) -> None:
        self.done = not wanted
        self._alone = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits until an agent may run; if running it raises, the next one is the first."""
        if not self.done:
            with self._alone:
                if not self.done:
                    yield
                    self.done = True
                    return
        yield


# --- one prompt ---------------------------------------------------------------------------------


class Limits(msgspec.Struct, frozen=True):
    """What a prompt may take; `timeout` is in milliseconds, None for the default."""

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
    redact: Redactor = Redactor(None)
    say: Callable[[str], None] = lambda _message: None  # takes a message for the user
    surroundings: Surroundings | None = None  # of --isolate and the options of variants
    sandbox: Sandbox | None = None

    def behind_wall(
        self, command: Command, invocation: Invocation, home: str | None, write: Iterable[str] = ()
    ) -> Command:
        """Returns the command in the sandbox of --sandbox, if that is asked for; `home` is then its HOME."""
        if self.sandbox is None or home is None:
            return command
        return self.sandbox.behind(command, home, write, [*invocation.env, *self.environment.chosen, TEMPORARY])


class _Retry(NamedTuple):
    """Why another try might do better, and whether that is because the provider was overloaded."""

    reason: str
    overload: bool = False


def turns_of(prompt: Record) -> list[str]:
    """Returns the texts of a prompt, one for each turn."""
    given = prompt["input"]
    return given if isinstance(given, list) else [given]


def turn_timeout(prompt: Record, limits: Limits, agent: Agent) -> float:
    """Returns how many milliseconds a turn may take: what the prompt, the user or the agent's schema says."""
    return prompt.get("timeout") or limits.timeout or agent.timeout or DEFAULT_TIMEOUT


class PromptJob:
    """One prompt and how to run it.

    `prepare` is the directory to run in, or a function that makes it for each try; `make_home` makes the HOME of an
    isolated session, if that is to be kept; `trace` takes each command line.
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
        make_home: Callable[[], str] | None = None,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self.prompt, self.agent, self.processes, self.key = prompt, agent, processes, key
        self.prepare, self.make_home, self.conditions, self.trace = prepare, make_home, conditions, trace
        self.timeout = turn_timeout(prompt, conditions.limits, agent)
        self.temporary: str | None = None  # the agent's TMPDIR
        self.place = SessionPlace(processes.scratch)  # its HOME, if isolated, and what its variant adds
        self.home: str | None = None  # its HOME in the sandbox, if it is not isolated
        self.reading: Reading | None = None  # what had to be read of the last try: some turns or all
        self.texts = turns_of(prompt)
        self.repeated: list[Record] = []  # raw fields of the tries before the last one

    def run(self) -> Record:
        """Runs the prompt when it may start, with retries; returns its raw record."""
        retried: list[str] = []
        with self.conditions.warm_up.turn():
            while True:
                self._wait_for_start()
                fields, retry = self._try()
                if retry is None:
                    break
                pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** len(retried))
                if retry.overload:  # after the last try, too: the next prompt would meet the same overload
                    self.conditions.pacer.hold(pause)
                if len(retried) >= self.conditions.limits.retries or self.processes.stopping:
                    break
                retried.append(retry.reason)
                self.repeated.append(fields)
                self.processes.pause(pause)
        if retried:
            fields.update(attempts=len(retried) + 1, retried=retried)
        return {**self.prompt, **fields}

    def broken_off(self, reason: str) -> Record:
        """Returns the record of a prompt that could not be run."""
        raw = RawRecordBuilder(self.conditions.redact)
        raw.errors.append(reason)
        return {**self.prompt, **raw.fields("")}

    def _wait_for_start(self) -> None:
        pacer, holds = self.conditions.pacer, -1
        while holds != pacer.holds:  # starts were held back meanwhile, and this one needs another place
            holds = pacer.holds
            if wait := pacer.wait():
                self.processes.pause(wait)

    def _try(self) -> tuple[Record, _Retry | None]:
        """Runs the prompt once, with a directory for temporary files that is removed when its processes have ended."""
        self.temporary = None
        if self.conditions.environment.needs_temporary(self.agent.env):
            with suppress(OSError):  # a full disk: the agent may do without
                self.temporary = self.processes.scratch.new_directory()
        surroundings = self.conditions.surroundings
        if self.conditions.sandbox is not None and not (surroundings and surroundings.isolate):
            self.home = self._new_home()
        try:
            return self._run_once()
        finally:
            self.place.end()
            for made in filter(None, (self.temporary, self.home)):
                self.processes.scratch.give_back(made)

    def _new_home(self) -> str:
        try:
            return self.processes.scratch.new_directory()
        except OSError as error:
            raise WorkspaceError(f"cannot create a HOME: {error.strerror} (set TMPDIR)") from None

    def _run_once(self) -> tuple[Record, _Retry | None]:
        raw = RawRecordBuilder(self.conditions.redact)
        cwd = self.prepare if isinstance(self.prepare, str) else self.prepare()
        self.reading = None
        if self.conditions.surroundings is not None:
            self.place = self.conditions.surroundings.begin(cwd, self.make_home, self.processes.scratch)
        if isinstance(self.agent, AcpAgent):
            self._converse(self.agent, cwd, raw)
        else:
            self._run_turns(self.agent, cwd, raw)
        if raw.left_helpers:
            self.processes.terminate_tree(self.key)  # what the agent left running ends with its prompt
        raw.errors += self.processes.left_running(self.key)
        if raw.redacted:
            self.reading = None  # it has the secrets in it
        fields = raw.fields(cwd)
        return fields, self._reason_to_retry(fields, raw) if self.conditions.limits.retries else None

    def _run_turns(self, agent: TurnAgent, cwd: str, raw: RawRecordBuilder) -> None:
        """Runs one process per turn, until one fails."""
        turns, next_command = len(self.texts), agent.open(self.place.arguments)
        self.reading = reading = agent.adapter.begin(self.prompt["id"])
        logged = agent.config.session_log if isinstance(agent, SchemaAgent) else None
        before = None
        for number, text in enumerate(self.texts, 1):
            try:
                invocation = next_command(text, cwd, before)
            except ValueError as error:
                raw.fail(number, turns, str(error))
                break
            left = self.conditions.limits.max_output - raw.size
            command = self._command(invocation, cwd)
            outcome = self.processes.run(
                self.key, command, timeout=self.timeout / 1000, max_output=left, trace=self.trace
            )
            self._learn_secrets()
            outcome = raw.without_secrets(outcome)
            printed = raw.add_turn(outcome)
            if number < turns or logged or self.trace:  # else nothing here needs what it says
                reading.add_turn(*printed)
            before = text, reading
            if self.trace is not None:
                ended = failure_of(outcome, self.timeout) or "exited with code 0"
                self.trace(f"turn {number}: {ended}; session {reading.session_id or 'not known'}")
            if problem := self._too_much(outcome) or failure_of(outcome, self.timeout):
                raw.fail(number, turns, problem + _refusal(agent, invocation, outcome))
                break
        if logged and reading.session_id:
            environment = self.conditions.environment.all_of({**agent.env, **self.place.env})
            environment |= {} if self.home is None else {"HOME": self.home}
            raw.session_log = session_log(logged, reading.session_id, environment)

    def _converse(self, agent: AcpAgent, cwd: str, raw: RawRecordBuilder) -> None:
        """Runs one process for all turns, with a client that converses with it."""
        surroundings = self.conditions.surroundings
        invocation, client = agent.start_client(self.texts, cwd, *(surroundings.acp() if surroundings else ()))
        command, limit = self._command(invocation, cwd), self.conditions.limits.max_output
        process = ConversingProcess(self.processes, self.key, command, self.timeout / 1000, limit, client)
        process.trace = self.trace
        outcome = process.run()
        self._learn_secrets()
        outcome = raw.without_secrets(outcome)
        raw.add_conversation(outcome, client)
        problem = self._too_much(outcome) or conversation_failure(outcome, client, self.timeout)
        if problem:
            raw.fail(client.turn, len(self.texts), problem)
        if self.trace is not None:
            ended = f"exit code {outcome.exit_code}" if outcome.signal is None else outcome.signal
            self.trace(f"{problem or 'all turns answered'}; {ended}; session {client.session or 'not known'}")

    def _command(self, invocation: Invocation, cwd: str) -> Command:
        if self.trace is not None:
            self.trace(f"in {cwd}: {shlex.join(invocation.argv)[:COMMAND_LENGTH]}")
        invocation = structs.replace(invocation, env={**invocation.env, **self.place.env})
        command = self.conditions.environment.command(invocation, cwd, self.temporary, self.place.unset)
        write = filter(None, [self.temporary, *(() if self.place.home else self.place.lent)])
        return self.conditions.behind_wall(command, invocation, self.place.home or self.home, write)

    def _learn_secrets(self) -> None:
        """Looks for credentials that the agent has renewed, before what it printed is recorded."""
        if self.conditions.surroundings is not None:
            self.conditions.surroundings.learn(self.place)

    def _too_much(self, outcome: Outcome) -> str | None:
        if not outcome.too_much:
            return None
        return f"output exceeded {self.conditions.limits.max_output} bytes (--max-output); the agent was terminated"

    def _reason_to_retry(self, fields: Record, raw: RawRecordBuilder) -> _Retry | None:
        """Returns why to try again: a timeout, a failed start, an overloaded provider, what --retry-on names."""
        last, retry_on = raw.last, self.conditions.limits.retry_on
        if raw.no_session or (last is not None and (last.timed_out or failed_to_start(last, fields["rawLines"]))):
            return _Retry(fields["errors"][0])
        self.reading = reading = read_raw({"id": self.prompt["id"], **fields}, self.agent.adapter, self.reading)
        stderr = fields.get("stderr", "").splitlines()
        errors = [*fields.get("errors", ()), *reading.errors]
        complaints = [*errors, *stderr] if errors else []
        if overload := next((line for line in complaints if re.search(OVERLOAD, line)), None):
            return _Retry(overload[:REASON_LENGTH], overload=True)
        if retry_on is None:
            return None
        deadline = time.monotonic() + PER_RECORD
        try:
            for text in (*errors, *stderr, *fields["rawLines"]):
                if retry_on.search(text, seconds=min(SECONDS, deadline - time.monotonic())):
                    return _Retry(text[:REASON_LENGTH], overload=True)
        except SlowPattern as slow:
            self.conditions.say(f"{self.prompt['id']}: not retried: --retry-on: {slow}")
        return None


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


def conversation_failure(outcome: Outcome, client: Client, timeout: float) -> str | None:
    """Returns why the agent did not answer every turn; how it ended after that does not matter."""
    if outcome.timed_out:
        return f"timeout: {client.waiting} not answered within {timeout:g} ms"
    if client.done or outcome.error is not None:
        return outcome.error or client.problem
    if outcome.lingered:
        return f"the agent closed its stdout before it answered {client.waiting}"
    ending = failure_of(outcome, timeout)
    if ending is None and client.waiting == "initialize":
        return "exited with code 0 before it answered initialize; if it does not speak ACP, use --simple or --shell"
    how, colon, why = (ending or "exited with code 0").partition(": ")
    return f"{how} before it answered {client.waiting}{colon}{why}"


# --- flags that an agent of another version refuses ---------------------------------------------

_REFUSAL = r"""(?xi)
        (?:unknown|unrecogni[sz]ed|unexpected|invalid|unsupported|no\ such|not\ a\ valid|found|undefined|bad|illegal)
        \s+(?:command[- ]line\s+)?(?:option|argument|flag|parameter|switch|value)s?\b[^\n]{0,40}?
        (?P<flag>-{0,2}[A-Za-z][\w-]*)
      | flag\ provided\ but\ not\ defined:\s*(?P<go>-{1,2}[\w-]+)"""
_FLAG = re.compile(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*")
SEVERAL = 5  # flags in a text that is the help of a program


def _refusal(agent: TurnAgent, invocation: Invocation, outcome: Outcome) -> str:
    """Returns what it means if an agent that failed refuses a flag of its schema, else ""."""
    if not isinstance(agent, SchemaAgent) or not outcome.exit_code:
        return ""
    given = invocation.argv if agent.config.prompt.stdin else invocation.argv[:-1]
    texts = [outcome.stderr.decode("utf-8", "replace"), outcome.stdout[:REFUSAL_LENGTH].decode("utf-8", "replace")]
    flag = refused_flag(texts, given)
    if flag is None:
        return ""
    proven = f", which was tested with {agent.config.proven_on}" if agent.config.proven_on else ""
    name = agent.config.name
    return (
        f" (it does not accept {flag} from the adapter {name}{proven}: use that version, or a schema without the flag)"
    )


def refused_flag(texts: Iterable[str], argv: list[str]) -> str | None:
    """Returns the flag of a command line that one of the texts refuses, None if no flag is refused."""
    flags = {found[0].lstrip("-").lower(): found[0] for word in argv[1:] if (found := _FLAG.match(word))}
    for text in texts:
        for found in re.finditer(_REFUSAL, text):
            words = re.findall(r"[A-Za-z][\w-]*", text[found.start() : found.end() + 40])
            if named := next((flags[word.lower()] for word in words if word.lower() in flags), None):
                return named
        listed = set(_FLAG.findall(text))
        if len(listed) >= SEVERAL and (missing := [flag for flag in flags.values() if flag not in listed]):
            return missing[0]  # it printed its help instead, which does not have the flag
    return None
