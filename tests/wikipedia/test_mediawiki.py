"""The offline MediaWiki API: the answers to what the wiki client and the wikipedia package ask."""

from __future__ import annotations

from typing import Any

import pytest

from agenteval.wikipedia.offline.corpus import Article, Corpus
from agenteval.wikipedia.offline.mediawiki import answer, normal_title

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


def query(**request: Any) -> Any:
    return answer(CORPUS, {"action": "query", "format": "json", **request})["query"]


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
    found = query(titles="Apple", prop="info|pageprops", inprop="url")
    assert found == {
        "pages": {"1": {"pageid": 1, "ns": 0, "title": "Apple", "fullurl": "https://en.wikipedia.org/wiki/Apple"}}
    }
    law = query(titles="Hick's law", prop="info")["pages"]["4"]
    assert law["fullurl"] == "https://en.wikipedia.org/wiki/Hick's_law"


def test_normalized_redirected_and_missing() -> None:
    found = query(titles="malus_domestica", redirects="", prop="info")
    assert found["normalized"] == [{"from": "malus_domestica", "to": "Malus domestica"}]
    assert found["redirects"] == [{"from": "Malus domestica", "to": "Apple"}]
    assert found["pages"]["1"]["title"] == "Apple"
    missing = query(titles="Nix", redirects="", prop="info")
    assert missing == {"pages": {"-1": {"ns": 0, "title": "Nix", "missing": ""}}}


def test_the_text_and_the_revision() -> None:
    page = query(titles="Apple", prop="extracts|revisions", explaintext="", rvprop="ids")["pages"]["1"]
    assert page["extract"] == "A fruit. It is <sweet> & round.\n\n\n== Use ==\nEat it."
    assert (page["revisions"][0]["revid"], page["revisions"][0]["parentid"]) == (1, 0)


def test_a_disambiguation_page() -> None:
    page = query(titles="Plant", prop="pageprops|links|revisions")["pages"]["3"]
    assert page["pageprops"] == {"disambiguation": ""}
    assert page["links"] == [{"ns": 0, "title": "Factory"}, {"ns": 0, "title": "Tree"}]
    assert page["revisions"][0]["*"] == "<ul><li><a>Tree</a></li><li><a>Factory</a></li></ul>"
    assert "pageprops" not in query(titles="Tree", prop="pageprops")["pages"]["2"]


def test_search_results_have_snippets_in_html() -> None:
    found = query(list="search", srsearch="apples sweet", srlimit=5)["search"]
    assert [(hit["title"], hit["pageid"]) for hit in found] == [("Apple", 1), ("Tree", 2)]
    assert found[0]["snippet"].startswith('A fruit. It is &lt;<span class="searchmatch">sweet</span>&gt; &amp; round.')
    assert found[1]["snippet"].endswith('An <span class="searchmatch">apple</span> grows on it.')
    assert len(query(list="search", srsearch="apples", srlimit=1)["search"]) == 1
