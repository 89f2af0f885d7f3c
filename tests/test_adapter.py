"""Adapters: recorded output of real agents, by goldens and tables; output, errors, usage, odd lines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from schema_building import BASE, adapter, brief, event, is_type, lines

from agenteval.adapter import Adapter, Reading, bundled_adapters, load_adapter
from agenteval.errors import UserError
from agenteval.extraction import result_of

HERE = Path(__file__).parent
TRANSCRIPTS = HERE / "data" / "transcripts"
ADAPTERS = HERE / "data" / "adapters"
GOLDEN = HERE / "golden" / "claude"
UPDATE = "AE_UPDATE_GOLDEN"  # set it to write the golden files anew, then read the diff


def transcript(*names: str) -> tuple[list[str], list[int]]:
    """The lines of these transcripts as the turns of one session, and their number in each."""
    turns = [(TRANSCRIPTS / f"{name}.jsonl").read_text().splitlines() for name in names]
    return [line for turn in turns for line in turn], [len(turn) for turn in turns]


def read_transcript(schema: Adapter, *names: str) -> Reading:
    raw, turns = transcript(*names)
    return schema.read(raw, [10 * n for n in range(len(raw))], turns, names[0])


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
    reading = msgspec.to_builtins(read_transcript(load_adapter("claude"), *map("claude-{}".format, scenarios)))
    golden = GOLDEN / f"{'+'.join(scenarios)}.json"
    if UPDATE in os.environ:
        golden.write_text(json.dumps(reading, indent=2, ensure_ascii=False) + "\n")
    assert reading == json.loads(golden.read_text())
    assert json.dumps(reading) == json.dumps(json.loads(golden.read_text())), "the order of fields"


FIRST, FINAL = "I'll create the file now.", "The command failed with exit code 3. The answer is 42."
THOUGHT = ("thought", "The user wants a file. I will run one shell command.")
COMMAND = "echo partial-out; echo boom >&2; exit 3"
TOKENS = {"inputTokens": 2400, "outputTokens": 114, "cachedTokens": 1000}

QWEN_END = "Exit Code: 3\nSignal: (none)\nProcess Group PGID: (none)"

TOOLFAIL: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "codex": (
        [
            THOUGHT,
            ("message", FIRST),
            ("tool_call", "command_execution", "failed", f"/bin/bash -lc '{COMMAND}'", "partial-out\nboom\n"),
        ],
        TOKENS,
    ),
    "gemini": (
        [
            ("message", FIRST),
            ("tool_call", "run_shell_command", "completed", {"command": COMMAND}, "partial-out\nboom"),
        ],
        {"inputTokens": 3600, "outputTokens": 171, "cachedTokens": 1500},
    ),
    "opencode": (
        [
            THOUGHT,
            ("message", FIRST),
            ("tool_call", "bash", "failed", {"command": COMMAND}, "partial-out\nboom\n"),
        ],
        TOKENS | {"costUsd": 2 * 0.000864},
    ),
    "copilot": (
        [
            ("message", FIRST),
            THOUGHT,
            (
                "tool_call",
                "bash",
                "failed",
                {"command": COMMAND, "description": "create hello.txt"},
                "partial-out\nboom\n<shellId: 0 completed with exit code 3>",
            ),
        ],
        {},
    ),
    "pi": (
        [
            THOUGHT,
            ("message", FIRST),
            (
                "tool_call",
                "bash",
                "failed",
                {"command": COMMAND},
                [{"type": "text", "text": "partial-out\nboom\n\n\nCommand exited with code 3"}],
            ),
        ],
        TOKENS | {"costUsd": 2 * 0.000864},
    ),
    "qwen": (
        [
            THOUGHT,
            ("message", FIRST),
            (
                "tool_call",
                "run_shell_command",
                "failed",
                {"command": COMMAND},
                f"Command: {COMMAND}\nDirectory: (root)\nOutput: partial-out\nboom\nError: (none)\n" + QWEN_END,
            ),
        ],
        TOKENS,
    ),
    "cline": (
        [
            ("message", FIRST),
            THOUGHT,
            (
                "tool_call",
                "run_commands",
                "failed",
                {"commands": [COMMAND]},
                [
                    {
                        "query": COMMAND,
                        "result": "[Command exited with code 3]\npartial-out\n\n[stderr]\nboom\n",
                        "error": "Command exited with code 3",
                        "success": False,
                    }
                ],
            ),
        ],
        TOKENS | {"costUsd": 0},
    ),
}


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
    (
        "codex",
        "http401",
        "unexpected status 401 Unauthorized: invalid x-api-key (fake), url: http://127.0.0.1:8765/v1/responses",
    ),
    ("codex", "http500", "We’re currently experiencing high demand, which may cause temporary errors."),
    (
        "gemini",
        "http500",
        '[API Error: {"error":{"code":500,"message":"Internal server error (fake)","status":"INTERNAL"}}]',
    ),
    ("opencode", "http401", "invalid x-api-key (fake)"),
    ("pi", "http401", "401 invalid x-api-key (fake)"),
    ("pi", "http500", "500 Internal server error (fake)"),
    ("qwen", "http401", "[API Error: 401 invalid x-api-key (fake)]"),
    ("cline", "http401", "invalid x-api-key (fake)"),
]


@pytest.mark.parametrize(("agent", "scenario", "error"), FAILURES)
def test_the_agent_says_that_it_failed(agent: str, scenario: str, error: str) -> None:
    reading = read_transcript(load_adapter(str(ADAPTERS / f"{agent}.json")), f"{agent}-{scenario}")
    assert reading.errors == [error], "retries are no errors, and one error is told once"


RESUMED = [
    ("claude", {"inputTokens": 6000, "outputTokens": 171, "cachedTokens": 1500, "costUsd": 0.02262}, 6),
    ("codex", {"inputTokens": 3600, "outputTokens": 171, "cachedTokens": 1500}, 10),
    ("gemini", {"inputTokens": 6000, "outputTokens": 285, "cachedTokens": 2500}, 5),
    (
        "opencode",
        {"inputTokens": 3600, "outputTokens": 171, "cachedTokens": 1500, "costUsd": 3 * 0.000864},
        6,
    ),
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


RESULT = {"matchPath": "$.type", "matchValue": "result", "contentPath": "$.r"}
SAY = [event(is_type("text"), "message", content="$.text")]


def say(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


OUTPUTS: list[tuple[str, dict[str, Any] | None, list[Any], list[int] | None, str]] = [
    ("the result", RESULT, [say("a"), {"type": "result", "r": "R"}], None, "R"),
    ("the last result", RESULT, [{"type": "result", "r": "1"}, {"type": "result", "r": "2"}], None, "2"),
    (
        "an empty result: the messages",
        RESULT,
        [say("a"), say("b"), {"type": "result", "r": ""}],
        None,
        "a\nb",
    ),
    ("no result came: the messages", RESULT, [say("a"), say("b")], None, "a\nb"),
    ("no result configured: the last message", None, [say("a"), say("b")], None, "b"),
    ("any result", RESULT | {"matchPath": "$.r", "matchValue": "*"}, [{"r": None}, {"r": "x"}], None, "x"),
    ("a result that is no text", RESULT, [{"type": "result", "r": {"a": 1}}], None, '{"a":1}'),
    (
        "an empty path, which the seed needs",
        RESULT | {"matchPath": "", "contentPath": ""},
        [say("a")],
        None,
        "a",
    ),
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
        ["the agent reports an error"],
        "",
    ),
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
    (
        "only matching events",
        {"match": {"path": "$.cache", "value": "*"}},
        [4],
        {"inputTokens": 3, "costUsd": 0.5},
    ),
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


def test_what_a_run_tells_of_itself() -> None:
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
