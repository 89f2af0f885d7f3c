"""Limits of an HTTP request with the client of the openai package: all its time, all its bytes, no other host.

The library's own timeout starts again with each byte, so that a server which sends one now and then is never late. Its
connections are therefore read through streams that know when the request must be done. They sit at the place where the
library connects, below its pool: httpx and httpx2 have no public option for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin, urlsplit

PORTS = {"http": 80, "https": 443}


class TooLarge(Exception):
    """The server sends more than an answer may have."""


class OtherHost(Exception):
    """The server redirects to another host, which would get the request, too."""


class RequestLimits(threading.local):
    """When the request of this thread must be done, and how many bytes of an answer it may still read."""

    deadline = float("inf")
    left = 0

    @contextmanager
    def apply(self, seconds: float, size: int) -> Iterator[None]:
        """Limits the requests of this thread."""
        self.deadline, self.left = time.monotonic() + seconds, size
        try:
            yield
        finally:
            self.deadline = float("inf")

    def time_left(self, timeout: float | None) -> float | None:
        """Returns the timeout, or less if the request must be done before; raises TimeoutError if it is late."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        return timeout if left == float("inf") else left if timeout is None else min(timeout, left)

    def count(self, data: bytes) -> bytes:
        """Counts bytes that were read; raises TooLarge if they are too many."""
        if self.deadline != float("inf"):
            self.left -= len(data)
            if self.left < 0:
                raise TooLarge("an answer that is too large")
        return data


class _Limited:
    """An object of the library with some of its methods replaced."""

    def __init__(self, inner: Any, limits: RequestLimits) -> None:
        self._inner, self._limits = inner, limits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Stream(_Limited):
    """A connection."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._limits.count(self._inner.read(max_bytes, timeout=self._limits.time_left(timeout)))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout=self._limits.time_left(timeout))

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> Any:
        inner = self._inner.start_tls(ssl_context, server_hostname, timeout=self._limits.time_left(timeout))
        return _Stream(inner, self._limits)


class _Backend(_Limited):
    """What opens connections."""

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> Any:
        inner = self._inner.connect_tcp(host, port, timeout=self._limits.time_left(timeout), **options)
        return _Stream(inner, self._limits)


def limit(client: Any, limits: RequestLimits) -> None:
    """Applies the limits to a client of httpx or httpx2, and lets it follow no redirect to another host."""
    for transport in (client._transport, *client._mounts.values()):
        if transport is not None:
            transport._pool._network_backend = _Backend(transport._pool._network_backend, limits)
    client.event_hooks = {"response": [_check_response]}


def _check_response(response: Any) -> None:
    if 300 <= response.status_code < 400 and (location := response.headers.get("location")):
        check_redirect(str(response.request.url), location)
    if response.status_code >= 400 and "content-encoding" in response.headers:
        del response.headers["content-encoding"]  # it was not asked for, and may be a thousand times as large


def check_redirect(url: str, location: str) -> str:
    """Returns the address that a redirect leads to; raises OtherHost unless it is the same server, or its https."""
    target = urljoin(url, location)
    here, there = urlsplit(url), urlsplit(target)
    same = here.hostname == there.hostname and there.scheme in (here.scheme, "https")
    if not same or (here.scheme == there.scheme and _port(here) != _port(there)):
        raise OtherHost(f"redirects to {there.scheme}://{there.netloc.rpartition('@')[2]}, which is not followed")
    return target


def _port(parts: Any) -> int | None:
    return parts.port or PORTS.get(parts.scheme)
