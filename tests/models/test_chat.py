"""models/chat.py with the real openai client against real servers on loopback, most of them broken."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

import pytest

from agenteval.models import retry as retrying
from agenteval.models.chat import (
    FunctionCall,
    Model,
    ModelAnswer,
    ModelError,
    RequestProblem,
    TokenUsage,
    pause_before_retry,
)
from tests.support.http_server import Response, json_response
from tests.support.model_server import Body, Reply, answering, completion, raw_server, refusal
from tests.support.tool import ROOT, run
from tests.support.watching import PATIENCE

HELLO = [{"role": "user", "content": "hello"}]
SCHEMA = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"], "additionalProperties": False}
KEY = "sk-very-secret-0123456789"


opened: list[Model] = []


def model(name: str, **options: Any) -> Model:
    """A model that is closed at the end of the test."""
    opened.append(Model(name, **options))
    return opened[-1]


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(retrying, "FIRST_PAUSE", 0.01)
    yield
    while opened:
        opened.pop().close()


def failure(*replies: Reply, **options: Any) -> tuple[str, int]:
    """What the ModelError says, and after how many requests."""
    with answering(*replies) as server, pytest.raises(ModelError) as caught:
        model("m", base_url=server.url, **options).ask(HELLO)
    text = str(caught.value)
    assert "\n" not in text and KEY not in text
    return text.replace(server.url, "URL"), len(server.requests)


# --- answers ------------------------------------------------------------------------------------


def test_plain_answer() -> None:
    with answering(completion("hi", model="m-1")) as server:
        answer = model("m", base_url=server.url, api_key=KEY).ask(HELLO, temperature=0.3)
    assert answer == ModelAnswer("hi", [], TokenUsage(10, 5, 0), "m-1", "stop")
    assert server.bodies == [{"model": "m", "messages": HELLO, "temperature": 0.3}]
    (request,) = server.requests
    assert (request.path, request.headers["authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")


def test_tool_calls_as_the_model_wrote_them() -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q": broken'}},
        {"type": "function", "function": {"name": "look", "arguments": {"q": 1}}},
    ]
    with answering(completion(None, tool_calls=calls, finish="tool_calls")) as server:
        answer = model("m", base_url=server.url).ask(HELLO, tools=tools)
    assert answer.calls == [FunctionCall("c1", "look", '{"q": broken'), FunctionCall("call_2", "look", '{"q":1}')]
    assert (answer.text, answer.finish) == ("", "tool_calls")
    assert server.bodies[0]["tools"] == tools


@pytest.mark.parametrize(
    "content, text", [("a", "a"), (None, ""), ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab")]
)
def test_content_in_all_its_forms(content: Any, text: str) -> None:
    with answering(completion(content)) as server:
        assert model("m", base_url=server.url).ask(HELLO).text == text


@pytest.mark.parametrize(
    "usage, reported",
    [
        (None, None),
        ({"prompt_tokens": None}, None),
        ({"prompt_tokens": 7}, TokenUsage(7, 0)),
        ({"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": None}, TokenUsage(7, 2)),
        (
            {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
            TokenUsage(7, 2, 4),
        ),
    ],
)
def test_usage_as_far_as_the_server_reports_it(usage: Any, reported: TokenUsage | None) -> None:
    reply = json_response({"choices": [{"message": {"content": "x"}}], "usage": usage})
    with answering(reply) as server:
        answer = model("m", base_url=server.url).ask(HELLO)
    assert (answer.usage, answer.model, answer.finish) == (reported, "", "")


# --- structured answers -------------------------------------------------------------------------


def knows(*forms: str) -> Callable[[Body], Response]:
    """A server that takes only these forms of a structured answer."""

    def reply(body: Body) -> Response:
        form = body.get("response_format", {}).get("type", "text")
        if form not in forms:
            return refusal(400, f"'response_format' of type '{form}' is not supported with this model")
        return completion(form)

    return reply


def test_schema_goes_to_the_api_where_it_takes_one() -> None:
    with answering(knows("json_schema")) as server:
        model("m", base_url=server.url).ask(HELLO, schema=SCHEMA, schema_name="thing")
    wanted = {"type": "json_schema", "json_schema": {"name": "thing", "schema": SCHEMA, "strict": True}}
    assert server.bodies[0]["response_format"] == wanted
    assert server.bodies[0]["messages"] == HELLO


@pytest.mark.parametrize("form, requests", [("json_object", 2), ("text", 3)])
def test_form_that_is_refused_is_not_asked_for_again(form: str, requests: int) -> None:
    with answering(knows(form)) as server:
        asked = model("m", base_url=server.url)
        assert asked.ask(HELLO, schema=SCHEMA).text == form
        assert len(server.requests) == requests
        assert asked.ask([{"role": "system", "content": "Be brief."}, *HELLO], schema=SCHEMA).text == form
        assert len(server.requests) == requests + 1, "the refusal is remembered"
    sent = server.bodies[requests]["messages"]
    assert [message["role"] for message in sent] == ["system", "user"]
    assert sent[0]["content"].startswith("Be brief.\n\n") and "JSON" in sent[0]["content"], "JSON mode wants the word"
    assert '"required":["x"]' in sent[0]["content"]
    assert server.bodies[requests - 1]["messages"][0]["role"] == "system", "made where there was none"


def test_question_without_a_schema_asks_for_no_form() -> None:
    with answering(knows("text")) as server:
        assert model("m", base_url=server.url).ask(HELLO).text == "text"
    assert server.bodies == [{"model": "m", "messages": HELLO}]


def test_refused_temperature_is_left_out_and_stays_out() -> None:
    def reply(body: Body) -> Response:
        if "temperature" in body:
            return refusal(400, "Unsupported value", code="unsupported_value", param="temperature")
        return completion()

    with answering(reply) as server:
        asked = model("o3", base_url=server.url)
        for _ in range(2):
            asked.ask(HELLO, temperature=0.1, schema=SCHEMA)
    assert ["temperature" in body for body in server.bodies] == [True, False, False]
    assert all("response_format" in body for body in server.bodies)


def test_other_refusals_are_final() -> None:
    text, requests = failure(refusal(400, "maximum context length is 8192 tokens", code="context_length_exceeded"))
    assert (text, requests) == ("URL answered 400: maximum context length is 8192 tokens", 1)


# --- retries ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_passing_trouble_is_tried_again(status: int) -> None:
    with answering(refusal(status), refusal(status), completion("at last")) as server:
        assert model("m", base_url=server.url).ask(HELLO).text == "at last"
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 501])
def test_lasting_trouble_is_not(status: int) -> None:
    assert failure(refusal(status))[1] == 1


def test_retries_end() -> None:
    text, requests = failure(refusal(503, "overloaded"), retries=2)
    assert (text, requests) == ("URL answered 503: overloaded (tried 3 times)", 3)


def test_empty_account_is_not_tried_again() -> None:
    text, requests = failure(refusal(429, "You exceeded your current quota", code="insufficient_quota"))
    assert requests == 1
    assert text == "the account at URL has no quota left: You exceeded your current quota"


@pytest.mark.parametrize(
    "headers, least, most",
    [
        ({"Retry-After": "7"}, 7, 7.7),
        ({"retry-after-ms": "7000"}, 7, 7.7),
        ({"Retry-After": 3600}, None, None),  # a date so many seconds from now
        ({"Retry-After": -3600}, 0, 0),
    ],
)
def test_retry_after_is_honoured(headers: dict[str, str | int], least: float | None, most: float | None) -> None:
    waits: list[float] = []
    sent = {
        name: formatdate(time.time() + value, usegmt=True) if isinstance(value, int) else value
        for name, value in headers.items()
    }
    with answering(refusal(429, headers=sent), completion()) as server:
        asked = model("m", base_url=server.url, sleep=waits.append)
        if least is None or most is None:
            with pytest.raises(ModelError, match="it asks for a wait of 3[0-9]{3} s"):
                asked.ask(HELLO)
            return
        asked.ask(HELLO)
    assert len(waits) == 1 and least <= waits[0] <= most


def test_server_that_wants_us_to_wait_for_an_hour() -> None:
    text, requests = failure(refusal(429, "slow down", headers={"Retry-After": "3600"}))
    assert requests == 1 and "429: slow down" in text and "3600 s" in text


def test_server_may_say_whether_to_try_again() -> None:
    assert failure(refusal(503, headers={"x-should-retry": "false"}))[1] == 1
    assert failure(refusal(400, headers={"x-should-retry": "true"}), retries=1)[1] == 2


def test_hanging_server_is_given_up_and_asked_again() -> None:
    over = threading.Event()

    def hang(_body: Body) -> Response:
        over.wait(PATIENCE)
        return completion()

    text, _ = failure(hang, timeout=0.2, retries=1)
    over.set()
    assert text == "URL: no answer within 0.2 s (tried 2 times)"


def test_patience_limits_all_tries_together() -> None:
    waits: list[float] = []
    busy = refusal(503, headers={"Retry-After": "50"})
    text, requests = failure(busy, patience=40.0, retries=100, sleep=waits.append)
    assert (requests, waits) == (1, []) and "503" in text, "the next try would come too late"


def trickle(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"1\r\n \r\n")
        time.sleep(0.05)


def cut_off(connection: socket.socket) -> None:
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{"choices"')


def fall_silent(connection: socket.socket) -> None:
    cut_off(connection)
    while connection.recv(1 << 16):  # until the client closes the connection
        pass


def not_http(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")


def hang_up(_connection: socket.socket) -> None:
    """Closes at once."""


@pytest.mark.parametrize("talk", [trickle, fall_silent])  # some servers send blanks while they compute
def test_answers_that_never_end(talk: Callable[[socket.socket], None]) -> None:
    with raw_server(talk) as url, pytest.raises(ModelError) as caught:
        model("m", base_url=url, timeout=0.3, retries=1).ask(HELLO)
    assert str(caught.value) == f"{url}: no answer within 0.3 s (tried 2 times)"


@pytest.mark.parametrize("talk", [cut_off, not_http, hang_up])
def test_broken_connections(talk: Callable[[socket.socket], None]) -> None:
    with raw_server(talk) as url, pytest.raises(ModelError) as caught:
        model("m", base_url=url, timeout=PATIENCE, retries=1).ask(HELLO)
    assert str(caught.value).startswith(f"{url}: the connection broke: ")
    assert str(caught.value).endswith("(tried 2 times)")


@pytest.mark.parametrize(
    "trouble, tries, least, most",
    [
        (RequestProblem("", transient=True), 1, 0.375, 0.5),
        (RequestProblem("", transient=True), 3, 1.5, 2.0),
        (RequestProblem("", transient=True), 50, 6.0, 8.0),
        (RequestProblem("", transient=True, wait=7), 1, 7.0, 7.7),
        (RequestProblem("", transient=True, wait=0), 9, 0.0, 0.0),
    ],
)
def test_pauses_grow_and_differ(
    trouble: RequestProblem, tries: int, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "FIRST_PAUSE", 0.5)
    pauses = [pause_before_retry(trouble, tries) for _ in range(50)]
    assert all(pause is not None and least <= pause <= most for pause in pauses)
    assert len(set(pauses)) > 1 or most == 0


def test_no_pause_where_another_try_is_of_no_use() -> None:
    assert pause_before_retry(RequestProblem("no"), 1) is None
    assert pause_before_retry(RequestProblem("no", transient=True, wait=61), 1) is None


# --- errors a person can act on -----------------------------------------------------------------


def test_missing_key_names_the_variable() -> None:
    with pytest.raises(ModelError, match="^no API key for https://api.openai.com/v1: set OPENAI_API_KEY$"):
        model("m")
    with pytest.raises(ModelError, match="set OPENAI_API_KEY"):
        model("m", base_url="https://example.org/v1", api_key="  ")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "[::1]"])
def test_loopback_needs_no_key(host: str) -> None:
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        model("m", base_url="http://example.org:1/v1")
    model("m", base_url=f"http://{host}:1/v1")  # does not raise


def test_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(completion()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
        model("m").ask(HELLO)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_proxy_does_not_stand_between_us_and_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with answering(completion("hi")) as server:
        assert model("m", base_url=server.url).ask(HELLO).text == "hi"


@pytest.mark.parametrize("url", ["example.org/v1", "ftp://x/", "http://", "http://[::1", "http://x:99999/v1"])
def test_address_that_is_none(url: str) -> None:
    with pytest.raises(ModelError, match="is not the URL of a server.*OPENAI_BASE_URL"):
        model("m", base_url=url, api_key=KEY)


@pytest.mark.parametrize("key", ["sk-\u2026", "sk-a\nb"])
def test_key_that_is_none_is_not_shown(key: str) -> None:
    with pytest.raises(ModelError) as caught:
        model("m", api_key=key)
    assert key not in str(caught.value) and "OPENAI_API_KEY" in str(caught.value)


@pytest.mark.parametrize(
    "reply, key, part",
    [
        (refusal(401, f"Incorrect API key provided: {KEY}"), KEY, "URL refuses the API key: check OPENAI_API_KEY"),
        (refusal(401), None, "URL requires an API key: set OPENAI_API_KEY"),
        (refusal(403, f"key {KEY} may not"), KEY, "URL answered 403: key … may not"),
        (refusal(404, "The model `m` does not exist"), None, "no model 'm' at URL: The model `m` does not exist"),
        (refusal(400, "two\n lines"), None, "URL answered 400: two lines"),
        (Response(502, b"<html><style>p{}</style><h1>Bad Gateway</h1></html>", "text/html"), None, "502: Bad Gateway"),
        (Response(404, b"", "text/plain"), None, "no model 'm' at URL"),
        (Response(200, b"<html>Welcome</html>", "text/html"), None, "not a chat completion: not JSON"),
        (Response(200, b'{"choices": [', "application/json"), None, "not a chat completion: not JSON"),
        (Response(200, b"", "application/json"), None, "not a chat completion"),
        (json_response({"hello": 1}), None, 'not a chat completion: "choices" is missing'),
        (json_response([]), None, "not a chat completion"),
        (json_response({"choices": []}), None, "has no choices"),
        (json_response({"choices": [{"message": {"content": 5}}]}), None, "not a chat completion"),
        (json_response({"error": {"message": "provider down", "code": 502}}), None, "answered 502: provider down"),
        (completion(None, refusal="I cannot help with that"), None, "refused to answer: I cannot help with that"),
    ],
)
def test_error_is_one_line_that_helps(reply: Reply, key: str | None, part: str) -> None:
    text, _ = failure(reply, api_key=key, retries=1)
    assert part in text


def test_closed_port_is_reported_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://user:{KEY}@127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(ModelError) as caught:
        model("m", base_url=url).ask(HELLO)
    shown = url.replace(f"user:{KEY}@", "")
    assert str(caught.value) == f"{shown}: cannot be reached: Connection refused; is OPENAI_BASE_URL right?"


# --- threads and imports ------------------------------------------------------------------------


def test_many_threads_ask_one_model_at_a_time_of_their_own() -> None:
    everyone = threading.Barrier(8)

    def reply(body: Body) -> Response:
        everyone.wait(PATIENCE)
        return completion(body["messages"][0]["content"])

    answers: dict[str, str] = {}
    with answering(reply) as server:
        asked = model("m", base_url=server.url)

        def ask(text: str) -> None:
            answers[text] = asked.ask([{"role": "user", "content": text}]).text

        threads = [threading.Thread(target=ask, args=(str(number),)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {str(number): str(number) for number in range(8)}


def test_openai_is_imported_when_a_question_is_asked() -> None:
    """It takes more than a second: a wrong key or address, and a verdict from the cache, must not cost that."""
    code = "import sys; from agenteval.models.chat import Model\n"
    code += "Model('m', base_url='http://127.0.0.1:1'); assert 'openai' not in sys.modules"
    run(sys.executable, "-c", code, cwd=ROOT).expect(0, stderr="")


# --- large answers, other hosts --------------------------------------------------------------------


def without_end(status: bytes) -> Callable[[socket.socket], None]:
    def talk(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65536)

    return talk


@pytest.mark.parametrize("status", [b"200 OK", b"400 Bad"])
def test_an_answer_has_a_largest_size(status: bytes) -> None:
    with raw_server(without_end(status)) as url, pytest.raises(ModelError, match="an answer of more than 16 MiB"):
        model("m", base_url=url, retries=0, timeout=PATIENCE).ask(HELLO)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_host_is_not_followed(status: int) -> None:
    with answering(completion()) as other:
        place = other.url.replace("127.0.0.1", "localhost") + "/chat/completions"
        text, asked = failure(Response(status, b"", headers={"Location": place}), api_key=KEY, retries=0)
    assert "redirects to http://localhost:" in text and "not followed" in text and asked == 1
    assert other.requests == [], "neither the key nor what is judged gets there"


def test_a_redirect_on_the_same_server_is_followed() -> None:
    moved = Response(308, b"", headers={"Location": "/v2/chat/completions"})
    with answering(moved, completion("hi")) as server:
        assert model("m", base_url=server.url, api_key=KEY).ask(HELLO).text == "hi"
    assert [request.path for request in server.requests] == ["/v1/chat/completions", "/v2/chat/completions"]
