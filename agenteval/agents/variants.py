"""Variants of an agent: the model, instructions, skills, MCP servers and files that an evaluation gives it.

The options --model, --instructions, --skill, --mcp and --overlay are the same for every agent; its adapter schema says
how its program takes each. `variant_of` reads and checks them before anything starts. Then, for each session, `dress`
changes its fresh workspace and `equip` its HOME, and arguments and variables are added to its command. What a variant
consists of is part of the agent's identity, by content, and of `metadata.variant`, by name.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agenteval.agents.kinds import AcpAgent, Agent, SchemaAgent
from agenteval.agents.workspaces import copy_over, copy_tree
from agenteval.errors import UserError
from agenteval.processes.scratch import remove_tree
from agenteval.streams.digests import digest, file_digest, tree_digest
from agenteval.streams.files import read_given, write_new
from agenteval.streams.jsonl import encode
from agenteval.wire.adapter_schema import McpServers, ModelChoice, Placement
from agenteval.wire.records import Record

SKILL_FILE = "SKILL.md"
VARIABLE = re.compile(r"\$\{(\w+)\}")
PLACEHOLDER = re.compile(r"\{(\w+)\}")
NOT_FOR_COMMANDS = (
    "it needs -s SCHEMA, which says how the agent takes it; otherwise put it into the command, or use --overlay DIR"
)


class Variant(msgspec.Struct, frozen=True):
    """What the options ask for; paths are absolute, `servers` have the values of their variables."""

    model: str | None = None
    instructions: str | None = None
    skills: dict[str, str] = {}  # name → folder
    servers: dict[str, Record] = {}
    overlay: str | None = None
    digests: Record = {}  # of the content of each option
    secrets: frozenset[str] = frozenset()  # values of variables in `servers`

    @property
    def changes_workspace(self) -> list[str]:
        """The options that need a workspace of their own."""
        given = {"--instructions": self.instructions, "--skill": self.skills, "--overlay": self.overlay}
        return [option for option, value in given.items() if value]

    def check_place(self, agent: Agent, *, isolate: bool, workspaces: bool) -> None:
        """Raises UserError if what the options ask for cannot be put where the agent looks for it."""
        config = agent.config if isinstance(agent, SchemaAgent) else None
        if self.digests and not (isolate or workspaces):
            option = next(iter(self.digests)).partition(" ")[0]
            raise UserError(
                f"{option} needs --workspace-dir DIR or --isolate, so that none of your own files are changed"
            )
        for option, place in (
            ("--instructions", config and config.instructions),
            ("--skill", config and config.skills),
        ):
            given = option in self.changes_workspace and place
            if given and not ((workspaces and given.workspace) or (isolate and given.home)):
                needed = " or ".join(
                    name for name, path in (("--workspace-dir DIR", given.workspace), ("--isolate", given.home)) if path
                )
                raise UserError(f"{option} with the adapter {agent.title} needs {needed}")
        if self.overlay and not workspaces:
            raise UserError("--overlay needs --workspace-dir DIR: it is copied over each fresh workspace")
        if self.servers and config and config.mcp and not config.mcp.args and not isolate:
            raise UserError(f"--mcp with the adapter {agent.title} needs --isolate, which keeps your own servers out")

    def metadata(self) -> Record:
        """Returns what `metadata.variant` says."""
        named: Record = {
            "model": self.model,
            "instructions": self.instructions and os.path.basename(self.instructions),
            "skills": sorted(self.skills),
            "mcpServers": sorted(self.servers),
            "overlay": self.overlay and os.path.basename(self.overlay),
        }
        return {name: value for name, value in named.items() if value}

    def dress(self, workspace: str, agent: Agent) -> None:
        """Puts into a fresh workspace what belongs there: the overlay first, then instructions and skills."""
        if self.overlay:
            copy_over(self.overlay, workspace)
        if isinstance(agent, SchemaAgent):
            self._place(agent.config.instructions, agent.config.skills, "workspace", workspace)

    def equip(self, home: str, agent: Agent, *, dressed: bool) -> None:
        """Puts into a HOME what is not in the workspace, if that was not dressed or the agent does not look there."""
        if isinstance(agent, SchemaAgent):
            instructions, skills = (
                None if place and dressed and place.workspace else place
                for place in (agent.config.instructions, agent.config.skills)
            )
            self._place(instructions, skills, "home", home)

    def _place(self, instructions: Placement | None, skills: Placement | None, field: str, folder: str) -> None:
        if self.instructions and instructions and (path := getattr(instructions, field)):
            write_new(new_path(folder, path), read_given(self.instructions), 0o644)
        for name, source in self.skills.items() if skills and getattr(skills, field) else ():
            copy_tree(source, new_path(folder, os.path.join(getattr(skills, field), name)))

    def arguments(self, agent: Agent, workspace: str | None, home: str | None, mcp_file: str) -> Iterator[str]:
        """Yields the arguments for a session; `workspace` is None if it was not dressed."""
        if not isinstance(agent, SchemaAgent):
            return
        config = agent.config
        if self.model and isinstance(config.model, ModelChoice):
            yield from _filled(config.model.args, {"model": self.model})
        given = [
            (config.instructions, [""] if self.instructions else []),
            (config.skills, [*self.skills]),
        ]
        for place, names in given:
            if place and names and place.args:
                inside = workspace and place.workspace and os.path.join(workspace, place.workspace)
                path = inside or os.path.join(home or "", place.home or "")
                for name in names:
                    yield from _filled(place.args, {"file": os.path.join(path, name).rstrip("/")})
        if self.servers and config.mcp:
            yield from _filled(config.mcp.args, {"file": mcp_file})

    def variables(self, agent: Agent) -> dict[str, str]:
        """Returns the variables for a session."""
        choice = agent.config.model if isinstance(agent, SchemaAgent) else None
        env = (choice.env if isinstance(choice, ModelChoice) else None) or {}
        return {name: value.replace("{model}", self.model) for name, value in env.items()} if self.model else {}


def new_path(folder: str, relative: str) -> str:
    """Returns a path below a folder where nothing is; no directory on the way to it is a link that leads elsewhere."""
    *parents, name = relative.split("/")
    for parent in parents:
        folder = os.path.join(folder, parent)
        if os.path.lexists(folder) and (os.path.islink(folder) or not os.path.isdir(folder)):
            remove_tree(folder)
        os.makedirs(folder, 0o700, exist_ok=True)
    path = os.path.join(folder, name)
    if os.path.lexists(path):
        remove_tree(path)
    return path


def _filled(args: list[str] | None, values: Mapping[str, str]) -> Iterator[str]:
    for word in args or ():
        yield PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), word)


# --- the options --------------------------------------------------------------------------------


def variant_of(
    agent: Agent,
    *,
    model: str | None,
    instructions: str | None,
    skills: tuple[str, ...],
    mcp: str | None,
    overlay: str | None,
    env: Mapping[str, str],
) -> Variant:
    """Returns the variant of an agent; UserError for what cannot be read, or what the agent does not take."""
    given = {"--model": model, "--instructions": instructions, "--skill": skills, "--mcp": mcp}
    for option in (option for option, value in given.items() if value):
        _refuse_unknown(agent, option)
    digests: Record = {"--model": model} if model else {}
    if instructions:
        if not (found := file_digest(instructions)):
            raise UserError(f"--instructions {instructions}: no such file")
        digests["--instructions"] = found
    folders = dict(_skill(folder) for folder in skills)
    if len(folders) < len(skills):
        raise UserError("--skill: two of the folders have the same name, and a skill is named after its folder")
    digests |= {f"--skill {name}": tree_digest(folder) for name, folder in folders.items()}
    servers, used, content = _servers(mcp, env) if mcp else ({}, frozenset(), None)
    if content is not None:
        digests["--mcp"] = digest(content)
    if overlay:
        if not os.path.isdir(overlay):
            raise UserError(f"--overlay {overlay}: no such directory")
        digests["--overlay"] = tree_digest(overlay)
    return Variant(
        model,
        instructions and os.path.abspath(instructions),
        folders,
        servers,
        overlay and os.path.abspath(overlay),
        digests,
        used,
    )


def _refuse_unknown(agent: Agent, option: str) -> None:
    """Raises UserError if an agent does not take what an option gives it."""
    if isinstance(agent, AcpAgent):
        if option in ("--instructions", "--skill"):
            raise UserError(f"{option}: the Agent Client Protocol does not support it; use --overlay DIR")
        return
    if not isinstance(agent, SchemaAgent):
        raise UserError(f"{option}: {NOT_FOR_COMMANDS}")
    config = agent.config
    known = {
        "--model": config.model if isinstance(config.model, ModelChoice) else None,
        "--instructions": config.instructions,
        "--skill": config.skills,
        "--mcp": config.mcp,
    }
    if known[option] is None:
        has = [name for name, value in known.items() if value is not None]
        instead = f"; it supports {', '.join(has)}" if has else ""
        raise UserError(f"{option}: the adapter {config.name} does not support it{instead}")


def _skill(folder: str) -> tuple[str, str]:
    path = os.path.abspath(folder)
    if not os.path.isfile(os.path.join(path, SKILL_FILE)):
        raise UserError(f"--skill {folder}: has no {SKILL_FILE}; name a skill's folder")
    return os.path.basename(path), path


# --- MCP servers --------------------------------------------------------------------------------


def _servers(path: str, env: Mapping[str, str]) -> tuple[dict[str, Record], frozenset[str], Any]:
    """Returns the servers of a file with the values of their variables, those values, and the content as it is."""
    try:
        content = msgspec.json.decode(read_given(path))
    except OSError as error:
        raise UserError(f"--mcp {path}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UserError(f"--mcp {path}: not JSON: {error}") from None
    servers = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(servers, dict) or not servers:
        raise UserError(f'--mcp {path}: has no servers; the format is {{"mcpServers": {{"NAME": {{"command": "…"}}}}}}')
    used: set[str] = set()

    def value_of(found: re.Match[str]) -> str:
        if found[1] not in env:
            raise UserError(f"--mcp {path}: ${{{found[1]}}} is not set; set it in the environment")
        used.add(env[found[1]])
        return env[found[1]]

    def expanded(value: Any) -> Any:
        if isinstance(value, str):
            return VARIABLE.sub(value_of, value)
        if isinstance(value, list):
            return [expanded(item) for item in value]
        return {key: expanded(item) for key, item in value.items()} if isinstance(value, dict) else value

    for name, server in servers.items():
        if problem := _server_problem(server):
            raise UserError(f"--mcp {path}: mcpServers.{name}: {problem}")
    found = expanded(servers)
    programs = {name: _locate(server) for name, server in found.items()}
    for name in (name for name, program in programs.items() if program == ""):
        raise UserError(f"--mcp {path}: mcpServers.{name}: {found[name]['command']}: no such file")
    return found, frozenset(used), [servers, programs] if any(programs.values()) else servers


def _locate(server: Record) -> str | None:
    """Makes a command such as "./server" absolute: it is below the current directory, and agents work elsewhere.

    Returns the digest of the program, "" if it cannot be read; None for any other command, which is found on PATH.
    """
    if not server.get("command", "").startswith(("./", "../")):
        return None
    server["command"] = os.path.abspath(server["command"])
    return file_digest(server["command"]) or ""


def _server_problem(server: Any) -> str | None:
    if not isinstance(server, dict):
        return "must be an object"
    if isinstance(server.get("command"), str) == isinstance(server.get("url"), str):
        return 'must have one of "command" and "url"'
    texts = {
        "args": isinstance(server.get("args", []), list) and all(isinstance(one, str) for one in server.get("args", []))
    }
    for field in ("env", "headers"):
        given = server.get(field, {})
        texts[field] = isinstance(given, dict) and all(isinstance(value, str) for value in given.values())
    return next((f"{field} must contain only strings" for field, fits in texts.items() if not fits), None)


def server_file(servers: dict[str, Record], form: McpServers, before: bytes = b"") -> bytes:
    """Returns the configuration of servers in the form of an agent, in addition to what its file has already."""
    entries: Any = {name: _entry(name, server, form) for name, server in servers.items()}
    if form.as_list:
        entries = list(entries.values())
    settings = form.settings or {}
    if form.format == "toml":
        switches = "".join(f"{key} = {_toml(value)}\n" for key, value in settings.items())
        tables = "".join(_toml_tables(form.key, entries))
        return before + (b"\n" if before else b"") + (switches + tables).encode()
    content = {} if form.format == "yaml" or not before.strip() else msgspec.json.decode(before)
    for key, value in {**settings, form.key: entries}.items():
        *parents, last = key.split(".")
        place = content
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    if form.format == "yaml":  # JSON is YAML's, too
        has = re.findall(rb"(?m)^([\w-]+):", before)
        added = {key: value for key, value in content.items() if key.encode() not in has}
        lines = (encode(key) + b": " + encode(value) + b"\n" for key, value in added.items())
        return before + (b"\n" if before and not before.endswith(b"\n") else b"") + b"".join(lines)
    return encode(content) + b"\n"


def _entry(name: str, server: Record, form: McpServers) -> Any:
    template = form.stdio if "command" in server else form.http
    if template is None:
        return {"type": "http", **server} if "url" in server else server
    values = {**server, "name": name, "argv": [server.get("command"), *server.get("args", ())]}
    filled = {field: _value(value, values) for field, value in template.items()}
    return {field: value for field, value in filled.items() if value is not None}


def _value(template: Any, values: Record) -> Any:
    if isinstance(template, dict):
        inner = {key: _value(value, values) for key, value in template.items()}
        return {key: value for key, value in inner.items() if value is not None} or None
    if isinstance(template, str) and (found := PLACEHOLDER.fullmatch(template)):
        return values.get(found[1])
    return template


def _toml_tables(key: str, entries: Any) -> Iterator[str]:
    """Yields the tables of a TOML file: JSON texts and lists are TOML's, too."""
    named = (
        [(f"[[{key}]]", entry) for entry in entries]
        if isinstance(entries, list)
        else [(f"[{key}.{encode(name).decode()}]", entry) for name, entry in entries.items()]
    )
    for title, entry in named:
        yield f"{title}\n" + "".join(f"{field} = {_toml(value)}\n" for field, value in entry.items()) + "\n"


def toml_settings(settings: Record) -> bytes:
    """Returns settings as a TOML file, nested ones as inline tables."""
    return "".join(f"{encode(key).decode()} = {_toml(value)}\n" for key, value in settings.items()).encode()


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{encode(key).decode()} = {_toml(inner)}" for key, inner in value.items()) + "}"
    return "[" + ", ".join(map(_toml, value)) + "]" if isinstance(value, list) else encode(value).decode()


def acp_servers(servers: dict[str, Record]) -> list[Record]:
    """Returns servers as `mcpServers` of session/new."""

    def pairs(given: dict[str, str]) -> list[Record]:
        return [{"name": name, "value": value} for name, value in given.items()]

    return [
        {
            "name": name,
            "command": server["command"],
            "args": server.get("args", []),
            "env": pairs(server.get("env", {})),
        }
        if "command" in server
        else {
            "type": server.get("type", "http"),
            "name": name,
            "url": server["url"],
            "headers": pairs(server.get("headers", {})),
        }
        for name, server in servers.items()
    ]
