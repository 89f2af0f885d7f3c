"""The model APIs that agents speak, one file each: `read` a request, `write` a reply, `refuse` with a status."""

from __future__ import annotations

from typing import Protocol

from agent_rig.conversation import Asked, Body, Reply
from agent_rig.dialects import anthropic, chat, gemini, responses
from agenteval.wikipedia.offline.serving import Request, Response


class Dialect(Protocol):
    """One API."""

    def read(self, body: Body) -> Asked:
        """What the request asks."""
        ...

    def write(self, reply: Reply, body: Body, request: Request) -> Response:
        """The reply, as a stream where the request wants one."""
        ...

    def refuse(self, status: int, message: str) -> Response:
        """The API's form of an error."""
        ...


BY_PATH: dict[str, Dialect] = {
    "/messages": anthropic,
    "/responses": responses,
    "/chat/completions": chat,
    ":generateContent": gemini,
    ":streamGenerateContent": gemini,
}


def dialect_of(path: str) -> Dialect | None:
    """The API that is spoken at that path."""
    return next((dialect for end, dialect in BY_PATH.items() if path.endswith(end)), None)
