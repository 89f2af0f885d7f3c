"""What real agents printed that was lost once: sub-agents, two results in a turn, halves of characters, times."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agenteval.adapters.reader import Adapter, Reading, result_of
from agenteval.adapters.schema_file import load_adapter
from tests.support.schema_building import adapter, event, facts, is_type, lines, read_traced

SAY = event(is_type("say"), "message", content="$.text", parent="$.of")
PIECE = event(is_type("piece"), "message", content="$.text") | {"delta": True}
CALL = event(is_type("call"), "tool_call", id="$.id", title="$.name", input="$.args", parent="$.of", start="$.at")
DONE = event(is_type("done"), "tool_call", id="$.id", output="$.out", end="$.at")
RULES = [SAY, PIECE, CALL, DONE]


def read(schema: Adapter, *events: Any) -> Reading:
    """Reads events with and without a trace, which must give the same."""
    reading = schema.read(lines(*events))
    assert facts(reading) == facts(read_traced(schema, lines(*events)))
    return reading


def steps(reading: Reading, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(step.get(name) for name in names) for step in reading.trajectory]


def test_steps_of_a_sub_agent_name_the_call_they_belong_to() -> None:
    reading = read(
        adapter(outputEvents=RULES),
        {"type": "call", "id": "a", "name": "Agent", "args": {}},
        {"type": "say", "text": "of the child", "of": "a"},
        {"type": "call", "id": "b", "name": "Bash", "of": "a"},
        {"type": "done", "id": "b", "out": "1"},
        {"type": "done", "id": "a", "out": "2"},
        {"type": "say", "text": "the answer"},
        {"type": "say", "text": "late", "of": "a"},
    )
    assert steps(reading, "name", "callId", "parentId") == [
        ("Agent", "a", None),
        (None, None, "a"),
        ("Bash", None, "a"),
        (None, None, None),
        (None, None, "a"),
    ]
    assert reading.output == "the answer", "a message of a sub-agent is not the answer"


def test_pieces_of_two_sub_agents_are_two_texts() -> None:
    rule = event(is_type("piece"), "message", content="$.text", parent="$.of") | {"delta": True}
    pieces = [
        {"type": "piece", "text": text, "of": of} for text, of in [("a", "1"), ("b", "1"), ("c", "2"), ("d", None)]
    ]
    assert steps(read(adapter(outputEvents=[rule]), *pieces), "content", "parentId") == [
        ("ab", "1"),
        ("c", "2"),
        ("d", None),
    ]


@pytest.mark.parametrize(
    ("start", "end", "duration"),
    [
        (1_000, 1_250, 250),
        ("2026-11-16T00:19:34.237581", "2026-11-16T00:19:34.818307", 580.726),
        ("2026-11-16T00:19:34Z", "2026-11-16T01:19:35+01:00", 1_000),
        (1_000, 900, None),
        (None, 900, None),
        ("soon", "later", None),
    ],
)
def test_the_clock_of_the_agent_gives_the_duration(start: Any, end: Any, duration: float | None) -> None:
    call, done = (
        {"type": "call", "id": "a", "name": "x", "at": start},
        {"type": "done", "id": "a", "out": "1", "at": end},
    )
    (step,) = read(adapter(outputEvents=RULES), call, done).trajectory
    assert step.get("duration") == duration


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ('{"command": "ls"}', {"command": "ls"}),
        (' {"a": [1, 2]}', {"a": [1, 2]}),
        ("{ echo hi; }", "{ echo hi; }"),
        ("[1]", "[1]"),
        ("ls", "ls"),
        ('{"a": 1} ', {"a": 1}),
        (' {"a": "' + "é" * 500 + '"}', {"a": "é" * 500}),
        ({"a": "{}"}, {"a": "{}"}),
    ],
)
def test_json_in_the_text_of_arguments_is_decoded(given: Any, found: Any) -> None:
    event_ = {"type": "call", "id": "a", "name": "x", "args": given}
    schema = adapter(outputEvents=RULES)
    assert read(schema, event_).trajectory[0]["input"] == found


HALVES = ['{"type":"piece","text":"a \\ud83d"}', '{"type":"piece","text":"\\ude00 b"}']


def test_the_halves_of_a_character_in_two_pieces_are_joined() -> None:
    whole = '{"type":"say","text":"c \\ud83d\\ude00 \\ud83d"}'
    lone = '{"type":"call","id":"a","name":"x","args":{"\\ude00":"d \\ud83d"}}'
    reading = adapter(outputEvents=RULES).read([*HALVES, whole, lone])
    assert steps(reading, "content", "input") == [
        ("a \U0001f600 b", None),
        ("c \U0001f600 \ufffd", None),
        (None, {"\ufffd": "d \ufffd"}),
    ]


def test_a_private_character_stays_what_it_is() -> None:
    text = "\U0010f83d\U0010fe00"
    assert read(adapter(outputEvents=RULES), {"type": "say", "text": text}).output == text


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (("end_turn", "completed", "success"), "end_turn"),
        (("tool_use", "max_turns", "error_max_turns"), "max_turns"),
        ((None, None, "error_max_turns"), "max_turns"),
        (("max_tokens", None, None), "length"),
        (("MAX_TOKENS", None, None), "length"),
        (("content-filter", None, None), "refusal"),
        (("refusal", None, None), "refusal"),
        ((None, None, None), None),
        ((7, None, "custom word"), "custom word"),
    ],
)
def test_why_a_turn_ended(found: tuple[Any, ...], reason: str | None) -> None:
    end = {"type": "end", **dict(zip("abc", found, strict=True))}
    result = {"matchPath": "$.type", "matchValue": "end", "stopReasonPath": ["$.a", "$.b", "$.c"]}
    reading = read(adapter(outputEvents=RULES, result=result), end)
    assert reading.facts.get("stopReason") == reason


def test_a_stop_reason_is_in_the_metadata_of_a_result() -> None:
    raw = {"id": "a", "input": "x", "rawLines": lines({"type": "result", "stop_reason": "max_tokens"}), "timing": {}}
    assert result_of(raw, load_adapter("claude"))["metadata"]["stopReason"] == "length"


USAGE = {
    "inputTokens": "$.since.*.in",
    "perTurn": "sum",
    "fallback": {"inputTokens": "$.all.*.in", "fallback": {"inputTokens": "$.in"}},
}


@pytest.mark.parametrize(
    ("events", "tokens"),
    [
        ([{"since": {"m": {"in": 1}, "n": {"in": 2}}, "all": {"m": {"in": 90}}}, {"since": {"m": {"in": 4}}}], 7),
        ([{"all": {"m": {"in": 1}}, "in": 80}, {"all": {"m": {"in": 3}, "n": {"in": 5}}, "in": 80}], 8),
        ([{"in": 3}, {"in": 4, "all": {}}], 4),
        ([{"since": {"m": {}}, "all": [], "in": "x"}], None),
        ([{"since": [{"in": 6}, 7]}], 6),
    ],
)
def test_usage_is_found_where_an_older_version_has_it(events: list[Any], tokens: int | None) -> None:
    schema = adapter(outputEvents=RULES, usage=USAGE)
    assert read(schema, *events).usage.get("inputTokens") == tokens


def test_texts_are_decoded_before_the_rules_look_at_them() -> None:
    done = event(
        {"path": "$.items[*]", "value": "done"}, "tool_call", id="$.id", output="$.x.out", isError="$.x.inner.code"
    )
    schema = adapter(outputEvents=[done], decode=["$.items[*].x", "$.items[*].x.inner"])
    item = {"type": "done", "id": "a", "x": json.dumps({"out": "hi", "inner": json.dumps({"code": 3})})}
    reading = schema.read(lines({"items": [item, {"type": "done", "id": "b", "x": "no JSON"}, 5]}, {"items": 3}))
    assert steps(reading, "status", "output") == [("failed", "hi"), ("completed", None)]


# --- the agents -----------------------------------------------------------------------------------


def model_usage(tokens: int, cost: float) -> dict[str, Any]:
    return {"model": {"inputTokens": tokens, "outputTokens": 1, "cacheReadInputTokens": 10, "costUSD": cost}}


@pytest.mark.parametrize(
    ("turns", "tokens", "cost"),
    [
        # 2.1.325: modelUsage is cumulative over the session, so is total_cost_usd; an Agent gave two results in a turn
        (
            [
                [
                    {"modelUsage": model_usage(10, 1.0), "model_usage_since_last_result": model_usage(10, 1.0)},
                    {"modelUsage": model_usage(30, 3.0), "model_usage_since_last_result": model_usage(20, 2.0)},
                ],
                [{"modelUsage": model_usage(70, 7.0), "model_usage_since_last_result": model_usage(40, 4.0)}],
            ],
            100,
            7.0,
        ),
        # 2.0.56: of one process
        (
            [
                [
                    {"modelUsage": model_usage(10, 1.0)},
                    {"modelUsage": model_usage(30, 3.0), "usage": {"input_tokens": 2}},
                ],
                [{"modelUsage": model_usage(40, 4.0)}],
            ],
            90,
            7.0,
        ),
        ([[{"usage": {"input_tokens": 5, "cache_read_input_tokens": 2}, "total_cost_usd": 0.5}]], 7, 0.5),
    ],
    ids=["2.1.325", "2.0.56", "without modelUsage"],
)
def test_claude_with_sub_agents(turns: list[list[dict[str, Any]]], tokens: int, cost: float) -> None:
    printed = [lines(*({"type": "result", "subtype": "success", **one} for one in turn)) for turn in turns]
    together = [line for turn in printed for line in turn]
    schema = load_adapter("claude")
    usage = schema.read(together, None, [len(turn) for turn in printed]).usage
    assert (usage["inputTokens"], usage["costUsd"]) == (tokens, cost)


def test_claude_nests_the_steps_of_its_agents() -> None:
    content = {"type": "tool_use", "id": "t1", "name": "Agent", "input": {"prompt": "x"}}
    child = {"type": "text", "text": "I am the child"}
    reading = read(
        load_adapter("claude"),
        {"type": "assistant", "message": {"content": [content]}, "parent_tool_use_id": None},
        {"type": "assistant", "message": {"content": [child]}, "parent_tool_use_id": "t1"},
    )
    assert steps(reading, "type", "callId", "parentId") == [("tool_call", "t1", None), ("message", None, "t1")]
    assert reading.output == ""


def opencode(ident: str, tool: str = "bash", **state: Any) -> dict[str, Any]:
    state = {"status": "completed", "input": {}, "output": "x", **state}
    return {"type": "tool_use", "part": {"id": ident, "callID": "same", "tool": tool, "state": state}}


def test_opencode_repeats_the_id_of_a_call() -> None:
    finish = {"type": "step_finish", "part": {"reason": "length", "tokens": {"input": 1}}}
    times = {"start": 1794834492000, "end": 1794834492152}
    reading = read(load_adapter("opencode"), opencode("1", time=times), opencode("2"), opencode("3", "invalid"), finish)
    assert steps(reading, "name", "status", "duration") == [
        ("bash", "completed", 152),
        ("bash", "completed", None),
        ("invalid", "failed", None),
    ]
    assert reading.facts == {"stopReason": "length"}


def test_gemini_that_stops_in_a_loop_has_failed() -> None:
    warning = {"type": "error", "severity": "warning", "message": "Loop detected, stopping execution"}
    other = {"type": "error", "severity": "warning", "message": "slow"}
    assert read(load_adapter("gemini"), warning, other).errors == ["Loop detected, stopping execution"]


def test_mini_swe_agent_keeps_replies_without_a_tool_call() -> None:
    reply = {"choices": [{"message": {"content": "I forgot the tool."}}], "usage": {"prompt_tokens": 30}}
    wrong = {"role": "user", "content": "No tool calls found", "extra": {"response": reply, "cost": 0.5}}
    right = {"role": "assistant", "content": "ok", "extra": {"response": {"usage": {"prompt_tokens": 12}}, "cost": 0.1}}
    task = {"role": "user", "content": "the task"}
    document = {"messages": [{"role": "system", "content": "x"}, task, wrong, right]}
    reading = load_adapter("mini-swe-agent").read(lines(document))
    assert steps(reading, "type", "content") == [("message", "I forgot the tool."), ("message", "ok")]
    assert reading.usage == {"inputTokens": 42, "costUsd": pytest.approx(0.6)}
