"""Which agent made a record: its name and a digest of its command or schema, so that --resume does not mix two."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from agenteval.agents.kinds import AcpAgent, Agent, SchemaAgent, ShellAgent, TemplateAgent

if TYPE_CHECKING:
    from agenteval.adapters.reader import Adapter

DIGEST_LENGTH = 16  # hexadecimal digits


class AgentIdentity(msgspec.Struct, frozen=True):
    """Name and digest, as they stand in `metadata.agent` and `metadata.agentDigest`."""

    name: str
    digest: str


def identity_of(agent: Agent, extract: Adapter | None = None) -> AgentIdentity:
    """Returns the identity of an agent; `extract` is the adapter that reads its output, if that is not its own."""
    name, content = _content(agent)
    parts: list[Any] = [content]
    if extract is not None:
        name = extract.config.name
        parts.append(extract.config)
    digest = sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()
    return AgentIdentity(name, digest[:DIGEST_LENGTH])


def _content(agent: Agent) -> tuple[str, Any]:
    """Returns the name of an agent's adapter, and what makes the agent another one if it changes."""
    if isinstance(agent, SchemaAgent):
        return agent.config.name, [agent.config, *agent.arguments] if agent.arguments else agent.config
    if isinstance(agent, AcpAgent):
        return "acp", ["--", agent.deny, *([] if agent.files else ["--no-acp-fs"]), *agent.argv]
    if isinstance(agent, TemplateAgent):
        return "text", ["--simple", *agent.argv]
    assert isinstance(agent, ShellAgent)
    return "text", ["--shell", agent.line]
