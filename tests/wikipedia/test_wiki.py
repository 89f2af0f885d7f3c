"""The wiki client: the real package over real HTTP, against a small wiki and against servers that misbehave."""

from __future__ import annotations

import html
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from typing import Any

import pytest

from agenteval import __version__
from agenteval.errors import UserError
from agenteval.wikipedia.wiki import ENDPOINT, Ambiguous, NoPage, SearchHit, Wiki, WikiError, truncate
from tests.support.http_server import App, Request, Response, json_response, serving
from tests.support.model_server import answering, completion, raw_server
from tests.support.tool import run
from tests.support.watching import PATIENCE

PARAGRAPH = "This sentence is one of many that are alike. " * 20
TEXTS = {
    "Apple": "A fruit. It is <sweet> & round.\n\n\n== Use ==\nEat it.",
    "Tree": "A plant with a trunk. An apple grows on it.",
    "Long": f"{PARAGRAPH}\n\n\n== Second ==\n{PARAGRAPH}\n\n\n== Third ==\nEnd.",
}
REDIRECTS = {"Malus domestica": "Apple"}
AMBIGUOUS = {"Plant": ["Tree", "Factory"]}


def mediawiki(request: Request) -> Response:
    """The part of a MediaWiki API that the client and the package use."""
    if request.path != ENDPOINT:
        return Response(404, b"not found", "text/plain")
    asked = request.query
    if asked.get("list") == "search":
        found = [title for title, text in TEXTS.items() if asked["srsearch"].lower()[:5] in f"{title} {text}".lower()]
        hits = [{"title": title, "snippet": f"<b>{html.escape(TEXTS[title])}</b>"} for title in found]
        return json_response({"query": {"search": hits[: int(asked["srlimit"])]}})
    title = asked["titles"][:1].upper() + asked["titles"][1:].replace("_", " ")
    query: dict[str, Any] = {"normalized": [{"from": asked["titles"], "to": title}]} if title != asked["titles"] else {}
    if title in REDIRECTS:
        query["redirects"] = [{"from": title, "to": REDIRECTS[title]}]
        title = REDIRECTS[title]
    page: dict[str, Any] = {"pageid": 7, "title": title, "fullurl": f"https://wiki/{title}"}
    if title in AMBIGUOUS:
        items = "".join(f"<li><a>{option}</a></li>" for option in AMBIGUOUS[title])
        page |= {"pageprops": {"disambiguation": ""}, "revisions": [{"*": f"<ul>{items}</ul>"}]}
    elif title in TEXTS:
        page |= {"extract": TEXTS[title], "revisions": [{"revid": 1, "parentid": 0}]}
    else:
        page = {"title": title, "missing": ""}
    return json_response({"query": query | {"pages": {"7": page}}})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(mediawiki) as url:
        yield url


@pytest.fixture
def wiki(url: str) -> Wiki:
    return Wiki(api_url=url)


# --- what is there ------------------------------------------------------------------------------


def test_search_gives_titles_and_plain_snippets(wiki: Wiki) -> None:
    assert wiki.search("apples") == [
        SearchHit("Apple", "A fruit. It is <sweet> & round. == Use == Eat it."),
        SearchHit("Tree", "A plant with a trunk. An apple grows on it."),
    ]
    assert [hit.title for hit in wiki.search("apples", most=1)] == ["Apple"]
    assert wiki.search("zzz") == []


@pytest.mark.parametrize("title", ["Apple", "apple", " Apple ", "Malus_domestica", "malus domestica", "Apple#Use"])
def test_a_page_is_found_by_any_of_its_titles(wiki: Wiki, title: str) -> None:
    page = wiki.page(title)
    assert (page.title, page.truncated) == ("Apple", False)
    assert page.url == "https://wiki/Apple"
    assert page.text == "A fruit. It is <sweet> & round.\n\n\n== Use ==\nEat it."


def test_a_long_page_is_cut(url: str) -> None:
    page = Wiki(api_url=url, text_limit=1000).page("Long")
    assert page.truncated and page.text == PARAGRAPH.strip()
    whole = Wiki(api_url=url, text_limit=0).page("Long")
    assert not whole.truncated and whole.text.endswith("== Third ==\nEnd.")


def test_a_missing_page_has_suggestions(wiki: Wiki) -> None:
    with pytest.raises(NoPage, match='^there is no page "Apple trees"$') as missing:
        wiki.page("Apple trees")
    assert missing.value.titles == ["Apple", "Tree"]


@pytest.mark.parametrize("title", ["", "  ", "#Use", "a|b", "<b>", "[[Apple]]", "x" * 256, "\0"])
def test_what_can_be_no_title_is_not_asked_for(wiki: Wiki, title: str) -> None:
    with pytest.raises(NoPage, match="cannot be the title of a page"):
        wiki.page(title)


def test_half_a_sign_is_no_reason_to_break(wiki: Wiki) -> None:
    with pytest.raises(NoPage):
        wiki.page("\ud800")
    assert wiki.search("apple \ud83d", most=1)[0].title == "Apple"


def test_an_ambiguous_page_has_options(wiki: Wiki) -> None:
    with pytest.raises(Ambiguous, match='^"plant" may mean several pages$') as ambiguous:
        wiki.page("plant")
    assert ambiguous.value.titles == ["Tree", "Factory"]


def test_an_empty_query_is_refused_and_a_long_one_shortened(wiki: Wiki) -> None:
    with pytest.raises(WikiError, match="the query is empty"):
        wiki.search(" \n ")
    assert wiki.search("apple " * 200)[0].title == "Apple"
    assert wiki.search("x" * 1000) == []


# --- the settings -------------------------------------------------------------------------------


def test_where_it_asks() -> None:
    assert Wiki().api_url == "https://en.wikipedia.org/w/api.php"
    assert Wiki(language="simple").api_url == "https://simple.wikipedia.org/w/api.php"
    assert Wiki(api_url="http://127.0.0.1:1").api_url == "http://127.0.0.1:1/w/api.php"
    assert Wiki(api_url="https://wiki.example/api.php").api_url == "https://wiki.example/api.php"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"language": "EN"}, '"EN" is not a Wikipedia language'),
        ({"language": "en.evil.example/"}, "is not a Wikipedia language"),
        ({"api_url": "wiki.example"}, '"wiki.example" is not the URL of an API'),
        ({"api_url": "ftp://wiki.example"}, "is not the URL of an API"),
        ({"api_url": "http://x:99999"}, "is not the URL of an API"),
        ({"api_url": ""}, "is not the URL of an API"),
        ({"user_agent": "a\nb"}, "cannot be a user agent"),
        ({"user_agent": "é"}, "cannot be a user agent"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Wiki(**settings)


# --- servers that misbehave ---------------------------------------------------------------------

GOOD = json_response({"query": {"search": [{"title": "Apple", "snippet": "x"}]}})


class Script:
    """A server that gives these answers one after another, the last one again and again, and keeps what it was sent."""

    def __init__(self, *answers: Response | App) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Response:
        answer = self.answers[min(len(self.requests), len(self.answers) - 1)]
        self.requests.append(request)
        return answer(request) if callable(answer) else answer


@contextmanager
def scripted(*answers: Response | App, **settings: Any) -> Iterator[tuple[Wiki, Script, list[float]]]:
    """A wiki on such a server; instead of waiting it notes for how long it would have."""
    script, waits = Script(*answers), list[float]()
    with serving(script) as url:
        yield Wiki(api_url=url, sleep=waits.append, **settings), script, waits


def failed(status: int, **headers: str) -> Response:
    return Response(status, b"<h1>Busy</h1>", "text/html", headers)


def complaint(call: Callable[[], object]) -> str:
    """The message of the WikiError that the call ends in, without the server's port."""
    with pytest.raises(WikiError) as refused:
        call()
    assert "\n" not in str(refused.value)
    return re.sub(r"^127\.0\.0\.1:\d+: ", "", str(refused.value))


def test_it_says_who_it_is() -> None:
    with scripted(GOOD) as (wiki, script, _):
        wiki.search("apple")
    assert script.requests[0].headers["user-agent"] == f"agenteval/{__version__} (command-line agent evaluation)"
    assert script.requests[0].path == "/w/api.php"
    with scripted(GOOD, user_agent="mine/1 (me@example.org)") as (wiki, script, _):
        wiki.search("apple")
    assert script.requests[0].headers["user-agent"] == "mine/1 (me@example.org)"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again_later_each_time(status: int) -> None:
    with scripted(failed(status), failed(status), GOOD) as (wiki, script, waits):
        assert wiki.search("apple") == [SearchHit("Apple", "x")]
    assert len(script.requests) == 3
    assert 0.3 < waits[0] <= 0.5 < waits[1] <= 1.0


def test_retry_after_is_honoured() -> None:
    date = formatdate(time.time() + 55, usegmt=True)
    busy = [
        failed(429, **{"Retry-After": "7"}),
        failed(503, **{"Retry-After": date}),
        failed(503, **{"Retry-After": "x"}),
    ]
    with scripted(*busy, GOOD) as (wiki, _, waits):
        wiki.search("apple")
    assert waits[0] == 7
    assert 1 < waits[1] <= 55
    assert 1 < waits[2] <= 2, "nonsense is no wish"


def test_too_long_a_wait_is_not_waited() -> None:
    with scripted(failed(429, **{"Retry-After": "3600"})) as (wiki, script, waits):
        message = complaint(lambda: wiki.search("apple"))
    assert message == "answered 429 Too Many Requests, and asks for a wait of 3600 s before the next request"
    assert (len(script.requests), waits) == (1, [])


def test_it_gives_up_after_the_retries() -> None:
    with scripted(failed(503), retries=2) as (wiki, script, waits):
        assert complaint(lambda: wiki.page("Apple")) == "answered 503 Service Unavailable (tried 3 times)"
        assert complaint(lambda: wiki.search("Apple")) == "answered 503 Service Unavailable (tried 3 times)"
    assert len(waits) == 4
    with scripted(failed(500), retries=0) as (wiki, script, waits):
        assert complaint(lambda: wiki.page("Apple")) == "answered 500 Internal Server Error"
    assert waits == []


def test_a_page_of_a_busy_server_is_read_later() -> None:
    page = PAGE | {"extract": "A fruit.", "revisions": [{"revid": 1, "parentid": 0}]}
    busy = failed(503, **{"Retry-After": "3"})
    with scripted(busy, busy, json_response({"query": {"pages": {"1": page}}})) as (wiki, _, waits):
        assert wiki.page("Apple").text == "A fruit."
    assert waits == [3]


def test_a_busy_wiki_may_say_so_with_200() -> None:
    busy = json_response({"error": {"code": "ratelimited", "info": "You've exceeded your rate limit."}})
    with scripted(busy, GOOD) as (wiki, _, waits):
        assert wiki.search("apple")
    assert len(waits) == 1
    with scripted(busy, retries=0) as (wiki, _, _):
        assert complaint(lambda: wiki.search("apple")) == "refused: You've exceeded your rate limit."


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (failed(403), "answered 403 Forbidden: it may require a user agent with a contact address (--user-agent)"),
        (failed(400), "answered 400 Bad Request"),
        (failed(501), "answered 501 Not Implemented"),
        (Response(200, b""), "the answer is not from a MediaWiki API: nothing"),
        (
            Response(200, b"<!doctype\nhtml>", "text/html"),
            "the answer is not from a MediaWiki API: <!doctype html>",
        ),
        (Response(200, b"\xff\xfe\x00"), "the answer is not from a MediaWiki API: "),
        (Response(200, b"[1"), "the answer is not from a MediaWiki API: [1"),
        (json_response([1]), "the answer is not from a MediaWiki API: [1]"),
        (json_response({"error": "plain"}), "refused: plain"),
        (json_response({"error": {"code": "x", "info": "a\nb" * 200}}), "refused: a ba ba"),
    ],
)
def test_what_will_not_get_better_is_not_asked_again(answer: Response, message: str) -> None:
    with scripted(answer) as (wiki, script, waits):
        assert complaint(lambda: wiki.search("apple")).startswith(message)
        assert complaint(lambda: wiki.page("Apple")).startswith(message)
    assert waits == []


def test_a_wrong_address_is_named() -> None:
    with serving(mediawiki) as url:
        message = complaint(lambda: Wiki(api_url=url + "/api.php").search("apple"))
    assert message == f"answered 404 Not Found: is {url}/api.php the URL of a MediaWiki API?"


PAGE = {"pageid": 1, "title": "Apple", "fullurl": "u"}
NONSENSE = [
    {},
    {"query": None},
    {"query": []},
    {"query": {}},
    {"query": {"pages": {}}},
    {"query": {"pages": []}},
    {"query": {"pages": {"1": None}}},
    {"query": {"pages": {"1": PAGE}}},  # no extract
    {"query": {"pages": {"1": PAGE | {"pageprops": {}}}}},
    {"query": {"pages": {"1": PAGE}, "redirects": [{"from": "Other", "to": "X"}]}},
    {"query": {"pages": {"1": PAGE}, "redirects": [{"from": "Apple", "to": "Apple"}]}},  # in a circle
    {"query": {"pages": {"-1": {"title": "a", "invalidreason": "x", "invalid": ""}}}},
    {"query": {"pages": {"-1": {"ns": -1, "title": "Special:Random", "special": ""}}}},
    {"query": {"interwiki": [{"title": "de:Apfel", "iw": "de"}]}},
]


@pytest.mark.parametrize("answer", NONSENSE, ids=json.dumps)
def test_an_answer_without_a_page_is_a_missing_page(answer: dict[str, Any]) -> None:
    with scripted(json_response(answer)) as (wiki, _, _):
        assert complaint(lambda: wiki.search("Apple")).startswith("the answer has an unexpected form (")
        with pytest.raises(NoPage, match='there is no page "Apple"'):
            wiki.page("Apple")


def test_suggestions_that_fail_are_none() -> None:
    missing = json_response({"query": {"pages": {"-1": {"missing": ""}}}})
    with scripted(missing, failed(400)) as (wiki, _, _), pytest.raises(NoPage) as found:
        wiki.page("Apple")
    assert found.value.titles == []


def test_a_slow_server_is_not_waited_for() -> None:
    done = threading.Event()

    def slow(request: Request) -> Response:
        done.wait(PATIENCE)
        return GOOD

    with scripted(slow, timeout=0.2, retries=1) as (wiki, script, waits):
        assert complaint(lambda: wiki.search("apple")) == "no answer within 0.2 s (tried 2 times)"
        done.set()
    assert len(waits) == 1


def drip_headers(connection: socket.socket) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 10_000:
        connection.sendall(bytes([byte]))
        time.sleep(0.02)


def continue_for_ever(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


@pytest.mark.parametrize("talk", [drip_headers, continue_for_ever])
def test_a_server_that_goes_on_for_ever(talk: Callable[[socket.socket], None]) -> None:
    with raw_server(talk) as url, pytest.raises(WikiError, match="no answer within 0.3 s"):
        Wiki(api_url=f"{url}/api.php", timeout=0.3, retries=0, pause=0.0).search("x")


def test_a_server_that_is_late_once_is_asked_again() -> None:
    done = threading.Event()

    def slow(request: Request) -> Response:
        done.wait(PATIENCE)
        return GOOD

    with scripted(slow, GOOD, timeout=1.0, retries=30) as (wiki, _, _):
        assert wiki.search("apple")
        done.set()


def test_a_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    waits: list[float] = []
    message = complaint(lambda: Wiki(api_url=url, sleep=waits.append, retries=1).search("apple"))
    assert message == "cannot be reached: Connection refused (tried 2 times)"
    assert len(waits) == 1


def test_a_server_that_hangs_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            for _ in range(2):
                client, _ = server.accept()
                client.recv(10_000)
                client.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        message = complaint(lambda: Wiki(api_url=url, sleep=lambda seconds: None, retries=1).search("apple"))
        thread.join()
    assert message.startswith("cannot be reached: ") and message.endswith("(tried 2 times)")


def test_the_pause_is_kept_between_requests() -> None:
    with scripted(GOOD, pause=3000.0) as (wiki, _, waits):
        wiki.search("apple")
        assert waits == []
        wiki.search("pear")
    assert len(waits) == 1 and 2000 < waits[0] <= 3000


# --- cutting ------------------------------------------------------------------------------------

CUTS = [
    ("short", 10, "short", False),
    ("exactly10!", 10, "exactly10!", False),
    ("", 10, "", False),
    ("anything", 0, "anything", False),
    ("One two. Three four. Five six.", 22, "One two. Three four.", True),
    ('He said "no." Then he left the room.', 20, 'He said "no."', True),
    ("one two three four five", 12, "one two", True),
    ("one two three four five", 13, "one two three", True),
    ("x" * 30, 10, "x" * 10, True),
    ("A. " + "b" * 30, 12, "A. bbbbbbbbb", True),  # the sentence ends too early
    ("aaaa bbbb.\ncccc. dddd eeee", 12, "aaaa bbbb.", True),
    ("A para. It ends here.\nThe next. It is longer than the rest.", 24, "A para. It ends here.", True),
    ("Text here.\n\n\n== Next ==\nmore of it", 24, "Text here.", True),  # no heading over nothing
    ("Text.\n\n\n== See also ==\n\n\n== References ==", 100, "Text.", False),
    ("== Only ==", 100, "", False),
    ("== A ==\n\n\n" * 50 + "text", 1000, "== A ==\n\n\n" * 50 + "text", False),
    ("一。二。三。四。五。六。", 9, "一。二。三。四。", True),
]


@pytest.mark.parametrize(("text", "limit", "kept", "truncated"), CUTS)
def test_truncate(text: str, limit: int, kept: str, truncated: bool) -> None:
    assert truncate(text, limit) == (kept, truncated)
    assert limit == 0 or len(truncate(text, limit)[0]) <= limit


# --- the agent over HTTP ------------------------------------------------------------------------


def test_the_agent_with_a_model_and_a_wiki_over_http(url: str) -> None:
    def call(name: str, **arguments: str) -> Response:
        function = {"name": name, "arguments": json.dumps(arguments)}
        return completion(None, tool_calls=[{"id": name, "type": "function", "function": function}])

    final = {"answer": "A fruit.", "confidence": 0.9, "sources_used": ["Apple"], "reasoning": "The page says so."}
    search, pages = (
        call("wikipedia_search", query="apples"),
        [call("wikipedia_get_page", title=t) for t in ("No", "plant")],
    )
    page = call("wikipedia_get_page", title="Malus domestica")
    with answering(search, *pages, page, completion(json.dumps(final))) as server:
        env = {"OPENAI_BASE_URL": server.url}
        done = run("ae-wikiagent", "-p", "What is an apple?", "--api-url", url, env=env).expect(0, stderr="")
    found, missing, ambiguous, read = (event["output"] for event in done.records if event["type"] == "tool_result")
    assert [hit["title"] for hit in found["results"]] == ["Apple", "Tree"]
    assert missing["error"] == 'there is no page "No"' and ambiguous["options"] == ["Tree", "Factory"]
    assert read["title"] == "Apple" and read["text"].startswith("A fruit.")
    assert done.records[-1]["result"] == final
    assert done.records[-1]["usage"] == {"input_tokens": 50, "output_tokens": 25, "cached_tokens": 0}


# --- the real one -------------------------------------------------------------------------------


@pytest.mark.network
def test_the_real_wikipedia() -> None:
    wiki = Wiki(pause=0.5, text_limit=2000)
    assert "Loss aversion" in [hit.title for hit in wiki.search("loss aversion")]
    page = wiki.page("Customer behavior")
    assert page.title == "Consumer behaviour" and page.truncated and 1000 < len(page.text) <= 2000
    with pytest.raises(Ambiguous) as ambiguous:
        wiki.page("Nudge")
    assert "Nudge theory" in ambiguous.value.titles
    with pytest.raises(NoPage) as missing:
        wiki.page("Consumer behavoir of the qwertz")
    assert isinstance(missing.value.titles, list)
