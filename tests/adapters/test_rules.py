"""Conditions and extracts: which events become a step, and what is taken out of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.schema_building import BLOCKS, adapter, brief, event, is_type, lines

MIXED = {
    "type": "m",
    "content": [{"type": "think", "t": "hm"}, {"type": "text", "t": "hi"}, {"type": "use", "n": "ls"}],
}


def test_one_event_with_a_thought_a_text_and_a_call_gives_three_steps_in_order() -> None:
    schema = adapter(
        outputEvents=[
            event({"path": BLOCKS, "value": "use"}, "tool_call", title="$.n", status="'pending'"),
            event({"path": BLOCKS, "value": "text"}, "message", content="$.t"),
            event({"path": BLOCKS, "value": "think"}, "thought", content="$.t"),
        ]
    )
    assert brief(schema.read(lines(MIXED))) == [
        ("thought", "hm"),
        ("message", "hi"),
        ("tool_call", "ls", "pending"),
    ]


ITEMS = {
    "type": "m",
    "role": "bot",
    "content": [{"type": "a", "v": 1}, "word", 5, None, {"v": 2}, {"type": "b", "v": 3}],
}
MATCHES: list[tuple[str, Any, list[str]]] = [
    ("a value", {"path": "$.type", "value": "m"}, ["E"]),
    ("another value", {"path": "$.type", "value": "x"}, []),
    ("any value", {"path": "$.role", "value": "*"}, ["E"]),
    ("any value of nothing", {"path": "$.none", "value": "*"}, []),
    ("one of several", {"path": "$.type", "value": ["x", "m"]}, ["E"]),
    ("not", {"path": "$.role", "not": "user"}, ["E"]),
    ("not, of several", {"path": "$.role", "not": ["user", "bot"]}, []),
    ("not, missing", {"path": "$.none", "not": "user"}, ["E"]),
    ("not anything", {"path": "$.none", "not": "*"}, ["E"]),
    ("all must hold", [is_type("m"), {"path": "$.role", "value": "bot"}], ["E"]),
    ("one does not hold", [is_type("m"), {"path": "$.role", "value": "user"}], []),
    ("items by type", {"path": BLOCKS, "value": "a"}, ["1"]),
    ("items by several types", {"path": BLOCKS, "value": ["b", "a"]}, ["1", "3"]),
    ("items of any kind", {"path": BLOCKS, "value": "*"}, ["1", "word", "5", "2", "3"]),
    ("items that are the value", {"path": BLOCKS, "value": "word"}, ["word"]),
    ("items that are a number", {"path": BLOCKS, "value": 5}, ["5"]),
    ("items by another field", {"path": "$.content[*].v", "value": [2, 3]}, ["2", "3"]),
    ("items that have a field", {"path": "$.content[*].v", "value": "*"}, ["1", "2", "3"]),
    ("items but one type", {"path": BLOCKS, "not": ["a", "word", 5]}, ["", "2", "3"]),
    ("items, and the event", [{"path": "$.role", "value": "bot"}, {"path": BLOCKS, "value": "b"}], ["3"]),
    ("items, but not the event", [{"path": "$.role", "value": "user"}, {"path": BLOCKS, "value": "b"}], []),
    ("a list found by a plain path, as in agent-eval-harness", {"path": "$.content", "value": "a"}, ["1"]),
    ("an RFC 9535 query", {"path": "$.content[?@.v > 2].type", "value": "b"}, ["E"]),
    ("a number", {"path": "$.n", "value": 1}, ["E"]),
    ("true is not 1", {"path": "$.n", "value": True}, []),
    ("true", {"path": "$.t", "value": True}, ["E"]),
    ("a text is not a number", {"path": "$.n", "value": "1"}, []),
]


@pytest.mark.parametrize(("why", "match", "found"), MATCHES, ids=[why for why, _, _ in MATCHES])
def test_match(why: str, match: Any, found: list[str]) -> None:
    """The matched events, or items by their value, or E for the whole event."""
    content = ["$.me", "$.v", "$"]
    if why == "items but one type":
        content = ["$.v", "$.none", "''"]  # the null item holds too, and has no content of its own
    schema = adapter(outputEvents=[event(match, "message", content=content)])
    assert [step[1] for step in brief(schema.read(lines(ITEMS | {"me": "E", "n": 1, "t": True})))] == found


def test_the_first_that_matches_counts_also_between_lists_and_plain_paths() -> None:
    events = [
        event({"path": BLOCKS, "value": "text"}, "message", content="$.t"),
        event(is_type("m"), "message", content="'plain'"),
        event({"path": BLOCKS, "value": "use"}, "tool_call", title="$.n"),
    ]
    only_use = {"type": "m", "content": [{"type": "use", "n": "ls"}]}
    assert brief(adapter(outputEvents=events).read(lines(only_use))) == [("message", "plain")]
    assert brief(adapter(outputEvents=events).read(lines(MIXED))) == [
        ("message", "hi"),
        ("tool_call", "ls", "pending"),
    ]
    assert brief(adapter(outputEvents=events[::-1]).read(lines(only_use))) == [("tool_call", "ls", "pending")]


def also(match: Any, emit_as: str, **extract: Any) -> dict[str, Any]:
    return {**event(match, emit_as, **extract), "also": True}


WHOLE = {"type": "m", "mind": "hm", "content": [{"type": "text", "t": "hi"}, {"type": "use", "n": "ls"}], "end": "bye"}
THINK = {"path": "$.mind", "value": "*"}
TEXTS, USES, ENDS = {"path": BLOCKS, "value": "text"}, {"path": BLOCKS, "value": "use"}, {"path": "$.end", "value": "*"}
ALSO: list[tuple[str, list[dict[str, Any]], list[tuple[Any, ...]]]] = [
    (
        "an event that goes on",
        [also(THINK, "thought", content="$.mind"), event(TEXTS, "message", content="$.t")],
        [("thought", "hm"), ("message", "hi")],
    ),
    (
        "and stops at the first that keeps it",
        [
            also([is_type("m"), THINK], "thought", content="$.mind"),
            event(ENDS, "message", content="$.end"),
            event(is_type("m"), "message", content="'never'"),
        ],
        [("thought", "hm"), ("message", "bye")],
    ),
    (
        "a list that goes on to what lies behind it",
        [
            also(TEXTS, "message", content="$.t"),
            event(ENDS, "message", content="$.end"),
            event(USES, "tool_call", title="$.n"),
        ],
        [("message", "hi"), ("message", "bye")],
    ),
    (
        "a list that goes on to another part of itself",
        [
            also(TEXTS, "message", content="$.t"),
            also(ENDS, "message", content="$.end"),
            event(USES, "tool_call", title="$.n"),
        ],
        [("message", "hi"), ("message", "bye"), ("tool_call", "ls", "pending")],
    ),
    (
        "an item that goes on",
        [
            also(TEXTS, "thought", content="$.t"),
            event({"path": BLOCKS, "value": "*"}, "message", content=["$.t", "$.n"]),
        ],
        [("thought", "hi"), ("message", "hi"), ("message", "ls")],
    ),
    (
        "a list found by a plain path",
        [also({"path": "$.content", "value": "text"}, "message", content="$.t")] * 2,
        [("message", "hi")] * 2,
    ),
    (
        "one that does not match",
        [also(is_type("x"), "thought", content="$.mind"), event(ENDS, "message", content="$.end")],
        [("message", "bye")],
    ),
]


@pytest.mark.parametrize(("why", "events", "steps"), ALSO, ids=[why for why, _, _ in ALSO])
def test_an_event_may_be_several_steps(why: str, events: list[dict[str, Any]], steps: list[tuple[Any, ...]]) -> None:
    assert brief(adapter(outputEvents=events).read(lines(WHOLE))) == steps


def test_an_extract_may_reach_from_the_item_to_the_event() -> None:
    schema = adapter(
        outputEvents=[event({"path": BLOCKS, "value": "use"}, "tool_call", id="^$.nr", title="$.n", input="^$.type")]
    )
    assert brief(schema.read(lines(MIXED | {"nr": 4}))) == [("tool_call", "ls", "pending", "m")]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (1, "1"),
        (1.5, "1.5"),
        (True, "true"),
        (["a", "b"], "ab"),
        ({"k": [1]}, '{"k":[1]}'),
        ([1, 2], "[1,2]"),
        ([{"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}], "ab"),
        ([], "[]"),
    ],
)
def test_a_content_that_is_no_text(value: Any, text: str) -> None:
    schema = adapter(outputEvents=[event(is_type("x"), "message", content="$.c")])
    assert brief(schema.read(lines({"type": "x", "c": value}))) == [("message", text)]


def test_a_content_that_is_missing_gives_no_step_and_one_not_asked_for_an_empty_one() -> None:
    schema = adapter(outputEvents=[event(is_type("x"), "message", content="$.c"), event(is_type("y"), "thought")])
    assert brief(schema.read(lines({"type": "x"}, {"type": "x", "c": None}, {"type": "y"}))) == [("thought", "")]


def test_plans() -> None:
    schema = adapter(outputEvents=[event(is_type("p"), "plan", entries="$.todo"), event(is_type("q"), "plan")])
    steps = schema.read(lines({"type": "p", "todo": [{"content": "x"}]}, {"type": "p"}, {"type": "q"})).trajectory
    assert [step["entries"] for step in steps] == [[{"content": "x"}], [], []]
