"""Filters as closures find what the package of RFC 9535 finds."""

from __future__ import annotations

from typing import Any

import jsonpath_rfc9535
import pytest
from agenteval.adapters.filters import NotPlainError, compile_query
from hypothesis import given, settings
from hypothesis import strategies as st

from agenteval.adapters.paths import compile_path

PLAIN = [
    "$.a[?@.a == 'x'].b",
    "$.a[?@.a != 'x'].b",
    "$.a[?'x' == @.a]",
    "$.a[?@.b == true]",
    "$.a[?@.b != false].a",
    "$.a[?@.b == 1]",
    "$.a[?@.b == 1.0]",
    "$.a[?@.b == null]",
    "$.a[?@.b]",
    "$.a[?!@.b].a",
    "$.a[?@.a == 'x' && @.b]",
    "$.a[?@.a == 'x' || !@.b]",
    "$.a[?(@.a == 'x' || @.b) && $.b == 'x']",
    "$.a[?$.b[?@.a == 'x']].a",
    "$.a[?@.a[?@.a == 'x']].a",
    "$.a[?@.a[?$.a == 'x']]",
    "$.a[?@[0] == 1]",
    "$.a[?@[-1].a == 'x'][0]",
    "$[?@.a]",
    "$.a[-2][?@.b == 'x']",
    "$.a[?$.b == 'x' && @.a == 'x' && !$.a[?@.a == 'y']].a",
]
OTHER = ["$..a", "$.a[?length(@.a) > 1]", "$.a[?@.b < 1]", "$.a[?@.a == @.b]", "$.a[?@ == 1]", "$.a[0, 1]", "$.a[1:]"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.sampled_from([0, 1, 1.0, "x", "y", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=12,
)


def parsed(text: str) -> Any:
    return jsonpath_rfc9535.JSONPathEnvironment().compile(text)


@settings(max_examples=120, deadline=None)
@given(st.fixed_dictionaries({"a": VALUES, "b": VALUES}) | VALUES)
def test_a_filter_finds_what_the_package_finds(value: Any) -> None:
    for text in PLAIN:
        query = parsed(text)
        assert repr(compile_query(query)(value, value)) == repr(query.find(value).values()), text


@pytest.mark.parametrize("text", OTHER)
def test_the_package_evaluates_other_queries(text: str) -> None:
    with pytest.raises(NotPlainError):
        compile_query(parsed(text))
    value = {"a": [{"a": "xy", "b": 0}, {"a": 1, "b": 1}, 1], "b": "x"}
    found = parsed(text).find(value).values()
    assert compile_path(text).get(value) in (found, "".join(map(str, found)), *found[:1])


def test_the_part_of_a_text_that_is_not_a_call() -> None:
    path = compile_path("$.parts[?$.role == 'assistant' && @.type == 'text' && !$.parts[?@.type == 'call']].text")
    said = [{"type": "text", "text": "a"}, {"type": "thought", "text": "b"}, {"type": "text", "text": "c"}]
    assert path.get({"role": "assistant", "parts": said}) == "ac"
    assert path.get({"role": "user", "parts": said}) is None
    assert path.get({"role": "assistant", "parts": [*said, {"type": "call"}]}) is None
