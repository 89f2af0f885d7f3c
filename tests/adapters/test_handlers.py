"""The code that a schema is compiled to: events as Structs and as dicts give the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenteval.adapters.bundled import load_adapter
from agenteval.adapters.extract import result_of
from agenteval.adapters.reader import Adapter, Reading
from agenteval.streams.jsonl import Fragment, encode
from tests.support.schema_building import adapter, event, is_type
from tests.support.tool import ROOT, run

TRANSCRIPTS = ROOT / "tests/data/transcripts"
STRUCTS = ("claude", "codex", "gemini", "opencode", "qwen", "wikiagent")  # schemas of plain paths only
HUGE = 10**40


def as_dicts(schema: Adapter) -> Adapter:
    """Returns an adapter of the same schema that decodes events to dicts, as one with a trace does."""
    return Adapter(schema.config, "test", lambda _field, _item, function, values: call(function, values))


def call(function: Any, values: dict[str, Any]) -> Any:
    return function(values) if function.__name__ in ("set_usage", "add_usage", "note") else function(*values.values())


def facts(reading: Reading) -> Any:
    return reading.trajectory, reading.output, reading.usage, reading.errors, reading.facts, reading.session_id


@pytest.mark.parametrize("name", STRUCTS)
def test_structs_and_dicts_give_the_same_on_real_transcripts(name: str) -> None:
    schema = load_adapter(name)
    assert schema.compiled.shape.as_struct and not as_dicts(schema).compiled.shape.as_struct
    for path in sorted(TRANSCRIPTS.glob(f"{name}-*.jsonl")):
        lines = path.read_text().splitlines()
        assert facts(schema.read(lines)) == facts(as_dicts(schema).read(lines)), path.name


ODD = adapter(
    outputEvents=[
        event(is_type("text"), "message", content="$.from.class[0]['a b']"),
        event({"path": "$.items[*]", "value": "use"}, "tool_call", title="$.name", id="$.id", input="$.x.y"),
        event({"path": "$.type", "value": ["done", "failed"]}, "tool_call", id="$.id", output="$.out", status="$.type"),
        event(is_type("piece"), "message", content="$.t") | {"delta": True},
    ],
    usage={"inputTokens": "$.usage.in", "outputTokens": "$.usage.out"},
    metadata={"model": "$.from.model"},
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([HUGE, 1.5, "use", "text", "piece", "a", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "from", "class", "a b", "x", "y", "name", "id", "in", "t"]), inner)
    ),
    max_leaves=12,
)
EVENTS = st.dictionaries(st.sampled_from(["type", "from", "items", "id", "out", "usage", "t", "session_id"]), VALUES)


@given(st.lists(EVENTS, max_size=4))
def test_structs_and_dicts_give_the_same_whatever_is_where(events: list[dict[str, Any]]) -> None:
    lines = [json.dumps(one) for one in events]
    assert ODD.compiled.shape.as_struct
    assert facts(ODD.read(lines)) == facts(as_dicts(ODD).read(lines))


def test_long_integers_and_odd_lines_are_read_into_structs() -> None:
    lines = [
        f'{{"type": "done", "id": "a", "out": {HUGE}}}',
        '{"type": "text", "from": {"class": [{"a b": "\\ud800"}]}}',
    ]
    steps = ODD.read(lines).trajectory
    assert steps[0]["output"] == HUGE
    assert steps[1]["content"] == "\ufffd"


def test_debug_shows_the_code() -> None:
    shown = run("ae-extract", "-s", "wikiagent", "--debug", stdin="").expect(0).stderr.splitlines()
    assert "ae-extract: wikiagent: def read_lines(lines, times, out):" in shown
    assert "ae-extract: wikiagent:     for line, time in zip(lines, times):" in shown


def extract_input(given: str, secret: str | None) -> str:
    """Returns what ae-extract writes for a tool call with this JSON as its input, in a line that is long."""
    item = f'{{"id":"a","type":"mcp_tool_call","tool":"Read","arguments":{given}}}'
    line = f'{{"type":"item.started","note":"{"." * 2000}","item":{item}}}'
    raw = {"id": "x", "input": "?", "rawLines": [line], "timing": {"start": 0, "end": 1, "total": 1}}
    environment = {"MY_API_KEY": secret} if secret else {}
    return run("ae-extract", "-s", "codex", stdin=json.dumps(raw) + "\n", env=environment).expect(0).stdout


@pytest.mark.parametrize("secret", [None, "not-in-there"])
def test_tool_input_is_written_as_it_came(secret: str | None) -> None:
    given = f'{{"path" : "caf\u00e9\\n \\" \\\\", "n": [1, {HUGE}, 1e999, {"9" * 5000}]}}'
    written = extract_input(given, secret)
    assert f'"input":{given}' in written
    table = run("ae-format", "-f", "jsonl", stdin=written).expect(0).stdout
    assert json.loads(table)["trajectory"][0]["input"]["n"] == [1, HUGE, None, None]


@pytest.mark.parametrize(
    "shown",
    [
        "café/and-more",
        "caf\\u00e9/and-more",
        "caf\\u00E9\\/and\\u002dmore",
        "Y2Fmw6kvYW5kLW1vcmU=",
        "\\u0063af%C3%A9%2Fand-more",
    ],
)
def test_no_escape_hides_a_secret_in_tool_input(shown: str) -> None:
    given = f'{{"path" : ["{shown}"], "n": [1, {HUGE}, 1e999, {"9" * 5000}]}}'
    written = extract_input(given, "café/and-more")
    assert json.loads(written)["trajectory"][0]["input"]["path"][0].startswith("[redacted:MY_API_KEY]")
    assert json.loads(written)["trajectory"][0]["input"]["n"] == [1, HUGE, None, None]


SECRETS = ["caf\u00e9/and-more", "caf\\u00e9/and-more", "caf\u00e9\\/and-more", "Y2Fmw6kvYW5kLW1vcmU="]


@pytest.mark.parametrize("shown", SECRETS)
def test_no_escape_hides_a_secret_in_a_text_that_stays_json(shown: str) -> None:
    given = f'"{"é" * 500}\\n{shown}"'
    line = f'{{"type":"item.completed","item":{{"id":"a","type":"mcp_tool_call","tool":"Read","result":{given}}}}}'
    raw = {"id": "x", "input": "?", "rawLines": [line], "timing": {"start": 0, "end": 1, "total": 1}}
    environment = {"MY_API_KEY": "caf\u00e9/and-more"}
    done = run("ae-extract", "-s", "codex", stdin=json.dumps(raw) + "\n", env=environment).expect(0)
    assert done.records[0]["trajectory"][0]["output"] == "\u00e9" * 500 + "\n[redacted:MY_API_KEY]"


@pytest.mark.parametrize(
    ("text", "stays"), [("\u00e9" * 500, True), ("e" * 500, False), ("\u00e9", False), ("\u00e9" * 500 + "\x00", False)]
)
def test_a_long_text_that_is_not_ascii_stays_json(text: str, stays: bool) -> None:
    item = {"id": "a", "type": "mcp_tool_call", "tool": "Read", "result": text}
    line = json.dumps({"type": "item.completed", "item": item}, ensure_ascii=False)
    output = load_adapter("codex", as_json=True).read([line]).trajectory[0]["output"]
    assert (type(output) is Fragment) == stays and json.loads(encode(output)) == text


@pytest.mark.parametrize(
    "given",
    ['"text"', "null", "1e999", "[]", "-1.5", "true", '{"a": "\\\\u0041"}', '["\\u0041", 1e999]']
    + ['"caf\u00e9 \\" \\\\ \\n /"', '"caf\\u00e9 \\/ \\u0000"', '" {\\"a\\": 1}"', '""', f'{{"n" : {HUGE}}}'],
)
def test_long_and_short_lines_give_the_same_output(given: str) -> None:
    schema = load_adapter("codex", as_json=True)

    def extracted(note: str) -> Any:
        item = f'{{"id":"a","type":"mcp_tool_call","tool":"Read","result":{given}}}'
        raw: Any = {"id": "x", "input": "?", "timing": {}, "rawLines": []}
        raw["rawLines"] += [f'{{"type":"item.completed","note":"{note}","item":{item}}}']
        return json.loads(encode(result_of(raw, schema)))

    assert extracted("." * 2000) == extracted("\u00e9" * 500) == extracted("")


@pytest.mark.parametrize("depth", [1, 30, 31, 300])
def test_a_path_may_be_longer_than_an_expression_may_be_nested(depth: int) -> None:
    schema = adapter(outputEvents=[event(is_type("text"), "message", content="$" + ".a" * depth)])
    line = '{"type":"text","a":' + '{"a":' * (depth - 1) + '"deep"' + "}" * depth
    assert [step["content"] for step in schema.read([line]).trajectory] == ["deep"]


def test_a_schema_is_compiled_once_when_it_is_needed() -> None:
    schema = adapter(outputEvents=[event(is_type("text"), "message", content="$.text")])
    assert schema._compiled is None  # ae-run checks a schema, but reads nothing of a single turn
    assert schema.read(['{"type":"text","text":"a"}']).output == "a"
    assert schema.compiled is schema.compiled is schema._compiled


def test_long_code_that_every_kind_of_event_has_is_compiled_once() -> None:
    events = [event(is_type(word), "message", content=f"$.{word}") for word in ("a", "b", "c")]
    usage = {"inputTokens": [f"$.tokens.in{n}" for n in range(4)], "outputTokens": ["$.x.out", "$.y.out", "$.z.out"]}
    schema = adapter(outputEvents=events, usage=usage)
    source = schema.compiled.source
    assert source.count("out.set_usage(") == 1 and source.count("shared_0(event, out)") == 6  # a, b, c, other, any_kind
    lines = [
        '{"type":"a","a":"A","tokens":{"in0":1,"in3":2}}',
        '{"type":["b"],"x":{"out":3}}',
        '{"type":"d","y":{"out":4}}',
    ]
    reading = schema.read(lines)
    assert (reading.output, reading.usage) == ("A", {"inputTokens": 3, "outputTokens": 4})
    assert facts(reading) == facts(as_dicts(schema).read(lines))
