"""The OpenAI chat API as data: requests for structured answers, replies, and why a request failed."""

from __future__ import annotations

import random
import re
from typing import Any, NamedTuple

import msgspec

from agenteval.errors import BadRecord
from agenteval.models.http_limits import OtherHost
from agenteval.models.retry import LONGEST_WAIT, backoff, retry_after
from agenteval.streams.jsonl import decode, encode
from agenteval.wire.validation import check

LONGEST_PAGE = 4000  # characters that are read of an HTML page instead of an answer
TRANSIENT = (408, 409, 425, 429)
QUOTA_EXCEEDED = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
# How a structured answer is requested; if a server refuses one way, the next is tried.
FORMS = ("json_schema", "json_object", "text")
ASK_FOR_JSON = "Answer with one JSON object and nothing else, in the form of this JSON Schema:"


class TokenUsage(NamedTuple):
    """Tokens of one request; the input includes the cached ones."""

    input: int
    output: int
    cached: int = 0


class FunctionCall(NamedTuple):
    """A tool call; the arguments are text as the model wrote it, which may be invalid JSON."""

    id: str
    name: str
    arguments: str


class ModelAnswer(NamedTuple):
    """A model's answer; `model` is the one that the server reports, "" if it reports none."""

    text: str
    calls: list[FunctionCall]
    usage: TokenUsage | None
    model: str
    finish: str


class ModelError(Exception):
    """The model cannot be asked, or gave no answer; the message is one line for the user."""


# --- requests and replies --------------------------------------------------------------------------


def structured_request(form: str, messages: list[dict[str, Any]], schema: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns the fields of a request that ask for a structured answer; the prompt has the schema if they cannot."""
    if form == "json_schema":
        return {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": name, "schema": schema, "strict": True},
            }
        }
    instruction = f"{ASK_FOR_JSON}\n{encode(schema).decode()}"
    first = messages[0] if messages else {}
    if first.get("role") == "system":
        messages = [{**first, "content": f"{first['content']}\n\n{instruction}"}, *messages[1:]]
    else:
        messages = [{"role": "system", "content": instruction}, *messages]
    return {"messages": messages} | ({"response_format": {"type": "json_object"}} if form == "json_object" else {})


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
    """Parses a reply; raises FailedRequest if it is not a completion, or is an error sent with status 200."""
    try:
        reply = decode(body)
        error = reply.get("error") if isinstance(reply, dict) else None
        if isinstance(error, dict):
            code = error.get("code")
            status = code if isinstance(code, int) else 400
            raise FailedRequest(_problem(status, error, str(error.get("message") or "")))
        completion = check(reply, _Completion)
    except BadRecord as invalid:
        shown = " ".join(body[:80].decode("utf-8", "replace").split())
        raise FailedRequest(RequestProblem(f"its answer is not a chat completion: {invalid}: {shown}")) from None
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
    """Joins the parts in which some servers answer."""
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


# --- failures --------------------------------------------------------------------------------------


class RequestProblem(NamedTuple):
    """Why a request failed: refused by the server, or (without a status) a failure of the connection."""

    text: str
    status: int | None = None
    code: str = ""
    param: str = ""
    transient: bool = False  # whether a retry may succeed
    wait: float | None = None  # seconds that the server asks for

    def refuses(self, *parts: str) -> bool:
        """Whether the request was refused because of one of these parts."""
        text = f"{self.param} {self.text}".lower()
        return self.status in (400, 422, 501) and any(part in text for part in parts)


class FailedRequest(Exception):
    """A request without an answer, after so many attempts."""

    def __init__(self, problem: RequestProblem) -> None:
        super().__init__(problem.text)
        self.problem = problem
        self.attempts = 1


def pause_before_retry(problem: RequestProblem, attempts: int) -> float | None:
    """Returns the seconds to wait before the next attempt; None if a retry is useless or would take too long."""
    if not problem.transient or (problem.wait or 0.0) > LONGEST_WAIT:
        return None
    if problem.wait is not None:
        return problem.wait * (1 + random.random() / 10)  # jitter: not all threads at the same moment
    return backoff(attempts)


def status_problem(error: Any) -> RequestProblem:
    """Returns the problem behind an openai.APIStatusError."""
    body = error.body if isinstance(error.body, dict) else {}
    message = body.get("message") or (error.body if isinstance(error.body, str) else "") or error.message
    headers = error.response.headers
    should_retry = {"true": True, "false": False}.get(headers.get("x-should-retry", ""))
    problem = _problem(error.status_code, body, str(message), wait=_requested_wait(headers))
    if should_retry is None or problem.code in QUOTA_EXCEEDED:
        return problem
    return problem._replace(transient=should_retry)


def _problem(status: int, body: dict[str, Any], message: str, wait: float | None = None) -> RequestProblem:
    code = str(body.get("code") or body.get("type") or "")
    transient = (status in TRANSIENT or status >= 500) and status != 501 and code not in QUOTA_EXCEEDED
    if message.lstrip().startswith("<"):  # an HTML page
        message = re.sub(r"(?s)<(script|style).*?</\1>|<[^<>]*>", " ", message[:LONGEST_PAGE])
    return RequestProblem(message, status, code, str(body.get("param") or ""), transient, wait)


def _requested_wait(headers: Any) -> float | None:
    """Returns the seconds that the server asks for, in OpenAI's own header or the standard one."""
    try:
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    except (KeyError, ValueError):
        return retry_after(headers)


def has_cause(error: BaseException, kind: type[BaseException]) -> bool:
    """Returns whether an error, or one that led to it, is of that kind."""
    return any(isinstance(cause, kind) for cause in _causes(error))


def _causes(error: BaseException) -> list[BaseException]:
    causes = [error]
    while (deeper := causes[-1].__cause__ or causes[-1].__context__) is not None and deeper not in causes:
        causes.append(deeper)
    return causes


def connection_problem(error: BaseException) -> RequestProblem:
    """Returns what happened to the connection, from the innermost cause; a closed port is not retried."""
    import socket
    import ssl

    causes = _causes(error)
    if foreign := next((cause for cause in causes if isinstance(cause, OtherHost)), None):
        return RequestProblem(f"{foreign}: use its address if you trust it")
    system = next((cause for cause in causes if isinstance(cause, OSError)), None)
    if isinstance(system, TimeoutError) or "timeout" in type(error).__name__.lower():
        return RequestProblem("no answer in time", transient=True)
    if isinstance(system, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return RequestProblem(f"the connection broke: {system.strerror}", transient=True)
    if system is not None:
        lasting = isinstance(system, ConnectionRefusedError | ssl.SSLError)
        lasting = lasting or (isinstance(system, socket.gaierror) and system.errno != socket.EAI_AGAIN)
        return RequestProblem(f"cannot be reached: {system.strerror or system}", transient=not lasting)
    if not type(error).__module__.startswith(("openai", "httpx", "httpcore")):
        return RequestProblem(f"the request cannot be sent: {type(error).__name__}: {error}")
    return RequestProblem(f"the connection broke: {str(causes[-1]) or type(error).__name__}", transient=True)
