"""Which agent made a record: its name and a digest of its command or schema, so that --resume does not mix two."""

from __future__ import annotations

import sys
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
    digest = _sha256(msgspec.json.encode(parts, order="deterministic"))
    return AgentIdentity(name, digest[:DIGEST_LENGTH])


def _sha256(data: bytes) -> str:
    """Returns the digest in hexadecimal, by what hashlib uses if there is no OpenSSL, which takes 2 ms to load."""
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:  # a Python that was built without it
        from hashlib import sha256
    return str(sha256(data).hexdigest())


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
