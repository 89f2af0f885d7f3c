"""OpenAI Chat Completions."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator

from tests.agent_rig.apis.responses import refuse
from tests.agent_rig.apis.server_sent_events import stream
from tests.agent_rig.conversation import Body, ModelRequest, Reply, halves, new_id, text_of
from tests.support.http_server import Request, Response, json_response

__all__ = ["read", "refuse", "write"]


def read(body: Body) -> ModelRequest:
    """Parses a request."""
    messages = body.get("messages") or []
    users = [message.get("role") == "user" for message in messages]
    texts = [text_of(message.get("content")) for message, is_user in zip(messages, users, strict=True) if is_user]
    # Some agents send the prompt and their own reminders as several messages in a row.
    last = sum(1 for _ in itertools.takewhile(bool, reversed(users))) or 1
    ends_with_tool_result = bool(messages) and messages[-1].get("role") == "tool"
    functions = [tool["function"] for tool in body.get("tools") or [] if "function" in tool]
    tools = {function["name"]: function.get("parameters") or {} for function in functions}
    return ModelRequest("\n".join(texts[-last:]), ends_with_tool_result, tools)


def write(reply: Reply, body: Body, request: Request) -> Response:
    """Returns a completion, as a stream if the request asks for one."""
    usage = {
        "prompt_tokens": reply.usage.input,
        "completion_tokens": reply.usage.output,
        "total_tokens": reply.usage.input + reply.usage.output,
        "prompt_tokens_details": {"cached_tokens": reply.usage.cached},
        "completion_tokens_details": {"reasoning_tokens": reply.usage.reasoning},
    }
    head: Body = {"id": new_id("chatcmpl"), "created": int(time.time()), "model": body.get("model")}
    message = _message(reply)
    reason = "tool_calls" if reply.calls else "length" if reply.cut else "stop"
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return json_response({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
    head["object"] = "chat.completion.chunk"
    choices: list[Body] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in _deltas(message)]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    chunks = [{**head, "choices": [choice]} for choice in choices]
    return stream([*chunks, {**head, "choices": [], "usage": usage}], named=False, end="data: [DONE]\n\n")


def _message(reply: Reply) -> Body:
    message: Body = {"role": "assistant", "content": reply.text}
    if reply.thought:
        message["reasoning_content"] = reply.thought
    if reply.calls:
        functions = [{"name": call.name, "arguments": json.dumps(call.arguments)} for call in reply.calls]
        message["tool_calls"] = [{"id": new_id("call"), "type": "function", "function": each} for each in functions]
    return message


def _deltas(message: Body) -> Iterator[Body]:
    yield {"role": "assistant", "content": ""}
    if "reasoning_content" in message:
        yield {"reasoning_content": message["reasoning_content"]}
    for piece in halves(message["content"]):
        yield {"content": piece}
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        yield {"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]}
        for piece in halves(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
