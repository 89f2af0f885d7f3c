"""ae-extract --explain: which rule takes which line."""

from __future__ import annotations

from pathlib import Path

from schema_building import BASE, event, is_type, lines
from tool import run, write

from agenteval.adapter import parse_adapter
from agenteval.explaining import Explainer, kind_of
from agenteval.stream import encode


def explained(*events: object, **schema: object) -> list[str]:
    config = parse_adapter(encode({**BASE, **schema}), "my.json").config
    raw = {"id": "r", "rawLines": lines(*events)}
    return [" ".join(line.split()) for line in Explainer(config, "my.json").explain(raw)]


def test_the_first_rule_that_matches_takes_it() -> None:
    rules = [event(is_type("a"), "message", content="$.x"), event(is_type("a"), "thought", content="$.x")]
    assert explained({"type": "a", "x": "hi"}, outputEvents=rules) == [
        "r: 1 lines",
        '1 message outputEvents[0] content="hi"',
    ]


def test_several_things_in_one_line() -> None:
    items = "$.content[*]"
    rules = [
        event({"path": items, "value": "text"}, "message", content="$.text"),
        event({"path": items, "value": "call"}, "tool_call", title="$.name"),
        event(is_type("bad"), "error", content="$.why"),
    ]
    shown = explained(
        {"content": [{"type": "text", "text": "a"}, {"type": "call", "name": "ls"}], "session_id": "s"},
        {"type": "bad", "why": "no key", "session_id": "s"},
        {"type": "noise"},
        "words",
        outputEvents=rules,
    )
    assert shown == [
        "r: 4 lines",
        '1 message outputEvents[0] content="a"',
        'tool_call outputEvents[1] name="ls" status="pending"',
        'session resume "s"',
        '2 error outputEvents[2] "no key"',
        '3 - type noise {"type": "noise"}',
        "4 - no JSON object words",
        "2 of 4 lines matched no rule: type noise (1), no JSON object (1)",
    ]


def test_rules_whose_steps_take_turns() -> None:
    rules = [
        event(is_type("text"), "message", content="$.text"),
        event(is_type("call"), "tool_call", id="$.id", title="$.name"),
        event(is_type("end"), "tool_call", id="$.id", output="$.out"),
    ]
    log = [
        {"type": "call", "id": 1, "name": "ls"},
        {"type": "end", "id": 1, "out": "x"},
        {"type": "text", "text": "a"},
        {"type": "call", "id": 2, "name": "rm"},
    ]
    assert explained({"log": log}, nestedEvents="$.log", outputEvents=rules) == [
        "r: 1 lines",
        '1 message outputEvents[0] content="a"',
        'tool_call outputEvents[1] name="ls" status="pending"',
        'tool_call outputEvents[1] name="rm" status="pending"',
        'tool_call outputEvents[2] name="ls" status="completed" output="x"',
    ]


def test_lines_that_are_read_together(tmp_path: Path) -> None:
    write(tmp_path / "raw", {"id": "a", "input": "x", "rawLines": ["one", "two"], "timing": {"start": 0, "end": 1}})
    done = run("ae-extract", "-s", "text", "--explain", "raw", cwd=tmp_path).expect(0, stderr="")
    assert done.stdout.startswith("a: 2 lines\n") and "read together" in done.stdout


def test_kinds_of_lines() -> None:
    given = ['{"type": "x"}', '{"method": "m"}', '{"a": 1}', "{}", "", "[1]", '{"type": 7}']
    assert [kind_of(line) for line in given] == [
        "type x",
        "method m",
        "has a",
        "has nothing",
        "blank",
        "no JSON object",
        "has type",
    ]
