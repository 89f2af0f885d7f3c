"""The notice that agents have the user's permissions, where neither a workspace nor a container keeps them apart."""

from __future__ import annotations

import os
import re

from agenteval.agents.kinds import AcpAgent, Agent, SchemaAgent, ShellAgent, TemplateAgent
from agenteval.streams.console import Console

# Programs that run the command after them in a container or sandbox; in-container is the one in examples/container.
CONTAINED = frozenset(
    ("in-container", "docker", "podman", "nerdctl", "apptainer", "singularity", "bwrap", "firejail", "sandbox-exec")
)


def warn_of_permissions(console: Console, agent: Agent, cwd: str, *, workspaces: bool) -> None:
    """Shows one line on a terminal if agents have neither workspaces nor a container."""
    if workspaces or in_container(agent):
        return
    line = f"{console.tool}: agents work in this directory ({cwd}) with all permissions"
    console.show(lambda _width: [f"{line}; --workspace-dir DIR gives each prompt its own"])


def in_container(agent: Agent) -> bool:
    """Returns whether the agent's command starts a container."""
    return any(os.path.basename(word) in CONTAINED for word in _programs(agent))


def _programs(agent: Agent) -> list[str]:
    """Returns the words of the command that may name a program; in a shell line, that may be any word."""
    if isinstance(agent, SchemaAgent):
        return agent.config.command[:1]
    if isinstance(agent, (AcpAgent, TemplateAgent)):
        return agent.argv[:1]
    assert isinstance(agent, ShellAgent)
    return re.findall(r"[\w./-]+", agent.line)
