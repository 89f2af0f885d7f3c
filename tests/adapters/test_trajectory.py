"""Steps: tool calls and their results, statuses, times, texts in pieces."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.schema_building import TOOLS, adapter, brief, call, end, event, is_type, lines

PAIRS: list[tuple[str, list[dict[str, Any]], list[tuple[Any, ...]]]] = [
    (
        "by id, in any order",
        [
            call(id="1", name="a", **{"in": 1}),
            call(id="2", name="a", **{"in": 2}),
            end(id="2", out="x"),
            end(id="1", out="y"),
        ],
        [("a", "completed", 1, "y"), ("a", "completed", 2, "x")],
    ),
    (
        "by name, the oldest first",
        [
            call(name="a", **{"in": 1}),
            call(name="b"),
            call(name="a", **{"in": 2}),
            end(name="a", out=1),
            end(name="a", out=2),
        ],
        [("a", "completed", 1, 1), ("b", "pending"), ("a", "completed", 2, 2)],
    ),
    (
        "neither id nor name: the oldest",
        [call(name="a"), call(name="b"), end(out=1)],
        [("a", "completed", 1), ("b", "pending")],
    ),
    ("never answered stays pending", [call(id="1", name="a", **{"in": {}})], [("a", "pending", {})]),
    (
        "an id that no call has does not close another call",
        [call(id="1", name="a"), end(id="2", out=3)],
        [("a", "pending"), ("unknown", "completed", 3)],
    ),
    ("a call without id, its result with one", [call(name="a"), end(id="9", out=3)], [("a", "completed", 3)]),
    (
        "a result reported twice is one step",
        [call(id="1", name="a"), end(id="1", out=1), end(id="1", out=2)],
        [("a", "completed", 2)],
    ),
    (
        "a call reported twice is one step",
        [call(id="1", name="a"), call(id="1", name="a", **{"in": 5})],
        [("a", "pending", 5)],
    ),
    (
        "an id used again is a second call",
        [call(id="1", name="a"), end(id="1", out=1), call(id="1", name="b")],
        [("a", "completed", 1), ("b", "pending")],
    ),
    (
        "numbers as ids",
        [call(id=1, name="a"), call(id=2, name="b"), end(id=1, out=0)],
        [("a", "completed", 0), ("b", "pending")],
    ),
    ("no name", [call(id="1")], [("unknown", "pending")]),
    (
        "a false, 0 or empty output is one",
        [call(id="1", name="a"), end(id="1", out=False), call(id="2", name="b"), end(id="2", out="")],
        [("a", "completed", False), ("b", "completed", "")],
    ),
    (
        "call and result on one line",
        [end(id="1", name="a", out="x", status="completed")],
        [("a", "completed", "x")],
    ),
    (
        "in progress, then done",
        [call(id="1", name="a"), end(id="1", status="running"), end(id="1", status="done", out=1)],
        [("a", "completed", 1)],
    ),
    (
        "in progress without id: the pending one moves on, a second one is new",
        [call(name="a"), end(name="a", status="running"), end(name="a", status="running")],
        [("a", "in_progress"), ("a", "in_progress")],
    ),
    (
        "failed by flag, though the status is completed",
        [call(id="1", name="a"), end(id="1", status="completed", err=3)],
        [("a", "failed")],
    ),
    (
        "failed by status, though there is no flag",
        [call(id="1", name="a"), end(id="1", status="error", err=0)],
        [("a", "failed")],
    ),
]


@pytest.mark.parametrize(("why", "events", "steps"), PAIRS, ids=[why for why, _, _ in PAIRS])
def test_a_call_and_its_result_are_one_step(
    why: str, events: list[dict[str, Any]], steps: list[tuple[Any, ...]]
) -> None:
    reading = adapter(outputEvents=TOOLS).read(lines(*events), None, None, "p")
    assert [step[1:] for step in brief(reading)] == steps
    assert reading.tool_errors == any(step[1] == "failed" for step in steps)
    assert all(None not in step.values() for step in reading.trajectory)


STATUS = [
    *((word, "completed") for word in ("success", "OK", "done", "Finished", True)),
    *((word, "failed") for word in ("error", "failure", "Cancelled", "timed-out", False)),
    *((word, "in_progress") for word in ("running", "in-progress", "In Progress")),
    *((word, "pending") for word in ("queued", "pending")),
    ("flabbergasted", "completed"),
    (7, "completed"),
]


@pytest.mark.parametrize(("word", "status"), STATUS)
def test_foreign_words_for_a_status(word: Any, status: str) -> None:
    (step,) = adapter(outputEvents=TOOLS).read(lines(end(id="1", name="a", status=word, out=1))).trajectory
    assert step["status"] == status


@pytest.mark.parametrize(
    ("flag", "failed"),
    [
        (True, True),
        (False, False),
        (0, False),
        (3, True),
        (-1, True),
        ("", False),
        ("false", False),
        ("0", False),
        ("none", False),
        ("boom", True),
        ([], False),
        (["x"], True),
        ({}, False),
        ({"m": 1}, True),
        (None, False),
    ],
)
def test_what_counts_as_an_error(flag: Any, failed: bool) -> None:
    (step,) = adapter(outputEvents=TOOLS).read(lines(end(id="1", out="x", err=flag))).trajectory
    assert step["status"] == ("failed" if failed else "completed")


def test_times_and_the_order_of_fields() -> None:
    schema = adapter(outputEvents=TOOLS)
    raw = lines({"type": "text", "text": "hi"}, call(id="1", name="a", **{"in": 1}), "noise", end(id="1", out=2))
    message, tool = schema.read(raw, [5, 7.5, 8, 20], None, "p-1").trajectory
    assert list(message.items()) == [
        ("type", "message"),
        ("content", "hi"),
        ("timestamp", 5),
        ("stepId", "p-1-step-1"),
    ]
    assert list(tool.items()) == [
        ("type", "tool_call"),
        ("name", "a"),
        ("status", "completed"),
        ("input", 1),
        ("output", 2),
        ("duration", 12.5),
        ("timestamp", 7.5),
        ("stepId", "p-1-step-2"),
    ]
    without = schema.read(raw, None, None, "p-1").trajectory
    assert [sorted(step) for step in without] == [
        ["content", "stepId", "type"],
        ["input", "name", "output", "status", "stepId", "type"],
    ]
    assert "timestamp" not in schema.read(raw, [5], None, "p").trajectory[1], "too few times: those that are there"


def test_a_duration_that_the_agent_tells() -> None:
    schema = adapter(outputEvents=[event(is_type("t"), "tool_call", title="$.n", output="$.o", duration="$.ms")])
    raw = lines({"type": "t", "n": "a", "o": 1, "ms": 78}, {"type": "t", "n": "b", "o": 1, "ms": "?"})
    timed, untimed = schema.read(raw, [1, 2]).trajectory
    assert timed["duration"] == 78
    assert "duration" not in untimed, "one line shows no duration, and 0 is not to be invented"


DELTAS = [
    event([is_type("d"), {"path": "$.k", "value": "think"}], "thought", content="$.t") | {"delta": True},
    event(is_type("d"), "message", content="$.t") | {"delta": "$.more"},
    event(is_type("over"), "end"),
    *TOOLS[1:],
]


def piece(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "d", "t": text, "more": True, **fields}


PIECES: list[tuple[str, list[Any], list[tuple[Any, ...]]]] = [
    ("joined", [piece("a"), piece("b"), {"type": "noise"}, piece("c")], [("message", "abc")]),
    (
        "another kind between",
        [piece("a"), piece("x", k="think"), piece("b")],
        [("message", "a"), ("thought", "x"), ("message", "b")],
    ),
    (
        "a call between",
        [piece("a"), call(name="t"), piece("b")],
        [("message", "a"), ("tool_call", "t", "pending"), ("message", "b")],
    ),
    (
        "a result between",
        [call(id="1", name="t"), piece("a"), end(id="1", out=1), piece("b")],
        [("tool_call", "t", "completed", 1), ("message", "a"), ("message", "b")],
    ),
    ("the whole after its pieces", [piece("a"), piece("b"), piece("ab", more=False)], [("message", "ab")]),
    (
        "another whole after pieces",
        [piece("a"), piece("b", more=False)],
        [("message", "a"), ("message", "b")],
    ),
    (
        "whole ones are not joined",
        [piece("a", more=False), piece("b", more=False)],
        [("message", "a"), ("message", "b")],
    ),
    ("empty pieces", [piece(""), piece("")], []),
    (
        "an end between",
        [piece("a"), {"type": "over"}, piece("b"), piece("c"), {"type": "over"}, {"type": "over"}],
        [("message", "a"), ("message", "bc")],
    ),
    (
        "empty pieces of another kind between",
        [piece("a"), piece("", k="think"), piece("b"), {"type": "d", "k": "think", "more": True}, piece("c")],
        [("message", "abc")],
    ),
]


@pytest.mark.parametrize(("why", "events", "steps"), PIECES, ids=[why for why, _, _ in PIECES])
def test_pieces(why: str, events: list[Any], steps: list[tuple[Any, ...]]) -> None:
    assert brief(adapter(outputEvents=DELTAS).read(lines(*events))) == steps


def test_pieces_end_with_the_turn_and_have_the_time_of_the_first() -> None:
    reading = adapter(outputEvents=DELTAS).read(lines(*map(piece, "abcd")), [1, 2, 3, 4], [2, 2])
    assert [(step["content"], step["timestamp"]) for step in reading.trajectory] == [("ab", 1), ("cd", 3)]
