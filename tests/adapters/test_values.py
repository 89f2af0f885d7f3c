"""Values are kept exactly: long numbers, texts of every language raw or as \\uXXXX, and no secrets in any spelling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.schema_building import BASE, adapter, event, facts, is_type, read_traced
from tests.support.tool import run, write

HUGE = 10**40
CHINESE, RUSSIAN = "读取文件 组件。" * 60, "тест проходит — “да” " * 30
RULES = [
    event(is_type("say"), "message", content="$.message.content[0].text"),
    event(is_type("think"), "thought", content=["$.text", "$.summary"]),
    event({"path": "$.items[*]", "value": "text"}, "message", content="$.text"),
    event(is_type("piece"), "message", content="$.piece") | {"delta": True},
    event(is_type("call"), "tool_call", title="$.name", id="$.id", input="$.args"),
    event(is_type("done"), "tool_call", id="$.id", output=["$.out.text", "$.out"], isError="$.failed"),
    event(is_type("problem"), "error", content="$.why"),
]
RESULT = {
    "matchPath": "$.type",
    "matchValue": "end",
    "contentPath": "$.result",
    "isErrorPath": "$.failed",
    "errorPath": "$.why",
}
SCHEMA = adapter(outputEvents=RULES, result=RESULT, usage={"inputTokens": "$.usage.in"}, metadata={"model": "$.model"})

OBJECT = json.dumps({"a": "é", "n": HUGE})
TEXTS = st.sampled_from(["", "a", "é", CHINESE, f'{RUSSIAN}\n\t"\\ /🙂', OBJECT, "\x00\u2028"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([HUGE, -HUGE, 2**64, 1.5, 1e30]) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "content", "type", "in"]), inner)
    ),
    max_leaves=8,
)
NAMES = ["message", "text", "summary", "items", "piece", "name", "id", "args", "out", "failed", "why", "usage", "model"]
EVENTS = st.dictionaries(st.sampled_from([*NAMES, "result"]), VALUES, max_size=6)
KINDS = st.sampled_from(["say", "think", "piece", "call", "done", "problem", "end"])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(KINDS, EVENTS, st.booleans()), max_size=4))
def test_escapes_and_a_trace_change_nothing(events: list[tuple[str, dict[str, Any], bool]]) -> None:
    lines = [json.dumps({"type": kind, **fields}, ensure_ascii=escaped) for kind, fields, escaped in events]
    other = [json.dumps(json.loads(line), ensure_ascii=line.isascii()) for line in lines]
    assert repr(facts(SCHEMA.read(lines))) == repr(facts(SCHEMA.read(other))) == repr(facts(read_traced(SCHEMA, lines)))


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("text", [CHINESE, RUSSIAN, f'{CHINESE} 🙂 \\ " \n', f"e {'é' * 500}"])
def test_messages_results_and_output_of_every_language(text: str, escaped: bool) -> None:
    events: list[dict[str, Any]] = [
        {"type": "say", "message": {"content": [{"text": text}]}},
        {"type": "think", "text": text},
        {"type": "call", "id": "a", "name": "x", "args": {"deep": {"list": [text, HUGE]}}},
        {"type": "done", "id": "a", "out": text},
        {"type": "end", "result": text, "usage": {"in": 7}},
    ]
    reading = SCHEMA.read([json.dumps(one, ensure_ascii=escaped) for one in events])
    message, thought, call = reading.trajectory
    assert message["content"] == thought["content"] == call["output"] == reading.output == text
    assert call["input"] == {"deep": {"list": [text, HUGE]}} and reading.usage["inputTokens"] == 7


def test_a_message_that_repeats_its_pieces_is_one_step() -> None:
    events = [{"type": "piece", "piece": part} for part in (CHINESE, RUSSIAN)]
    events += [{"type": "think", "text": RUSSIAN}, {"type": "piece", "piece": RUSSIAN}]
    lines = [json.dumps(one) for one in events]
    lines.append(json.dumps({"type": "say", "message": {"content": [{"text": RUSSIAN}]}}, ensure_ascii=False))
    found = [(step["type"], step["content"]) for step in SCHEMA.read(lines).trajectory]
    assert found == [("message", CHINESE + RUSSIAN), ("thought", RUSSIAN), ("message", RUSSIAN)]


def test_an_agent_that_failed_gives_its_text_as_the_error() -> None:
    reading = SCHEMA.read([json.dumps({"type": "end", "result": CHINESE, "failed": True})])
    assert reading.output == CHINESE and reading.errors == [CHINESE]


def test_a_path_may_find_a_part_of_what_another_finds() -> None:
    done = {"type": "done", "id": "a", "out": {"text": CHINESE, "more": {"a": "b" * 2000}}}
    (step,) = SCHEMA.read([json.dumps(done)]).trajectory
    assert step["output"] == CHINESE


@pytest.mark.parametrize("depth", [1, 30, 31, 300])
def test_a_path_may_be_long(depth: int) -> None:
    schema = adapter(outputEvents=[event(is_type("text"), "message", content="$" + ".a" * depth)])
    line = '{"type":"text","a":' + '{"a":' * (depth - 1) + '"deep"' + "}" * depth
    assert [step["content"] for step in schema.read([line]).trajectory] == ["deep"]


# --- what ae-extract writes ---------------------------------------------------------------------


def extract(line: str, secret: str | None = None, schema: str = "codex") -> Any:
    """Returns the result of a record with this raw line."""
    raw = {"id": "x", "input": "?", "rawLines": [line], "timing": {"start": 0, "end": 1, "total": 1}}
    environment = {"MY_API_KEY": secret} if secret else {}
    done = run("ae-extract", "-s", schema, stdin=json.dumps(raw) + "\n", env=environment).expect(0)
    return json.loads(done.stdout)


def call_with(arguments: str) -> str:
    """Returns codex's line for a tool call with this JSON as its input."""
    return f'{{"type":"item.started","item":{{"id":"a","type":"mcp_tool_call","tool":"Read","arguments":{arguments}}}}}'


@pytest.mark.parametrize("secret", [None, "not-in-there"])
def test_numbers_in_tool_input_stay_exact_and_impossible_ones_become_null(secret: str | None) -> None:
    given = f'{{"path" : "caf\u00e9\\n \\" \\\\", "n": [1, {HUGE}, 0.1, {2**64}, 1e999, {"9" * 5000}]}}'
    found = extract(call_with(given), secret)["trajectory"][0]["input"]
    assert found == {"path": 'caf\u00e9\n " \\', "n": [1, HUGE, 0.1, 2**64, None, None]}


SPELLINGS = [
    "café/and-more",
    "caf\\u00e9/and-more",
    "caf\\u00E9\\/and\\u002dmore",
    "Y2Fmw6kvYW5kLW1vcmU=",
    "\\u0063af%C3%A9%2Fand-more",
]


@pytest.mark.parametrize("shown", SPELLINGS)
def test_no_escape_hides_a_secret_in_tool_input(shown: str) -> None:
    given = f'{{"path" : ["{shown}"], "n": [1, {HUGE}, 1e999, {"9" * 5000}]}}'
    found = extract(call_with(given), "café/and-more")["trajectory"][0]["input"]
    assert found["path"][0].startswith("[redacted:MY_API_KEY]")
    assert found["n"] == [1, HUGE, None, None]


@pytest.mark.parametrize("shown", SPELLINGS[:4])
def test_no_escape_hides_a_secret_in_tool_output(shown: str) -> None:
    given = f'"{"é" * 500}\\n{shown}"'
    line = f'{{"type":"item.completed","item":{{"id":"a","type":"mcp_tool_call","tool":"Read","result":{given}}}}}'
    output = extract(line, "café/and-more")["trajectory"][0]["output"]
    assert output == "\u00e9" * 500 + "\n[redacted:MY_API_KEY]"


SECRET = "sk-not-for-you-to-see"


@pytest.mark.parametrize("shown", [SECRET, SECRET.replace("s", "\\u0073"), SECRET.replace("-", "\\u002D")])
def test_no_escape_hides_a_secret_in_a_message(shown: str, tmp_path: Path) -> None:
    schema = write(tmp_path / "schema.json", {**BASE, "outputEvents": RULES})
    text = f'"{CHINESE} {shown} {json.dumps(CHINESE)[1:-1]}"'
    result = extract(f'{{"type":"say","message":{{"content":[{{"text":{text}}}]}}}}', SECRET, str(schema))
    clean = f"{CHINESE} [redacted:MY_API_KEY] {CHINESE}"
    assert (result["output"], result["trajectory"][0]["content"]) == (clean, clean)
