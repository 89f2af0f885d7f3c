"""The ways to name an agent: an adapter schema, a --simple template, a --shell line, a program that speaks ACP.

Each kind makes its command lines here, and nowhere else: agents are started with them, --dry-run shows them, and the
agent's digest is taken of what they are made from. Most agents are one process per turn: such an agent opens a session
per prompt; the session makes the command line of each turn, and observes what was printed, because the next turn may
need the session's id or the history. An agent that speaks ACP is one process for all turns of a prompt, and a client
converses with it (acp/client.py). The environment variables of agents are at the end.
"""

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import msgspec

from agenteval.adapters.reader import Adapter, Reading
from agenteval.adapters.schema_file import load_adapter
from agenteval.agents.acp.client import Client
from agenteval.errors import UserError
from agenteval.processes.process import ANSWER_FILE, Command, find_program
from agenteval.streams.digests import contents, programs_in

DEFAULT_TIMEOUT = 60_000
DEFAULT_HISTORY = "User: {{input}}\nAssistant: {{output}}"
DIGEST_LENGTH = 16  # hexadecimal digits
# Programs that run the command after them in a container or sandbox; in-container is the one in examples/container.
CONTAINERS = frozenset(
    ("in-container", "docker", "podman", "nerdctl", "apptainer", "singularity", "bwrap", "firejail", "sandbox-exec")
)

TEMPORARY = "TMPDIR"
# tmux has its server's socket there. Agents with the same one would share a server, which ends with the first of them.
SOCKETS = "TMUX_TMPDIR"
# Kept by --clean-env: programs need them, or find their own files by them.
ESSENTIAL = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", TEMPORARY, "TZ")


class Invocation(msgspec.Struct, frozen=True):
    """One turn as a command line."""

    program: str
    argv: list[str]
    env: Mapping[str, str]
    stdin: bytes | None = None


class Session(Protocol):
    """One session with an agent."""

    def next_command(self, text: str, cwd: str) -> Invocation:
        """Returns the command line of the next turn; raises ValueError if there can be none."""
        ...

    def observe(self, text: str, read: Callable[[], Reading]) -> None:
        """Takes note of a turn; `read` returns a reading of all turns so far, if the next one needs it."""
        ...


class AnyAgent:
    """What all kinds of agents have."""

    name: str  # of its adapter: `metadata.agent` of its records
    title: str  # what messages call it
    definition: Any  # what its command lines are made from: with another definition it is another agent
    programs: list[str]  # the words of its command that may name the program; in a shell line, that may be any word
    words: list[str]  # of its command, as the user or its schema gives them
    timeout: float | None = None  # milliseconds per turn, if its schema names a limit
    env: Mapping[str, str] = {}  # the variables that its schema sets

    def adapter(self) -> Adapter:
        """Returns the adapter that reads what it prints."""
        return _bundled(self.name)


class TurnAgent(AnyAgent):
    """An agent that is started anew for each turn."""

    def open(self) -> Session:
        """Returns a new session, for one prompt."""
        raise NotImplementedError


# --- adapter schema -----------------------------------------------------------------------------


class SchemaAgent(TurnAgent):
    """An agent described by an adapter schema; `arguments` of the user's own come before those of resume and prompt."""

    def __init__(
        self, adapter: Adapter, arguments: Sequence[str] = (), find: Callable[[str], str] = find_program
    ) -> None:
        self.arguments = list(arguments)
        self._adapter, self.config = adapter, adapter.config
        self.name = self.title = adapter.config.name
        self.timeout, self.env = adapter.config.timeout, dict(adapter.config.env or {})
        if not adapter.config.command:
            raise UserError(f"adapter {adapter.config.name} names no command to run: use --simple, --shell or -- CMD")
        self.programs = adapter.config.command[:1]
        self.words = [*adapter.config.command, *self.arguments]
        resume = adapter.config.resume
        commands = [adapter.config.command, *([resume.command] if resume and resume.command else [])]
        self._paths = {command[0]: find(command[0]) for command in commands}
        self.definition = [self.config, *self.arguments] if self.arguments else self.config

    def has_no_resume(self) -> bool:
        """Whether each turn is a new session, because the schema does not say how to resume one."""
        return self.config.session_mode == "stream" and self.config.resume is None

    @property
    def resumable(self) -> bool:
        """Whether a session of the agent can be continued by its id."""
        return self.config.session_mode == "stream" and self.config.resume is not None

    def resume(self, session_id: str) -> Session:
        """Continues the agent's own session of that id."""
        return _ResumedSession(self, session_id)

    def open(self) -> Session:
        iterative = self.config.session_mode == "iterative"
        return _HistorySession(self) if iterative else _ResumedSession(self)

    def adapter(self) -> Adapter:
        return self._adapter

    def invocation(self, text: str, cwd: str, command: list[str], resume: list[str]) -> Invocation:
        """Returns a turn's command line; its order is command, output, auto-approval, cwd, own, resume, prompt."""
        config = self.config
        argv = list(command)
        output = config.output
        if output and output.flag:
            argv += flagged(output.flag, output.value) if output.value else [output.flag]
        if output and output.file_flag:
            argv += flagged(output.file_flag, ANSWER_FILE)
        argv += config.auto_approve or []
        if config.cwd_flag:
            argv += flagged(config.cwd_flag, cwd)
        argv += [*self.arguments, *resume]
        stdin = f"{text}\n".encode() if config.prompt.stdin else None
        if stdin is None:
            argv += flagged(config.prompt.flag or "", text)
        return Invocation(self._paths[command[0]], argv, self.env, stdin)


def flagged(flag: str, value: str) -> list[str]:
    """Returns the arguments that give a flag its value: one if the flag ends in =, only the value if it is empty."""
    return [flag + value] if flag.endswith("=") else [flag, value] if flag else [value]


class _ResumedSession:
    """Later turns resume the agent's own session by its id."""

    def __init__(self, agent: SchemaAgent, session_id: str | None = None) -> None:
        self.agent, self.given_id = agent, session_id
        self.read: Callable[[], Reading] | None = None

    def next_command(self, text: str, cwd: str) -> Invocation:
        config, resume = self.agent.config, self.agent.config.resume
        if resume is None or (self.read is None and self.given_id is None):
            return self.agent.invocation(text, cwd, config.command, [])
        session_id = (self.read().session_id if self.read else None) or self.given_id
        if session_id is None:
            raise ValueError("the agent named no session id, so its session cannot be resumed")
        arguments = resume.args or ([] if resume.flag is None else flagged(resume.flag, "{sessionId}"))
        command, arguments = (
            [part.replace("{sessionId}", session_id) for part in parts]
            for parts in (resume.command or config.command, arguments)
        )
        return self.agent.invocation(text, cwd, command, arguments)

    def observe(self, text: str, read: Callable[[], Reading]) -> None:
        self.read = read


class _HistorySession:
    """Later turns have the turns before them in their prompt."""

    def __init__(self, agent: SchemaAgent) -> None:
        self.agent = agent
        self.history: list[str] = []
        self.last_turn: tuple[str, Callable[[], Reading]] | None = None
        template = agent.config.history_template
        if template is None or isinstance(template, str):
            self.system, self.format = "", template or DEFAULT_HISTORY
        else:
            self.system, self.format = template.system or "", template.turn_format

    def next_command(self, text: str, cwd: str) -> Invocation:
        if self.last_turn is not None:
            said, read = self.last_turn
            before, has_output, after = self.format.partition("{{output}}")  # split first: an input may hold {{output}}
            output = read().output if has_output else ""
            self.history.append(before.replace("{{input}}", said) + output + after.replace("{{input}}", said))
            head = [self.system] if self.system else []
            text = "\n\n".join([*head, *self.history, f"User: {text}"])
        return self.agent.invocation(text, cwd, self.agent.config.command, [])

    def observe(self, text: str, read: Callable[[], Reading]) -> None:
        self.last_turn = (text, read)


# --- templates ----------------------------------------------------------------------------------


class TextAgent(TurnAgent):
    """An agent that prints plain text and has no sessions: each turn starts from nothing."""

    name = "text"

    def open(self) -> Session:
        return self

    def next_command(self, text: str, cwd: str) -> Invocation:
        raise NotImplementedError

    def observe(self, text: str, read: Callable[[], Reading]) -> None:
        """Does nothing: no turn needs the one before."""


class TemplateAgent(TextAgent):
    """`--simple "cmd {} …"`: split like a shell would, run without one."""

    def __init__(self, template: str, find: Callable[[str], str] = find_program) -> None:
        self.argv = split_words(template)
        if not any("{}" in word for word in self.argv[1:]):
            raise UserError("--simple: put {} where the prompt goes, after the command")
        if "{}" in self.argv[0]:
            raise UserError("--simple: the command itself cannot be {}")
        self.program, self.programs, self.words = find(self.argv[0]), self.argv[:1], self.argv
        self.title = os.path.basename(self.program)
        self.definition = ["--simple", *self.argv]

    def next_command(self, text: str, cwd: str) -> Invocation:
        return Invocation(self.program, [self.argv[0], *(word.replace("{}", text) for word in self.argv[1:])], {})


class ShellAgent(TextAgent):
    """`--shell '… "$PROMPT" …'`: sh -c, the prompt only in the environment."""

    title = "the agent"

    def __init__(self, line: str) -> None:
        if "PROMPT" not in line and re.search(r"""(?:^|[\s="'])\{\}(?:$|[\s"';|&])""", line):
            raise UserError(f"--shell: {{}} is not replaced in a shell line: --shell {shlex.quote(shell_line(line))}")
        self.line = line
        self.program, self.programs = find_program("sh"), re.findall(r"[\w./-]+", line)
        self.words, self.definition = [line], ["--shell", line]

    def next_command(self, text: str, cwd: str) -> Invocation:
        return Invocation(self.program, ["sh", "-c", self.line], {"PROMPT": text})


class AcpAgent(AnyAgent):
    """`-- cmd args…`: a program that speaks the Agent Client Protocol on stdin and stdout."""

    name = "acp"

    def __init__(
        self,
        argv: Sequence[str],
        find: Callable[[str], str] = find_program,
        *,
        deny_permissions: bool = False,
        files: bool = True,
    ) -> None:
        if not argv:
            raise UserError("--: the agent's command is missing after it")
        self.argv, self.deny, self.files = list(argv), deny_permissions, files
        self.program, self.programs, self.words = find(self.argv[0]), self.argv[:1], self.argv
        self.title = os.path.basename(self.program)
        self.definition = ["--", self.deny, *([] if files else ["--no-acp-fs"]), *self.argv]

    def start_client(self, texts: list[str], cwd: str) -> tuple[Invocation, Client]:
        """Returns how to start it, and the client that converses with it about these turns."""
        client = Client(texts, cwd, deny=self.deny, files=self.files)
        return Invocation(self.program, self.argv, {}, client.opening), client


def shell_line(template: str) -> str:
    """Returns a --simple template as a shell line: the prompt is in a variable, in quotes."""
    return re.sub(r"""(["']?)\{\}\1""", '"$PROMPT"', template)


Agent = TurnAgent | AcpAgent


def first_invocation(agent: Agent, texts: list[str], cwd: str) -> Invocation:
    """Returns how an agent is started for the first of these turns; later ones may need what it answers."""
    if isinstance(agent, AcpAgent):
        return agent.start_client(texts, cwd)[0]
    return agent.open().next_command(texts[0], cwd)


@cache
def _bundled(name: str) -> Adapter:
    return load_adapter(name)


def split_words(template: str) -> list[str]:
    """Returns the words a shell would make of the template; raises UserError for what only a shell can do."""
    words: list[str] = []
    word: str | None = None
    quote = ""
    rest = iter(template)
    for char in rest:
        if char == "\\" and quote != "'":
            following = next(rest, "")
            # Between double quotes a backslash stays, except before these.
            word = (word or "") + ("\\" if quote and following not in '$`"\\' else "") + following
        elif quote and char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote, word = char, word or ""
        elif char in "$`" if quote == '"' else not quote and char in "|&;<>()$`\n":
            shown = "a line break" if char == "\n" else f'"{char}"'
            raise UserError(f"--simple: {shown} needs a shell: use --shell '… \"$PROMPT\" …' instead")
        elif not quote and char.isspace():
            words += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + char
    if quote:
        raise UserError(f"--simple: the quote {quote} is not closed")
    return words + ([] if word is None else [word])


# --- identity -----------------------------------------------------------------------------------


class AgentIdentity(msgspec.Struct, frozen=True):
    """Which agent made a record: `metadata.agent` and `metadata.agentDigest`, so that --resume does not mix two."""

    name: str
    digest: str


def identity_of(
    agent: Agent,
    extract: Adapter | None = None,
    environment: Sequence[str] = (),
    cwd: str = os.curdir,
    surroundings: Sequence[str] = (),
) -> AgentIdentity:
    """Returns the identity of an agent, which is another if a script that its command names has changed.

    `extract` is the adapter that reads its output, if that is not its own; `environment` are the variables of --env:
    of one that is only passed on, the value does not count, because keys are renewed. `surroundings` are words that
    tell apart where it works.
    """
    parts = [agent.definition, *([extract.config] if extract else [])]
    if isinstance(agent, ShellAgent):
        named = contents(programs_in(agent.line, cwd), cwd)
    else:
        first, *others = agent.words
        named = contents([first] if "/" in first else []) + contents(others, cwd)
    if surroundings:
        parts.append(["in", *surroundings])
    if environment:
        parts.append(["--env", *sorted(environment)])
    if named:
        parts.append(["files", *named])
    digest = hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()
    return AgentIdentity(extract.config.name if extract else agent.name, digest[:DIGEST_LENGTH])


def agent_command(agent: Agent) -> str:
    """Returns the agent's command line as one would type it, with {} for the prompt."""
    argv = first_invocation(agent, ["{}"], "{cwd}").argv
    return shlex.join(argv).replace(shlex.quote("{}"), "{}").replace(shlex.quote("{cwd}"), "{cwd}")


def in_container(agent: Agent) -> bool:
    """Returns whether the agent's command starts a container."""
    return any(os.path.basename(word) in CONTAINERS for word in agent.programs)


# --- environment variables ----------------------------------------------------------------------


class Environment(msgspec.Struct, frozen=True):
    """Variables to set. `alone`: no others are inherited. Those `chosen` with --env override a schema's."""

    variables: dict[str, str] = {}
    chosen: dict[str, str] = {}
    alone: bool = False

    def command(self, invocation: Invocation, cwd: str, temporary: str | None) -> Command:
        """Returns what to start in a directory; `temporary` is the agent's own directory for temporary files."""
        env = self.with_own(invocation.env, temporary)
        return Command(invocation.program, invocation.argv, cwd, env, invocation.stdin, self.alone)

    def needs_temporary(self, own: Mapping[str, str]) -> bool:
        """Whether an agent gets a TMPDIR of ours: neither the user nor its schema names one."""
        return TEMPORARY not in own and TEMPORARY not in self.chosen

    def with_own(self, own: Mapping[str, str], temporary: str | None = None) -> dict[str, str]:
        """Returns the variables to set: ours, then the schema's (`own`), then the user's."""
        made = {} if temporary is None else {TEMPORARY: temporary, SOCKETS: temporary}
        return {**self.variables, **made, **own, **self.chosen}

    def all_of(self, own: Mapping[str, str]) -> dict[str, str]:
        """Returns all variables of an agent, those that it inherits included."""
        return {**({} if self.alone else os.environ), **self.with_own(own)}


def agent_environment(named: Iterable[str], *, clean: bool) -> Environment:
    """Returns the environment of `--env NAME[=VALUE]` and --clean-env; UserError for a NAME that is not set."""
    essential = {name: value for name, value in os.environ.items() if name in ESSENTIAL or name.startswith("LC_")}
    chosen = {}
    for text in named:
        name, equals, value = text.partition("=")
        if not name or "\0" in text:
            raise UserError(f"--env {text}: give NAME or NAME=VALUE")
        if not equals and name not in os.environ:
            raise UserError(f"--env {name}: it is not set; set it, or give --env {name}=VALUE")
        chosen[name] = value if equals else os.environ[name]
    return Environment(essential if clean else {}, chosen, clean)
