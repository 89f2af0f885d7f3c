"""Adapter schemas: recorded output of real agents by goldens and tables, and each rule of the language."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agenteval.adapter import Adapter, Reading, bundled_adapters, load_adapter, parse_adapter, richness
from agenteval.errors import UserError

HERE = Path(__file__).parent
TRANSCRIPTS = HERE / "data" / "transcripts"
ADAPTERS = HERE / "data" / "adapters"
GOLDEN = HERE / "golden" / "claude"
UPDATE = "AE_UPDATE_GOLDEN"  # set it to write the golden files anew, then read the diff

BASE: dict[str, Any] = {
    "version": 1,
    "name": "my",
    "command": ["my"],
    "sessionMode": "stream",
    "prompt": {"flag": "-p"},
}


def adapter(**fields: Any) -> Adapter:
    return parse_adapter(json.dumps(BASE | fields).encode(), "my.json")


def event(match: Any, emit_as: str, **extract: Any) -> dict[str, Any]:
    return {"match": match, "emitAs": emit_as, "extract": extract}


def is_type(value: Any) -> dict[str, Any]:
    return {"path": "$.type", "value": value}


def lines(*events: Any) -> list[str]:
    return [one if isinstance(one, str) else json.dumps(one) for one in events]


def transcript(*names: str) -> tuple[list[str], list[int]]:
    """The lines of these transcripts as the turns of one session, and their number in each."""
    turns = [(TRANSCRIPTS / f"{name}.jsonl").read_text().splitlines() for name in names]
    return [line for turn in turns for line in turn], [len(turn) for turn in turns]


def read_transcript(schema: Adapter, *names: str) -> Reading:
    raw, turns = transcript(*names)
    return schema.read(raw, [10 * n for n in range(len(raw))], turns, names[0])


def brief(reading: Reading) -> list[tuple[Any, ...]]:
    """Each step as what matters of it: kind, then text or name, status, input, output."""
    return [
        tuple(step[key] for key in ("type", "content", "name", "status", "input", "output") if key in step)
        for step in reading.trajectory
    ]


# --- recorded agents ---------------------------------------------------------------------------------

CLAUDE = [
    ("success",),
    ("toolfail",),
    ("partial",),
    ("http401",),
    ("http500",),
    ("resume1",),
    ("resume1", "resume2"),
]


@pytest.mark.parametrize("scenarios", CLAUDE, ids="+".join)
def test_claude(scenarios: tuple[str, ...]) -> None:
    reading = read_transcript(load_adapter("claude"), *(f"claude-{name}" for name in scenarios))
    golden = GOLDEN / f"{'+'.join(scenarios)}.json"
    if UPDATE in os.environ:
        golden.write_text(json.dumps(reading._asdict(), indent=2, ensure_ascii=False) + "\n")
    assert reading._asdict() == json.loads(golden.read_text())
    assert json.dumps(reading._asdict()) == json.dumps(json.loads(golden.read_text())), "the order of fields"


FIRST, FINAL = "I'll create the file now.", "The command failed with exit code 3. The answer is 42."
THOUGHT = ("thought", "The user wants a file. I will run one shell command.")
COMMAND = "echo partial-out; echo boom >&2; exit 3"
TOKENS = {"inputTokens": 2400, "outputTokens": 114, "cachedTokens": 1000}

TOOLFAIL = {
    "codex": (
        [THOUGHT, ("message", FIRST),
         ("tool_call", "command_execution", "failed", f"/bin/bash -lc '{COMMAND}'", "partial-out\nboom\n")],
        TOKENS,
    ),
    "gemini": (
        [("message", FIRST),
         ("tool_call", "run_shell_command", "completed", {"command": COMMAND}, "partial-out\nboom")],
        {"inputTokens": 3600, "outputTokens": 171, "cachedTokens": 1500},
    ),
    "opencode": (
        [THOUGHT, ("message", FIRST), ("tool_call", "bash", "failed", {"command": COMMAND}, "partial-out\nboom\n")],
        TOKENS | {"costUsd": 2 * 0.000864},
    ),
    "copilot": (
        [("message", FIRST), THOUGHT,
         ("tool_call", "bash", "failed", {"command": COMMAND, "description": "create hello.txt"},
          "partial-out\nboom\n<shellId: 0 completed with exit code 3>")],
        {},
    ),
    "pi": (
        [THOUGHT, ("message", FIRST),
         ("tool_call", "bash", "failed", {"command": COMMAND},
          [{"type": "text", "text": "partial-out\nboom\n\n\nCommand exited with code 3"}])],
        TOKENS | {"costUsd": 2 * 0.000864},
    ),
    "qwen": (
        [THOUGHT, ("message", FIRST),
         ("tool_call", "run_shell_command", "failed", {"command": COMMAND},
          f"Command: {COMMAND}\nDirectory: (root)\nOutput: partial-out\nboom\nError: (none)\n"
          "Exit Code: 3\nSignal: (none)\nProcess Group PGID: (none)")],
        TOKENS,
    ),
    "cline": (
        [("message", FIRST), THOUGHT,
         ("tool_call", "run_commands", "failed", {"commands": [COMMAND]},
          [{"query": COMMAND, "result": "[Command exited with code 3]\npartial-out\n\n[stderr]\nboom\n",
            "error": "Command exited with code 3", "success": False}])],
        TOKENS | {"costUsd": 0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("agent", TOOLFAIL)
def test_a_run_with_a_failing_command(agent: str) -> None:
    steps, usage = TOOLFAIL[agent]
    reading = read_transcript(load_adapter(str(ADAPTERS / f"{agent}.json")), f"{agent}-toolfail")
    assert brief(reading) == [*steps, ("message", FINAL)]
    assert reading.output == FINAL
    assert reading.usage == pytest.approx(usage)
    assert reading.errors == []
    assert reading.tool_errors == (agent != "gemini"), "gemini alone says nothing of the exit code"
    assert [step["stepId"] for step in reading.trajectory] == [
        f"{agent}-toolfail-step-{n}" for n in range(1, len(steps) + 2)
    ]


FAILURES = [
    ("codex", "http401", "unexpected status 401 Unauthorized: invalid x-api-key (fake), url: http://127.0.0.1:8765/v1/responses"),
    ("codex", "http500", "We’re currently experiencing high demand, which may cause temporary errors."),
    ("gemini", "http500", '[API Error: {"error":{"code":500,"message":"Internal server error (fake)","status":"INTERNAL"}}]'),
    ("opencode", "http401", "invalid x-api-key (fake)"),
    ("pi", "http401", "401 invalid x-api-key (fake)"),
    ("pi", "http500", "500 Internal server error (fake)"),
    ("qwen", "http401", "[API Error: 401 invalid x-api-key (fake)]"),
    ("cline", "http401", "invalid x-api-key (fake)"),
]  # fmt: skip


@pytest.mark.parametrize(("agent", "scenario", "error"), FAILURES)
def test_the_agent_says_that_it_failed(agent: str, scenario: str, error: str) -> None:
    reading = read_transcript(load_adapter(str(ADAPTERS / f"{agent}.json")), f"{agent}-{scenario}")
    assert reading.errors == [error], "retries are no errors, and one error is told once"


RESUMED = [
    ("claude", {"inputTokens": 6000, "outputTokens": 171, "cachedTokens": 1500, "costUsd": 0.02262}, 6),
    ("codex", {"inputTokens": 3600, "outputTokens": 171, "cachedTokens": 1500}, 10),
    ("gemini", {"inputTokens": 6000, "outputTokens": 285, "cachedTokens": 2500}, 5),
    ("opencode", {"inputTokens": 3600, "outputTokens": 171, "cachedTokens": 1500, "costUsd": 3 * 0.000864}, 6),
    ("qwen", {"inputTokens": 6000, "outputTokens": 285, "cachedTokens": 2500}, 6),
]


@pytest.mark.parametrize(("agent", "usage", "messages"), RESUMED)
def test_two_turns_of_one_session(agent: str, usage: dict[str, Any], messages: int) -> None:
    path = ADAPTERS / f"{agent}.json"
    schema = load_adapter(str(path) if path.exists() else agent)
    reading = read_transcript(schema, f"{agent}-resume1", f"{agent}-resume2")
    assert reading.output == f"FOLLOWUP seen; history had {messages} messages. The answer is still 42."
    assert reading.usage == pytest.approx(usage)
    first, _ = transcript(f"{agent}-resume1")
    assert schema.turn_output(first) == "Created hello.txt. The answer is 42."
    assert schema.session_id(first) == reading.session_id is not None


# --- steps -------------------------------------------------------------------------------------------

BLOCKS = "$.content[*]"
TOOLS = [
    event(is_type("text"), "message", content="$.text"),
    event(is_type("call"), "tool_call", id="$.id", title="$.name", input="$.in"),
    event(is_type("end"), "tool_call", id="$.id", title="$.name", output="$.out", status="$.status", isError="$.err"),
]


def call(**fields: Any) -> dict[str, Any]:
    return {"type": "call", **fields}


def end(**fields: Any) -> dict[str, Any]:
    return {"type": "end", **fields}


PAIRS: list[tuple[str, list[dict[str, Any]], list[tuple[Any, ...]]]] = [
    ("by id, in any order",
     [call(id="1", name="a", **{"in": 1}), call(id="2", name="a", **{"in": 2}), end(id="2", out="x"), end(id="1", out="y")],
     [("a", "completed", 1, "y"), ("a", "completed", 2, "x")]),
    ("by name, the oldest first",
     [call(name="a", **{"in": 1}), call(name="b"), call(name="a", **{"in": 2}), end(name="a", out=1), end(name="a", out=2)],
     [("a", "completed", 1, 1), ("b", "pending"), ("a", "completed", 2, 2)]),
    ("neither id nor name: the oldest", [call(name="a"), call(name="b"), end(out=1)], [("a", "completed", 1), ("b", "pending")]),
    ("never answered stays pending", [call(id="1", name="a", **{"in": {}})], [("a", "pending", {})]),
    ("an id that nobody called does not close another's", [call(id="1", name="a"), end(id="2", out=3)],
     [("a", "pending"), ("unknown", "completed", 3)]),
    ("a call without id, its result with one", [call(name="a"), end(id="9", out=3)], [("a", "completed", 3)]),
    ("a result told twice is one step", [call(id="1", name="a"), end(id="1", out=1), end(id="1", out=2)], [("a", "completed", 2)]),
    ("a call told twice is one step", [call(id="1", name="a"), call(id="1", name="a", **{"in": 5})], [("a", "pending", 5)]),
    ("an id used again is a second call", [call(id="1", name="a"), end(id="1", out=1), call(id="1", name="b")],
     [("a", "completed", 1), ("b", "pending")]),
    ("numbers as ids", [call(id=1, name="a"), call(id=2, name="b"), end(id=1, out=0)], [("a", "completed", 0), ("b", "pending")]),
    ("no name", [call(id="1")], [("unknown", "pending")]),
    ("a false, 0 or empty output is one", [call(id="1", name="a"), end(id="1", out=False), call(id="2", name="b"), end(id="2", out="")],
     [("a", "completed", False), ("b", "completed", "")]),
    ("call and result on one line", [end(id="1", name="a", out="x", status="completed")], [("a", "completed", "x")]),
    ("in progress, then done",
     [call(id="1", name="a"), end(id="1", status="running"), end(id="1", status="done", out=1)], [("a", "completed", 1)]),
    ("in progress without id: the pending one moves on, a second one is new",
     [call(name="a"), end(name="a", status="running"), end(name="a", status="running")], [("a", "in_progress"), ("a", "in_progress")]),
    ("failed by flag, though the status says completed",
     [call(id="1", name="a"), end(id="1", status="completed", err=3)], [("a", "failed")]),
    ("failed by status, though there is no flag", [call(id="1", name="a"), end(id="1", status="error", err=0)], [("a", "failed")]),
]  # fmt: skip


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
    [(True, True), (False, False), (0, False), (3, True), (-1, True), ("", False), ("false", False), ("0", False),
     ("none", False), ("boom", True), ([], False), (["x"], True), ({}, False), ({"m": 1}, True), (None, False)],
)  # fmt: skip
def test_what_counts_as_an_error(flag: Any, failed: bool) -> None:
    (step,) = adapter(outputEvents=TOOLS).read(lines(end(id="1", out="x", err=flag))).trajectory
    assert step["status"] == ("failed" if failed else "completed")


def test_times_and_the_order_of_fields() -> None:
    schema = adapter(outputEvents=TOOLS)
    raw = lines({"type": "text", "text": "hi"}, call(id="1", name="a", **{"in": 1}), "noise", end(id="1", out=2))
    message, tool = schema.read(raw, [5, 7.5, 8, 20], None, "p-1").trajectory
    assert list(message.items()) == [("type", "message"), ("content", "hi"), ("timestamp", 5), ("stepId", "p-1-step-1")]
    assert list(tool.items()) == [
        ("type", "tool_call"), ("name", "a"), ("status", "completed"), ("input", 1), ("output", 2),
        ("duration", 12.5), ("timestamp", 7.5), ("stepId", "p-1-step-2"),
    ]  # fmt: skip
    without = schema.read(raw, None, None, "p-1").trajectory
    assert [sorted(step) for step in without] == [
        ["content", "stepId", "type"],
        ["input", "name", "output", "status", "stepId", "type"],
    ]
    assert "timestamp" not in schema.read(raw, [5], None, "p").trajectory[1], "too few times: those that are there"


def test_a_duration_that_the_agent_tells() -> None:
    schema = adapter(outputEvents=[event(is_type("t"), "tool_call", title="$.n", output="$.o", duration="$.ms")])
    raw = lines({"type": "t", "n": "a", "o": 1, "ms": 78}, {"type": "t", "n": "b", "o": 1, "ms": "?"})
    told, untold = schema.read(raw, [1, 2]).trajectory
    assert told["duration"] == 78
    assert "duration" not in untold, "one line tells no duration, and 0 is not to be invented"


# --- matching ----------------------------------------------------------------------------------------

MIXED = {"type": "m", "content": [{"type": "think", "t": "hm"}, {"type": "text", "t": "hi"}, {"type": "use", "n": "ls"}]}


def test_one_event_with_a_thought_a_text_and_a_call_gives_three_steps_in_order() -> None:
    schema = adapter(
        outputEvents=[
            event({"path": BLOCKS, "value": "use"}, "tool_call", title="$.n", status="'pending'"),
            event({"path": BLOCKS, "value": "text"}, "message", content="$.t"),
            event({"path": BLOCKS, "value": "think"}, "thought", content="$.t"),
        ]
    )
    assert brief(schema.read(lines(MIXED))) == [("thought", "hm"), ("message", "hi"), ("tool_call", "ls", "pending")]


ITEMS = {"type": "m", "role": "bot", "content": [{"type": "a", "v": 1}, "word", 5, None, {"v": 2}, {"type": "b", "v": 3}]}
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
    ("a list found by a plain path, as in the seed", {"path": "$.content", "value": "a"}, ["1"]),
    ("an RFC 9535 query", {"path": "$.content[?@.v > 2].type", "value": "b"}, ["E"]),
    ("a number", {"path": "$.n", "value": 1}, ["E"]),
    ("true is not 1", {"path": "$.n", "value": True}, []),
    ("true", {"path": "$.t", "value": True}, ["E"]),
    ("a text is not a number", {"path": "$.n", "value": "1"}, []),
]  # fmt: skip


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
    assert brief(adapter(outputEvents=events).read(lines(MIXED))) == [("message", "hi"), ("tool_call", "ls", "pending")]
    assert brief(adapter(outputEvents=events[::-1]).read(lines(only_use))) == [("tool_call", "ls", "pending")]


def test_an_extract_may_reach_from_the_item_to_the_event() -> None:
    schema = adapter(
        outputEvents=[event({"path": BLOCKS, "value": "use"}, "tool_call", id="^$.nr", title="$.n", input="^$.type")]
    )
    assert brief(schema.read(lines(MIXED | {"nr": 4}))) == [("tool_call", "ls", "pending", "m")]


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (1, "1"), (1.5, "1.5"), (True, "true"), (["a", "b"], "ab"), ({"k": [1]}, '{"k":[1]}'), ([1, 2], "[1,2]"),
     ([{"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}], "ab"), ([], "[]")],
)  # fmt: skip
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


# --- pieces ------------------------------------------------------------------------------------------

DELTAS = [
    event([is_type("d"), {"path": "$.k", "value": "think"}], "thought", content="$.t") | {"delta": True},
    event(is_type("d"), "message", content="$.t") | {"delta": "$.more"},
    *TOOLS[1:],
]


def piece(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "d", "t": text, "more": True, **fields}


PIECES: list[tuple[str, list[Any], list[tuple[Any, ...]]]] = [
    ("joined", [piece("a"), piece("b"), {"type": "noise"}, piece("c")], [("message", "abc")]),
    ("another kind between", [piece("a"), piece("x", k="think"), piece("b")],
     [("message", "a"), ("thought", "x"), ("message", "b")]),
    ("a call between", [piece("a"), call(name="t"), piece("b")], [("message", "a"), ("tool_call", "t", "pending"), ("message", "b")]),
    ("a result between", [call(id="1", name="t"), piece("a"), end(id="1", out=1), piece("b")],
     [("tool_call", "t", "completed", 1), ("message", "a"), ("message", "b")]),
    ("the whole after its pieces", [piece("a"), piece("b"), piece("ab", more=False)], [("message", "ab")]),
    ("another whole after pieces", [piece("a"), piece("b", more=False)], [("message", "a"), ("message", "b")]),
    ("whole ones are not joined", [piece("a", more=False), piece("b", more=False)], [("message", "a"), ("message", "b")]),
    ("empty pieces", [piece(""), piece("")], []),
]  # fmt: skip


@pytest.mark.parametrize(("why", "events", "steps"), PIECES, ids=[why for why, _, _ in PIECES])
def test_pieces(why: str, events: list[Any], steps: list[tuple[Any, ...]]) -> None:
    assert brief(adapter(outputEvents=DELTAS).read(lines(*events))) == steps


def test_pieces_end_with_the_turn_and_have_the_time_of_the_first() -> None:
    reading = adapter(outputEvents=DELTAS).read(lines(*map(piece, "abcd")), [1, 2, 3, 4], [2, 2])
    assert [(step["content"], step["timestamp"]) for step in reading.trajectory] == [("ab", 1), ("cd", 3)]


# --- output, errors, usage ---------------------------------------------------------------------------

RESULT = {"matchPath": "$.type", "matchValue": "result", "contentPath": "$.r"}
SAY = [event(is_type("text"), "message", content="$.text")]


def say(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


OUTPUTS: list[tuple[str, dict[str, Any] | None, list[Any], list[int] | None, str]] = [
    ("the result", RESULT, [say("a"), {"type": "result", "r": "R"}], None, "R"),
    ("the last result", RESULT, [{"type": "result", "r": "1"}, {"type": "result", "r": "2"}], None, "2"),
    ("an empty result: the messages", RESULT, [say("a"), say("b"), {"type": "result", "r": ""}], None, "a\nb"),
    ("no result came: the messages", RESULT, [say("a"), say("b")], None, "a\nb"),
    ("no result configured: the last message", None, [say("a"), say("b")], None, "b"),
    ("any result", RESULT | {"matchPath": "$.r", "matchValue": "*"}, [{"r": None}, {"r": "x"}], None, "x"),
    ("a result that is no text", RESULT, [{"type": "result", "r": {"a": 1}}], None, '{"a":1}'),
    ("an empty path, which the seed needs", RESULT | {"matchPath": "", "contentPath": ""}, [say("a")], None, "a"),
    ("of the last turn", RESULT, [{"type": "result", "r": "1"}, say("b")], [1, 1], "b"),
    ("of a last turn that said nothing", RESULT, [say("a")], [1, 0], ""),
    ("nothing at all", None, [], None, ""),
]


@pytest.mark.parametrize(("why", "result", "events", "turns", "output"), OUTPUTS, ids=[row[0] for row in OUTPUTS])
def test_output(
    why: str, result: dict[str, Any] | None, events: list[Any], turns: list[int] | None, output: str
) -> None:
    schema = adapter(outputEvents=SAY, **({"result": result} if result else {}))
    assert schema.read(lines(*events), None, turns).output == output


CLAUDE_ERRORS: list[tuple[list[dict[str, Any]], list[str], str]] = [
    ([{"type": "result", "subtype": "success", "is_error": True, "result": "API Error"}], ["API Error"], "API Error"),
    ([{"type": "result", "subtype": "error_max_turns", "is_error": False, "errors": ["Reached 1", "x"]}], ["Reached 1", "x"], ""),
    ([{"type": "result", "subtype": "error_during_execution", "is_error": True}], ["the agent reports an error"], ""),
    ([{"type": "system", "subtype": "api_retry", "error": "server_error"}, {"type": "result", "result": "ok"}], [], "ok"),
    ([{"type": "result", "is_error": True, "result": "no"}, {"type": "result", "result": "yes"}], [], "yes"),
]  # fmt: skip


@pytest.mark.parametrize(("events", "errors", "output"), CLAUDE_ERRORS)
def test_claude_says_that_it_failed(events: list[dict[str, Any]], errors: list[str], output: str) -> None:
    reading = load_adapter("claude").read(lines(*events))
    assert (reading.errors, reading.output) == (errors, output)


def test_error_events() -> None:
    schema = adapter(outputEvents=[event(is_type("error"), "error", content="$.m"), event(is_type("oops"), "error")])
    raw = lines({"type": "error", "m": "a"}, {"type": "error", "m": "a"}, {"type": "error"}, {"type": "oops", "n": 1})
    reading = schema.read(raw)
    assert reading.errors == ["a", "the agent reports an error", '{"type":"oops","n":1}']
    assert reading.trajectory == []


USAGE = {"inputTokens": ["$.in", "$.cache"], "costUsd": "$.usd"}
REPORTS = [{"in": 1, "cache": 2, "usd": 0.5}, {"in": 10}, {"in": True, "usd": "7"}, {"in": 100, "usd": 1.5}]
USAGES: list[tuple[str, dict[str, Any], list[int], dict[str, Any]]] = [
    ("the last counts", {}, [4], {"inputTokens": 100, "costUsd": 1.5}),
    ("they add up", {"perTurn": "sum"}, [4], {"inputTokens": 113, "costUsd": 2.0}),
    ("turns add up", {}, [2, 2], {"inputTokens": 110, "costUsd": 2.0}),
    ("turns are cumulative", {"cumulative": True}, [2, 2], {"inputTokens": 100, "costUsd": 1.5}),
    ("one field is", {"cumulative": ["costUsd"]}, [2, 2], {"inputTokens": 110, "costUsd": 1.5}),
    ("a last turn that reports nothing", {"cumulative": True}, [4, 0], {"inputTokens": 100, "costUsd": 1.5}),
    ("only matching events", {"match": {"path": "$.cache", "value": "*"}}, [4], {"inputTokens": 3, "costUsd": 0.5}),
]


@pytest.mark.parametrize(("why", "more", "turns", "usage"), USAGES, ids=[row[0] for row in USAGES])
def test_usage(why: str, more: dict[str, Any], turns: list[int], usage: dict[str, Any]) -> None:
    assert adapter(usage=USAGE | more).read(lines(*REPORTS), None, turns).usage == usage


def test_usage_of_separate_sessions_is_never_cumulative() -> None:
    schema = adapter(sessionMode="iterative", usage=USAGE | {"cumulative": True})
    assert schema.read(lines(*REPORTS), None, [2, 2]).usage == {"inputTokens": 110, "costUsd": 2.0}


@pytest.mark.parametrize(
    ("path", "events", "found"),
    [
        ("$.thread", [{"thread": "a"}, {"x": 1}], "a"),
        ("$.thread", [{"thread": "a"}, {"thread": "b"}], "b"),
        ("$.thread", [{"thread": "a"}, {"session_id": "s"}], "a"),
        ("$.thread", [{"session_id": "s"}, {"x": 1}], "s"),
        (None, [{"session_id": "s"}, {"session_id": None}], "s"),
        ("$.thread", [{"thread": 12}], "12"),
        ("$.thread", [{"x": 1}, "noise"], None),
    ],
)
def test_session_id(path: str | None, events: list[Any], found: str | None) -> None:
    schema = adapter(resume={"flag": "--resume", **({"sessionIdPath": path} if path else {})})
    assert schema.session_id(lines(*events)) == found


# --- lines -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('{"type":"text","text":"caf\\u00e9 \\ud83d\\ude00"}', "café 😀"),
        ('{"type":"text","text":"half \\ud83d"}', "half \ufffd"),
        ('{"type":"text","text":"half \\ude00 \\ud83d\\ude00"}', "half \ufffd 😀"),
        ('{"type":"text","text":"raw \ud83d"}', "raw \ufffd"),
        ('{"type":"text","text":"a","x":"\\ud83d"}', "a"),
        ('{"type":"text","text":"a","x":NaN}', "a"),
        ('{"type":"text","text":[NaN,-Infinity,1e999]}', "[null,null,null]"),
        ('{"type":"text","text":"tab\there"}', "tab\there"),
        ('\ufeff{"type":"text","text":"bom"}', "bom"),
        ('  {"type":"text","text":"blanks"} \r', "blanks"),
        ('{"type":"text","text":123456789012345678901234567890123456789}', "123456789012345678901234567890123456789"),
    ],
)
def test_lines_that_agents_do_print(line: str, text: str) -> None:
    (step,) = adapter(outputEvents=SAY).read([line]).trajectory
    assert step["content"] == text
    msgspec.json.encode(step)


@pytest.mark.parametrize(
    "line",
    ["", "text", "[1]", '"x"', "7", "null", '{"type":"text","text":"cut', "{", "{'a': 1}", "\x00", "[" * 99999,
     '{"type":["text"]}', '{"type":{"text":1}}', '{"type":7}', '{"type":"text","text":' + "[" * 99999, "{}"],
)  # fmt: skip
def test_lines_that_are_no_event_for_us(line: str) -> None:
    reading = adapter(outputEvents=SAY, result=RESULT).read([line])
    assert reading == Reading([], "", {}, [], False, None)


def test_text_mode() -> None:
    reading = load_adapter("text").read(["a", "", '{"b": 1}', "later"], [3, 4, 5, 9], [3, 1], "p")
    assert reading.trajectory == [
        {"type": "message", "content": 'a\n\n{"b": 1}', "timestamp": 3, "stepId": "p-step-1"},
        {"type": "message", "content": "later", "timestamp": 9, "stepId": "p-step-2"},
    ]
    assert reading.output == "later"
    assert load_adapter("text").read([]) == Reading([], "", {}, [], False, None)


def test_passthrough() -> None:
    schema = adapter(
        outputMode="passthrough",
        passthroughTypeMap={"typeField": "kind of", "typeValues": {"think": "thought", "plan": "message"}},
        result=RESULT,
    )
    raw = lines(
        {"kind of": "think", "content": "hm"},
        {"kind of": "plan", "content": "mapped away"},
        {"kind of": "tool_call", "id": 1, "title": "ls", "input": {"a": 1}},
        {"kind of": "tool_call", "id": 1, "status": "completed", "output": "x"},
        {"kind of": "tool_call", "name": "rm", "title": "not this", "status": "failed"},
        {"kind of": "other", "content": "x"},
        {"type": "message", "content": "x"},
        {"kind of": 7},
    )
    reading = schema.read(raw)
    assert brief(reading) == [
        ("thought", "hm"),
        ("message", "mapped away"),
        ("tool_call", "ls", "completed", {"a": 1}, "x"),
        ("tool_call", "rm", "failed"),
    ]
    assert reading.tool_errors


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ([], "minimal"),
        (["message", "message"], "messages-only"),
        (["message", "thought"], "full"),
        (["tool_call"], "full"),
        (["plan"], "full"),
    ],
)
def test_richness(kinds: list[str], found: str) -> None:
    assert richness([{"type": kind} for kind in kinds]) == found


# --- wrong schemas -----------------------------------------------------------------------------------

ONE = {"path": "$.type", "value": "a"}
GOOD = {"match": ONE, "emitAs": "message"}
EMITS = "thought, tool_call, message, plan, error"
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"version": 2}, "version must be 1; got 2"),
    ({"name": None}, "name must be a string, got null"),
    ({"command": "claude"}, "command must be a list, got a string"),
    ({"command": ["a", 7]}, "command[1] must be a string, got an integer"),
    ({"sessionMode": "batch"}, 'sessionMode must be one of stream, iterative; got "batch"'),
    ({"prompt": {"flag": "-p", "stdin": True}}, "prompt may have flag or stdin, not both"),
    ({"resume": {"sessionIdPath": "$.id"}}, "resume must have either flag or args"),
    ({"resume": {"flag": "-r", "args": ["x"]}}, "resume must have either flag or args"),
    ({"resume": {"flag": "-r", "sessionIdPath": "id"}},
     'resume.sessionIdPath: "id" is not a JSONPath (a path starts with $, a literal stands in single quotes)'),
    ({"outputEvents": [GOOD, GOOD, {**GOOD, "emitAs": "thoughts"}]}, f'outputEvents[2].emitAs must be one of {EMITS}; got "thoughts"'),
    ({"outputEvents": [GOOD, {"match": ONE}]}, "outputEvents[1].emitAs is missing"),
    ({"outputEvents": [{**GOOD, "match": [ONE, {"path": 7, "value": "a"}]}]}, "outputEvents[0].match[1].path must be a string, got an integer"),
    ({"outputEvents": [{**GOOD, "match": []}]}, "outputEvents[0].match must have a condition"),
    ({"outputEvents": [{**GOOD, "match": {"path": "$.a"}}]}, 'outputEvents[0].match must have either "value" or "not"'),
    ({"outputEvents": [{**GOOD, "match": [ONE, {"path": "$.a", "value": "x", "not": "y"}]}]},
     'outputEvents[0].match[1] must have either "value" or "not"'),
    ({"outputEvents": [{**GOOD, "match": [{"path": "$.a[*]", "value": "x"}, {"path": "$.b[*]", "value": "y"}]}]},
     "outputEvents[0].match may have [*] in one condition only"),
    ({"usage": {"match": {"path": "$.a[*]", "value": "x"}}}, "usage.match may not have [*]"),
    ({"usage": {"cumulative": ["tokens"]}},
     'usage.cumulative[0] must be one of inputTokens, outputTokens, cachedTokens, costUsd; got "tokens"'),
    ({"passthroughTypeMap": {"typeValues": {"a": "thought", "b": "x"}}},
     'passthroughTypeMap.typeValues.b must be one of thought, tool_call, message, plan; got "x"'),
    ({"timeout": -1}, "timeout must be a number > 0.0"),
]  # fmt: skip
BAD_PATHS = [
    ({"result": {**RESULT, "contentPath": "$.a["}}, "result.contentPath"),
    ({"result": {**RESULT, "errorPath": ["$.a", "$["]}}, "result.errorPath"),
    ({"outputEvents": [{**GOOD, "extract": {"isError": ["$.a", "$.b["]}}]}, "outputEvents[0].extract.isError"),
    ({"outputEvents": [GOOD, {**GOOD, "match": {"path": "$[?", "value": "a"}}]}, "outputEvents[1].match.path"),
    ({"outputEvents": [{**GOOD, "delta": "more"}]}, "outputEvents[0].delta"),
    ({"usage": {"costUsd": "usd"}}, "usage.costUsd"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_schema_is_refused_by_the_name_of_the_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        adapter(**fields)
    assert str(error.value) == f"my.json: {message}"


@pytest.mark.parametrize(("fields", "field"), BAD_PATHS, ids=[field for _, field in BAD_PATHS])
def test_a_wrong_path_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(UserError) as error:
        adapter(**fields)
    assert str(error.value).startswith(f"my.json: {field}: ")
    assert "is not a JSONPath (" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b'{"version": 1}', b"\xff"])
def test_what_is_no_schema_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(UserError, match=r"^my\.json: [^\n]+$"):
        parse_adapter(data, "my.json")


def test_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text("\ufeff" + json.dumps(BASE | {"unknown": {"key": 1}}))
    assert load_adapter("mine").config.name == "my", "a file without .json, a BOM and an unknown key are let through"
    assert load_adapter("claude").config.command == ["claude"]
    with pytest.raises(UserError, match=r"^no\.json: No such file or directory$"):
        load_adapter("no.json")
    with pytest.raises(UserError, match=r'no adapter schema is named "cluade": .*claude, .*text'):
        load_adapter("cluade")


@pytest.mark.parametrize("name", bundled_adapters())
def test_bundled_schemas_say_what_they_are(name: str) -> None:
    config = load_adapter(name).config
    assert config.name == name
    assert config.description


def test_every_field_of_the_format_is_described() -> None:
    from agenteval.headless import HeadlessAdapter

    schema = msgspec.json.schema(HeadlessAdapter)
    for name, part in schema["$defs"].items():
        for field, value in part["properties"].items():
            assert "description" in value, f"{name}.{field}"
