"""Ask a model over the OpenAI chat API: retries, structured answers, and errors that say what to do."""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from agenteval.errors import UserError
from agenteval.models.chat_protocol import (
    FORMS,
    OUT_OF_MONEY,
    FailedRequest,
    FunctionCall,
    ModelAnswer,
    ModelError,
    RequestProblem,
    TokenUsage,
    broken_line,
    in_form,
    pause_before_retry,
    read_reply,
    refusal,
)
from agenteval.models.retry import on_this_machine

__all__ = ["FunctionCall", "Model", "ModelAnswer", "ModelError", "TokenUsage", "needs_openai"]

BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
LARGEST_REPLY = 16 << 20


def needs_openai(extra: str = "judge") -> None:
    """Nothing, when openai is installed; else a UserError that says how to get it."""
    if importlib.util.find_spec("openai") is None:
        raise UserError(f"needs the openai package: pip install 'agenteval[{extra}]'")


class Model:
    """One model on one server, for any number of threads; `patience` limits a question with all its retries."""

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
            raise ModelError(f"the API key has characters that no key has: check {KEY_VARIABLE}")
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
        """The model's answer; what this server has refused once (a form, a temperature) is not asked of it again."""
        self._open()  # before the clock starts: it takes a second, once
        deadline = time.monotonic() + self.patience
        while True:
            form = FORMS[self._form] if schema else None
            request: dict[str, Any] = {"model": self.name, "messages": messages}
            if tools:
                request["tools"] = tools
            if temperature is not None and self._takes_temperature:
                request["temperature"] = temperature
            if form and schema:
                request |= in_form(form, messages, schema, schema_name)
            try:
                return self._ask_until(request, deadline)
            except FailedRequest as failed:
                if not self._does_without(failed.trouble, request, form):
                    raise ModelError(self._explain(failed.trouble, failed.tries)) from None

    def close(self) -> None:
        """Give the connections back; it may be asked again all the same."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _does_without(self, trouble: RequestProblem, request: dict[str, Any], form: str | None) -> bool:
        """Whether the request was refused for something that can be left out; it is remembered."""
        if "temperature" in request and trouble.refuses("temperature"):
            self._takes_temperature = False
            return True
        if form in FORMS[:-1] and trouble.refuses("response_format", "json_schema", "json_object", "structured output"):
            self._form = max(self._form, FORMS.index(form) + 1)
            return True
        return False

    def _ask_until(self, request: dict[str, Any], deadline: float) -> ModelAnswer:
        tries = 0
        while True:
            tries += 1
            try:
                left = max(0.001, deadline - time.monotonic())
                return read_reply(self._send(request, min(self.timeout, left)))
            except FailedRequest as failed:
                pause = pause_before_retry(failed.trouble, tries)
                if pause is None or tries > self.retries or time.monotonic() + pause >= deadline:
                    failed.tries = tries
                    raise
            time.sleep(pause)

    def _send(self, request: dict[str, Any], timeout: float) -> bytes:
        """The body of the reply; FailedRequest when there is none within the time."""
        import openai

        create = self._open().chat.completions.with_streaming_response.create
        slow = FailedRequest(RequestProblem(f"no answer within {timeout:.3g} s", passing=True))
        late = time.monotonic() + timeout
        body = bytearray()
        try:
            with create(**request, timeout=timeout) as reply:
                # Piece by piece: the library's time-out starts anew with each, and some servers send blanks meanwhile.
                for piece in reply.iter_bytes():
                    body += piece
                    if time.monotonic() > late:
                        raise slow
                    if len(body) > LARGEST_REPLY:
                        raise FailedRequest(RequestProblem(f"an answer of more than {LARGEST_REPLY >> 20} MiB"))
        except openai.APIStatusError as error:
            raise FailedRequest(refusal(error)) from None
        except openai.APITimeoutError:
            raise slow from None
        except FailedRequest:
            raise
        except Exception as error:  # of the HTTP library, whose name depends on the version of openai
            raise FailedRequest(broken_line(error)) from None
        return bytes(body)

    def _open(self) -> Any:
        with self._lock:
            if self._client is None:
                import openai

                # A proxy does not know our loopback, and a plain connection needs no certificates (100 ms to load).
                plain = self._local and self.base_url.startswith("http:")
                try:
                    self._client = openai.OpenAI(
                        base_url=self.base_url,
                        api_key=self._key or "none",
                        max_retries=0,  # its own retries would try an empty account again, and know no deadline
                        http_client=openai.DefaultHttpxClient(trust_env=False, verify=False) if plain else None,
                    )
                except Exception as error:
                    raise ModelError(f"{self._place}: {error}") from None
            return self._client

    def _explain(self, trouble: RequestProblem, tries: int) -> str:
        said = " ".join(trouble.text.split())
        said = (said.replace(self._key, "…") if self._key else said)[:300]
        after = f" (tried {tries} times)" if tries > 1 else ""
        after += f"; it asks us to wait {trouble.wait:.0f} s" if trouble.wait else ""
        if trouble.status is None:
            return f"{self._place}: {said}{after}" + ("" if trouble.passing else f"; is {URL_VARIABLE} right?")
        if trouble.status == 401:
            wants = "refuses the API key: check" if self._key else "wants an API key: set"
            return f"{self._place} {wants} {KEY_VARIABLE}"
        if trouble.status == 404:
            return f"no model {self.name!r} at {self._place}: {said or 'not found'}"
        if trouble.code in OUT_OF_MONEY:
            return f"the account at {self._place} has nothing left: {said}"
        return f"{self._place} answered {trouble.status}{f': {said}' if said else ''}{after}"


def _without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
    except ValueError:
        pass
    raise ModelError(f"{url!r} is no address of a server, such as {BASE_URL}: check {URL_VARIABLE}")
