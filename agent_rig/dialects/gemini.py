"""Gemini generateContent and streamGenerateContent."""

from __future__ import annotations

from agent_rig.conversation import Asked, Body, Reply, new_id
from agent_rig.dialects.events import stream
from agenteval.wikipedia.offline.serving import Request, Response, json_response


def read(body: Body) -> Asked:
    """What the request asks."""
    contents = body.get("contents") or [{}]
    parts = contents[-1].get("parts") or []
    answered = any("functionResponse" in part for part in parts)
    functions = [function for tool in body.get("tools") or [] for function in tool.get("functionDeclarations") or []]
    tools = {each["name"]: each.get("parametersJsonSchema") or each.get("parameters") or {} for each in functions}
    config = body.get("generationConfig") or {}
    form = config.get("responseJsonSchema") or config.get("responseSchema")
    return Asked("\n".join(part.get("text") or "" for part in parts), answered, tools, form)


def write(reply: Reply, body: Body, request: Request) -> Response:
    """A candidate: all its parts at once, or a chunk for each."""
    usage = reply.usage
    response = {
        "responseId": new_id("gemini"),
        "modelVersion": request.path.rpartition("/")[2].partition(":")[0],
        "usageMetadata": {
            "promptTokenCount": usage.input,
            "cachedContentTokenCount": usage.cached,
            "candidatesTokenCount": usage.output - usage.reasoning,
            "thoughtsTokenCount": usage.reasoning,
            "totalTokenCount": usage.input + usage.output,
        },
    }
    parts = _parts(reply)
    if not request.path.endswith(":streamGenerateContent"):
        return json_response({**response, "candidates": [_candidate(parts, last=True)]})
    chunks = [{**response, "candidates": [_candidate([part], last=part is parts[-1])]} for part in parts]
    return stream(chunks, named=False) if request.query.get("alt") == "sse" else json_response(chunks)


def refuse(status: int, message: str) -> Response:
    """An error."""
    return json_response({"error": {"code": status, "message": message, "status": "INTERNAL"}}, status)


def _parts(reply: Reply) -> list[Body]:
    parts: list[Body] = [{"text": reply.text}]
    if reply.thought:
        parts.insert(0, {"text": reply.thought, "thought": True})
    if reply.call:
        call = {"name": reply.call.name, "args": reply.call.arguments}
        parts.append({"functionCall": call, "thoughtSignature": "c2lnbmVk"})
    return parts


def _candidate(parts: list[Body], last: bool) -> Body:
    candidate: Body = {"index": 0, "content": {"role": "model", "parts": parts}}
    return {**candidate, "finishReason": "STOP"} if last else candidate
