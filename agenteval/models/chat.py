"""Ask a model over the OpenAI chat API: retries, structured answers, and errors that say what to do.

Data flow: messages → request → client of the openai package → bytes of the reply → ModelAnswer. A request that fails
becomes a RequestProblem, which decides whether it is sent again, sent without what was refused, or reported.
"""

import os
import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from agenteval.errors import BadRecord
from agenteval.models.retry import LONGEST_WAIT, backoff, on_this_machine, retry_after
from agenteval.streams.jsonl import decode, encode
from agenteval.wire.validation import check

BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
LARGEST_REPLY = 16 << 20
LONGEST_REASON = 300  # characters of a server's explanation in a message
LONGEST_PAGE = 4000  # characters that are read of an HTML page instead of an answer
TRANSIENT = (408, 409, 425, 429)
QUOTA_EXCEEDED = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
# How a structured answer is requested; if a server refuses one form, the next is tried.
FORMS = ("json_schema", "json_object", "text")
ASK_FOR_JSON = "Answer with one JSON object and nothing else, matching this JSON Schema:"


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
    """The model could not be asked or gave no answer; the message is one line for the user."""


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
    """A request that got no answer after `attempts` attempts."""

    def __init__(self, problem: RequestProblem) -> None:
        super().__init__(problem.text)
        self.problem = problem
        self.attempts = 1


class Model:
    """One model on one server, for any number of threads.

    `timeout` limits an attempt, `patience` a question including its retries. The time of an attempt is checked whenever
    part of the reply's body arrives; a server that sends its headers byte by byte can exceed it.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        retries: int = 4,
        patience: float | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.name, self.timeout, self.retries, self.sleep = name, timeout, retries, sleep
        self.patience = float("inf") if patience is None else patience
        self.base_url = (base_url or os.environ.get(URL_VARIABLE) or BASE_URL).strip()
        self._place = _without_password(self.base_url)
        self._local = on_this_machine(self.base_url)
        self._key = (api_key or os.environ.get(KEY_VARIABLE) or "").strip()
        if not self._key and not self._local:
            raise ModelError(f"no API key for {self._place}: set {KEY_VARIABLE}")
        if not (self._key.isascii() and self._key.isprintable()):
            raise ModelError(f"the API key contains characters that keys cannot have: check {KEY_VARIABLE}")
        self._lock = threading.Lock()
        self._client: Any = None
        self._form = 0
        self._takes_temperature = True

    def ask(
        self,
        messages: list[dict[str, Any]],
        *,
        tools: list[dict[str, Any]] | None = None,
        temperature: float | None = None,
        schema: dict[str, Any] | None = None,
        schema_name: str = "answer",
    ) -> ModelAnswer:
        """Returns the model's answer; a form or temperature that the server refused once is not sent again."""
        self._open()  # before the clock starts, because the first call takes a second
        deadline = time.monotonic() + self.patience
        while True:
            form = FORMS[self._form] if schema else None
            request: dict[str, Any] = {"model": self.name, "messages": messages}
            if tools:
                request["tools"] = tools
            if temperature is not None and self._takes_temperature:
                request["temperature"] = temperature
            if form and schema:
                request |= structured_request(form, messages, schema, schema_name)
            try:
                return self._ask_until(request, deadline)
            except FailedRequest as failed:
                if not self._can_omit(failed.problem, request, form):
                    raise ModelError(self._explain(failed.problem, failed.attempts)) from None

    def close(self) -> None:
        """Closes the connections; the next question opens new ones."""
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None

    def _open(self) -> Any:
        """Returns the client of the openai package, the same one for all threads."""
        import openai

        with self._lock:
            if self._client is None:
                # A proxy cannot reach this machine, and a plain connection needs no certificates.
                plain = self._local and self.base_url.startswith("http:")
                try:
                    self._client = openai.OpenAI(
                        base_url=self.base_url,
                        api_key=self._key or "none",
                        max_retries=0,  # its own retries ignore the deadline and repeat requests that exceed a quota
                        http_client=openai.DefaultHttpxClient(
                            trust_env=not plain, verify=not plain, event_hooks={"response": [check_response]}
                        ),
                    )
                except Exception as error:
                    raise ModelError(f"{self._place}: {error}") from None
            return self._client

    def _ask_until(self, request: dict[str, Any], deadline: float) -> ModelAnswer:
        attempts = 0
        while True:
            attempts += 1
            try:
                left = max(0.001, deadline - time.monotonic())
                return read_reply(self._send(request, min(self.timeout, left)))
            except FailedRequest as failed:
                failed.attempts = attempts
                pause = pause_before_retry(failed.problem, attempts)
                if pause is None or attempts > self.retries or time.monotonic() + pause >= deadline:
                    raise
            self.sleep(pause)

    def _send(self, request: dict[str, Any], timeout: float) -> bytes:
        """Returns the body of the reply; raises FailedRequest if the request is refused or the reply is late."""
        create = self._open().chat.completions.with_streaming_response.create
        deadline = time.monotonic() + timeout
        try:
            with create(**request, timeout=timeout) as reply:
                return read_body(reply.iter_bytes(), deadline)
        except Exception as error:  # the HTTP library's errors depend on the version of openai
            problem = request_problem(error)
            if problem.status is None and problem.transient and time.monotonic() >= deadline:
                problem = RequestProblem(f"no answer within {timeout:.3g} s", transient=True)
            raise FailedRequest(problem) from None

    def _can_omit(self, problem: RequestProblem, request: dict[str, Any], form: str | None) -> bool:
        """Whether the request was refused for something that can be omitted; later requests omit it."""
        if "temperature" in request and problem.refuses("temperature"):
            self._takes_temperature = False
            return True
        if form in FORMS[:-1] and problem.refuses("response_format", "json_schema", "json_object", "structured output"):
            self._form = max(self._form, FORMS.index(form) + 1)
            return True
        return False

    def _explain(self, problem: RequestProblem, attempts: int) -> str:
        """Returns one line: where, what happened, and what to check."""
        reason = " ".join(problem.text.split())
        reason = (reason.replace(self._key, "…") if self._key else reason)[:LONGEST_REASON]
        after = f" (tried {attempts} times)" if attempts > 1 else ""
        after += f"; it asks for a wait of {problem.wait:.0f} s" if problem.wait else ""
        if problem.status is None:
            return f"{self._place}: {reason}{after}" + ("" if problem.transient else f"; is {URL_VARIABLE} right?")
        if problem.status == 401:
            key = "refuses the API key: check" if self._key else "requires an API key: set"
            return f"{self._place} {key} {KEY_VARIABLE}"
        if problem.status == 404:
            return f"no model {self.name!r} at {self._place}: {reason or 'not found'}"
        if problem.code in QUOTA_EXCEEDED:
            return f"the account at {self._place} has no quota left: {reason}"
        return f"{self._place} answered {problem.status}{f': {reason}' if reason else ''}{after}"


def _without_password(url: str) -> str:
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
    raise ModelError(f"{url!r} is not the URL of a server, such as {BASE_URL}: check {URL_VARIABLE}")


# --- requests and replies -------------------------------------------------------------------------


def structured_request(form: str, messages: list[dict[str, Any]], schema: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns the fields of a request that ask for a structured answer; some forms put the schema into the prompt."""
    if form == "json_schema":
        wanted = {"name": name, "schema": schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": wanted}}
    instruction = f"{ASK_FOR_JSON}\n{encode(schema).decode()}"
    if messages and messages[0]["role"] == "system":
        instruction = f"{messages[0]['content']}\n\n{instruction}"
        messages = messages[1:]
    request: dict[str, Any] = {"messages": [{"role": "system", "content": instruction}, *messages]}
    return request | ({"response_format": {"type": "json_object"}} if form == "json_object" else {})


def read_body(pieces: Iterable[bytes], deadline: float) -> bytes:
    """Returns the whole body; raises if it is too large or late."""
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > LARGEST_REPLY:
            raise FailedRequest(RequestProblem(f"an answer of more than {LARGEST_REPLY >> 20} MiB"))
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(body)


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


class _Tokens(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: dict[str, Any] | None = None


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
            raise FailedRequest(status_problem(code if isinstance(code, int) else 400, {}, body))
        completion = check(reply, _Completion)
    except BadRecord as invalid:
        shown = " ".join(body[:80].decode("utf-8", "replace").split())
        raise FailedRequest(RequestProblem(f"its answer is not a chat completion: {invalid}: {shown}")) from None
    if not completion.choices:
        raise FailedRequest(RequestProblem("its answer has no choices"))
    message = completion.choices[0].message
    if message.refusal and not message.content:
        raise ModelError(f"the model refused to answer: {' '.join(message.refusal.split())[:LONGEST_REASON]}")
    if isinstance(message.content, list):  # some servers answer in parts
        message.content = "".join(str(part.get("text") or "") for part in message.content)
    calls = []
    for number, call in enumerate(message.tool_calls or [], 1):
        given = call.function.arguments
        text = given if isinstance(given, str) else encode(given).decode()
        calls.append(FunctionCall(call.id or f"call_{number}", call.function.name, text))
    usage, tokens = None, completion.usage
    if tokens is not None and tokens.prompt_tokens is not None:
        cached = (tokens.prompt_tokens_details or {}).get("cached_tokens")
        cached = cached if isinstance(cached, int) else 0
        usage = TokenUsage(tokens.prompt_tokens, tokens.completion_tokens or 0, cached)
    finish = completion.choices[0].finish_reason or ""
    return ModelAnswer(message.content or "", calls, usage, completion.model or "", finish)


# --- failures -------------------------------------------------------------------------------------


def check_response(response: Any) -> None:
    """Raises FailedRequest for an error, and for a redirect to another host, which would receive the question.

    The client itself would read the body of an error without limits.
    """
    here = response.request.url
    if response.status_code >= 400:
        deadline = time.monotonic() + response.request.extensions["timeout"]["read"]
        body = read_body(response.iter_bytes(), deadline)
        raise FailedRequest(status_problem(response.status_code, response.headers, body))
    if response.status_code >= 300 and "location" in response.headers:
        there = here.join(response.headers["location"])
        secured = here.host == there.host and (here.scheme, there.scheme) == ("http", "https")
        if not secured and (here.scheme, here.host, here.port) != (there.scheme, there.host, there.port):
            place = f"{there.scheme}://{there.netloc.decode()}"
            why = f"redirects to {place}, which is not followed: use that URL if you trust it"
            raise FailedRequest(RequestProblem(why))


def status_problem(status: int, headers: Mapping[str, str], body: bytes) -> RequestProblem:
    """Returns the problem behind a reply that reports an error."""
    try:
        reply = decode(body)
    except BadRecord:
        reply = body.decode("utf-8", "replace")
    error = reply.get("error", reply) if isinstance(reply, dict) else reply
    fields = error if isinstance(error, dict) else {"message": error}
    message, code = str(fields.get("message") or ""), str(fields.get("code") or fields.get("type") or "")
    if message.lstrip().startswith("<"):  # an HTML page
        message = re.sub(r"(?s)<(script|style).*?</\1>|<[^<>]*>", " ", message[:LONGEST_PAGE])
    transient = (status in TRANSIENT or status >= 500) and status != 501
    transient = {"true": True, "false": False}.get(headers.get("x-should-retry", ""), transient)
    transient = transient and code not in QUOTA_EXCEEDED
    return RequestProblem(message, status, code, str(fields.get("param") or ""), transient, _requested_wait(headers))


def _requested_wait(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds that the server asks for, in OpenAI's own header or the standard one."""
    try:
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    except (KeyError, ValueError):
        return retry_after(headers)


def pause_before_retry(problem: RequestProblem, attempts: int) -> float | None:
    """Returns the seconds to wait before the next attempt; None if a retry is useless or would take too long."""
    if not problem.transient or (problem.wait or 0.0) > LONGEST_WAIT:
        return None
    if problem.wait is not None:
        return problem.wait * (1 + random.random() / 10)  # jitter, so that threads do not retry all at once
    return backoff(attempts)


def request_problem(error: BaseException) -> RequestProblem:
    """Returns why a request raised an error, from its innermost cause; a closed port is not retried."""
    causes = [error]
    while (deeper := causes[-1].__cause__ or causes[-1].__context__) is not None and deeper not in causes:
        causes.append(deeper)
    if failed := next((cause for cause in causes if isinstance(cause, FailedRequest)), None):
        return failed.problem
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
