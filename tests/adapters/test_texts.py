"""Texts that are not ASCII, raw or as \\uXXXX: whether they stay JSON or orjson reads them, the result is the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenteval.adapters.extract import result_of
from agenteval.adapters.reader import Adapter
from agenteval.streams.jsonl import Fragment, encode
from agenteval.streams.redaction import Redactor
from tests.support.schema_building import adapter, event, is_type

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
AS_JSON = Adapter(SCHEMA.config, "test", as_json=True)
assert AS_JSON.compiled.shape.may_keep_json


def extracted(schema: Adapter, lines: list[str]) -> Any:
    raw = {"id": "x", "input": "?", "timing": {}, "rawLines": lines}
    return json.loads(encode(result_of(raw, schema)))


def in_json(event_: Any, *, escaped: bool) -> str:
    return json.dumps(event_, ensure_ascii=escaped)


TEXTS = st.sampled_from(
    [
        "",
        "a",
        "é",
        CHINESE,
        RUSSIAN,
        f'{CHINESE}\n\t"\\ /🙂',
        "e" * 500,
        "🙂" * 150,
        f'{{"a": "{RUSSIAN}", "n": {HUGE}}}',
    ]
    + [f"{CHINESE}\x00\x1b\x7f\u2028", "{" * 500 + RUSSIAN, "\\u0041" * 80]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([HUGE, -HUGE, 2**64, -(2**63) - 1, 1.5, 1e30]) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "content", "type", "in"]), inner)
    ),
    max_leaves=8,
)
NAMES = ["message", "text", "summary", "items", "piece", "name", "id", "args", "out", "failed", "why", "usage", "model"]
EVENTS = st.dictionaries(st.sampled_from([*NAMES, "result"]), VALUES, max_size=6)
KINDS = st.sampled_from(["say", "think", "piece", "call", "done", "problem", "end"])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(KINDS, EVENTS, st.booleans()), max_size=4))
def test_texts_that_are_kept_or_read_by_orjson_are_the_same(events: list[tuple[str, dict[str, Any], bool]]) -> None:
    lines = [in_json({"type": kind, **fields}, escaped=escaped) for kind, fields, escaped in events]
    assert repr(extracted(AS_JSON, lines)) == repr(extracted(SCHEMA, lines))


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("text", [CHINESE, RUSSIAN, f'{CHINESE} 🙂 \\ " \n', f"e {'é' * 500}"])
def test_messages_results_and_output_of_every_language(text: str, escaped: bool) -> None:
    lines = [
        in_json(one, escaped=escaped)
        for one in (
            {"type": "say", "message": {"content": [{"text": text}]}},
            {"type": "think", "text": text},
            {"type": "call", "id": "a", "name": "x", "args": {"deep": {"list": [text, HUGE]}}},
            {"type": "done", "id": "a", "out": text},
            {"type": "end", "result": text, "usage": {"in": 7}},
        )
    ]
    result = extracted(AS_JSON, lines)
    message, thought, call = result["trajectory"]
    assert message["content"] == thought["content"] == call["output"] == result["output"] == text
    assert call["input"] == {"deep": {"list": [text, HUGE]}} and result["timing"]["inputTokens"] == 7


def test_a_message_that_is_not_ascii_stays_json_and_is_the_output() -> None:
    say = in_json({"type": "say", "message": {"content": [{"text": CHINESE}]}}, escaped=False)
    last = adapter(outputEvents=RULES, result=RESULT | {"otherwise": "last"})
    reading = Adapter(last.config, "test", as_json=True).read([say])
    content: Any = reading.trajectory[0]["content"]
    assert type(content) is Fragment and content is reading.output
    assert AS_JSON.read([say, say]).output == f"{CHINESE}\n{CHINESE}"


def test_a_message_that_repeats_its_pieces_is_one_step() -> None:
    lines = [in_json({"type": "piece", "piece": part}, escaped=False) for part in (CHINESE, RUSSIAN)]
    lines.append(in_json({"type": "think", "text": RUSSIAN}, escaped=False))
    lines += [in_json({"type": "piece", "piece": RUSSIAN}, escaped=False)]
    lines += [in_json({"type": "say", "message": {"content": [{"text": RUSSIAN}]}}, escaped=False)]
    found = [(step["type"], step["content"]) for step in extracted(AS_JSON, lines)["trajectory"]]
    assert found == [("message", CHINESE + RUSSIAN), ("thought", RUSSIAN), ("message", RUSSIAN)]


def test_an_agent_that_failed_gives_its_text_as_the_error() -> None:
    end = in_json({"type": "end", "result": CHINESE, "failed": True}, escaped=False)
    result = extracted(AS_JSON, [end])
    assert result["output"] == CHINESE and result["errors"] == [CHINESE]


def test_a_path_may_find_a_part_of_what_another_finds() -> None:
    done = {"type": "done", "id": "a", "out": {"text": CHINESE, "more": {"a": "b" * 2000}}}
    for escaped in (False, True):
        (step,) = extracted(AS_JSON, [in_json(done, escaped=escaped)])["trajectory"]
        assert step["output"] == CHINESE


@pytest.mark.parametrize("number", [HUGE, -HUGE, 2**64, -(2**63) - 1, 1e30, 2**64 - 1, 0.1, {"a": [[[[HUGE]]]]}])
def test_numbers_beside_escaped_text_stay_exact(number: Any) -> None:
    schema = Adapter(SCHEMA.config, "test", as_json=True)
    args = {"text": CHINESE[:80], "n": number}
    line = in_json({"type": "call", "id": number, "name": "x", "args": args}, escaped=True)
    assert repr(extracted(schema, [line])) == repr(extracted(SCHEMA, [line]))
    assert any(name.endswith("Exact") for name in schema.compiled.compiler.names)  # orjson has read it first


SECRET = "sk-not-for-you-to-see"


@pytest.mark.parametrize("shown", [SECRET, SECRET.replace("s", "\\u0073"), SECRET.replace("-", "\\u002D")])
@pytest.mark.parametrize("around", [CHINESE, json.dumps(CHINESE)[1:-1]])
def test_no_escape_hides_a_secret_in_a_message(shown: str, around: str) -> None:
    text = f'"{around} {shown} {around}"'
    lines = [f'{{"type":"say","message":{{"content":[{{"text":{text}}}]}}}}', f'{{"type":"end","result":{text}}}']
    raw = {"id": "x", "input": "?", "timing": {}, "rawLines": lines}
    found = json.loads(Redactor({"MY_API_KEY": SECRET}).line(result_of(raw, AS_JSON)))
    clean = f"{CHINESE} [redacted:MY_API_KEY] {CHINESE}"
    assert (found["output"], found["trajectory"][0]["content"]) == (clean, clean)
