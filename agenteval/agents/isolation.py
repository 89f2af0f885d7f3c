"""What surrounds a session: with --isolate a HOME of its own, and in any case what its variant adds.

`Surroundings.begin` makes the HOME of a session, copies the files that log the agent in, and gives the arguments and
variables for its command; `SessionPlace.end` writes back what the program renewed and removes those files. They are
lent by the run's scratch directory, so that they are removed even if the tool is killed. Without --isolate,
`Surroundings.report` names what of the user's configuration the agent will read.
"""

import glob
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Lock
from typing import Any

import msgspec

from agenteval.agents.kinds import Agent, Environment, SchemaAgent
from agenteval.agents.variants import Variant, acp_servers, new_path, server_file, toml_settings
from agenteval.agents.workspaces import HOME_ENDING, PREFIX, Markers
from agenteval.errors import UserError, WorkspaceError
from agenteval.processes.scratch import Scratch
from agenteval.streams.files import create_file, read_regular, write_new
from agenteval.streams.jsonl import encode
from agenteval.streams.redaction import Redactor
from agenteval.streams.text import first_few
from agenteval.wire.adapter_schema import Home
from agenteval.wire.records import Record

LARGEST_CREDENTIAL = 1 << 20  # bytes
SHOWN = 6  # files of the user's that are named
# Of the XDG base directories, and where each is below a HOME.
XDG = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "XDG_CACHE_HOME": ".cache",
    "XDG_RUNTIME_DIR": ".run",
}
WHOLE = ["*"]  # as keys of a file: all of it
MCP_FILE = "mcp.json"  # below HOME, for an agent that takes its name as an argument
PLANNED_MCP_FILE = "MCP_FILE"  # in a command that is only shown


class Credential(msgspec.Struct):
    """A file that logs an agent in: the user's own and its copy, with what each of them held when last looked at."""

    source: str
    copy: str
    owned: bytes
    copied: bytes


class SessionPlace:
    """What one session has besides its prompt and directory: arguments, variables and, if isolated, a HOME."""

    home: str | None = None

    def __init__(self, scratch: Scratch) -> None:
        self.arguments: list[str] = []
        self.env: dict[str, str] = {}
        self.unset: frozenset[str] = frozenset()
        self.lent: list[str] = []
        self.credentials: list[Credential] = []
        self.end_more: Callable[[], None] = lambda: None
        self._scratch = scratch

    def lend(self, path: str, content: bytes) -> None:
        """Writes a file with secrets, which is removed at the end of the session."""
        self._scratch.lend(path)
        self.lent.append(path)
        write_new(path, content, 0o600)

    def end(self) -> None:
        """Ends the session: removes all that was lent, and a HOME that is not to be kept."""
        for path in self.lent:
            self._scratch.take_back(path)
        self.end_more()


class Surroundings:
    """What the sessions of a run have in common: the agent's schema, the variant, and the user's environment."""

    def __init__(
        self,
        agent: Agent,
        variant: Variant,
        environment: Environment,
        redact: Redactor,
        *,
        isolate: bool,
        dressed: bool,
    ) -> None:
        self.agent, self.variant, self.redact = agent, variant, redact
        self.isolate, self.dressed = isolate, dressed  # whether workspaces are given what the variant puts there
        self.schema = (agent.config.home if isinstance(agent, SchemaAgent) else None) or Home()
        self.user = environment.all_of({})
        self._writing_back = Lock()
        if isolate and (own := sorted({"HOME", *XDG, *(self.schema.env or ())} & {*environment.chosen})):
            raise UserError(
                f"--env {own[0]} and --isolate cannot be used together: --isolate gives each session its own; leave "
                f"out one of them"
            )
        for path in self.schema.copy or ():
            source = self.user_path(path)
            try:
                self._hide(source, read_regular(os.path.realpath(source), LARGEST_CREDENTIAL))
            except OSError as error:
                if isolate and not isinstance(error, FileNotFoundError):
                    raise UserError(
                        f"{source}: {error.strerror}; --isolate has to copy it to log the agent in"
                    ) from None
        for secret in variant.secrets:
            redact.learn(secret, "MCP_SERVER")

    @property
    def needs_repository(self) -> bool:
        """Whether only a repository in the workspace keeps the agent from reading what lies above it."""
        return self.isolate and self.schema.boundary == "git"

    # --- what the user has ---

    def user_path(self, path: str) -> str:
        """Returns the user's own path for a path below a HOME; variables such as CODEX_HOME may have moved it."""
        places = {**{name: f"{{home}}/{path}" for name, path in XDG.items()}, **(self.schema.env or {})}
        for name, place in places.items():
            below = place.removeprefix("{home}/")
            if place.startswith("{home}/") and path.startswith(f"{below}/") and (moved := self.user.get(name)):
                return os.path.join(moved, path.removeprefix(f"{below}/"))
        return os.path.join(self.user.get("HOME") or os.path.expanduser("~"), path)

    def files_above(self, workspace: str) -> Iterator[str]:
        """Yields where the agent also looks in the directories above a workspace, the nearest first."""
        folder, above = workspace, os.path.dirname(workspace)
        while above != folder:
            yield from (os.path.join(above, name) for name in self.schema.above or ())
            folder, above = above, os.path.dirname(above)

    def report(self, workspace: str) -> str | None:
        """Returns the line about what of the user's the agent will read; None if there is nothing of the kind.

        `workspace` is where one of its sessions runs.
        """
        below_home = [] if self.isolate else [self.user_path(path) for path in self.schema.reads or ()]
        kept_out = self.isolate and (self.schema.boundary == "args" or (self.schema.boundary == "git" and self.dressed))
        above = [] if kept_out else list(self.files_above(workspace))
        paths = (path.removesuffix("/**") for path in [*below_home, *above])
        found = list(dict.fromkeys(filter(os.path.exists, paths)))
        name, home = self.agent.title, self.user.get("HOME") or "\0"
        shown = [f"~{path.removeprefix(home)}" if path.startswith(f"{home}/") else path for path in found]
        if self.isolate:
            wall = "--sandbox hides it" + (" (so does --workspace-dir)" if self.schema.boundary == "git" else "")
            return f"{name} also reads files above its workspace: {first_few(shown, SHOWN)}; {wall}" if found else None
        memory = self.schema.memory and f"its memory across sessions ({self.schema.memory}) cannot be turned off"
        reads = f"{name} reads your own configuration: {first_few(shown, SHOWN)}" if found else ""
        if not reads and not memory:
            return None
        return (
            f"{reads or name}{'; ' if reads else ': '}{memory}; --isolate keeps that out"
            if memory
            else (f"{reads}; --isolate keeps that out")
        )

    # --- a session ---

    def begin(self, workspace: str, make_home: Callable[[], str] | None, scratch: Scratch) -> SessionPlace:
        """Makes what a session needs; raises OSError if that fails. `make_home` makes a directory that is kept."""
        place = SessionPlace(scratch)
        try:
            self._make_home(place, make_home, scratch)
            mcp_file = self._configure_servers(place, scratch)
        except BaseException:
            place.end()
            raise
        place.arguments, place.env, place.unset = self.planned(workspace, place.home, mcp_file)
        return place

    def planned(
        self, workspace: str, home: str | None, mcp_file: str = PLANNED_MCP_FILE
    ) -> tuple[list[str], dict[str, str], frozenset[str]]:
        """Returns the arguments of a session, the variables to set, and those not to pass on."""
        arguments: list[str] = []
        env: dict[str, str] = {}
        if home is not None:
            above = encode(list(self.files_above(workspace))).decode()
            values = {"home": home, "workspace": workspace, "above": above}

            def fill(text: str) -> str:
                return re.sub(r"\{(home|workspace|above)\}", lambda found: values[found[1]], text)

            env = {"HOME": home, **{name: os.path.join(home, path) for name, path in XDG.items()}}
            env |= {name: fill(value) for name, value in (self.schema.env or {}).items()}
            arguments += map(fill, self.schema.args or ())
        dressed = workspace if self.dressed else None
        arguments += self.variant.arguments(self.agent, dressed, home, mcp_file)
        unset = frozenset((self.schema.unset or ()) if self.isolate else ())
        return arguments, env | self.variant.variables(self.agent), unset

    def _make_home(self, place: SessionPlace, make_home: Callable[[], str] | None, scratch: Scratch) -> None:
        if not self.isolate:
            return
        if make_home is not None:
            place.home = home = make_home()
        else:
            place.home = home = scratch.new_name("home-")
            os.mkdir(home, 0o700)
            place.end_more = lambda: scratch.take_back(home)
        for path in XDG.values():
            os.makedirs(os.path.join(home, path), 0o700)
        for path in self.schema.copy or ():
            self._copy_credential(place, home, path)
        for path, keys in (self.schema.keys or {}).items():
            if content := _settings(self.user_path(path), keys):
                place.lend(new_path(home, path), content)
                if keys != WHOLE:
                    self._hide(path, content)
        for path, text in (self.schema.files or {}).items():
            if not os.path.lexists(os.path.join(home, path)):
                write_new(new_path(home, path), text.encode(), 0o600)
        self.variant.equip(home, self.agent, dressed=self.dressed)

    def _copy_credential(self, place: SessionPlace, home: str, path: str) -> None:
        source = os.path.realpath(self.user_path(path))
        try:
            content = read_regular(source, LARGEST_CREDENTIAL)
        except FileNotFoundError:
            return  # the user is logged in another way, such as by a variable
        except OSError as error:  # it was readable when the run began
            raise WorkspaceError(f"{source}: {error.strerror}") from None
        credential = Credential(source, new_path(home, path), content, content)
        place.lend(credential.copy, content)
        place.credentials.append(credential)
        self._hide(source, content)

    def _hide(self, source: str, content: bytes) -> None:
        self.redact.learn(content.decode("utf-8", "replace"), os.path.basename(source))

    def _configure_servers(self, place: SessionPlace, scratch: Scratch) -> str:
        """Writes the configuration of MCP servers; returns the name of the file that an argument may name."""
        mcp = self.agent.config.mcp if isinstance(self.agent, SchemaAgent) else None
        if mcp is None or not self.variant.servers:
            return PLANNED_MCP_FILE
        before = b""
        if mcp.home and place.home:
            path = os.path.join(place.home, mcp.home)
            if os.path.lexists(path):
                before = read_regular(path)
            path = new_path(place.home, mcp.home)
        elif place.home:
            path = new_path(place.home, MCP_FILE)
        else:
            path = f"{scratch.new_name('mcp-')}.json"
        place.lend(path, server_file(self.variant.servers, mcp, before))
        return path

    def acp(self) -> tuple[list[Record], str | None]:
        """Returns the MCP servers and the model for a session over the Agent Client Protocol."""
        return acp_servers(self.variant.servers), self.variant.model

    def learn(self, place: SessionPlace) -> None:
        """Looks for credentials that the program has renewed, and writes them back where that is needed.

        It is called when a process of the agent has ended, before its output is recorded.
        """
        for credential in place.credentials:
            try:
                content = read_regular(credential.copy, LARGEST_CREDENTIAL)
            except OSError:
                continue
            if content == credential.copied or not content.strip():
                continue
            credential.copied = content
            self._hide(credential.source, content)
            name = os.path.relpath(credential.copy, place.home)
            if name not in (self.schema.write_back or ()) or not _is_whole(content, credential.owned):
                continue
            if keys := (self.schema.write_back_keys or {}).get(name):
                content = _with_renewed(credential.owned, content, keys)
            if content != credential.owned:
                with suppress(OSError), self._writing_back:  # of sessions that run at once, the first one's is kept
                    if read_regular(credential.source, LARGEST_CREDENTIAL) == credential.owned:
                        _replace_owned(credential.source, content)
                        credential.owned = content

    def remove_left(self, base: str, markers: Markers) -> None:
        """Removes the credentials that a run left in the HOMEs below a directory when killed with its guardian."""
        mcp = self.agent.config.mcp if isinstance(self.agent, SchemaAgent) else None
        for path in [*(self.schema.copy or ()), *(self.schema.keys or ()), *([mcp.home or MCP_FILE] if mcp else ())]:
            for left in glob.glob(os.path.join(glob.escape(base), f"{PREFIX}*{HOME_ENDING}", glob.escape(path))):
                home = left.removesuffix(f"/{path}")
                if markers.has(home) and not markers.is_claimed(home.removesuffix(HOME_ENDING)):
                    with suppress(OSError):
                        os.unlink(left)


def _settings(path: str, keys: list[str]) -> bytes:
    """Returns the settings of a file that have one of the keys, in its format; nothing if it cannot be read."""
    try:
        content = read_regular(os.path.realpath(path), LARGEST_CREDENTIAL).decode()
        if keys == WHOLE:
            return content.encode()
        if path.endswith((".yaml", ".yml")):
            names = "|".join(map(re.escape, keys))
            blocks = re.findall(rf"(?m)^(?:{names}):.*\n?(?:[ \t#-].*\n?|\n)*", content)
            return "".join(blocks).encode()
        found: Record = tomllib.loads(content) if path.endswith(".toml") else msgspec.json.decode(content)
        chosen: Record = {}
        for key in keys:
            *parents, last = key.split(".")
            place, target = found, chosen
            for parent in parents:
                place, target = place.get(parent, {}), target.setdefault(parent, {})
            if last in place:
                target[last] = place[last]
        return toml_settings(chosen) if path.endswith(".toml") else encode(chosen)
    except (OSError, ValueError, AttributeError, TypeError):  # it is not there, or not in its format
        return b""


def _is_whole(content: bytes, before: bytes) -> bool:
    """Whether a renewed credential is as complete as the one before: an object with its keys, if that was JSON."""
    try:
        known = msgspec.json.decode(before)
    except (msgspec.DecodeError, UnicodeError):
        return True
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return isinstance(found, dict) and known.keys() <= found.keys() if isinstance(known, dict) else True


def _with_renewed(owned: bytes, content: bytes, keys: list[str]) -> bytes:
    """Returns what the user has with the values of some keys from `content`; as it is if none of them differs."""

    def renewed(old: Any, new: Any) -> Any:
        if not isinstance(old, dict) or not isinstance(new, dict):
            return old
        return {key: new[key] if key in keys and key in new else renewed(old[key], new.get(key)) for key in old}

    try:
        before = msgspec.json.decode(owned)
        after = renewed(before, msgspec.json.decode(content))
    except (msgspec.DecodeError, UnicodeError):
        return owned
    return owned if after == before else msgspec.json.format(encode(after), indent=2)


def _replace_owned(path: str, content: bytes) -> None:
    """Replaces a file of the user's in one step; only the owner can read it at any time."""
    new = f"{path}.{os.getpid()}.new"
    fd = create_file(new)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, 0o600)
        file.write(content)
        file.flush()
        os.fsync(fd)
    os.replace(new, path)
