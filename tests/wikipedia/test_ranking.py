"""BM25 by table: what a word is, what it becomes, and which document comes first."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenteval.wikipedia.offline.corpus import bundled
from agenteval.wikipedia.offline.ranking import Document, Index, best_window, matches, query_terms, stem, words

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
        ("What factors influence customer behavior?", ["factor", "influence", "customer", "behavior"]),
        ("Why do prices end in .99", ["price", "end", "99"]),
        ("what is it", ["what", "is", "it"]),
        ("", []),
    ],
)
def test_a_query_is_its_telling_words(query: str, terms: list[str]) -> None:
    assert query_terms(query) == terms


DOCUMENTS = [
    Document("Apple", ["Malus domestica"], "A fruit that grows on trees. Trees need water."),
    Document("Tree", [], "A plant with a trunk. An apple may grow on it, and so may a pear."),
    Document("Pear", [], "A fruit. " + "It is sweet, and has nothing to do with the matter at hand. " * 20),
    Document("Water", ["H2O"], "A liquid."),
    Document("Fruit", [], "What plants bear."),
    Document("Twin one", [], "identical text"),
    Document("Twin two", [], "identical text"),
]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("apple", ["Apple", "Tree"]),  # the title counts for more than the text
        ("apples", ["Apple", "Tree"]),
        ("APPLE", ["Apple", "Tree"]),
        ("tree", ["Tree", "Apple"]),
        ("fruit", ["Fruit", "Apple", "Pear"]),  # the long text is held back
        ("malus", ["Apple"]),  # another title
        ("h2o", ["Water"]),
        ("identical", ["Twin one", "Twin two"]),  # a tie: the earlier one first
        ("pear trunk", ["Tree", "Pear"]),  # both words
        ("water for the trees", ["Apple", "Water", "Tree"]),
        ("nothing here matches zzz", ["Pear"]),
        ("zzz", []),
        ("", []),
        ("...", []),
    ],
)
def test_search(query: str, found: list[str]) -> None:
    assert [DOCUMENTS[number].title for number in Index(DOCUMENTS).search(query)] == found


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    common = [Document(f"Page {number}", [], "common words stand here") for number in range(20)]
    index = Index([*common, Document("Last", [], "a rare one")])
    assert index.search("common rare")[0] == 20


def test_a_word_said_twice_counts_more() -> None:
    index = Index([Document("x", [], "cat dog dog"), Document("y", [], "cat cat dog")])
    assert index.search("cat") == [1, 0]
    assert index.search("dog") == [0, 1]
    assert index.search("cat cat dog") == [1, 0]
    assert index.search("cat dog") == [0, 1], "equal sums: the earlier one"


def test_what_is_titled_so_comes_first_and_titles_before_further_titles() -> None:
    more = Document("Usability of usability", ["Ease"], "usability usability usability")
    index = Index(
        [more, Document("Usability", [], "a text"), Document("Ease", [], "a text"), Document("Z", ["Use"], "")]
    )
    assert index.search("Usability") == [1, 0]
    assert index.search("the ease")[0] == 2
    assert index.search("use") == [3]


def test_an_empty_index_finds_nothing() -> None:
    assert Index([]).search("anything") == []
    assert Index([]).correction("anything") is None


@pytest.mark.parametrize(
    ("query", "corrected"),
    [
        ("aple", "apple"),
        ("Liqid Water", "liquid water"),
        ("apple tree", None),
        ("apples", None),
        ("the aple?", "the apple?"),
        ("xyzzy", None),
        ("", None),
    ],
)
def test_correction(query: str, corrected: str | None) -> None:
    assert Index(DOCUMENTS).correction(query) == corrected


def test_matches_are_whole_words_whatever_their_form() -> None:
    text = "Customers of a customer's customerless shop"
    spans = matches(text, query_terms("customer"))
    assert [text[start:end] for start, end in spans] == ["Customers", "customer's"]


def test_the_best_window_has_most_different_matches() -> None:
    text = "cat cat cat " + "x " * 100 + "cat dog"
    assert best_window(text, matches(text, ["cat", "dog"]), 20) == text.rindex("cat")
    assert best_window(text, [], 20) == 0


@given(st.text())
def test_any_text_can_be_searched_for(text: str) -> None:
    index = Index(DOCUMENTS)
    index.search(text)
    index.correction(text)
    assert all(text[start:end] for start, end in matches(text, query_terms(text)))


def test_the_bundled_articles_are_indexed_at_once() -> None:
    articles = bundled().articles
    start = time.process_time()
    index = Index(Document(article.title, article.redirects, article.text) for article in articles)
    assert time.process_time() - start < 0.5, "0.05 s on a quiet machine"
    for number, article in enumerate(articles):
        assert index.search(article.title)[0] == number, f"{article.title} is found by its title"
