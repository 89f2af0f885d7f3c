"""The echo agent, written with the official SDK as its own examples are."""

from __future__ import annotations

import asyncio
from typing import Any

from acp import (
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    text_block,
    update_agent_message,
)
from acp.interfaces import Client


class EchoAgent(Agent):
    _conn: Client

    def on_connect(self, conn: Client) -> None:
        self._conn = conn

    async def initialize(self, protocol_version: int, *_args: Any, **_kwargs: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, *_args: Any, **_kwargs: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id="echo")

    async def prompt(self, session_id: str, prompt: list[Any], **_kwargs: Any) -> PromptResponse:
        for block in prompt:
            read = await self._conn.read_text_file(session_id=session_id, path="note.txt")
            text = f"{block.text} ({read.content})"
            await self._conn.session_update(session_id=session_id, update=update_agent_message(text_block(text)))
        return PromptResponse(stop_reason="end_turn")


asyncio.run(run_agent(EchoAgent()))  # type: ignore[abstract]
