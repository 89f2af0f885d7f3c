"""Which titles are the same page, which sources an answer has, and how well they meet the expected ones."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from agenteval.errors import BadRecord
from agenteval.grading.sources import (
    expected_of,
    final_object,
    grade_sources,
    normal_title,
    rank_expected,
    redirects_of,
    sources_of,
)

# --- titles -------------------------------------------------------------------------------------

SAME = [
    ("Nudge theory", "nudge THEORY"),
    ("Nudge theory", "  Nudge \t theory\n"),
    ("Nudge theory", "Nudge_theory"),
    ("Nudge theory", "Nudge\u00a0theory"),
    ("Nudge theory", "wiki/Nudge_theory"),
    ("Nudge theory", "/wiki/Nudge_theory"),
    ("Nudge theory", "https://en.wikipedia.org/wiki/Nudge_theory"),
    ("Nudge theory", "http://en.m.wikipedia.org/wiki/Nudge_theory?oldid=7#History"),
    ("Nudge theory", "//de.wikipedia.org/wiki/Nudge%20theory"),
    ("Nudge theory", "en.wikipedia.org/wiki/Nudge_theory"),
    ("Nudge theory", "http://127.0.0.1:8080/wiki/Nudge_theory"),
    ("Nudge theory", "https://en.wikipedia.org/w/index.php?action=raw&title=Nudge_theory&oldid=1"),
    ("Nudge", "Nudge (disambiguation)"),
    ("Nudge", "https://en.wikipedia.org/wiki/Nudge_(disambiguation)"),
    ("Maslow's hierarchy of needs", "Maslow’s hierarchy of needs"),
    ("Maslow's hierarchy of needs", "Maslow%27s_hierarchy_of_needs"),
    ("Dunning-Kruger effect", "Dunning–Kruger effect"),
    ("Dunning-Kruger effect", "https://en.wikipedia.org/wiki/Dunning%E2%80%93Kruger_effect"),
    ('"Heroes"', "“Heroes”"),
    ("Café", "Cafe\u0301"),
    ("Straße", "STRASSE"),
    ("AC/DC", "https://en.wikipedia.org/wiki/AC/DC"),
    ("100% (song)", "100%25_(song)"),
]
DIFFERENT = [
    ("Behavior", "Behaviour"),
    ("Nudge", "Nudge theory"),
    ("Nudge", "Nudges"),
    ("Java", "Java (programming language)"),
    ("C", "C#"),
    ("Cafe", "Café"),
    ("(disambiguation)", ""),
    ("wiki", "wiki/wiki2"),
    ("Nudge", "https://example.org/Nudge"),
]


@pytest.mark.parametrize("one, other", SAME)
def test_same_page(one: str, other: str) -> None:
    assert normal_title(one) == normal_title(other)


@pytest.mark.parametrize("one, other", DIFFERENT)
def test_another_page(one: str, other: str) -> None:
    assert normal_title(one) != normal_title(other)


# --- what a record says -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record, titles",
    [
        ({"expected_sources": ["A", "B"]}, ["A", "B"]),
        ({"expected_sources": "A"}, ["A"]),
        (
            {"expected_sources": [{"title": "A"}, {"url": "https://en.wikipedia.org/wiki/B"}]},
            ["A", "https://en.wikipedia.org/wiki/B"],
        ),
        ({"metadata": {"expected_sources": ["A"]}}, ["A"]),
        ({"expected_sources": None, "metadata": {"expected_sources": "A"}}, ["A"]),
        ({"expected_sources": ["A"], "metadata": {"expected_sources": ["B"]}}, ["A"]),
        ({"expected_sources": []}, []),
        ({"metadata": None}, []),
        ({}, []),
    ],
)
def test_expected(record: dict[str, Any], titles: list[str]) -> None:
    assert expected_of(record) == titles


@pytest.mark.parametrize("value", [7, True, [1], ["A", None], [[]], [" "], [{"page": "A"}], ""])
def test_expected_that_are_no_titles(value: object) -> None:
    with pytest.raises(BadRecord, match="expected_sources"):
        expected_of({"expected_sources": value})


def page(asked: object, output: object, status: str = "completed", name: str = "wikipedia_get_page") -> dict[str, Any]:
    return {"type": "tool_call", "name": name, "status": status, "input": asked, "output": output}


READ = [
    {"type": "thought", "content": "hm"},
    page({"query": "x"}, '{"results": [{"title": "Z"}]}', name="wikipedia_search"),
    page({"title": "nudging"}, '{"title": "Nudge theory", "text": "…"}'),
    page({"title": "Missing"}, '{"error": "no such page", "suggestions": []}'),
    page({"title": "Broken"}, None, "failed"),
    page({"title": "Open"}, None, "pending"),
    page({"title": "Plain"}, "the text of the page"),
    page("As text", {"title": "As object"}),
    page(
        {"url": "https://en.wikipedia.org/wiki/Linked"},
        [{"type": "text", "text": '{"title": "Linked"}'}],
        name="WebFetch",
    ),
    page({}, "{}"),
]
PAGES = ["Nudge theory", "Plain", "As object", "Linked"]
ANSWER = json.dumps({"answer": "x", "sources_used": ["A", {"title": "B", "url": "u"}, 7, "", {"n": 1}]})


@pytest.mark.parametrize(
    "where, record, titles",
    [
        ("auto", {"sources_used": ["A"], "sources": ["B"], "output": ANSWER, "trajectory": READ}, ["A"]),
        ("auto", {"sources": ["B"], "output": ANSWER}, ["B"]),
        ("auto", {"sources_used": None, "output": ANSWER, "trajectory": READ}, ["A", "B"]),
        ("auto", {"output": f"It is x.\n```json\n{ANSWER}\n```\n", "trajectory": READ}, ["A", "B"]),
        ("auto", {"output": '{"sources": "A"}'}, ["A"]),
        ("auto", {"output": '{"sources_used": []}', "trajectory": READ}, []),
        ("auto", {"output": '{"answer": "x"}', "trajectory": READ}, PAGES),
        ("auto", {"output": '{"sources_used": 7}', "trajectory": READ}, PAGES),
        ("auto", {"output": "plain", "trajectory": READ}, PAGES),
        ("auto", {"output": None, "trajectory": None}, []),
        ("auto", {}, []),
        ("answer", {"output": "plain", "trajectory": READ}, []),
        ("answer", {"output": ANSWER, "trajectory": READ}, ["A", "B"]),
        ("trajectory", {"sources_used": ["A"], "output": ANSWER, "trajectory": READ}, PAGES),
    ],
)
def test_sources(where: str, record: dict[str, Any], titles: list[str]) -> None:
    assert sources_of(record, where) == titles


def test_sources_by_the_tools_the_user_names() -> None:
    calls = [page({"title": "A"}, "…", name="lookup"), page({"title": "B"}, "…")]
    assert sources_of({"trajectory": calls}, page_tools=["lookup"]) == ["A"]


def test_redirects_are_those_the_wiki_answered_with() -> None:
    assert redirects_of({"trajectory": READ}) == {"nudging": "nudge theory", "as text": "as object"}


@pytest.mark.parametrize(
    "text, found",
    [
        ('{"a": 1}', {"a": 1}),
        (' \n{"a": 1}\n ', {"a": 1}),
        ('so: {"a": {"b": [{"c": "}{"}]}}', {"a": {"b": [{"c": "}{"}]}}),
        ('{"a": 1} and {"b": 2}', {"b": 2}),
        ('{"a": 1}\n{"b": 2}', {"b": 2}),
        ('if (x) { return } {"b": 2}', {"b": 2}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": 1} that was it', None),
        ("[1, 2]", None),
        ("{not json}", None),
        ('{"a": "\\ud800"}', None),
        ("}", None),
        ("", None),
    ],
)
def test_object_at_the_end(text: str, found: object) -> None:
    assert final_object(text) == found


@pytest.mark.parametrize("text", ['{"a":' * 50_000 + "}", "{" * 200_000 + "}", '{"a":' * 50_000 + "1" + "}" * 50_000])
def test_object_at_the_end_of_a_text_that_means_harm(text: str) -> None:
    began = time.process_time()
    final_object(text)
    assert time.process_time() - began < 20, "of the square of its length it would be minutes"


# --- how well they meet -------------------------------------------------------------------------

LOG3 = 1.584962500721156

METRICS = [
    # sources, expected, k: hit rate, mrr, precision, recall, ndcg
    (["A"], ["A"], None, (1, 1, 1, 1, 1)),
    (["A"], ["B"], None, (0, 0, 0, 0, 0)),
    ([], ["A"], None, (0, 0, 0, 0, 0)),
    (["X", "A"], ["A"], None, (1, 1 / 2, 1 / 2, 1, 1 / LOG3)),
    (["X", "Y", "A"], ["A", "B"], None, (1, 1 / 3, 1 / 3, 1 / 2, 0.5 / (1 + 1 / LOG3))),
    (["A", "X", "B"], ["B", "A"], None, (1, 1, 2 / 3, 1, 1.5 / (1 + 1 / LOG3))),
    (["X", "X", "x ", "A"], ["A"], None, (1, 1 / 2, 1 / 2, 1, 1 / LOG3)),
    (["A", "a"], ["A", "A_"], None, (1, 1, 1, 1, 1)),
    (["X", "A"], ["A"], 1, (0, 0, 0, 0, 0)),
    (["X", "A", "B"], ["A", "B"], 2, (1, 1 / 2, 1 / 2, 1 / 2, (1 / LOG3) / (1 + 1 / LOG3))),
    (["A", "B", "C"], ["A", "B", "C"], 2, (1, 1, 1, 2 / 3, 1)),
    (["A"], ["A"], 10, (1, 1, 1, 1, 1)),
]


@pytest.mark.parametrize("sources, expected, k, figures", METRICS)
def test_metrics(sources: list[str], expected: list[str], k: int | None, figures: tuple[float, ...]) -> None:
    outcome = grade_sources({"sources": sources, "expected_sources": expected}, k=k)["outcome"]
    names = ("hit_rate", "mrr", "precision", "recall", "ndcg")
    assert [outcome[name] for name in names] == pytest.approx(figures)


def test_ranks_are_given_for_titles_as_they_were_written() -> None:
    ranked = rank_expected(["x", "b_B", "X", "a"], ["A", "B b", "C"])
    assert ranked.ranks == {"A": 3, "B b": 2, "C": None}
    assert ranked.found == ["A", "B b"]
    assert ranked.sources == ["x", "b_B", "a"]


def test_a_redirect_is_its_page_on_both_sides() -> None:
    redirects = {"nudging": "nudge theory"}
    for sources, expected in ((["Nudging"], ["Nudge theory"]), (["Nudge theory"], ["Nudging"])):
        assert rank_expected(sources, expected).found == []
        assert rank_expected(sources, expected, None, redirects).found == expected
    assert rank_expected(["Nudging", "Nudge theory"], ["X"], None, redirects).sources == ["Nudging"]
