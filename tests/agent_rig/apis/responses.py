"""OpenAI Responses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from tests.agent_rig.apis.server_sent_events import stream
from tests.agent_rig.conversation import Body, ModelRequest, Reply, halves, new_id, text_of
from tests.support.http_server import Request, Response, json_response


def read(body: Body) -> ModelRequest:
    """Parses a request; a tool without a schema takes a plain command."""
    items = body.get("input") or []
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": items}]
    texts = [text_of(item.get("content")) for item in items if item.get("role") == "user"]
    ends_with_tool_result = bool(items) and str(items[-1].get("type")).endswith("_output")
    tools = {tool["name"]: tool.get("parameters") or {} for _, tool in _tools(body)}
    return ModelRequest(texts[-1] if texts else "", ends_with_tool_result, tools)


def _tools(body: Body) -> Iterator[tuple[str | None, Body]]:
    """Yields each tool that has a name, and the namespace that it is in."""
    for tool in body.get("tools") or []:
        if tool.get("type") == "namespace":
            yield from ((tool["name"], each) for each in tool["tools"])
        elif "name" in tool:
            yield None, tool


def write(reply: Reply, body: Body, request: Request) -> Response:
    """Returns a response, as a stream if the request asks for one."""
    usage = reply.usage
    response = {
        "id": new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "model": body.get("model"),
        "status": "incomplete" if reply.cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if reply.cut else None,
        "output": _items(reply, {tool["name"]: namespace for namespace, tool in _tools(body) if namespace}),
        "usage": {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        },
    }
    if not body.get("stream"):
        return json_response(response)
    numbered = ({**event, "sequence_number": number} for number, event in enumerate(_events(response)))
    return stream(numbered, named=True)


def refuse(status: int, message: str) -> Response:
    """Returns an error."""
    return json_response({"error": {"message": message, "type": "server_error", "param": None, "code": None}}, status)


def _items(reply: Reply, namespaces: dict[str, str]) -> list[Body]:
    text = {"type": "output_text", "text": reply.text, "annotations": []}
    message = {"type": "message", "id": new_id("msg"), "role": "assistant", "status": "completed", "content": [text]}
    items: list[Body] = [message] if reply.text else []
    if reply.thought:
        summary = [{"type": "summary_text", "text": reply.thought}]
        items.insert(0, {"type": "reasoning", "id": new_id("rs"), "summary": summary, "encrypted_content": "c2VhbGVk"})
    for call in reply.calls:
        function = {"name": call.name, "arguments": json.dumps(call.arguments), "status": "completed"}
        if call.name in namespaces:
            function["namespace"] = namespaces[call.name]
        items.append({"type": "function_call", "id": new_id("fc"), "call_id": new_id("call"), **function})
    return items


def _events(response: Body) -> Iterator[Body]:
    opening = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": opening}
    for index, item in enumerate(response["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.added", "output_index": index, "item": _empty(item)}
        yield from _parts(item, place)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def _empty(item: Body) -> Body:
    """Returns the item as it starts."""
    nothing: dict[str, Any] = {"message": {"content": []}, "reasoning": {"summary": []}}
    return {**item, **nothing.get(item["type"], {"arguments": ""})}


def _parts(item: Body, place: Body) -> Iterator[Body]:
    if item["type"] == "message":
        part, place = item["content"][0], {**place, "content_index": 0}
        yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
        for piece in halves(part["text"]):
            yield {"type": "response.output_text.delta", **place, "delta": piece}
        yield {"type": "response.output_text.done", **place, "text": part["text"]}
        yield {"type": "response.content_part.done", **place, "part": part}
    elif item["type"] == "reasoning":
        part, place = item["summary"][0], {**place, "summary_index": 0}
        yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
        yield {"type": "response.reasoning_summary_text.delta", **place, "delta": part["text"]}
        yield {"type": "response.reasoning_summary_text.done", **place, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **place, "part": part}
    else:
        yield {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}
