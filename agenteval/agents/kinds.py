"""The ways to name an agent: an adapter schema, a --simple template, a --shell line, a program that speaks ACP.

Each kind makes its command lines here, and nowhere else: agents are started with them, --dry-run shows them, and the
agent's digest is taken of what they are made from. Most agents are one process per turn: such an agent opens a session
per prompt, a function that makes the command line of each turn; it may need the session's id or the history. An agent
that speaks ACP is one process for all turns of a prompt, and a client converses with it (acp/client.py). The
environment variables of agents are at the end.
"""

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from agenteval.adapters.reader import Adapter, Reading
from agenteval.adapters.schema_file import load_adapter
from agenteval.agents.acp.client import Client
from agenteval.errors import UserError
from agenteval.processes.process import ANSWER_FILE, Command, find_program
from agenteval.streams.digests import contents, programs_in
from agenteval.streams.jsonl import encodable
from agenteval.wire.adapter_schema import HeadlessAdapter
from agenteval.wire.records import Record

DEFAULT_TIMEOUT = 60_000
DEFAULT_HISTORY = "User: {{input}}\nAssistant: {{output}}"
DIGEST_LENGTH = 16  # hexadecimal digits
# Programs that run the command after them in a container or sandbox.
CONTAINERS = frozenset(
    ("ae-sandbox", "docker", "podman", "nerdctl", "apptainer", "singularity", "bwrap", "firejail", "sandbox-exec")
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


NextCommand = Callable[[str, str, tuple[str, Reading] | None], Invocation]
"""Returns the command line of a session's next turn: of its text and directory, and of what came before.

That is the text of the last turn and a reading of all turns; None at the first. ValueError if there can be none.
"""


class AnyAgent:
    """What all kinds of agents have."""

    adapter: Adapter  # reads what it prints
    title: str  # what messages call it
    definition: Any  # what its command lines are made from: with another definition it is another agent
    words: list[str]  # of its command, as the user or its schema gives them
    timeout: float | None = None  # milliseconds per turn, if its schema names a limit
    env: Mapping[str, str] = {}  # the variables that its schema sets


class TurnAgent(AnyAgent):
    """An agent that is started anew for each turn."""

    def open(self, additions: Sequence[str] = ()) -> NextCommand:
        """Returns a new session, for one prompt; `additions` are arguments, of an agent with a schema."""
        raise NotImplementedError


# --- adapter schema -----------------------------------------------------------------------------


class SchemaAgent(TurnAgent):
    """An agent described by an adapter schema; `arguments` of the user's own come before those of resume and prompt."""

    def __init__(
        self, adapter: Adapter, arguments: Sequence[str] = (), find: Callable[[str], str] = find_program
    ) -> None:
        self.adapter, self.config, self.arguments = adapter, adapter.config, list(arguments)
        config = adapter.config
        self.title, self.timeout, self.env = config.name, config.timeout, dict(config.env or {})
        if not config.command:
            raise UserError(f"the adapter {config.name} has no command to run: use --simple, --shell or -- CMD")
        self.words = [*config.command, *self.arguments]
        commands = [config.command, *([config.resume.command] if config.resume and config.resume.command else [])]
        self._paths = {command[0]: find(command[0]) for command in commands}
        # What says how to isolate and vary it counts only where that is done.
        plain = structs.replace(undescribed(config), home=None, model=None, instructions=None, skills=None, mcp=None)
        self.definition = [plain, *self.arguments] if self.arguments else plain
        self.has_no_resume = config.session_mode == "stream" and config.resume is None
        self.resumable = config.session_mode == "stream" and config.resume is not None

    def open(self, additions: Sequence[str] = ()) -> NextCommand:
        if self.config.session_mode == "iterative":
            return self._with_history(additions)
        return self.resume(None, additions)

    def resume(self, given_id: str | None, additions: Sequence[str] = ()) -> NextCommand:
        """Continues the agent's own session of that id, None for a new one; so do its later turns."""

        def next_command(text: str, cwd: str, before: tuple[str, Reading] | None) -> Invocation:
            resume = self.config.resume
            if resume is None or (before is None and given_id is None):
                return self._invocation(text, cwd, self.config.command, additions)
            session_id = (before[1].session_id if before else None) or given_id
            if session_id is None:
                raise ValueError("the agent reported no session id, so its session cannot be resumed")
            arguments = resume.args or ([] if resume.flag is None else flagged(resume.flag, "{sessionId}"))
            command, arguments = (
                [part.replace("{sessionId}", session_id) for part in parts]
                for parts in (resume.command or self.config.command, arguments)
            )
            return self._invocation(text, cwd, command, [*additions, *arguments])

        return next_command

    def _with_history(self, additions: Sequence[str]) -> NextCommand:
        """Returns a session in which later turns have the turns before them in their prompt."""
        template = self.config.history_template or DEFAULT_HISTORY
        system, turn = ("", template) if isinstance(template, str) else (template.system, template.turn_format)
        history = [system] if system else []
        head, has_output, tail = turn.partition("{{output}}")  # split first: an input may hold {{output}}

        def next_command(text: str, cwd: str, before: tuple[str, Reading] | None) -> Invocation:
            if before is not None:
                said, reading = before
                output = reading.output if has_output else ""
                history.append(head.replace("{{input}}", said) + output + tail.replace("{{input}}", said))
                text = "\n\n".join([*history, f"User: {text}"])
            return self._invocation(text, cwd, self.config.command, additions)

        return next_command

    def _invocation(self, text: str, cwd: str, command: list[str], more: Sequence[str]) -> Invocation:
        """Returns a turn's command line; its order is command, output, auto-approval, cwd, own, more, prompt.

        `more` are the additions and, of a later turn, the arguments that resume the session.
        """
        config, output = self.config, self.config.output
        argv = list(command)
        if output and output.flag:
            argv += flagged(output.flag, output.value) if output.value else [output.flag]
        if output and output.file_flag:
            argv += flagged(output.file_flag, ANSWER_FILE)
        argv += config.auto_approve or []
        if config.cwd_flag:
            argv += flagged(config.cwd_flag, cwd)
        argv += [*self.arguments, *more]
        stdin = f"{text}\n".encode() if config.prompt.stdin else None
        if stdin is None:
            argv += flagged(config.prompt.flag or "", text)
        return Invocation(self._paths[command[0]], argv, self.env, stdin)


def flagged(flag: str, value: str) -> list[str]:
    """Returns the arguments that give a flag its value: one if the flag ends in =, only the value if it is empty."""
    return [flag + value] if flag.endswith("=") else [flag, value] if flag else [value]


# --- templates ----------------------------------------------------------------------------------


class TemplateAgent(TurnAgent):
    """`--simple "cmd {} …"`: split like a shell would, run without one; each turn starts from nothing."""

    def __init__(self, template: str, find: Callable[[str], str] = find_program) -> None:
        self.adapter, self.words = load_adapter("text"), split_words(template)
        if not any("{}" in word for word in self.words[1:]):
            raise UserError("--simple: put {} where the prompt goes, after the command")
        if "{}" in self.words[0]:
            raise UserError("--simple: the command itself cannot be {}")
        if re.match(r"\w+=", self.words[0]):
            raise UserError(f"--simple: set a variable with --env {self.words[0]}")
        self.program = find(self.words[0])
        self.title, self.definition = os.path.basename(self.program), ["--simple", *self.words]

    def open(self, additions: Sequence[str] = ()) -> NextCommand:
        name, *words = self.words
        return lambda text, _cwd, _before: Invocation(
            self.program, [name, *(word.replace("{}", text) for word in words)], {}
        )


class ShellAgent(TurnAgent):
    """`--shell '… "$PROMPT" …'`: sh -c, the prompt only in the environment; each turn starts from nothing."""

    title = "the agent"

    def __init__(self, line: str) -> None:
        if not line.strip():
            raise UserError("--shell: the command is empty")
        if "PROMPT" not in line and re.search(r"""(?:^|[\s="'])\{\}(?:$|[\s"';|&])""", line):
            quoted = re.sub(r"""(["']?)\{\}\1""", '"$PROMPT"', line)
            raise UserError(f"--shell: {{}} is not replaced in a shell line: --shell {shlex.quote(quoted)}")
        self.adapter, self.program = load_adapter("text"), find_program("sh")
        self.words, self.definition = [line], ["--shell", line]

    def open(self, additions: Sequence[str] = ()) -> NextCommand:
        return lambda text, _cwd, _before: Invocation(self.program, ["sh", "-c", *self.words], {"PROMPT": text})


class AcpAgent(AnyAgent):
    """`-- cmd args…`: a program that speaks the Agent Client Protocol on stdin and stdout."""

    def __init__(
        self, argv: list[str], find: Callable[[str], str] = find_program, *, deny: bool = False, files: bool = True
    ) -> None:
        if not argv:
            raise UserError("--: the agent's command is missing after --")
        self.adapter, self.words = load_adapter("acp"), argv
        self.deny, self.files, self.program = deny, files, find(argv[0])
        self.title = os.path.basename(self.program)
        self.definition = ["--", self.deny, *([] if files else ["--no-acp-fs"]), *argv]

    def start_client(
        self, texts: list[str], cwd: str, servers: Sequence[Record] = (), model: str | None = None
    ) -> tuple[Invocation, Client]:
        """Returns how to start it, and the client that converses with it about these turns."""
        client = Client(texts, cwd, deny=self.deny, files=self.files, servers=servers, model=model)
        return Invocation(self.program, self.words, {}, client.opening), client


Agent = TurnAgent | AcpAgent


def first_invocation(agent: Agent, texts: list[str], cwd: str, additions: Sequence[str] = ()) -> Invocation:
    """Returns how an agent is started for the first of these turns; later ones may need what it answers."""
    if isinstance(agent, AcpAgent):
        return agent.start_client(texts, cwd)[0]
    return agent.open(additions)(texts[0], cwd, None)


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
    parts = [agent.definition, *([undescribed(extract.config)] if extract else [])]
    if isinstance(agent, ShellAgent):
        named = contents(programs_in(agent.words[0], cwd), cwd)
    else:
        first, *others = agent.words
        named = contents([first] if "/" in first else []) + contents(others, cwd)
    if surroundings:
        parts.append(["in", *surroundings])
    if environment:
        parts.append(["--env", *sorted(environment)])
    if named:
        parts.append(["files", *named])
    digest = hashlib.sha256(msgspec.json.encode(encodable(parts), order="deterministic")).hexdigest()
    return AgentIdentity((extract or agent.adapter).config.name, digest[:DIGEST_LENGTH])


def undescribed(config: HeadlessAdapter) -> HeadlessAdapter:
    """Returns an adapter schema without its words for people: with others it is still the same agent."""
    return structs.replace(config, description=None, proven_on=None)


def agent_command(agent: Agent, additions: Sequence[str] = ()) -> str:
    """Returns the agent's command line as one would type it, with {} for the prompt."""
    argv = first_invocation(agent, ["{}"], "{cwd}", additions).argv
    return shlex.join(argv).replace(shlex.quote("{}"), "{}").replace(shlex.quote("{cwd}"), "{cwd}")


def in_container(agent: Agent) -> bool:
    """Returns whether the agent's command starts a container; in a shell line, any word may be the command."""
    words = re.findall(r"[\w./-]+", agent.words[0]) if isinstance(agent, ShellAgent) else agent.words[:1]
    return any(os.path.basename(word) in CONTAINERS for word in words)


# --- environment variables ----------------------------------------------------------------------


class Environment(msgspec.Struct, frozen=True):
    """Variables to set. `alone`: no others are inherited. Those `chosen` with --env override a schema's."""

    variables: dict[str, str] = {}
    chosen: dict[str, str] = {}
    alone: bool = False

    def command(
        self, invocation: Invocation, cwd: str, temporary: str | None, unset: frozenset[str] = frozenset()
    ) -> Command:
        """Returns what to start in a directory; `temporary` is the agent's own directory for temporary files."""
        env = self.with_own(invocation.env, temporary)
        if unset and not self.alone:
            env = {**{name: value for name, value in os.environ.items() if name not in unset}, **env}
        return Command(invocation.program, invocation.argv, cwd, env, invocation.stdin, self.alone or bool(unset))

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
            raise UserError(f"--env {name}: is not set; set it, or give --env {name}=VALUE")
        chosen[name] = value if equals else os.environ[name]
    return Environment(essential if clean else {}, chosen, clean)
