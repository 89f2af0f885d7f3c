"""The OpenAI chat API, answered by rules: a stand-in for a model that costs nothing, needs no network and always
says the same.

One model, "offline", in two roles that the request tells apart. With tools it is an agent's model (planning.py: search,
read; composing.py: answer); with the judge's fenced material it is a judge (verdicts.py). It keeps nothing between
requests: as with a real model, the conversation is all it knows.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from agenteval.models.tokens import OFFLINE, count_tokens
from agenteval.streams.jsonl import encode
from agenteval.wikipedia.offline.composing import Draft, compose
from agenteval.wikipedia.offline.conversation import (
    ChatRequest,
    Choice,
    Message,
    Offer,
    Refused,
    offered,
    read_request,
    work_so_far,
)
from agenteval.wikipedia.offline.planning import Plan, Work, next_step, next_titles, other_queries
from agenteval.wikipedia.offline.serving import App, Request, Response, json_response
from agenteval.wikipedia.offline.shaping import shaped
from agenteval.wikipedia.offline.verdicts import read_case, verdict
from agenteval.wire.records import Record

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
PER_MESSAGE = 3  # tokens around each message, and before the reply, in the chat form of OpenAI's models
WHO = (
    "I am a set of rules that stands in for a model. I answer questions from pages when I am given tools to search "
    "and to read, and judge answers that are put to me between fences; I can do nothing else."
)


class Reply(NamedTuple):
    """What the model says: text, tool calls (name and arguments), or both; the final text may be an object."""

    text: str = ""
    calls: Sequence[tuple[str, Record]] = ()


def chat_model() -> App:
    """The application: POST /v1/chat/completions, GET /v1/models and GET /v1/models/offline."""
    return _respond


def _respond(request: Request) -> Response:
    path = request.path.rstrip("/")
    known = {CHAT: ("POST", _chat), MODELS: ("GET", _models), f"{MODELS}/{OFFLINE}": ("GET", _models)}
    if path.startswith(f"{MODELS}/") and path not in known:
        asked = path.removeprefix(f"{MODELS}/")
        return _error(404, f"The model '{asked}' does not exist; there is '{OFFLINE}'.", "model", "model_not_found")
    if path not in known:
        return _error(404, f"Unknown request URL: {request.method} {request.path}", code="unknown_url")
    method, answer = known[path]
    if request.method != method:
        return _error(405, f"Not allowed to {request.method} on {path}: use {method}.", code="method_not_supported")
    try:
        return answer(request)
    except Refused as refused:
        return _error(400, str(refused), refused.param)


def _error(status: int, message: str, param: str | None = None, code: str | None = None) -> Response:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return json_response({"error": error}, status)


def _models(request: Request) -> Response:
    model = {"id": OFFLINE, "object": "model", "created": 0, "owned_by": "agenteval"}
    return json_response({"object": "list", "data": [model]} if request.path.rstrip("/") == MODELS else model)


def _chat(request: Request) -> Response:
    asked = read_request(request.body)
    completion = _completion(asked, request.body)
    if not asked.stream:
        return Response(200, encode(completion))
    lines = [f"data: {encode(chunk).decode()}\n\n" for chunk in _chunks(asked, completion)]
    return Response(200, "".join([*lines, "data: [DONE]\n\n"]).encode(), "text/event-stream")


# --- what it says -------------------------------------------------------------------------------


def reply_to(asked: ChatRequest) -> Reply:
    """What the rules answer to a conversation."""
    case = read_case(_last_of_user(asked.messages))
    at_work = bool(asked.tools) or any(message.role == "tool" for message in asked.messages)
    if case and not at_work:
        return _final(verdict(case), asked, as_json=True)
    work = work_so_far(asked.messages)
    if calls := _calls(asked, work):
        return calls
    if not at_work:
        return _final({"answer": WHO, "confidence": 0.0, "sources_used": [], "reasoning": WHO}, asked, plain=WHO)
    draft = compose(work.question, work.pages)
    plain = "\n\n".join([draft.answer, *([f"Sources: {'; '.join(draft.sources)}"] if draft.sources else [])])
    return _final(answer_object(work, draft), asked, plain=plain)


def answer_object(work: Work, draft: Draft) -> Record:
    """The answer in the form that the agent asks for."""
    return {
        "answer": draft.answer,
        "confidence": draft.confidence,
        "sources_used": draft.sources,
        "reasoning": _reasoning(work, draft),
    }


def _reasoning(work: Work, draft: Draft) -> str:
    searched = " and ".join(f'"{search.query}"' for search in work.searches) or "nothing"
    read = ", ".join(page.title for page in work.pages) or "no page"
    found = f"the sentences taken from {', '.join(draft.sources)} speak of" if draft.sources else "the text speaks of"
    return f"Searched for {searched} and read {read}; {found} {draft.covered:.0%} of what is asked."


def _final(values: Record, asked: ChatRequest, *, plain: str = "", as_json: bool = False) -> Reply:
    """The values as the JSON that is asked for, or in plain words where none is."""
    form = asked.response_format
    if form and form.json_schema and form.type == "json_schema":
        return Reply(encode(_in_shape(values, form.json_schema.schema)).decode())
    wants_json = as_json or (form and form.type == "json_object") or "JSON" in _last_of_user(asked.messages)
    return Reply(encode(values).decode() if wants_json else plain)


def _in_shape(values: Record, schema: Record) -> Any:
    try:
        return shaped(values, schema)
    except (TypeError, ValueError, AttributeError, KeyError, IndexError):
        raise Refused("Invalid schema for response_format: it is no JSON Schema.", "response_format") from None


def _last_of_user(messages: Sequence[Message]) -> str:
    return next((message.text for message in reversed(messages) if message.role == "user"), "")


# --- tool calls ---------------------------------------------------------------------------------


def _calls(asked: ChatRequest, work: Work) -> Reply | None:
    """The tool calls to make now; None when it is time to answer, or no tool is offered that the rules can use."""
    if asked.tool_choice == "none":
        return None
    search, page = offered(asked.tools)
    plan = _demanded(asked, work, search, page) or next_step(work)
    calls = [(search.name, {search.parameter: query}) for query in plan.queries if search]
    calls += [(page.name, {page.parameter: title}) for title in plan.titles if page]
    if asked.parallel_tool_calls is False:
        calls = calls[:1]
    return Reply(plan.thought, calls) if calls else None


def _demanded(asked: ChatRequest, work: Work, search: Offer | None, page: Offer | None) -> Plan | None:
    """The plan where `tool_choice` leaves no other; None where the rules are free, or would call one anyway."""
    choice = asked.tool_choice
    name = choice.function.name if isinstance(choice, Choice) else None
    if name is None and choice != "required":
        return None
    if name is not None and name not in [tool.function.name for tool in asked.tools or ()]:
        raise Refused(f"Invalid value for 'tool_choice': there is no tool '{name}'.", "tool_choice")
    free = next_step(work)
    if page and name == page.name:
        return Plan(titles=(list(free.titles) or list(next_titles(work)) or [work.question])[:1])
    if search and name == search.name:
        return Plan(queries=list(free.queries) or other_queries(work)[:1] or [work.question])
    return free if free.queries or free.titles else Plan(queries=other_queries(work)[:1] or [work.question])


# --- how the API puts it ------------------------------------------------------------------------


def _completion(asked: ChatRequest, body: bytes) -> Record:
    reply = reply_to(asked)
    digest = hashlib.sha256(body).hexdigest()
    calls = [
        {
            "id": f"call_{digest[:20]}{number}",
            "type": "function",
            "function": {"name": name, "arguments": encode(given).decode()},
        }
        for number, (name, given) in enumerate(reply.calls, 1)
    ]
    message = {"role": "assistant", "content": reply.text or None, "refusal": None}
    return {
        "id": f"chatcmpl-{digest[20:49]}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": OFFLINE,
        "choices": [
            {
                "index": 0,
                "message": message | ({"tool_calls": calls} if calls else {}),
                "logprobs": None,
                "finish_reason": "tool_calls" if calls else "stop",
            }
        ],
        "usage": _usage(asked, reply),
    }


def _usage(asked: ChatRequest, reply: Reply) -> Record:
    """The tokens of a request and its reply, counted as a model of OpenAI's would."""
    sent = PER_MESSAGE + _count(encode(asked.tools).decode() if asked.tools else "")
    for message in asked.messages:
        called = "".join(call.function.name + call.function.arguments for call in message.tool_calls or ())
        sent += PER_MESSAGE + _count(message.role) + _count(message.text) + _count(called)
    got = _count(reply.text) + sum(_count(name) + _count(encode(given).decode()) for name, given in reply.calls)
    details = {"prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}}
    return {"prompt_tokens": sent, "completion_tokens": got, "total_tokens": sent + got} | details


def _count(text: str) -> int:
    return count_tokens(text, OFFLINE).tokens if text else 0


def _chunks(asked: ChatRequest, completion: Record) -> list[Record]:
    """The completion in pieces: the message, why it ends, and the usage where that is asked for."""
    (choice,) = completion["choices"]
    head = {**completion, "object": "chat.completion.chunk"}
    usage = head.pop("usage")
    delta = choice["message"] | {
        "tool_calls": [{"index": n, **call} for n, call in enumerate(choice["message"].get("tool_calls", ()))]
    }
    said = {"index": 0, "delta": delta, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    counted = (
        [{**head, "choices": [], "usage": usage}] if asked.stream_options and asked.stream_options.include_usage else []
    )
    return [{**head, "choices": [said]}, {**head, "choices": [end]}, *counted]
