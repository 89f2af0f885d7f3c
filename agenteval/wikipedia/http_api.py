"""Requests to a MediaWiki API over HTTP: time limit, pauses, retries, and every failure as one line.

This file alone imports requests, which comes with the wikipedia package.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from agenteval.models.http_limits import OtherHost, check_redirect
from agenteval.models.retry import LONGEST_WAIT, backoff, on_this_machine, retry_after

BUSY = frozenset({"ratelimited", "maxlag", "readonly", "cirrussearch-too-busy-error", "search-backend-error"})
LONGEST_REASON = 200  # characters
LARGEST_ANSWER = 16 << 20
CHUNK = 1 << 16
MOST_REDIRECTS = 5

Json = dict[str, Any]
Fetch = Callable[[Json], Json]
"""Sends the parameters of an API request and returns the decoded answer, or raises WikiError."""


class WikiError(Exception):
    """Why the wiki gave no answer, in one line."""


class HttpApi:
    """The API at a URL, asked by GET; `retries` are those after the first attempt."""

    def __init__(
        self,
        url: str,
        user_agent: str,
        *,
        pause: float,
        retries: int,
        timeout: float,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        import requests

        self._errors = requests.exceptions
        self._session = requests.Session()
        self._session.headers["User-Agent"] = user_agent
        self._session.trust_env = not on_this_machine(url)  # a proxy cannot reach this machine
        self._url, self._pause, self._retries, self._timeout, self._sleep = url, pause, retries, timeout, sleep
        self._last = float("-inf")

    def fetch(self, params: Json) -> Json:
        """Returns the answer to a request, retried while that may help; else raises WikiError."""
        for attempt in range(1, max(self._retries, 0) + 2):
            self._keep_pause()
            try:
                return self._request(params)
            except _Failure as failure:
                wait = backoff(attempt) if failure.wait is None else failure.wait
                if not failure.transient or wait > LONGEST_WAIT or attempt > self._retries:
                    attempts = f" (tried {attempt} times)" if attempt > 1 else ""
                    raise WikiError(f"{host(self._url)}: {failure}{attempts}") from None
                self._sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _keep_pause(self) -> None:
        wait = self._last + self._pause - time.monotonic()
        if wait > 0:
            self._sleep(wait)
        self._last = time.monotonic()

    def _request(self, params: Json) -> Json:
        try:
            with total_time(self._timeout):
                response = self._answer(params)
        except OtherHost as error:
            raise _Failure(str(error)) from None
        except (self._errors.Timeout, TimeoutError):
            raise _Failure(f"no answer within {self._timeout:g} s", transient=True) from None
        except self._errors.SSLError as error:
            raise _Failure(f"no secure connection: {_reason(error)}") from None
        except (self._errors.ConnectionError, self._errors.ChunkedEncodingError) as error:
            raise _Failure(f"cannot be reached: {_reason(error)}", transient=True) from None
        except (self._errors.RequestException, ValueError) as error:
            raise _Failure(_reason(error)) from None
        if response.status_code != 200:
            raise _status_failure(response)
        return _decoded(response)

    def _answer(self, params: Json) -> Any:
        """Returns a response with all of its body; follows redirects to the same server only."""
        response = self._session.get(
            self._url, params=params, timeout=self._timeout, stream=True, allow_redirects=False
        )
        for _ in range(MOST_REDIRECTS):
            if not response.is_redirect:
                break
            response.close()
            target = check_redirect(response.url, response.headers["location"])
            response = self._session.get(target, timeout=self._timeout, stream=True, allow_redirects=False)
        body = bytearray()
        for piece in response.iter_content(CHUNK):
            body += piece
            if len(body) > LARGEST_ANSWER:
                response.close()
                raise _Failure(f"an answer of more than {LARGEST_ANSWER >> 20} MiB")
        response._content, response._content_consumed = bytes(body), True  # as if it had been read at once
        return response


@contextmanager
def total_time(seconds: float) -> Iterator[None]:
    """Raises TimeoutError in the main thread when the time is over; the library's own limit starts with each byte."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def too_late(_signum: int, _frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Failure(Exception):
    """Why an attempt failed, whether another may succeed, and how long the server asks to wait before it."""

    def __init__(self, why: str, *, transient: bool = False, wait: float | None = None) -> None:
        super().__init__(why)
        self.transient = transient
        self.wait = wait


def _status_failure(response: Any) -> _Failure:
    status, wait = response.status_code, retry_after(response.headers)
    why = f"answered {status} {response.reason or ''}".rstrip()
    if wait is not None and wait > LONGEST_WAIT:
        why += f", and asks to wait {wait:.0f} s before the next request"
    if status == 403:
        why += ": it may require a user agent with a contact address (--user-agent)"
    if status == 404:
        why += f": is {response.url.partition('?')[0]} the address of a MediaWiki API?"
    return _Failure(why, transient=status == 429 or (status >= 500 and status != 501), wait=wait)


def _decoded(response: Any) -> Json:
    """Returns the decoded body; raises if it is not a JSON object or is a MediaWiki error sent with status 200."""
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        beginning = one_line(response.text[:60])
        raise _Failure(f"the answer is not one of a MediaWiki API: {beginning or 'nothing'}")
    if error := answer.get("error"):
        code, info = (error.get("code"), error.get("info")) if isinstance(error, dict) else (None, error)
        raise _Failure(f"refused: {short(info or code)}", transient=code in BUSY, wait=retry_after(response.headers))
    return answer


def host(url: str) -> str:
    """Returns host and port of a URL, without a password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _reason(error: BaseException) -> str:
    """Returns the message of the innermost error: each HTTP layer wraps that of the one below."""
    while isinstance(inner := getattr(error, "reason", None) or (error.args and error.args[0]), BaseException):
        error = inner
    found = re.search(r"\[Errno -?\d+\] ([^)]*)", str(error))
    return short(found[1] if found else str(error))


def short(value: object) -> str:
    """Returns the beginning of a text on one line."""
    text = one_line(str(value))
    return text if len(text) <= LONGEST_REASON else text[:LONGEST_REASON] + "…"


def one_line(text: str) -> str:
    """Returns the text with single spaces, and with ? for lone surrogates, which a model's JSON may contain."""
    return " ".join(text.encode("utf-8", "replace").decode().split())
