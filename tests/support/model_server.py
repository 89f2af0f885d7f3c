"""Servers of the chat API for tests: they send the replies a test gives them, and record the requests.

with answering(completion("hello")) as server:
    Model("m", base_url=server.url).ask([{"role": "user", "content": "x"}])
assert server.bodies[0]["model"] == "m"
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.http_server import Request, Response, json_response, serving

Body = dict[str, Any]
Reply = Response | Callable[[Body], Response]


class Server:
    """Sends the replies in turn and repeats the last; a reply may be a function of the request's body."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = replies
        self.requests: list[Request] = []
        self.times: list[float] = []
        self.busiest = 0
        self.url = ""
        self._busy = 0
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Response:
        with self._lock:
            reply = self.replies[min(len(self.requests), len(self.replies) - 1)]
            self.requests.append(request)
            self.times.append(time.monotonic())
            self._busy += 1
            self.busiest = max(self.busiest, self._busy)
        try:
            return reply if isinstance(reply, Response) else reply(json.loads(request.body))
        finally:
            with self._lock:
                self._busy -= 1

    @property
    def bodies(self) -> list[Body]:
        """Returns the JSON body of every request."""
        return [json.loads(request.body) for request in self.requests]


@contextmanager
def answering(*replies: Reply) -> Iterator[Server]:
    """Starts such a server; its address is in `url`."""
    server = Server(*replies)
    with serving(server) as url:
        server.url = f"{url}/v1"
        yield server


def completion(
    content: Any = "hello", *, model: str | None = "m", usage: Any = (10, 5), finish: str = "stop", **message: Any
) -> Response:
    """Returns a completion with one choice."""
    tokens = {"prompt_tokens": usage[0], "completion_tokens": usage[1]} if usage else None
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
    return json_response({"object": "chat.completion", "model": model, "choices": [choice], "usage": tokens})


def refusal(status: int, message: str = "no", headers: dict[str, str] | None = None, **more: Any) -> Response:
    """Returns an error in the API's format."""
    return json_response({"error": {"message": message, **more}}, status, headers)


@contextmanager
def raw_server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Starts a server that lets `talk` write anything, HTTP or not, to each connection; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=_talk, args=(connection, talk), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        listening.shutdown(socket.SHUT_RDWR)


def _talk(connection: socket.socket, talk: Callable[[socket.socket], None]) -> None:
    with connection:
        try:
            connection.recv(1 << 16)
            talk(connection)
        except OSError:
            pass  # the client has closed the connection
