"""The offline articles: the bundled files, what a word is, and which article a search finds first."""

from __future__ import annotations

import re
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenteval.errors import UserError
from agenteval.wikipedia.offline.corpus import ARTICLES, MATCH_END, MATCH_START, Article, Corpus, bundled, read_corpus
from agenteval.wikipedia.offline.english import search_terms, stem, words
from agenteval.wikipedia.offline.mediawiki import normal_title
from tests.support.tool import ROOT

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
    assert article.text == "One.\n\n\n== Two ==\nThree."
    with pytest.raises(UserError, match="No such file"):
        read_corpus(str(tmp_path / "none"))


# --- words ---------------------------------------------------------------------------------------

WORDS = [
    ("Loss aversion", ["loss", "aversion"]),
    ("Hick's law, the customers' choice", ["hick", "law", "the", "customers", "choice"]),
    ("Hick\N{RIGHT SINGLE QUOTATION MARK}s", ["hick"]),
    ("rock'n'roll", ["rock'n'roll"]),
    ("word-of-mouth, A/B", ["word", "of", "mouth", "a", "b"]),
    ("Aesthetic\N{EN DASH}usability", ["aesthetic", "usability"]),
    ("Café, naïve, cafe\N{COMBINING ACUTE ACCENT}", ["cafe", "naive", "cafe"]),
    ("prices end in .99 (2.25 times)", ["prices", "end", "in", "99", "2", "25", "times"]),
    ("snake_case", ["snake", "case"]),
    ("Привет 東京", ["привет", "東京"]),
    ("", []),
    ("?!. --", []),
]


@pytest.mark.parametrize(("text", "found"), WORDS)
def test_words(text: str, found: list[str]) -> None:
    assert words(text) == found


@pytest.mark.parametrize(
    ("many", "one"),
    [
        ("customers", "customer"),
        ("losses", "loss"),
        ("prices", "price"),
        ("choices", "choice"),
        ("boxes", "box"),
        ("wishes", "wish"),
        ("searches", "search"),
        ("loyalties", "loyalty"),
        ("biases", "bias"),
        ("purchases", "purchase"),
        ("sizes", "size"),
        ("ideas", "idea"),
    ],
)
def test_singular_and_plural_are_one_term(many: str, one: str) -> None:
    assert stem(many) == stem(one)


@pytest.mark.parametrize("word", ["loss", "status", "analysis", "bias", "gas", "is", "dies", "2", "a", ""])
def test_what_is_no_plural_stays_apart(word: str) -> None:
    assert stem(word) in (word, word[:-1])
    assert len(stem(word)) >= min(len(word), 3)


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("What factors influence customer behavior?", ["factors", "influence", "customer", "behavior"]),
        ("Why do prices end in .99", ["prices", "end", "99"]),
        ("what is it", ["what", "is", "it"]),
        ("", []),
    ],
)
def test_a_query_is_searched_without_stop_words(query: str, terms: list[str]) -> None:
    assert search_terms(query) == terms


# --- search --------------------------------------------------------------------------------------


def corpus(*articles: tuple[str, list[str], str]) -> Corpus:
    return Corpus(
        Article(number, title, tuple(redirects), False, (text,))
        for number, (title, redirects, text) in enumerate(articles, 1)
    )


def titles(found: Corpus, query: str, limit: int = 50) -> list[str]:
    return [hit.article.title for hit in found.search(query, limit)]


ARTICLES_FOUND = corpus(
    ("Apple", ["Malus domestica"], "A fruit that grows on trees. Trees need water."),
    ("Tree", [], "A plant with a trunk. An apple may grow on it, and so may a pear."),
    ("Pear", [], "A fruit. " + "It is sweet, and has nothing to do with the matter at hand. " * 20),
    ("Water", ["H2O"], "A liquid."),
    ("Fruit", [], "What plants bear."),
    ("Twin one", [], "identical text"),
    ("Twin two", [], "identical text"),
)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("apple", ["Apple", "Tree"]),  # the title counts for more than the text
        ("apples", ["Apple", "Tree"]),
        ("APPLE", ["Apple", "Tree"]),
        ("tree", ["Tree", "Apple"]),
        ("fruit", ["Fruit", "Apple", "Pear"]),  # a match in a long text counts for less
        ("malus", ["Apple"]),  # a redirect
        ("h2o", ["Water"]),
        ("identical", ["Twin one", "Twin two"]),  # a tie: the earlier one first
        ("pear trunk", ["Tree", "Pear"]),  # both words
        ("water for the trees", ["Apple", "Water", "Tree"]),
        ("nothing here matches zzz", ["Pear"]),
        ("zzz", []),
        ("", []),
        ("...", []),
        ('" OR NEAR(*', []),  # nothing of the query language
    ],
)
def test_search(query: str, found: list[str]) -> None:
    assert titles(ARTICLES_FOUND, query) == found
    assert titles(ARTICLES_FOUND, query, 1) == found[:1]


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    common = [(f"Page {number}", list[str](), "common words stand here") for number in range(20)]
    assert titles(corpus(*common, ("Last", [], "a rare one")), "common rare")[0] == "Last"


def test_a_repeated_word_counts_more() -> None:
    pets = corpus(("x", [], "cat dog dog"), ("y", [], "cat cat dog"))
    assert titles(pets, "cat") == ["y", "x"]
    assert titles(pets, "dog") == ["x", "y"]
    assert titles(pets, "cat cat dog") == ["y", "x"]
    assert titles(pets, "cat dog") == ["x", "y"], "equal sums: the earlier one"


def test_an_exact_title_comes_first_and_titles_before_redirects() -> None:
    found = corpus(
        ("Usability of usability", ["Ease"], "usability usability usability"),
        ("Usability", [], "a text"),
        ("Ease", [], "a text"),
        ("Z", ["Use"], "."),
    )
    assert titles(found, "Usability") == ["Usability", "Usability of usability"]
    assert titles(found, "the ease")[0] == "Ease"
    assert titles(found, "use") == ["Z"]


def test_an_empty_corpus_finds_nothing() -> None:
    assert Corpus([]).search("anything", 5) == []


def marked(snippet: str) -> list[str]:
    return re.findall(f"{MATCH_START}(.*?){MATCH_END}", snippet)


def test_a_snippet_is_the_part_that_matches_most() -> None:
    text = "Nothing of it here. " * 30 + "Then the research of apples comes. " + "Nothing of it here. " * 30
    [hit] = corpus(("X", [], text)).search("apple research", 5)
    assert marked(hit.snippet) == ["research", "apples"]
    assert hit.snippet.startswith("Then the") and len(hit.snippet) < 250


def test_a_match_in_the_title_alone_shows_how_the_text_begins() -> None:
    [hit] = corpus(("Pear", [], "A fruit. It is sweet.")).search("pear", 5)
    assert hit.snippet == "A fruit. It is sweet."


def test_other_forms_of_a_word_match() -> None:
    [hit] = corpus(("X", [], "Customers of a customer's shop and customs")).search("customer", 5)
    assert marked(hit.snippet) == ["Customers", "customer"]


def test_headings_are_found_and_shown_without_their_marks() -> None:
    page = Article(1, "X", (), False, ("Before.", "== Landmarks ==", "After."))
    [hit] = Corpus([page]).search("landmark", 5)
    assert hit.snippet == f"Before. {MATCH_START}Landmarks{MATCH_END} After."


@given(st.text())
def test_any_text_can_be_searched_for(text: str) -> None:
    ARTICLES_FOUND.search(text, 5)


def test_the_bundled_articles_are_indexed_at_once() -> None:
    start = time.process_time()
    every = Corpus(bundled().articles)
    every.search("x", 1)
    assert time.process_time() - start < 0.5, "0.05 s on a quiet machine"
    for article in every.articles:
        assert titles(every, article.title, 1) == [article.title], "found by its title"


def test_without_fts5_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoFts5(sqlite3.Connection):
        def execute(self, sql: str, *_values: Any) -> sqlite3.Cursor:
            return super().execute(sql.replace("fts5", "fts9"))

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path: connect(path, factory=NoFts5))
    with pytest.raises(UserError, match="sqlite3 module has FTS5: no such module: fts9$"):
        Corpus([]).search("x", 1)
