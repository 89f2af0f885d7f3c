"""Adapter schemas that are wrong, and the field or message that the user must see."""

from __future__ import annotations

from typing import Any

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
        "resume.args: {session_id} is not a placeholder; {sessionId} is",
    ),
    (
        {"resume": {"flag": "-r", "command": ["my", "{{ sessionId }}"]}},
        "resume.command: {{ sessionId }} is not a placeholder; {sessionId} is",
    ),
    (
        {"resume": {"flag": "--resume={sessionId}"}},
        "resume.flag: {sessionId} may be used only in resume.args and resume.command",
    ),
    ({"command": ["my", "{sessionId}"]}, "command: {sessionId} may be used only in resume.args and resume.command"),
    ({"autoApprove": ["a\0b"]}, "autoApprove contains a NUL character, which arguments cannot contain"),
    ({"env": {"A": "b", "C": 1}}, "env.C must be a string, got an integer"),
    ({"env": {"A": "b", "C\nD": None}}, r"env.C\nD must be a string, got null"),
    ({"env": {"A=B": "c"}}, "env.A=B cannot be an environment variable"),
    ({"metadata": {"model": "$.m", "mode": 7}}, "metadata.mode must be a string or a list, got an integer"),
    ({"metadata": {"model": "$.m", "mode": ["$.a", 7]}}, "metadata.mode[1] must be a string, got an integer"),
    (
        {"metadata": {"signal": "$.a"}},
        "metadata.signal: the suite itself writes metadata.signal; use another name",
    ),
    (
        {"sessionLog": "mine"},
        'sessionLog: there is no log format "mine"; choose from claude, codex, gemini, goose, opencode, pi, qwen',
    ),
    ({"historyTemplate": "hello"}, "historyTemplate must contain {{input}}, where the prompt of an earlier turn goes"),
    (
        {"historyTemplate": {"turnFormat": "{{output}}"}},
        "historyTemplate.turnFormat must contain {{input}}, where the prompt of an earlier turn goes",
    ),
    (
        {"historyTemplate": "{{input}} {{ output }}"},
        "historyTemplate: {{ output }} is not a placeholder; use {{input}} and {{output}}",
    ),
    (
        {"resume": {"flag": "-r", "sessionIdPath": "id"}},
        'resume.sessionIdPath: "id" is not a JSONPath (a path starts with $, a literal is in single quotes)',
    ),
    (
        {"resume": {"flag": "-r", "sessionIdPath": "\n"}},
        'resume.sessionIdPath: "\\n" is not a JSONPath (a path starts with $, a literal is in single quotes)',
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
        "outputEvents[0].match may have [*] in only one condition",
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
        "splits[1].patterns.x is not a regular expression: missing ) at position 3",
    ),
    (
        {"splits": [{**SPLIT, "patterns": {"x": "a*"}}]},
        "splits[0].patterns.x matches the empty string, and so matches everywhere",
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
        "splits[1].into: parts already holds what splits[0] makes of $.text; use another name",
    ),
    (
        {"linePatterns": {"x": "(?P<type>x)"}},
        'linePatterns.x: "type" is the name of the pattern; use another name for the group',
    ),
    ({"linePatterns": {"x": "a*"}}, "linePatterns.x matches the empty string, and so matches everywhere"),
    ({"linePatterns": {"x": 7}}, "linePatterns.x must be a string, got an integer"),
    (
        {"outputMode": "text", "linePatterns": {"x": "x"}},
        "linePatterns has no effect in outputMode text: use splits",
    ),
    *(
        ({"outputMode": "text", field: value}, f"{field} has no effect in outputMode text without outputEvents")
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
    {"prompt": {"flag": "-p", "stdinFormat": "text"}},  # in agent-eval-harness's own schemas; never read
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
