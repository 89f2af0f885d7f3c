"""The schema format: what is wrong is refused by name, and every field is described."""

from __future__ import annotations

from typing import Any

import pytest
from schema_building import adapter

from agenteval.adapter import parse_adapter
from agenteval.errors import UserError

RESULT = {"matchPath": "$.type", "matchValue": "result", "contentPath": "$.r"}
ONE = {"path": "$.type", "value": "a"}
GOOD = {"match": ONE, "emitAs": "message"}
SPLIT = {"path": "$.text", "into": "parts", "patterns": {"number": "(?P<n>[0-9]+)"}}
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
        'outputEvents[0].match must have either "value" or "not"',
    ),
    (
        {"outputEvents": [{**GOOD, "match": [ONE, {"path": "$.a", "value": "x", "not": "y"}]}]},
        'outputEvents[0].match[1] must have either "value" or "not"',
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
        'passthroughTypeMap.typeValues[...] must be one of thought, tool_call, message, plan; got "x"',
    ),
    ({"timeout": -1}, "timeout must be a number > 0.0"),
    ({"outputEvents": [{**GOOD, "also": "yes"}]}, "outputEvents[0].also must be true or false, got a string"),
    ({"splits": [{"path": "$.a", "patterns": {}}]}, "splits[0].into is missing"),
    (
        {"splits": [SPLIT, {**SPLIT, "patterns": {"x": "a(b"}}]},
        "splits[1].patterns.x is not a regular expression (missing ), unterminated subpattern at position 1)",
    ),
    (
        {"splits": [{**SPLIT, "patterns": {"x": "a*"}}]},
        "splits[0].patterns.x fits an empty text, and so is everywhere",
    ),
    ({"splits": [{**SPLIT, "numbers": ["n", "m"]}]}, 'splits[0] has no group "m" in its patterns'),
    ({"splits": [{**SPLIT, "json": ["m"]}]}, 'splits[0] has no group "m" in its patterns'),
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


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b'{"version": 1}', b"\xff"])
def test_what_is_no_schema_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(UserError, match=r"^my\.json: [^\n]+$"):
        parse_adapter(data, "my.json")
