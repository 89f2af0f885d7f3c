"""The loopback server: what an app sees, what a client gets, and that nothing is left behind."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.support.http_server import Request, Response, json_response, serving
from tests.support.watching import until


def echo(request: Request) -> Response:
    return json_response(request._asdict() | {"body": request.body.decode()})


@contextmanager
def connected(url: str) -> Iterator[http.client.HTTPConnection]:
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)) as connection:
        yield connection


def ask(connection: http.client.HTTPConnection, method: str, path: str, *args: Any) -> tuple[int, bytes]:
    connection.request(method, path, *args)
    response = connection.getresponse()
    return response.status, response.read()


def test_an_app_sees_the_request() -> None:
    with serving(echo) as url, connected(url) as connection:
        status, body = ask(connection, "POST", "/a%20b?x=1&y=&x=%C3%A9", "hello", {"X-Some": "Thing"})
    seen = json.loads(body)
    assert (status, seen["method"], seen["path"], seen["body"]) == (200, "POST", "/a%20b", "hello")
    assert seen["query"] == {"x": "é", "y": ""}
    assert seen["headers"]["x-some"] == "Thing"


def test_a_response_is_sent_as_it_is() -> None:
    with (
        serving(lambda request: Response(418, b"\xff\x00", "image/x", {"X-Own": "1"})) as url,
        connected(url) as connection,
    ):
        connection.request("GET", "/")
        response = connection.getresponse()
        assert (response.status, response.read()) == (418, b"\xff\x00")
        assert (response.headers["Content-Type"], response.headers["X-Own"]) == ("image/x", "1")


def test_a_connection_is_kept_and_quick() -> None:
    with serving(echo) as url, connected(url) as connection:
        ask(connection, "GET", "/")
        first = connection.sock
        moments = [time.perf_counter()]
        for _ in range(50):
            assert ask(connection, "POST", "/", "x" * 10_000)[0] == 200
            moments.append(time.perf_counter())
        assert connection.sock is first
        taken = [later - earlier for earlier, later in zip(moments, moments[1:], strict=False)]
        assert min(taken) < 0.03, "40 ms each would be an acknowledgement waited for"


def test_head_has_no_body() -> None:
    with serving(echo) as url, connected(url) as connection:
        assert ask(connection, "HEAD", "/") == (200, b"")
        assert ask(connection, "GET", "/")[0] == 200


def test_an_app_that_breaks_is_a_500_that_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    def broken(request: Request) -> Response:
        raise ValueError("no such thing")

    with serving(broken) as url, connected(url) as connection:
        for _ in range(2):
            status, body = ask(connection, "GET", "/")
            assert (status, json.loads(body)) == (500, {"error": {"message": "ValueError: no such thing"}})
    assert capfd.readouterr() == ("", ""), "stdout and stderr belong to the tool"


@pytest.mark.parametrize(
    "header", [{"Content-Length": "-1"}, {"Content-Length": "x"}, {"Transfer-Encoding": "chunked"}]
)
def test_a_body_without_a_length_is_refused(header: dict[str, str]) -> None:
    with serving(echo) as url, connected(url) as connection:
        assert ask(connection, "POST", "/", None, header)[0] == 411
        assert ask(connection, "GET", "/")[0] == 200


def test_garbage_and_clients_that_leave_harm_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(echo) as url:
        host, port = url.removeprefix("http://").split(":")
        for sent in (b"", b"\x00\xff\n\n", b"GET", b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nabc"):
            with socket.create_connection((host, int(port))) as client:
                client.sendall(sent)
        with connected(url) as connection:
            assert ask(connection, "GET", "/")[0] == 200
    assert capfd.readouterr() == ("", "")


def test_requests_are_answered_side_by_side() -> None:
    both = threading.Barrier(2, timeout=10)

    def meet(request: Request) -> Response:
        both.wait()
        return json_response({})

    def client() -> None:
        with connected(url) as connection:
            statuses.append(ask(connection, "GET", "/")[0])

    statuses: list[int] = []
    with serving(meet) as url:
        threads = [threading.Thread(target=client) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == [200, 200]


def test_the_end_waits_for_nobody_and_leaves_nothing() -> None:
    before = threading.active_count()
    with serving(echo) as url, connected(url) as connection:
        ask(connection, "GET", "/")
        address = url.removeprefix("http://").split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address[0], int(address[1])), timeout=5)
    until(lambda: threading.active_count() == before, "no thread is left")


def test_a_client_that_waits_is_cut_off_at_the_end() -> None:
    with serving(echo) as url:
        host, port = url.removeprefix("http://").split(":")
        client = socket.create_connection((host, int(port)), timeout=5)
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(10_000).startswith(b"HTTP/1.1 200")
    with client:
        assert client.recv(1) == b""
