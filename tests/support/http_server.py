"""A function from request to response, served over HTTP on a loopback port for as long as a `with` block lasts."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

LOOPBACK = "127.0.0.1"
STOPS_WITHIN = 0.02  # seconds between two looks at whether the server is to stop


class Request(NamedTuple):
    """What came in; the path is as it was sent, a name given twice in the query counts as it was last."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """By their names in lower case."""
    body: bytes


class Response(NamedTuple):
    """What goes out; its length is added."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}


App = Callable[[Request], Response]


def free_port() -> int:
    """Returns a port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response that holds the value as JSON."""
    return Response(status, json.dumps(value).encode(), headers=headers or {})


@contextmanager
def serving(app: App) -> Iterator[str]:
    """The address ("http://127.0.0.1:PORT") under which the app answers, each connection in a thread of its own.

    An exception of the app is a 500 that says what it was. At the end open connections are cut, nobody is waited for.
    """
    with _Server(app) as server:
        thread = Thread(target=server.serve_forever, args=(STOPS_WITHIN,), name="serving", daemon=True)
        thread.start()
        try:
            yield f"http://{LOOPBACK}:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.cut_connections()
            thread.join()


class _Server(ThreadingMixIn, TCPServer):
    """A TCP server and not an HTTPServer, which would ask the resolver for the name of this machine."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, app: App) -> None:
        self.app = app
        self._open: set[socket.socket] = set()
        super().__init__((LOOPBACK, 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that has gone in the middle is no news, and an app's own errors are answered with 500."""

    def cut_connections(self) -> None:
        """End the connections that clients keep open, so that the threads behind them end too."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # gone meanwhile
                pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave in one packet
    server: _Server

    def do_GET(self) -> None:
        self._send(self._answer())

    do_HEAD = do_POST = do_GET

    def _answer(self) -> Response:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            close = {"Connection": "close"}  # there is no telling where the next request begins
            return _error(411, "send a Content-Length", close)
        body = self.rfile.read(int(length))
        address = urlsplit(self.path)
        query = dict(parse_qsl(address.query, keep_blank_values=True))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            return self.server.app(Request(self.command, address.path, query, headers, body))
        except Exception as error:
            return _error(500, f"{type(error).__name__}: {error}")

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: stderr belongs to the tool."""


def _error(status: int, why: str, headers: Mapping[str, str] | None = None) -> Response:
    return json_response({"error": {"message": why}}, status, headers)
