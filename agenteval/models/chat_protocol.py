"""The OpenAI chat API as data: how a structured answer is asked for, what a reply says, what a refusal means."""

from __future__ import annotations

import random
import re
from typing import Any, NamedTuple

import msgspec

from agenteval.errors import BadRecord
from agenteval.models.retry import LONGEST_WAIT, backoff, retry_after
from agenteval.streams.jsonl import decode, encode
from agenteval.wire.validation import check

TRANSIENT = (408, 409, 425, 429)
OUT_OF_MONEY = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
FORMS = ("json_schema", "json_object", "text")  # how a structured answer is asked for: the next where one is refused
ASK_FOR_JSON = "Answer with one JSON object and nothing else, in the form of this JSON Schema:"


class TokenUsage(NamedTuple):
    """Tokens of one request; the cached ones are among the input."""

    input: int
    output: int
    cached: int = 0


class FunctionCall(NamedTuple):
    """A tool call; the arguments are the model's own text, which may be broken JSON."""

    id: str
    name: str
    arguments: str


class ModelAnswer(NamedTuple):
    """What the model said; `model` is what the server says it used, "" when it does not say."""

    text: str
    calls: list[FunctionCall]
    usage: TokenUsage | None
    model: str
    finish: str


class ModelError(Exception):
    """The model cannot be asked, or gave no answer: one line for a person."""


# --- requests and replies --------------------------------------------------------------------------


def in_form(form: str, messages: list[dict[str, Any]], schema: dict[str, Any], name: str) -> dict[str, Any]:
    """The part of a request that asks for a structured answer; else the prompt holds the schema."""
    if form == "json_schema":
        return {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": name, "schema": schema, "strict": True},
            }
        }
    order = f"{ASK_FOR_JSON}\n{encode(schema).decode()}"
    first = messages[0] if messages else {}
    if first.get("role") == "system":
        told = [{**first, "content": f"{first['content']}\n\n{order}"}, *messages[1:]]
    else:
        told = [{"role": "system", "content": order}, *messages]
    return {"messages": told} | ({"response_format": {"type": "json_object"}} if form == "json_object" else {})


class _Function(msgspec.Struct):
    name: str
    arguments: Any = "{}"


class _ToolCall(msgspec.Struct):
    function: _Function
    id: str | None = None


class _Message(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_ToolCall] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Cached(msgspec.Struct):
    cached_tokens: int | None = None


class _Tokens(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Cached | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    model: str | None = None
    usage: _Tokens | None = None


def read_reply(body: bytes) -> ModelAnswer:
    """The answer in a reply; FailedRequest when it is none, or tells of an error under a status of 200."""
    try:
        reply = decode(body)
        told = reply.get("error") if isinstance(reply, dict) else None
        if isinstance(told, dict):
            status = told.get("code")
            raise FailedRequest(
                _refused(status if isinstance(status, int) else 400, told, str(told.get("message") or ""))
            )
        completion = check(reply, _Completion)
    except BadRecord as error:
        shown = " ".join(body[:80].decode("utf-8", "replace").split())
        raise FailedRequest(RequestProblem(f"its answer is no chat completion: {error}: {shown}")) from None
    if not completion.choices:
        raise FailedRequest(RequestProblem("its answer has no choices"))
    choice = completion.choices[0]
    if choice.message.refusal and not choice.message.content:
        raise ModelError(f"the model refused to answer: {' '.join(choice.message.refusal.split())[:300]}")
    return ModelAnswer(
        _text(choice.message.content),
        [_call(number, call) for number, call in enumerate(choice.message.tool_calls or [], 1)],
        _usage(completion.usage),
        completion.model or "",
        choice.finish_reason or "",
    )


def _text(content: str | list[dict[str, Any]] | None) -> str:
    """Some servers answer in parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content)
    return content or ""


def _call(number: int, call: _ToolCall) -> FunctionCall:
    arguments = call.function.arguments
    return FunctionCall(
        call.id or f"call_{number}",
        call.function.name,
        arguments if isinstance(arguments, str) else encode(arguments).decode(),
    )


def _usage(tokens: _Tokens | None) -> TokenUsage | None:
    if tokens is None or tokens.prompt_tokens is None:
        return None
    details = tokens.prompt_tokens_details
    return TokenUsage(tokens.prompt_tokens, tokens.completion_tokens or 0, (details and details.cached_tokens) or 0)


# --- what goes wrong -------------------------------------------------------------------------------


class RequestProblem(NamedTuple):
    """Why there is no answer: the server's refusal, or (without a status) what became of the connection."""

    text: str
    status: int | None = None
    code: str = ""
    param: str = ""
    passing: bool = False  # worth another try
    wait: float | None = None  # seconds that the server asks for

    def refuses(self, *parts: str) -> bool:
        """Whether the request was turned down because of one of these."""
        said = f"{self.param} {self.text}".lower()
        return self.status in (400, 422, 501) and any(part in said for part in parts)


class FailedRequest(Exception):
    def __init__(self, trouble: RequestProblem) -> None:
        super().__init__(trouble.text)
        self.trouble = trouble
        self.tries = 1


def pause_before_retry(trouble: RequestProblem, tries: int) -> float | None:
    """Seconds to wait before trying again after so many tries; None when that is of no use."""
    if not trouble.passing or (trouble.wait or 0.0) > LONGEST_WAIT:
        return None
    if trouble.wait is not None:
        return trouble.wait * (1 + random.random() / 10)  # not all threads at the same moment
    return backoff(tries)


def refusal(error: Any) -> RequestProblem:
    """The trouble that an openai.APIStatusError tells of."""
    body = error.body if isinstance(error.body, dict) else {}
    said = body.get("message") or (error.body if isinstance(error.body, str) else "") or error.message
    headers = error.response.headers
    obeyed = {"true": True, "false": False}.get(headers.get("x-should-retry", ""))
    trouble = _refused(error.status_code, body, str(said), wait=_seconds(headers))
    return trouble if obeyed is None or trouble.code in OUT_OF_MONEY else trouble._replace(passing=obeyed)


def _refused(status: int, body: dict[str, Any], said: str, wait: float | None = None) -> RequestProblem:
    code = str(body.get("code") or body.get("type") or "")
    passing = (status in TRANSIENT or status >= 500) and status != 501 and code not in OUT_OF_MONEY
    plain = re.sub(r"(?s)<(script|style).*?</\1>|<[^>]*>", " ", said) if said.lstrip().startswith("<") else said
    return RequestProblem(plain, status, code, str(body.get("param") or ""), passing, wait)


def _seconds(headers: Any) -> float | None:
    """The time that the server asks for, in OpenAI's own header or in everybody's."""
    try:
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    except (KeyError, ValueError):
        return retry_after(headers)


def broken_line(error: BaseException) -> RequestProblem:
    """What became of the connection, from the innermost cause; a closed port is not worth another try."""
    import socket
    import ssl

    causes = [error]
    while (deeper := causes[-1].__cause__ or causes[-1].__context__) is not None and deeper not in causes:
        causes.append(deeper)
    system = next((cause for cause in causes if isinstance(cause, OSError)), None)
    if isinstance(system, TimeoutError) or "timeout" in type(error).__name__.lower():
        return RequestProblem("no answer in time", passing=True)
    if isinstance(system, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return RequestProblem(f"the connection broke: {system.strerror}", passing=True)
    if system is not None:
        lasting = isinstance(system, ConnectionRefusedError | ssl.SSLError)
        lasting = lasting or (isinstance(system, socket.gaierror) and system.errno != socket.EAI_AGAIN)
        return RequestProblem(f"cannot be reached: {system.strerror or system}", passing=not lasting)
    if not type(error).__module__.startswith(("openai", "httpx", "httpcore")):
        return RequestProblem(f"the request cannot be sent: {type(error).__name__}: {error}")
    return RequestProblem(f"the connection broke: {str(causes[-1]) or type(error).__name__}", passing=True)
