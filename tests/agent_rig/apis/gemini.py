"""Gemini generateContent and streamGenerateContent."""

from __future__ import annotations

from tests.agent_rig.apis.server_sent_events import stream
from tests.agent_rig.conversation import Body, ModelRequest, Reply, new_id
from tests.support.http_server import Request, Response, json_response


def read(body: Body) -> ModelRequest:
    """Parses a request."""
    contents = body.get("contents") or [{}]
    parts = contents[-1].get("parts") or []
    ends_with_tool_result = any("functionResponse" in part for part in parts)
    functions = [function for tool in body.get("tools") or [] for function in tool.get("functionDeclarations") or []]
    tools = {each["name"]: each.get("parametersJsonSchema") or each.get("parameters") or {} for each in functions}
    config = body.get("generationConfig") or {}
    answer_schema = config.get("responseJsonSchema") or config.get("responseSchema")
    return ModelRequest(
        "\n".join(part.get("text") or "" for part in parts), ends_with_tool_result, tools, answer_schema
    )


def write(reply: Reply, body: Body, request: Request) -> Response:
    """Returns a candidate with all its parts, or a chunk for each part."""
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
    parts, ending = _parts(reply), "MAX_TOKENS" if reply.cut else "STOP"
    if not request.path.endswith(":streamGenerateContent"):
        return json_response({**response, "candidates": [_candidate(parts, ending)]})
    endings = [*[None] * (len(parts) - 1), ending]
    chunks = [{**response, "candidates": [_candidate([part], end)]} for part, end in zip(parts, endings, strict=True)]
    return stream(chunks, named=False) if request.query.get("alt") == "sse" else json_response(chunks)


def refuse(status: int, message: str) -> Response:
    """Returns an error."""
    return json_response({"error": {"code": status, "message": message, "status": "INTERNAL"}}, status)


def _parts(reply: Reply) -> list[Body]:
    parts: list[Body] = [{"text": reply.text}]
    if reply.thought:
        parts.insert(0, {"text": reply.thought, "thought": True})
    for call in reply.calls:
        function = {"name": call.name, "args": call.arguments}
        parts.append({"functionCall": function, "thoughtSignature": "c2lnbmVk"})
    return parts


def _candidate(parts: list[Body], ending: str | None) -> Body:
    candidate: Body = {"index": 0, "content": {"role": "model", "parts": parts}}
    return {**candidate, "finishReason": ending} if ending else candidate
