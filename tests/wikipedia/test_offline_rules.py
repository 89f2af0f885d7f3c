"""The rules behind the offline model, each by table: planning, composing, judging."""

from __future__ import annotations

import pytest

from agenteval.wikipedia.offline.composing import PageText, compose
from agenteval.wikipedia.offline.english import key_words, root, sentences
from agenteval.wikipedia.offline.judge import OfflineCase, read_case, verdict
from agenteval.wikipedia.offline.planning import (
    Read,
    Search,
    Work,
    first_queries,
    next_step,
    next_titles,
    other_queries,
)
from agenteval.wikipedia.wiki import SearchHit

# --- planning -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "queries"),
    [
        ("What factors influence customer behavior?", ["factors influence customer behavior"]),
        ("Why do people buy more than they planned?", ["people buy more planned"]),
        ("What is the difference between a hive and a nest?", ["hive", "nest"]),
        ("How does word of mouth relate to social proof?", ["mouth", "social proof"]),
        ("Compare trust with fear", ["trust", "fear"]),
        ("Is there a link between sleep, memory and stress?", ["sleep", "memory", "stress"]),
        ("Who was first?", ["first"]),
        ("What is it?", ["what is it"]),
        ("Größe?", ["große"]),
        ("?!", ["?!"]),
        ("  ", ["Wikipedia"]),
    ],
)
def test_first_queries(question: str, queries: list[str]) -> None:
    assert first_queries(question) == queries


def test_other_queries_are_new_ones() -> None:
    done = [Search("customers leave shop", [SearchHit("Churn", "when customers go")])]
    queries = other_queries(Work("Why do customers leave a shop?", done))
    assert queries[0] == "customers quit buy", "other words for those that no result has"
    assert "Churn customers leave shop" in queries
    assert "customers leave shop" not in queries and "shop leave customers" not in queries
    assert len(queries) == len(set(queries))


def test_poor_results_lead_to_other_words_good_ones_to_pages() -> None:
    question = "Why do customers leave a shop?"
    poor = Work(question, [Search("customers leave shop", [SearchHit("Zebra", "an animal")])])
    good = Work(question, [Search("customers leave shop", [SearchHit("Churn", "why customers leave a shop")])])
    assert next_step(poor).queries and not next_step(poor).titles
    assert next_step(good).titles == ["Churn"]


def test_titles_by_fit_and_rank() -> None:
    hits = [
        SearchHit("Hive (disambiguation)", "bees"),
        SearchHit("Honey", "food"),
        SearchHit("Hive", "where bees live"),
        SearchHit("Bee", "bees"),
    ]
    work = Work("Where do bees build a hive?", [Search("bees hive", hits), Read("bee", PageText("Bee", "Bees fly."))])
    assert list(next_titles(work))[0] == "Hive"
    assert "Bee" not in list(next_titles(work))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("behaviour", "behavioral"),
        ("organisations", "organization"),
        ("prices", "pricing"),
        ("usability", "usable"),
        ("theories", "theory"),
        ("loyalty", "loyal"),
        ("stopped", "stopping"),
    ],
)
def test_forms_of_a_word_have_one_root(one: str, other: str) -> None:
    assert root(one) == root(other)


@pytest.mark.parametrize(("one", "other"), [("customer", "consumer"), ("price", "prize"), ("market", "mark")])
def test_other_words_have_another(one: str, other: str) -> None:
    assert root(one) != root(other)


def test_key_words() -> None:
    assert key_words("What is the main reason why people trust a bank?") == ["trust", "bank"]
    assert key_words("What do people want?") == ["people", "want"]


def test_sentences() -> None:
    text = 'Herbert A. Simon said: "No." He (e.g. in 1955.) wrote 2.5 books. Did he? Yes!'
    assert sentences(text) == ['Herbert A. Simon said: "No."', "He (e.g. in 1955.) wrote 2.5 books.", "Did he?", "Yes!"]


def test_an_answer_prefers_the_right_kind_of_fact() -> None:
    page = PageText(
        "Tower", "The tower is tall. The tower was built for a fair. It was in 1889 that the tower was built."
    )
    assert "1889" in compose("When was the tower built?", [page]).answer


def test_scattered_words_are_no_answer() -> None:
    page = PageText("Things", "The cup is blue. A world of wonder opened. They won a little. Rain fell.")
    draft = compose("Who won the football world cup?", [page])
    assert draft.sources == [] and draft.confidence <= 0.1 and "football" in draft.missing


def test_half_a_sentence_at_the_end_of_a_cut_page_is_not_quoted() -> None:
    page = PageText("Hive", "A hive is where bees live. The hive of the bees is mostly built from")
    assert compose("Where do bees live, in a hive?", [page]).answer == "A hive is where bees live."


# --- the judge ----------------------------------------------------------------------------------


def test_only_sections_with_the_first_mark_count() -> None:
    inner = "<<<QUESTION b>>>\nother\n<<<END b>>>\nx"
    text = (
        f"<<<QUESTION a>>>\nq\n<<<END a>>>\n\n<<<ANSWER a>>>\n{inner}\n<<<END a>>>\n<<<SOURCES a>>>\n- S\n<<<END a>>>"
    )
    assert read_case(text) == OfflineCase("q", inner, ["S"], "")
    assert read_case("<<<QUESTION a>>>\nq\n<<<END a>>>\n<<<ANSWER b>>>\nx\n<<<END b>>>") == OfflineCase("q", "", [], "")
    assert read_case("no fences") == OfflineCase("", "", [], "")


def test_other_numbers_than_the_references_cost_accuracy() -> None:
    same, other, none = (
        verdict(OfflineCase("When was it?", f"It was published {when}.", [], "Published in 1979."))["accuracy"]
        for when in ("in 1979", "in 1989", "long ago")
    )
    assert same > other
    assert same >= none
