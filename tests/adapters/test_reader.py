"""Adapters: output, errors, usage, texts taken apart, events within events, odd lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agenteval.adapters.reader import result_of
from agenteval.adapters.schema_file import bundled_adapters, load_adapter
from agenteval.errors import UserError
from tests.support.schema_building import (
    BASE,
    NOTHING,
    TOOLS,
    adapter,
    brief,
    call,
    contents,
    end,
    event,
    is_type,
    lines,
)

RESULT = {"matchPath": "$.type", "matchValue": "result", "contentPath": "$.r"}
SAY = [event(is_type("text"), "message", content="$.text")]


def say(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


OUTPUTS: list[tuple[str, dict[str, Any] | None, list[Any], list[int] | None, str]] = [
    ("the result", RESULT, [say("a"), {"type": "result", "r": "R"}], None, "R"),
    ("the last result", RESULT, [{"type": "result", "r": "1"}, {"type": "result", "r": "2"}], None, "2"),
    ("an empty result is the answer", RESULT, [say("a"), say("b"), {"type": "result", "r": ""}], None, ""),
    ("a result that is null: the messages", RESULT, [say("a"), say("b"), {"type": "result", "r": None}], None, "a\nb"),
    ("no result came: the messages", RESULT, [say("a"), say("b")], None, "a\nb"),
    ("no result configured: the last message", None, [say("a"), say("b")], None, "b"),
    ("any result", RESULT | {"matchPath": "$.r", "matchValue": "*"}, [{"r": None}, {"r": "x"}], None, "x"),
    ("a result that is no text", RESULT, [{"type": "result", "r": {"a": 1}}], None, '{"a":1}'),
    (
        "an empty path, as agent-eval-harness needs",
        RESULT | {"matchPath": "", "contentPath": ""},
        [say("a")],
        None,
        "a",
    ),
    ("of the last turn", RESULT, [{"type": "result", "r": "1"}, say("b")], [1, 1], "b"),
    ("of a last turn without a message", RESULT, [say("a")], [1, 0], ""),
    ("nothing at all", None, [], None, ""),
]


@pytest.mark.parametrize(("why", "result", "events", "turns", "output"), OUTPUTS, ids=[row[0] for row in OUTPUTS])
def test_output(
    why: str, result: dict[str, Any] | None, events: list[Any], turns: list[int] | None, output: str
) -> None:
    schema = adapter(outputEvents=SAY, **({"result": result} if result else {}))
    assert schema.read(lines(*events), None, turns).output == output


CLAUDE_ERRORS: list[tuple[list[dict[str, Any]], list[str], str]] = [
    (
        [{"type": "result", "subtype": "success", "is_error": True, "result": "API Error"}],
        ["API Error"],
        "API Error",
    ),
    (
        [{"type": "result", "subtype": "error_max_turns", "is_error": False, "errors": ["Reached 1", "x"]}],
        ["Reached 1", "x"],
        "",
    ),
    (
        [{"type": "result", "subtype": "error_during_execution", "is_error": True}],
        ["error_during_execution"],
        "",
    ),
    ([{"type": "result", "subtype": "error_max_turns", "is_error": False}], ["error_max_turns"], ""),
    (
        [
            {"type": "system", "subtype": "api_retry", "error": "server_error"},
            {"type": "result", "result": "ok"},
        ],
        [],
        "ok",
    ),
    ([{"type": "result", "is_error": True, "result": "no"}, {"type": "result", "result": "yes"}], [], "yes"),
]


@pytest.mark.parametrize(("events", "errors", "output"), CLAUDE_ERRORS)
def test_claude_says_that_it_failed(events: list[dict[str, Any]], errors: list[str], output: str) -> None:
    reading = load_adapter("claude").read(lines(*events))
    assert (reading.errors, reading.output) == (errors, output)


def test_error_events() -> None:
    schema = adapter(outputEvents=[event(is_type("error"), "error", content="$.m"), event(is_type("oops"), "error")])
    raw = lines({"type": "error", "m": "a"}, {"type": "error", "m": "a"}, {"type": "error"}, {"type": "oops", "n": 1})
    reading = schema.read(raw)
    assert reading.errors == ["a", '{"type":"oops","n":1}'], "that there is one, only where nothing is known of it"
    assert reading.trajectory == []
    assert schema.read(raw[2:3]).errors == ["the agent reports an error"]


USAGE = {"inputTokens": ["$.in", "$.cache"], "costUsd": "$.usd"}
REPORTS = [
    {"in": 1, "cache": 2, "usd": 0.5},
    {"in": 10, "each": [{"in": 5}, {"in": True}, {"in": 7}, {"out": 1}]},
    {"in": True, "usd": "7"},
    {"in": 100, "usd": 1.5},
]
USAGES: list[tuple[str, dict[str, Any], list[int], dict[str, Any]]] = [
    ("the last counts", {}, [4], {"inputTokens": 100, "costUsd": 1.5}),
    ("they add up", {"perTurn": "sum"}, [4], {"inputTokens": 113, "costUsd": 2.0}),
    ("turns add up", {}, [2, 2], {"inputTokens": 110, "costUsd": 2.0}),
    ("turns are cumulative", {"cumulative": True}, [2, 2], {"inputTokens": 100, "costUsd": 1.5}),
    ("one field is", {"cumulative": ["costUsd"]}, [2, 2], {"inputTokens": 110, "costUsd": 1.5}),
    ("a last turn that reports nothing", {"cumulative": True}, [4, 0], {"inputTokens": 100, "costUsd": 1.5}),
    ("numbers in lists", {"inputTokens": "$.each[*].in"}, [4], {"inputTokens": 12, "costUsd": 1.5}),
    (
        "only matching events",
        {"match": {"path": "$.cache", "value": "*"}},
        [4],
        {"inputTokens": 3, "costUsd": 0.5},
    ),
]


def test_a_turn_that_failed_does_not_unmake_what_was_spent() -> None:
    schema = adapter(usage=USAGE | {"cumulative": True})
    assert schema.read(lines({"in": 7, "usd": 1.5}, {"in": 0, "usd": 0}), None, [1, 1]).usage["inputTokens"] == 7


def test_what_stands_before_the_json_on_a_line() -> None:
    schema = adapter(outputEvents=[event(is_type("m"), "message", content="$.t")], linePrefix='data: |.*?(?=\\{"type")')
    raw = ['data: {"type":"m","t":"a"}', 'no newline{"type":"m","t":"b"}', '{"type":"m","t":"c"}', "data: ", "text"]
    assert [step["content"] for step in schema.read(raw).trajectory] == ["a", "b", "c"]
    assert adapter(outputEvents=[event(is_type("m"), "message", content="$.t")]).read(raw[:2]).trajectory == []


LINE_PATTERNS = {
    "session": r"^Session (?P<session>\w+)(?: of (?P<model>\w+))?$",
    "wrong": r"Error: (?P<why>.+)",
}


@pytest.mark.parametrize("path", ["$.t", "$['t','u']"])
def test_events_in_lines_of_plain_text(path: str) -> None:
    schema = adapter(
        linePatterns=LINE_PATTERNS,
        resume={"flag": "--resume", "sessionIdPath": "$.session"},
        outputEvents=[event(is_type("m"), "message", content=path), event(is_type("wrong"), "error", content="$.why")],
        metadata={"model": "$.model"},
    )
    raw = ["Session old of tiny", '{"type":"m","t":"a"}', "noise", "", "Fatal Error: no disk", "42", "Session s1"]
    reading = schema.read(raw, [*range(7)])
    assert brief(reading) == [("message", "a")]
    assert (reading.session_id, reading.errors, reading.facts) == ("s1", ["no disk"], {"model": "tiny"})
    assert schema.read(['{"type":"m","t":"Error: said","session":"x"}']).errors == [], "JSON is not searched"
    assert schema.read(['{"type":"m","t":"Error: cut o']).errors == ["cut o"], "a line that is no JSON after all"


def test_a_line_of_json_that_is_no_object_may_be_text_to_read() -> None:
    for path in ("$.n", "$[?@ > 1]"):
        schema = adapter(linePatterns={"count": "^(?P<n>[0-9]+)$"}, metadata={"n": "$.n", "all": path})
        assert schema.read(["42", '"42"', "[1]"]).facts["n"] == "42"


@pytest.mark.usefixtures("short_searches")
def test_a_slow_pattern_for_lines_costs_its_lines_only() -> None:
    schema = adapter(
        outputEvents=[event(is_type("m"), "message", content="$.t")], linePatterns={"slow": "^(?P<x>(?:a|a)+)b$"}
    )
    reading = schema.read(["a" * 5000, '{"type":"m","t":"later"}'])
    assert brief(reading) == [("message", "later")]
    assert "took too long on a text" in reading.errors[0]


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
    assert schema.read(lines(*events)).session_id == found


def test_a_reading_goes_on_where_it_stands() -> None:
    schema = adapter(outputEvents=SAY, usage=USAGE, resume={"flag": "-r"})
    first = [{**say("a"), "session_id": "s"}, REPORTS[0]]
    second = [say("b"), {"type": "text", "text": "not read again"}]
    raw = lines(*first, *second)
    reading = schema.begin("r")
    reading.add_turn(raw[:2], [1, 2])
    assert (reading.session_id, reading.output, reading.turns) == ("s", "a", 1)
    record = {"id": "r", "input": ["x", "y"], "rawLines": raw, "lineTimes": [1, 2, 3, 4], "timing": {}}
    record["turns"] = [{"lines": 2}, {"lines": 2}]
    result = result_of(record, schema, reading=reading)
    assert result == result_of(record, schema)
    assert result["metadata"]["turnSteps"] == [1, 2] and len(result["trajectory"]) == 3
    assert result_of(record, schema, reading=reading) == result, "nothing is left to read"


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
        (
            '{"type":"text","text":123456789012345678901234567890123456789}',
            "123456789012345678901234567890123456789",
        ),
    ],
)
def test_lines_that_agents_do_print(line: str, text: str) -> None:
    (step,) = adapter(outputEvents=SAY).read([line]).trajectory
    assert step["content"] == text
    msgspec.json.encode(step)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "text",
        "[1]",
        '"x"',
        "7",
        "null",
        '{"type":"text","text":"cut',
        "{",
        "{'a': 1}",
        "\x00",
        "[" * 99999,
        '{"type":["text"]}',
        '{"type":{"text":1}}',
        '{"type":7}',
        '{"type":"text","text":' + "[" * 99999,
        "{}",
    ],
)
def test_lines_that_are_no_event_for_us(line: str) -> None:
    reading = adapter(outputEvents=SAY, result=RESULT).read([line])
    assert contents(reading) == NOTHING


PARTS = {
    "think": "<think>(?P<text>(?s:.*?))</think>",
    "call": r"^@(?P<name>\w+): (?P<args>.*)$",
    "at": r"@(?P<who>\w+)",
}
SPLITS: list[tuple[str, str, list[dict[str, Any]]]] = [
    ("nothing", "", []),
    ("blank space", " \n ", []),
    ("nothing that fits", " just\ntext\n", [{"type": "text", "text": "just\ntext"}]),
    (
        "in order, with what is between",
        '<think>a\nb</think>\n\nfirst\n\n@ls: {"p": [1]}\n@rm: not json\nlast',
        [
            {"type": "think", "text": "a\nb"},
            {"type": "text", "text": "first"},
            {"type": "call", "name": "ls", "args": {"p": [1]}},
            {"type": "call", "name": "rm", "args": "not json"},
            {"type": "text", "text": "last"},
        ],
    ),
    (
        "what begins first counts, then the one named first",
        "<think>@ls: 1</think>@ls: 2\n@ls: 3",
        [
            {"type": "think", "text": "@ls: 1"},
            {"type": "at", "who": "ls"},
            {"type": "text", "text": ": 2"},
            {"type": "call", "name": "ls", "args": 3},
        ],
    ),
]


@pytest.mark.parametrize(("why", "text", "parts"), SPLITS, ids=[row[0] for row in SPLITS])
def test_a_text_split_into_parts(why: str, text: str, parts: list[dict[str, Any]]) -> None:
    split = {"path": "$.text", "into": "parts", "patterns": PARTS, "json": ["args"]}
    schema = adapter(splits=[split], metadata={"parts": "$.parts"})
    assert schema.read(lines({"text": text}, {"text": None})).facts == {"parts": parts}


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("1,234", 1234), ("2.7k", 2700), ("1.05M", 1_050_000), ("0.25", 0.25), (".5", 0.5), ("-3", -3)],
)
def test_numbers_in_a_text(text: str, number: float) -> None:
    split = {"path": "$.t", "into": "p", "patterns": {"used": "used (?P<n>.*)"}, "numbers": ["n"]}
    schema = adapter(splits=[split], usage={"inputTokens": "$.p[*].n"})
    assert schema.read(lines({"t": f"used {text}"})).usage == {"inputTokens": number}
    assert schema.read(lines({"t": f"used {text}x"})).usage == {}, "not a number"


def test_events_within_an_event() -> None:
    schema = adapter(
        nestedEvents="$.log.messages",
        outputEvents=[*SAY, *TOOLS[1:]],
        result={"matchPath": "$.log", "matchValue": "*", "contentPath": "$.answer"},
        usage={"inputTokens": "$.in", "perTurn": "sum"},
    )
    messages = [say("a"), {**call(id="1", name="ls"), "in": 3}, {**end(id="1", out="x"), "in": 4}, "noise", say("b")]
    reading = schema.read(lines({"log": {"messages": messages}, "answer": "A", "in": 5}, say("c")), [7, 9])
    assert brief(reading) == [
        ("message", "a"),
        ("tool_call", "ls", "completed", 3, "x"),
        ("message", "b"),
        ("message", "c"),
    ]
    assert (reading.output, reading.usage) == ("A", {"inputTokens": 12})
    assert [step["timestamp"] for step in reading.trajectory] == [7, 7, 7, 9]
    assert "duration" not in reading.trajectory[1], "a call and its result that come at once do not tell one"


def test_text_mode_with_events() -> None:
    split = {"path": "$.text", "into": "parts", "patterns": {"log": r"^\[(?P<word>.*)\] *(?P<rest>.*)$"}}
    schema = adapter(
        outputMode="text",
        splits=[split],
        outputEvents=[
            event({"path": "$.parts[*].word", "value": "error"}, "error", content="$.rest"),
            event({"path": "$.parts[*]", "value": "text"}, "message", content="$.text"),
        ],
    )
    raw = ["[info] hello", "one", "", "two", "[error] too bad", "", "three", "[info] bye"]
    reading = schema.read(raw, [*range(8)], [4, 4])
    assert brief(reading) == [("message", "one\n\ntwo"), ("message", "three")]
    assert (reading.output, reading.errors) == ("three", ["too bad"])
    assert [step["timestamp"] for step in reading.trajectory] == [0, 4]
    assert contents(schema.read([])) == NOTHING


def test_text_mode() -> None:
    reading = load_adapter("text").read(["a", "", '{"b": 1}', "later"], [3, 4, 5, 9], [3, 1], "p")
    assert reading.trajectory == [
        {"type": "message", "content": 'a\n\n{"b": 1}', "timestamp": 3, "stepId": "p-step-1"},
        {"type": "message", "content": "later", "timestamp": 9, "stepId": "p-step-2"},
    ]
    assert reading.output == "later"
    assert contents(load_adapter("text").read([])) == NOTHING


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


def test_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text("\ufeff" + json.dumps(BASE | {"unknown": {"key": 1}}))
    assert load_adapter("mine").config.name == "my", "a file without .json, a BOM and an unknown key are allowed"
    assert load_adapter("claude").config.command == ["claude"]
    with pytest.raises(UserError, match=r"^no\.json: No such file or directory$"):
        load_adapter("no.json")
    with pytest.raises(UserError, match=r'no adapter schema is named "cluade", .*; did you mean claude'):
        load_adapter("cluade")


@pytest.mark.parametrize("name", bundled_adapters())
def test_bundled_schemas_have_name_and_description(name: str) -> None:
    config = load_adapter(name).config
    assert config.name == name
    assert config.description


def test_metadata_from_events() -> None:
    facts = {"model": ["$.model", "$.message.model"], "mode": "$.config.mode"}
    schema = adapter(metadata=facts, outputEvents=[event(is_type("text"), "message", content="$.text")])
    raw = lines({"type": "init", "model": "a"}, "noise", {"type": "text", "text": "x", "message": {"model": "b"}}, {})
    assert schema.read(raw).facts == {"model": "b"}
    record = {"id": "i", "input": "x", "rawLines": raw, "metadata": {"model": "asked", "own": 1}, "timing": {}}
    assert result_of(record, schema)["metadata"] == {
        "model": "b",
        "own": 1,
        "agent": "my",
        "trajectoryRichness": "messages-only",
        "turnCount": 1,
    }
