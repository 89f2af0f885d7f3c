"""The model APIs that agents use, one file each: `read` a request, `write` a reply, `refuse` with a status."""

from __future__ import annotations

from typing import Protocol

from tests.agent_rig.apis import anthropic, chat, gemini, responses
from tests.agent_rig.conversation import Body, ModelRequest, Reply
from tests.support.http_server import Request, Response


class ModelApi(Protocol):
    """A model API."""

    def read(self, body: Body) -> ModelRequest:
        """Parses a request."""
        ...

    def write(self, reply: Reply, body: Body, request: Request) -> Response:
        """Returns the reply, as a stream if the request asks for one."""
        ...

    def refuse(self, status: int, message: str) -> Response:
        """Returns an error in the API's format."""
        ...


BY_PATH: dict[str, ModelApi] = {
    "/messages": anthropic,
    "/responses": responses,
    "/chat/completions": chat,
    ":generateContent": gemini,
    ":streamGenerateContent": gemini,
}


def api_at(path: str) -> ModelApi | None:
    """Returns the API that has this path."""
    return next((api for end, api in BY_PATH.items() if path.endswith(end)), None)
