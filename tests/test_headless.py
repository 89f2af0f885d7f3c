"""The schema format: what is wrong is refused by name, and every field is described."""

from __future__ import annotations

from typing import Any

import pytest
from schema_building import adapter
from tool import ROOT

from agenteval.adapter import parse_adapter
from agenteval.errors import UserError
from agenteval.extraction import result_of
from agenteval.headless import SUITE_METADATA

RESULT = {"matchPath": "$.type", "matchValue": "result", "contentPath": "$.r"}
ONE = {"path": "$.type", "value": "a"}
GOOD = {"match": ONE, "emitAs": "message"}
SPLIT = {"path": "$.text", "into": "parts", "patterns": {"number": "(?P<n>[0-9]+)"}}
EMITS = "thought, tool_call, message, plan, error, end"
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"version": 2}, "version must be 1; got 2"),
    ({"name": None}, "name must be a string, got null"),
    ({"command": "claude"}, "command must be a list, got a string"),
    ({"command": ["a", 7]}, "command[1] must be a string, got an integer"),
    ({"sessionMode": "batch"}, 'sessionMode must be one of stream, iterative; got "batch"'),
    ({"prompt": {"flag": "-p", "stdin": True}}, "prompt may have flag or stdin, not both"),
    ({"resume": {"sessionIdPath": "$.id"}}, "resume must have one of flag and args, or {sessionId} in command"),
    ({"resume": {"command": ["my", "resume"]}}, "resume must have one of flag and args, or {sessionId} in command"),
    ({"resume": {"flag": "-r", "args": ["x"]}}, "resume must have exactly one of flag and args, has both"),
    (
        {"resume": {"args": ["--resume={session_id}"]}},
        "resume.args: no placeholder is named {session_id}; there is {sessionId}",
    ),
    (
        {"resume": {"flag": "-r", "command": ["my", "{{ sessionId }}"]}},
        "resume.command: no placeholder is named {{ sessionId }}; there is {sessionId}",
    ),
    (
        {"resume": {"flag": "--resume={sessionId}"}},
        "resume.flag: {sessionId} is known in resume.args and resume.command only",
    ),
    ({"command": ["my", "{sessionId}"]}, "command: {sessionId} is known in resume.args and resume.command only"),
    ({"autoApprove": ["a\0b"]}, "autoApprove has a NUL character, which no argument can hold"),
    ({"env": {"A": "b", "C": 1}}, "env.C must be a string, got an integer"),
    ({"env": {"A=B": "c"}}, "env.A=B cannot be an environment variable"),
    ({"metadata": {"model": "$.m", "mode": 7}}, "metadata.mode must be a string or a list, got an integer"),
    ({"metadata": {"model": "$.m", "mode": ["$.a", 7]}}, "metadata.mode[1] must be a string, got an integer"),
    ({"metadata": {"agent": "$.a"}}, "metadata.agent: the suite itself writes agent into metadata; use another name"),
    ({"historyTemplate": "hello"}, "historyTemplate must have {{input}}, where the prompt of an earlier turn goes"),
    (
        {"historyTemplate": {"turnFormat": "{{output}}"}},
        "historyTemplate.turnFormat must have {{input}}, where the prompt of an earlier turn goes",
    ),
    (
        {"historyTemplate": "{{input}} {{ output }}"},
        "historyTemplate: no placeholder is named {{ output }}; there are {{input}} and {{output}}",
    ),
    (
        {"resume": {"flag": "-r", "sessionIdPath": "id"}},
        'resume.sessionIdPath: "id" is not a JSONPath (a path starts with $, a literal is in single quotes)',
    ),
    (
        {"outputEvents": [GOOD, GOOD, {**GOOD, "emitAs": "thoughts"}]},
        f'outputEvents[2].emitAs must be one of {EMITS}; got "thoughts"',
    ),
    ({"outputEvents": [GOOD, {"match": ONE}]}, "outputEvents[1].emitAs is missing"),
    (
        {"outputEvents": [{**GOOD, "match": [ONE, {"path": 7, "value": "a"}]}]},
        "outputEvents[0].match[1].path must be a string, got an integer",
    ),
    ({"outputEvents": [{**GOOD, "match": []}]}, "outputEvents[0].match must have a condition"),
    (
        {"outputEvents": [{**GOOD, "match": {"path": "$.a"}}]},
        "outputEvents[0].match must have exactly one of value and not, has neither",
    ),
    (
        {"outputEvents": [{**GOOD, "match": [ONE, {"path": "$.a", "value": "x", "not": "y"}]}]},
        "outputEvents[0].match[1] must have exactly one of value and not, has both",
    ),
    (
        {"outputEvents": [{**GOOD, "match": [{"path": "$.a[*]", "value": "x"}, {"path": "$.b[*]", "value": "y"}]}]},
        "outputEvents[0].match may have [*] in one condition only",
    ),
    ({"usage": {"match": {"path": "$.a[*]", "value": "x"}}}, "usage.match may not have [*]"),
    (
        {"usage": {"cumulative": ["tokens"]}},
        'usage.cumulative[0] must be one of inputTokens, outputTokens, cachedTokens, costUsd; got "tokens"',
    ),
    (
        {"passthroughTypeMap": {"typeValues": {"a": "thought", "b": "x"}}},
        'passthroughTypeMap.typeValues.b must be one of thought, tool_call, message, plan; got "x"',
    ),
    ({"timeout": -1}, "timeout must be a number > 0.0"),
    ({"outputEvents": [{**GOOD, "also": "yes"}]}, "outputEvents[0].also must be true or false, got a string"),
    ({"splits": [{"path": "$.a", "patterns": {}}]}, "splits[0].into is missing"),
    (
        {"splits": [SPLIT, {**SPLIT, "into": "more", "patterns": {"x": "a(b"}}]},
        "splits[1].patterns.x is not a regular expression (missing ), unterminated subpattern at position 1)",
    ),
    (
        {"splits": [{**SPLIT, "patterns": {"x": "a*"}}]},
        "splits[0].patterns.x fits an empty text, and so is everywhere",
    ),
    ({"splits": [{**SPLIT, "numbers": ["n", "m"]}]}, 'splits[0] has no group "m" in its patterns'),
    ({"splits": [{**SPLIT, "json": ["m"]}]}, 'splits[0] has no group "m" in its patterns'),
    ({"splits": [{**SPLIT, "patterns": {"x": 7}}]}, "splits[0].patterns.x must be a string, got an integer"),
    (
        {"splits": [{**SPLIT, "patterns": {"text": "x"}}]},
        'splits[0].patterns.text: "text" is the type of what lies between the patterns; use another name',
    ),
    (
        {"splits": [{**SPLIT, "patterns": {"x": "(?P<type>x)"}}]},
        'splits[0].patterns.x: "type" is the name of the pattern; use another name for the group',
    ),
    ({"splits": [{**SPLIT, "numbers": ["n"], "json": ["n"]}]}, 'splits[0].json: the group "n" is in numbers too'),
    (
        {"splits": [SPLIT, SPLIT]},
        "splits[1].into: parts holds what splits[0] makes of $.text; use another name",
    ),
    *(
        ({"outputMode": "text", field: value}, f"{field} is never read in outputMode text without outputEvents")
        for field, value in {
            "result": RESULT,
            "usage": {"inputTokens": "$.n"},
            "metadata": {"model": "$.m"},
            "splits": [SPLIT],
        }.items()
    ),
]
MISSPELT: list[tuple[dict[str, Any], str]] = [
    ({"outputEvent": []}, "outputEvent: no such field; did you mean outputEvents?"),
    ({"output_events": []}, "output_events: no such field; did you mean outputEvents?"),
    ({"cwd": "--cd"}, "cwd: no such field; did you mean cwdFlag?"),
    ({"prompt": {"stin": True}}, "prompt.stin: no such field; did you mean stdin?"),
    ({"output": {"falg": "--json"}}, "output.falg: no such field; did you mean flag?"),
    ({"resume": {"flag": "-r", "sessionId": "$.id"}}, "resume.sessionId: no such field; did you mean sessionIdPath?"),
    (
        {"outputEvents": [GOOD, {**GOOD, "extract": {"contents": "$.text"}}]},
        "outputEvents[1].extract.contents: no such field; did you mean content?",
    ),
    (
        {"outputEvents": [{**GOOD, "extract": {"isErrr": "$.e"}}]},
        "outputEvents[0].extract.isErrr: no such field; did you mean isError?",
    ),
    (
        {"outputEvents": [{**GOOD, "extract": {"contentPath": "$.text"}}]},
        "outputEvents[0].extract.contentPath: no such field; did you mean content?",
    ),
    (
        {"outputEvents": [{**GOOD, "match": [ONE, {"path": "$.a", "values": ["x"]}]}]},
        "outputEvents[0].match[1].values: no such field; did you mean value?",
    ),
    (
        {"outputEvents": [{"match": ONE, "emitas": "message"}]},
        "outputEvents[0].emitas: no such field; did you mean emitAs?",
    ),
    ({"splits": [{**SPLIT, "number": ["n"]}]}, "splits[0].number: no such field; did you mean numbers?"),
    ({"result": {**RESULT, "isError": "$.e"}}, "result.isError: no such field; did you mean isErrorPath?"),
    ({"usage": {"cost": "$.usd"}}, "usage.cost: no such field; did you mean costUsd?"),
    (
        {"historyTemplate": {"turnFormat": "{{input}}", "sytem": "x"}},
        "historyTemplate.sytem: no such field; did you mean system?",
    ),
]
OWN: list[dict[str, Any]] = [
    {"$schema": "x", "$comment": "x", "_note": "x", "// flag": "x", "#output": "x", "x-name": "x"},
    {"note": "x", "notes": ["x"], "comment": "x", "commandNote": "x", "prompt_comment": "x", "timeoutReason": "x"},
    {"author": "x", "url": "x", "tags": [], "model": "x", "title": "x", "license": "x", "unknown": {"name": 1}},
    {"prompt": {"flag": "-p", "stdinFormat": "text"}},  # the seed's, which nothing ever read
    {"outputEvents": [{**GOOD, "match": {**ONE, "note": "x"}, "why": "x", "extract": {"tags": "x"}}]},
    {"splits": [{**SPLIT, "hint": "x"}], "env": {"stin": "x"}, "metadata": {"nam": "$.x"}},
]
BAD_PATHS = [
    ({"result": {**RESULT, "contentPath": "$.a["}}, "result.contentPath"),
    ({"result": {**RESULT, "errorPath": ["$.a", "$["]}}, "result.errorPath"),
    (
        {"outputEvents": [{**GOOD, "extract": {"isError": ["$.a", "$.b["]}}]},
        "outputEvents[0].extract.isError",
    ),
    (
        {"outputEvents": [GOOD, {**GOOD, "match": {"path": "$[?", "value": "a"}}]},
        "outputEvents[1].match.path",
    ),
    ({"outputEvents": [{**GOOD, "delta": "more"}]}, "outputEvents[0].delta"),
    ({"usage": {"costUsd": "usd"}}, "usage.costUsd"),
    ({"nestedEvents": "messages"}, "nestedEvents"),
    ({"splits": [{**SPLIT, "path": "text"}]}, "splits[0].path"),
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


@pytest.mark.parametrize(("fields", "message"), MISSPELT, ids=[message for _, message in MISSPELT])
def test_a_misspelt_field_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        adapter(**fields)
    assert str(error.value) == f"my.json: {message}"


@pytest.mark.parametrize("fields", OWN, ids=[" ".join(fields) for fields in OWN])
def test_fields_of_ones_own_are_let_through(fields: dict[str, Any]) -> None:
    assert adapter(**fields).config.name == "my"


def test_schemas_that_were_there_before_are_not_refused() -> None:
    paths = [ROOT / "bench" / "claude-seed.json", *ROOT.glob("agenteval/adapters/*.json")]
    for path in [*paths, *(ROOT / "examples" / "quickstart" / f"{name}.json" for name in ("careful", "hasty"))]:
        assert parse_adapter(path.read_bytes(), path.name).config.version == 1


def test_the_names_of_the_suite_are_those_it_writes() -> None:
    ending: dict[str, Any] = {"exitCode": 1, "signal": "SIGTERM", "timedOut": True}
    raw = {"id": "i", "input": "x", "rawLines": [], "timing": {}, "metadata": {"workspaceDir": "/ws"}, **ending}
    assert set(result_of(raw, adapter())["metadata"]) == SUITE_METADATA


def test_what_looks_like_a_placeholder_and_is_none() -> None:
    resume = {"command": ["sh", "-c", "agent resume {sessionId} ${id} {} '{print $1}'"]}
    assert adapter(resume=resume).config.resume is not None, "the id in the command is enough"


NOT_JSON: list[tuple[bytes, str]] = [
    (b"", ": is empty"),
    (b"\xef\xbb\xbf \n", ": is empty"),
    (b"[]", ": an adapter schema must be an object, got a list"),
    (b'{"version": 1}', ": name is missing"),
    (b"{", ":1:2: not JSON: the file ends too early"),
    (b'{"version": 1,\n "name": "my', ":2:10: not JSON: unterminated string"),
    (b'{\n  "version": 1\n  "name": "my"\n}', ":3:3: not JSON: expecting ',' delimiter"),
    (b'{\n  "version": one\n}', ":2:14: not JSON: expecting value"),
    ('{"é": "ü" "name"}'.encode(), ":1:11: not JSON: expecting ',' delimiter"),
    (b'\xef\xbb\xbf{"a": 1}}', ":1:9: not JSON: extra data"),
    (b"// mine\n{}", ":1:1: not JSON: expecting value (JSON has no comments)"),
    (
        b'{\n  # mine\n  "version": 1}',
        ":2:3: not JSON: expecting property name enclosed in double quotes (JSON has no comments)",
    ),
    (b'{"a": 1}\n/* end */', ":2:1: not JSON: extra data (JSON has no comments)"),
    (b'{"a":\n NaN}', ":2:2: not JSON: invalid character"),
    (b'{"a": 1e999}', ": not JSON: Number out of range"),
    (b'{\n"a": "\xff"}', ":2:7: not UTF-8: byte 0xff"),
    (b"[" * 99999, ": not JSON that can be read: nested too deeply"),
    (b'{"a": "\\ud83d"}', ": not JSON that can be read: half of a surrogate pair (\\ud800 to \\udfff) stands alone"),
]


@pytest.mark.parametrize(("data", "message"), NOT_JSON, ids=[message for _, message in NOT_JSON])
def test_what_is_no_schema_is_refused_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(UserError) as error:
        parse_adapter(data, "my.json")
    assert str(error.value) == f"my.json{message}"


def test_a_comma_too_many() -> None:
    for data in (b'{\n"a": 1,\n}', b'{"a": [1,\n2,\n]}'):  # versions of Python do not agree on the line
        with pytest.raises(UserError, match=r"^my\.json:[23]:\d+: not JSON: a comma with nothing after it$"):
            parse_adapter(data, "my.json")
