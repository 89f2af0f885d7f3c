"""Paths: the plain forms, those of agent-eval-harness, and RFC 9535."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from agenteval.adapters.paths import PathError, compile_path, split_wildcard

EVENT: dict[str, Any] = {
    "type": "assistant",
    "message": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, "plain", 7]},
    "a-b": {"c d": 1, "@x": 2},
    "list": [10, 20, 30],
    "null": None,
    "zero": 0,
    "deep": {"deep": {"deep": {"leaf": "x"}}},
    "0": "zeroth",
}

PLAIN = [
    ("$.type", "assistant"),
    ("$", EVENT),
    ("$.message.content[0].text", "a"),
    ("$.message.content[1].text", "b"),
    ("$.message.content.1.text", "b"),
    ("$.message.content[2]", "plain"),
    ("$.message.content[2].text", None),
    ("$.message.content[2][0]", None),
    ("$.message.content[9].text", None),
    ("$.list[-1]", 30),
    ("$.list[-4]", None),
    ("$.list[3]", None),
    ("$.list.first", None),
    ("$.a-b", {"c d": 1, "@x": 2}),
    ("$.a-b.c d", 1),
    ("$.a-b.@x", 2),
    ("$['a-b']['c d']", 1),
    ('$["a-b"]["c d"]', 1),
    ("$.0", "zeroth"),
    ("$.deep.deep.deep.leaf", "x"),
    ("$.type.length", None),
    ("$.null", None),
    ("$.null.x", None),
    ("$.zero", 0),
    ("$.missing.x.y", None),
    ("'pending'", "pending"),
    ("''", ""),
    ("", None),
    ("$.list[*]", [10, 20, 30]),
    ("$.type[*]", None),
    ("$.message.content[*].text", "ab"),
    ("$.message.content[*].type", "texttext"),
    ("$.missing[*].text", None),
]


@pytest.mark.parametrize(("text", "found"), PLAIN)
def test_plain_paths(text: str, found: Any) -> None:
    assert compile_path(text).get(EVENT) == found


@pytest.mark.parametrize("value", ["text", 7, None, True, [], ["type"]])
def test_a_plain_path_into_no_object_finds_nothing(value: Any) -> None:
    assert compile_path("$.type").get(value) is None
    assert compile_path("$.type.x").get(value) is None


BOOKS: dict[str, Any] = {
    "books": [
        {"title": "A", "price": 8, "tags": ["x", "y"], "isbn": None},
        {"title": "B", "price": 12, "tags": []},
        {"title": "C", "price": 22.5, "isbn": "1"},
    ],
    "max": 10,
    "nest": {"a": {"title": "D"}},
    "flags": [True, False, None, 1, 0, "1"],
}

RFC = [
    ("$.books[?@.isbn].title", ["A", "C"], "existence: a null counts as there"),
    ("$.books[?!@.isbn].title", ["B"], "non-existence"),
    ("$.books[?@.isbn == null].title", ["A"], "null is not missing"),
    ("$.books[?@.isbn != null].title", ["B", "C"], "missing is not null"),
    ("$.books[?@.nope == @.nada].title", ["A", "B", "C"], "missing equals missing"),
    ("$.books[?@.price < 10].title", ["A"], "less"),
    ("$.books[?@.price >= 12].title", ["B", "C"], "not less"),
    ("$.books[?@.price < $.max].title", ["A"], "a query from the root"),
    ("$.books[?@.title < 3].title", [], "text and number do not compare"),
    ("$.books[?@.title > 'A' && @.price < 20].title", ["B"], "and"),
    ("$.books[?@.price < 10 || @.isbn == '1'].title", ["A", "C"], "or"),
    ("$.books[?!(@.price < 10 || @.isbn == '1')].title", ["B"], "not, with parentheses"),
    ("$.books[?@.tags[?@ == 'y']].title", ["A"], "a filter inside a filter"),
    ("$.books[?length(@.title) == 1].price", [8, 12, 22.5], "length"),
    ("$.books[?length(@.tags) == 0].title", ["B"], "length of a list"),
    ("$.books[?count(@.tags[*]) == 2].title", ["A"], "count"),
    ("$.books[?match(@.title, '[AB]')].title", ["A", "B"], "match"),
    ("$.books[?search(@.title, 'C')].title", ["C"], "search"),
    ("$.books[?value(@..isbn) == '1'].title", ["C"], "value"),
    ("$.flags[?@ == true]", [True], "true is not 1"),
    ("$.flags[?@ == 1]", [1], "1 is not true"),
    ("$.flags[?@ == '1']", ["1"], "nor a text"),
    ("$.books[0:2].title", ["A", "B"], "slice"),
    ("$.books[::-1].title", ["C", "B", "A"], "backwards"),
    ("$.books[-2:].title", ["B", "C"], "from the end"),
    ("$.books[0,2].title", ["A", "C"], "union"),
    ("$['max','books'][0].title", ["A"], "union of names"),
    ("$..title", ["A", "B", "C", "D"], "descendants"),
    ("$.nest.*.title", ["D"], "wildcard of an object"),
    ("$.books[?@.price > 99].title", [], "nothing"),
    ("$.books[5:].title", [], "an empty slice"),
    ("$ .max", [10], "blanks between segments"),
]


@pytest.mark.parametrize(("text", "nodes", "why"), RFC)
def test_rfc9535(text: str, nodes: list[Any], why: str) -> None:
    found = compile_path(text).get(BOOKS)
    expected: Any
    if len(nodes) > 1:
        expected = "".join(nodes) if all(isinstance(node, str) for node in nodes) else nodes
    else:
        expected = nodes[0] if nodes else None
    assert found == expected, why
    assert type(found) is type(expected), why


def test_several_nodes_that_are_not_all_texts_stay_a_list() -> None:
    assert compile_path("$.flags[0,2,5]").get(BOOKS) == [True, None, "1"]


def test_a_descendant_query_of_a_deep_value_finds_nothing_instead_of_failing() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    assert compile_path("$..x").get(deep) is None


@pytest.mark.parametrize(
    "text",
    [
        "type",
        "a.b",
        "$.a[",
        "$.a]",
        "$[?",
        "$.a[?@.b ==]",
        "$[?@.x == 01]",
        "$.a[1.5]",
        "$[?nope(@)]",
        "'",
        "$a",
    ],
)
def test_what_is_no_path_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(PathError) as error:
        compile_path(text)
    assert str(error.value) and "\n" not in str(error.value)


def test_the_rfc_package_is_loaded_only_for_a_path_that_needs_it() -> None:
    code = (
        "import sys; from agenteval.adapters.paths import compile_path as c;"
        "[c(p) for p in ('$.a', \"$['a'].b[0]\", '$.a[*].b', \"'x'\", '')];"
        "print('jsonpath_rfc9535' in sys.modules); c('$..a'); print('jsonpath_rfc9535' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "True"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("$.message.content[*]", ("$.message.content", "$")),
        ("$.message.content[*].type", ("$.message.content", "$.type")),
        ("$[*]", ("$", "$")),
        ("$.content", None),
        ("$.a[*].b[*]", None),
        ("$..a[*]", None),
    ],
)
def test_split_wildcard(text: str, parts: tuple[str, str] | None) -> None:
    found = split_wildcard(text)
    assert (found and (found[0].text, found[1].text)) == parts
