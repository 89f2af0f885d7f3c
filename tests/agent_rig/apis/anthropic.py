"""Anthropic Messages."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.agent_rig.apis.server_sent_events import stream
from tests.agent_rig.conversation import Body, ModelRequest, Reply, halves, new_id, text_of
from tests.support.http_server import Request, Response, json_response


def read(body: Body) -> ModelRequest:
    """Parses a request; a tool's result is in a message with role user."""
    contents = [message["content"] for message in body.get("messages") or [] if message.get("role") == "user"]
    last = contents[-1] if contents else ""
    ends_with_tool_result = isinstance(last, list) and any(block.get("type") == "tool_result" for block in last)
    tools = {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or []}
    return ModelRequest(text_of(last), ends_with_tool_result, tools)


def write(reply: Reply, body: Body, request: Request) -> Response:
    """Returns a message, as a stream if the request asks for one."""
    message = {
        "id": new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": _blocks(reply, thinking="thinking" in body),
        "stop_reason": "tool_use" if reply.calls else "max_tokens" if reply.cut else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": reply.usage.input - reply.usage.cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": reply.usage.cached,
            "output_tokens": reply.usage.output,
        },
    }
    return stream(_events(message), named=True) if body.get("stream") else json_response(message)


def refuse(status: int, message: str) -> Response:
    """Returns an error."""
    return json_response({"type": "error", "error": {"type": "api_error", "message": message}}, status)


def _blocks(reply: Reply, thinking: bool) -> list[Body]:
    blocks: list[Body] = [{"type": "text", "text": reply.text}] if reply.text else []
    if reply.thought and thinking:
        blocks.insert(0, {"type": "thinking", "thinking": reply.thought, "signature": "c2lnbmVk"})
    calls = [{"name": call.name, "input": call.arguments} for call in reply.calls]
    return blocks + [{"type": "tool_use", "id": new_id("toolu"), **call} for call in calls]


def _events(message: Body) -> Iterator[Body]:
    opening = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": opening}
    for index, block in enumerate(message["content"]):
        empty, deltas = _in_pieces(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": message["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def _in_pieces(block: Body) -> tuple[Body, list[Body]]:
    """Returns the block as it starts, and the deltas that complete it."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in halves(block["text"])]
    if block["type"] == "thinking":
        pieces = [{"type": "thinking_delta", "thinking": piece} for piece in halves(block["thinking"])]
        signature = {"type": "signature_delta", "signature": block["signature"]}
        return {"type": "thinking", "thinking": "", "signature": ""}, [*pieces, signature]
    arguments = halves(json.dumps(block["input"]))
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in arguments]
