"""The offline wiki: its articles, and the MediaWiki API over them, asked over HTTP and through the real client."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request as WebRequest
from urllib.request import urlopen

import pytest
import wikipedia  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from agenteval.errors import UserError
from agenteval.wikipedia.offline.corpus import ARTICLES, Article, Corpus, bundled, read_corpus
from agenteval.wikipedia.offline.mediawiki import ENDPOINT, mediawiki, normal_title, snippet
from agenteval.wikipedia.offline.serving import Request, serving
from tests.support.tool import ROOT

CORPUS = Corpus(
    [
        Article(
            1,
            "Apple",
            ("Malus domestica", "Apples"),
            False,
            ("A fruit. It is <sweet> & round.", "== Use ==", "Eat it."),
        ),
        Article(2, "Tree", (), False, ("A plant with a trunk. An apple grows on it.",)),
        Article(3, "Plant", (), True, ("Plant may refer to:", "* [[Tree]], it grows\n* [[Factory]], it works")),
        Article(4, "Hick's law", (), False, ("A law.",)),
    ]
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(mediawiki(CORPUS)) as url:
        yield url + ENDPOINT


def ask(**given: str) -> Any:
    """The answer of the app to these parameters, as JSON."""
    return json.loads(mediawiki(CORPUS)(Request("GET", ENDPOINT, given, {}, b"")).body)


def query(**given: str) -> Any:
    return ask(action="query", format="json", **given)["query"]


# --- the bundled articles -----------------------------------------------------------------------


def test_there_are_enough_articles_and_each_is_whole() -> None:
    articles = [article for article in bundled().articles if not article.disambiguation]
    assert len(articles) >= 60
    for article in articles:
        paragraphs = [block for block in article.blocks if not block.startswith("=")]
        assert len(paragraphs) >= 3 and 200 <= len(article.text.split()) <= 500, article.title
        assert "[[" not in article.text and "\n\n\n\n" not in article.text, article.title
        assert not re.search(r"={2,} *\Z", article.text), f"{article.title} ends with a heading"


def test_a_title_is_taken_once() -> None:
    titles = [article.title for article in bundled().articles]
    redirects = [other for article in bundled().articles for other in article.redirects]
    assert len(set(titles + redirects)) == len(titles + redirects)
    assert all(normal_title(title) == title for title in titles + redirects)


def test_ambiguous_titles_lead_to_articles_and_elsewhere() -> None:
    titles = {article.title for article in bundled().articles}
    ambiguous = [article for article in bundled().articles if article.disambiguation]
    assert ambiguous
    for article in ambiguous:
        assert 0 < len(titles & set(article.links)) < len(article.links), article.title


def test_the_articles_are_where_the_package_is() -> None:
    assert Path(ARTICLES).parent == ROOT / "agenteval" / "wikipedia" / "offline"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"title: A\n\ntext\n",
        b"title: A\nredirects:\nkind: other\n\ntext\n",
        b"title: A\nredirects:\nkind: article\n\n",
        b"title:\nredirects:\nkind: article\n\ntext\n",
        b"title: \xff\nredirects:\nkind: article\n\ntext\n",
    ],
)
def test_a_file_that_is_no_article_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(UserError, match=re.escape(f"{tmp_path}/a.txt: ")) as refused:
        read_corpus(str(tmp_path))
    assert "\n" not in str(refused.value)


def test_a_directory_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("title: B\nredirects: Bee | Bees\nkind: article\n\nOne.\n\n== Two ==\n\nThree.\n")
    (tmp_path / "notes.md").write_text("no article")
    article = read_corpus(str(tmp_path)).article("B")
    assert article and article.redirects == ("Bee", "Bees")
    assert article.text == "One.\n\n\n== Two ==\nThree." and article.intro == "One."
    with pytest.raises(UserError, match="No such file"):
        read_corpus(str(tmp_path / "none"))


# --- pages --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        ("Apple", "Apple"),
        ("apple", "Apple"),
        ("  apple__pie ", "Apple pie"),
        ("Apple#Use", "Apple"),
        ("élan", "Élan"),
        ("", ""),
    ],
)
def test_normal_title(asked: str, title: str) -> None:
    assert normal_title(asked) == title


def test_a_page_as_it_was_asked_for() -> None:
    found = query(titles="Apple", prop="info", inprop="url")
    assert set(found) == {"pages"}
    assert found["pages"]["1"]["fullurl"] == "https://en.wikipedia.org/wiki/Apple"
    assert query(pageids="1", prop="extracts", explaintext="")["pages"]["1"]["title"] == "Apple"


def test_normalized_redirected_missing_and_invalid() -> None:
    found = query(titles="malus_domestica|Nix|a<b|Apple", redirects="", prop="info")
    assert found["normalized"] == [{"from": "malus_domestica", "to": "Malus domestica"}]
    assert found["redirects"] == [{"from": "Malus domestica", "to": "Apple"}]
    assert found["pages"]["-1"] == {"ns": 0, "title": "Nix", "missing": ""}
    assert found["pages"]["-2"]["invalidreason"] == 'The requested page title contains invalid characters: "<".'
    assert found["pages"]["1"]["title"] == "Apple"
    assert query(pageids="77")["pages"]["77"] == {"pageid": 77, "missing": ""}


def test_a_redirect_is_followed_when_asked() -> None:
    assert query(titles="Apples")["pages"]["-1"] == {"ns": 0, "title": "Apples", "redirect": ""}


@pytest.mark.parametrize("title", ["x" * 256, "é" * 128, "#", "_"])
def test_what_can_be_no_title(title: str) -> None:
    assert "invalid" in query(titles=title)["pages"]["-1"]


def test_extracts() -> None:
    def extract(**given: str) -> str:
        text: str = query(titles="Apple", prop="extracts", **given)["pages"]["1"]["extract"]
        return text

    assert extract(explaintext="") == "A fruit. It is <sweet> & round.\n\n\n== Use ==\nEat it."
    assert extract(explaintext="", exintro="") == "A fruit. It is <sweet> & round."
    assert extract(explaintext="", exsentences="1") == "A fruit."
    assert extract(explaintext="", exchars="10") == "A fruit...."
    assert extract() == "<p>A fruit. It is &lt;sweet&gt; &amp; round.</p>\n<h2>Use</h2>\n<p>Eat it.</p>"


def test_a_disambiguation_page() -> None:
    page = query(titles="Plant|Tree", prop="pageprops|links", ppprop="disambiguation")["pages"]
    assert page["3"]["pageprops"] == {"disambiguation": ""} and "pageprops" not in page["2"]
    assert page["3"]["links"] == [{"ns": 0, "title": "Factory"}, {"ns": 0, "title": "Tree"}]
    revision = query(titles="Plant", prop="revisions", rvprop="content|ids", rvparse="")["pages"]["3"]["revisions"][0]
    assert '<li><a href="/wiki/Factory" title="Factory">Factory</a>, it works</li>' in revision["*"]
    assert revision["revid"] == 3
    plain = query(titles="Plant", prop="revisions", rvprop="content")["pages"]["3"]["revisions"][0]["*"]
    assert "* [[Tree]], it grows" in plain


# --- search -------------------------------------------------------------------------------------


def test_search_hits_have_what_is_asked_for() -> None:
    found = query(list="search", srsearch="apples", srlimit="5")
    assert found["searchinfo"] == {"totalhits": 2}
    assert [hit["title"] for hit in found["search"]] == ["Apple", "Tree"]
    assert set(found["search"][0]) == {"ns", "title", "pageid", "size", "wordcount", "snippet", "timestamp"}
    assert found["search"][1]["snippet"].endswith('An <span class="searchmatch">apple</span> grows on it.')
    assert query(list="search", srsearch="apples", srprop="", srinfo="suggestion") == {
        "search": [{"ns": 0, "title": "Apple", "pageid": 1}, {"ns": 0, "title": "Tree", "pageid": 2}]
    }


def test_search_goes_on_where_it_stopped() -> None:
    every = [query(list="search", srsearch="apple", srlimit="1", sroffset=str(start))["search"] for start in range(3)]
    assert [[hit["title"] for hit in hits] for hits in every] == [["Apple"], ["Tree"], []]


def test_a_misspelled_search_has_a_suggestion() -> None:
    assert query(list="search", srsearch="trnk <b>")["searchinfo"]["suggestion"] == "trunk <b>"
    assert "trunk &lt;b&gt;" in query(list="search", srsearch="trnk <b>")["searchinfo"]["suggestionsnippet"]


def test_snippets_are_html_of_about_a_line() -> None:
    long = "Nothing of it here. " * 30 + "Then R&D of apples comes. " + "Nothing of it here. " * 30
    found = snippet(long, "apple r&d")
    assert '<span class="searchmatch">R</span>&amp;<span class="searchmatch">D</span>' in found
    plain = re.sub("<[^>]*>", "", found)
    assert len(plain) <= 200 and plain.startswith("Then ")
    assert snippet("x" * 1000, "y") == "x" * 180
    assert snippet("", "y") == ""


def test_opensearch_finds_beginnings() -> None:
    found = ask(action="opensearch", search="app", format="json")
    assert found == [
        "app",
        ["Apple", "Apples"],
        ["", ""],
        ["https://en.wikipedia.org/wiki/Apple", "https://en.wikipedia.org/wiki/Apples"],
    ]


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "code", "info"),
    [
        ({}, "badvalue", 'Unrecognized value for parameter "action": help.'),
        ({"action": "edit"}, "badvalue", 'Unrecognized value for parameter "action": edit.'),
        ({"action": "query", "format": "xml"}, "badvalue", 'Unrecognized value for parameter "format": xml.'),
        ({"action": "query", "formatversion": "2"}, "badvalue", 'Unrecognized value for parameter "formatversion": 2.'),
        ({"action": "query", "list": "search"}, "missingparam", 'The "srsearch" parameter must be set.'),
        ({"action": "opensearch", "search": " "}, "missingparam", 'The "search" parameter must be set.'),
        (
            {"action": "query", "list": "search", "srsearch": "x" * 301},
            "cirrussearch-query-too-long",
            "Search request is longer than the maximum allowed length. (Actual: 301; allowed: 300)",
        ),
        (
            {"action": "query", "list": "search", "srsearch": "x", "srlimit": "many"},
            "badinteger",
            'Invalid value "many" for integer parameter "srlimit".',
        ),
        ({"action": "query", "pageids": "x"}, "badinteger", 'Invalid value "x" for integer parameter "pageids".'),
        (
            {"action": "query", "titles": "A", "pageids": "1"},
            "invalidparammix",
            'The parameters "titles" and "pageids" can not be used together.',
        ),
        (
            {"action": "query", "titles": "|".join("x" * 51)},
            "toomanyvalues",
            'Too many values supplied for parameter "titles". The limit is 50.',
        ),
    ],
)
def test_errors_are_those_of_mediawiki(given: dict[str, str], code: str, info: str) -> None:
    response = mediawiki(CORPUS)(Request("GET", ENDPOINT, given, {}, b""))
    assert response.status == 200 and response.headers == {"MediaWiki-API-Error": code}
    assert json.loads(response.body)["error"] == {"code": code, "info": info, "*": "See /w/api.php for API usage."}


def test_what_is_not_served_is_a_warning() -> None:
    found = ask(action="query", titles="Apple", prop="info|images|iwlinks")
    assert found["warnings"] == {"query": {"*": 'Unrecognized values for parameter "prop": images, iwlinks.'}}
    assert found["query"]["pages"]["1"]["title"] == "Apple"
    assert ask(action="query") == {"batchcomplete": ""}


NAMES = (
    "list prop titles pageids srsearch srlimit sroffset srprop srinfo search limit exchars exsentences rvprop pllimit"
)
VALUES = st.one_of(
    st.text(), st.sampled_from(["search", "extracts|revisions|links|info", "Apple", "Plant", "1", "max"])
)


@given(st.dictionaries(st.sampled_from(re.findall(r"\w+", NAMES)), VALUES), st.sampled_from(["query", "opensearch"]))
def test_whatever_is_asked_is_answered(asked: dict[str, str], action: str) -> None:
    response = mediawiki(CORPUS)(Request("GET", ENDPOINT, asked | {"action": action, "inprop": "url"}, {}, b""))
    assert response.status == 200 and json.loads(response.body)


def test_over_http(url: str) -> None:
    given = {"action": "query", "titles": "Hick's law", "prop": "info", "format": "json", "inprop": "url"}
    with urlopen(f"{url}?{urlencode(given)}") as got:
        by_get = json.load(got)
    with urlopen(WebRequest(url, urlencode(given).encode())) as got:
        by_form = json.load(got)
    assert by_get == by_form
    assert by_get["query"]["pages"]["4"]["fullurl"] == "https://en.wikipedia.org/wiki/Hick's_law"
    response = mediawiki(CORPUS)(Request("GET", "/wiki/Apple", {}, {}, b""))
    assert response.status == 404


# --- through the wikipedia package, as it comes -------------------------------------------------


@pytest.fixture
def client(url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package, its address set to our server and its caches empty."""
    monkeypatch.setattr(wikipedia.wikipedia, "API_URL", url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for cached in (wikipedia.search, wikipedia.suggest, wikipedia.summary):
        cached.clear_cache()
    return wikipedia


def test_the_package_searches(client: Any) -> None:
    assert client.search("apple", results=1) == ["Apple"]
    assert client.search("aple", suggestion=True) == ([], "apple")
    assert client.search("apple", suggestion=True) == (["Apple", "Tree"], None)
    assert client.suggest("aple") == "apple"


def test_the_package_reads_pages(client: Any) -> None:
    page = client.page("aple")
    assert (page.title, page.pageid, page.original_title) == ("Apple", "1", "apple")
    assert client.page("malus domestica", auto_suggest=False).title == "Apple"
    assert client.page(pageid=2).title == "Tree"
    assert page.content == "A fruit. It is <sweet> & round.\n\n\n== Use ==\nEat it."
    assert page.section("Use") == "Eat it."
    assert page.summary == client.summary("Apple") == "A fruit. It is <sweet> & round."
    assert (page.revision_id, page.parent_id) == (1, 0)
    with pytest.raises(client.PageError):
        client.page("Nix", auto_suggest=False)
    with pytest.raises(client.RedirectError):
        client.page("Apples", auto_suggest=False, redirect=False)


def test_the_package_sees_what_is_ambiguous(client: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package lets bs4 guess a parser
        with pytest.raises(client.DisambiguationError) as ambiguous:
            client.page("Plant", auto_suggest=False)
    assert ambiguous.value.options == ["Tree", "Factory"]
