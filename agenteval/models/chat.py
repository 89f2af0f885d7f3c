"""Ask a model over the OpenAI chat API: retries, structured answers, and errors that say what to do."""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from agenteval.errors import MissingExtra
from agenteval.models.chat_protocol import (
    FORMS,
    QUOTA_EXCEEDED,
    FailedRequest,
    FunctionCall,
    ModelAnswer,
    ModelError,
    RequestProblem,
    TokenUsage,
    connection_problem,
    has_cause,
    pause_before_retry,
    read_reply,
    status_problem,
    structured_request,
)
from agenteval.models.http_limits import RequestLimits, TooLarge, limit
from agenteval.models.retry import on_this_machine

__all__ = ["FunctionCall", "Model", "ModelAnswer", "ModelError", "TokenUsage", "needs_openai"]

BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
LARGEST_REPLY = 16 << 20


def needs_openai(extra: str = "judge") -> None:
    """Raises a UserError if the openai package is missing."""
    if importlib.util.find_spec("openai") is None:
        raise MissingExtra("needs the openai package", extra)


class Model:
    """One model on one server, for any number of threads; `patience` limits a question including its retries."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        retries: int = 4,
        patience: float | None = None,
    ) -> None:
        self.name, self.timeout, self.retries = name, timeout, retries
        self.patience = float("inf") if patience is None else patience
        self.base_url = (base_url or os.environ.get(URL_VARIABLE) or BASE_URL).strip()
        self._place = _without_password(self.base_url)
        self._local = on_this_machine(self.base_url)
        self._key = (api_key or os.environ.get(KEY_VARIABLE) or "").strip()
        if not self._key and not self._local:
            raise ModelError(f"no API key for {self._place}: set {KEY_VARIABLE}")
        if not (self._key.isascii() and self._key.isprintable()):
            raise ModelError(f"the API key contains characters that no key has: check {KEY_VARIABLE}")
        self._lock = threading.Lock()
        self._limits = RequestLimits()
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
        """Returns the model's answer; what the server refused once (a form, a temperature) is not sent again."""
        self._open()  # before the clock starts: the first time, it takes a second
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
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _can_omit(self, problem: RequestProblem, request: dict[str, Any], form: str | None) -> bool:
        """Whether the request was refused for something that can be omitted; from now on it is."""
        if "temperature" in request and problem.refuses("temperature"):
            self._takes_temperature = False
            return True
        if form in FORMS[:-1] and problem.refuses("response_format", "json_schema", "json_object", "structured output"):
            self._form = max(self._form, FORMS.index(form) + 1)
            return True
        return False

    def _ask_until(self, request: dict[str, Any], deadline: float) -> ModelAnswer:
        attempts = 0
        while True:
            attempts += 1
            try:
                left = max(0.001, deadline - time.monotonic())
                return read_reply(self._send(request, min(self.timeout, left)))
            except FailedRequest as failed:
                pause = pause_before_retry(failed.problem, attempts)
                if pause is None or attempts > self.retries or time.monotonic() + pause >= deadline:
                    failed.attempts = attempts
                    raise
            time.sleep(pause)

    def _send(self, request: dict[str, Any], timeout: float) -> bytes:
        """Returns the body of the reply; raises FailedRequest if it does not arrive in time."""
        import openai

        create = self._open().chat.completions.with_streaming_response.create
        slow = FailedRequest(RequestProblem(f"no answer within {timeout:.3g} s", transient=True))
        too_large = FailedRequest(RequestProblem(f"an answer of more than {LARGEST_REPLY >> 20} MiB"))
        late = time.monotonic() + timeout
        body = bytearray()
        try:
            with self._limits.apply(timeout, LARGEST_REPLY), create(**request, timeout=timeout) as reply:
                for piece in reply.iter_bytes():  # decompressed, and so it may be more than was read
                    body += piece
                    if len(body) > LARGEST_REPLY:
                        raise too_large
        except openai.APIStatusError as error:
            raise FailedRequest(status_problem(error)) from None
        except FailedRequest:
            raise
        except Exception as error:  # of the HTTP library, which depends on the version of openai
            if has_cause(error, TooLarge):
                raise too_large from None
            if isinstance(error, openai.APITimeoutError) or time.monotonic() >= late:
                raise slow from None
            raise FailedRequest(connection_problem(error)) from None
        return bytes(body)

    def _open(self) -> Any:
        with self._lock:
            if self._client is None:
                import openai

                # A proxy cannot reach this machine, and a plain connection needs no certificates (100 ms to load).
                plain = self._local and self.base_url.startswith("http:")
                try:
                    http = openai.DefaultHttpxClient(trust_env=not plain, verify=not plain)
                    limit(http, self._limits)
                    self._client = openai.OpenAI(
                        base_url=self.base_url,
                        api_key=self._key or "none",
                        max_retries=0,  # its own retries ignore the deadline and repeat requests that exceed a quota
                        http_client=http,
                        default_headers={"Accept-Encoding": "identity"},
                    )
                except Exception as error:
                    raise ModelError(f"{self._place}: {error}") from None
            return self._client

    def _explain(self, problem: RequestProblem, attempts: int) -> str:
        """Returns one line: where, what happened, and what to check."""
        reason = " ".join(problem.text.split())
        reason = (reason.replace(self._key, "…") if self._key else reason)[:300]
        after = f" (tried {attempts} times)" if attempts > 1 else ""
        after += f"; it asks us to wait {problem.wait:.0f} s" if problem.wait else ""
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
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
    except ValueError:
        pass
    raise ModelError(f"{url!r} is not the address of a server, such as {BASE_URL}: check {URL_VARIABLE}")
