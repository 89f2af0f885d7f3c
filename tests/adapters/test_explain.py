"""ae-extract --explain: which rule takes which line, which take nothing, and that it reads as ae-extract does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from agenteval.adapters.explain import ALIKE_SHOWN, SHOWN, Explainer, discriminators, kind_of, pairs
from agenteval.adapters.schema_file import parse_adapter
from agenteval.streams.jsonl import encode
from agenteval.wire.adapter_schema import StepKind
from tests.support.schema_building import BASE, TOOLS, call, contents, end, event, is_type, lines
from tests.support.tool import jsonl, run, write
from tests.support.transcripts import CASES, adapter_name, compiled_once, recorded

RAW: dict[str, Any] = {"id": "r", "input": "x", "timing": {"start": 0, "end": 1, "total": 1}}


def explainer(**schema: object) -> Explainer:
    return Explainer(parse_adapter(encode({**BASE, **schema}), "my.json").config, "my.json")


def squeezed(rows: Any) -> list[str]:
    return [" ".join(row.split()) for row in rows]


def explained(*events: object, raw: dict[str, Any] | None = None, **schema: object) -> list[str]:
    """All rows but the first, which counts the lines; those that are about the whole file last."""
    explaining = explainer(**schema)
    _, *rows = explaining.explain({**RAW, "rawLines": lines(*events), **(raw or {})})
    return squeezed([*rows, *explaining.ending()])


def text(value: str) -> dict[str, Any]:
    return event(is_type(value), "message", content="$.x")


# --- what was taken -------------------------------------------------------------------------------


def test_the_first_rule_that_matches_takes_it() -> None:
    rules = [text("a"), event(is_type("a"), "thought", content="$.x")]
    assert explained({"type": "a", "x": "hi"}, outputEvents=rules) == [
        '1 message outputEvents[0] content="hi"',
        'gives output="hi"',
        "found nothing in any line: outputEvents[1]",
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
        {"type": "bad"},
        {"type": "noise"},
        "words",
        outputEvents=rules,
    )
    assert shown == [
        '1 message outputEvents[0] content="a"',
        'tool_call outputEvents[1] name="ls"',
        'session $.session_id "s"',
        '2 error outputEvents[2] "no key"',
        '3 error outputEvents[2] "the agent reports an error" (content $.why finds nothing)',
        '4 - type=noise {"type": "noise"}',
        "5 - no JSON object words",
        "2 of 5 lines matched no rule: type=noise (1), no JSON object (1)",
        'gives output="a"',
    ]


def test_a_result_shows_the_call_it_was_paired_with() -> None:
    shown = explained(
        call(id=1, name="ls", **{"in": "-l"}),
        call(id=2, name="rm"),
        end(id=2, out="gone", err=1),
        end(id=1, out="x", status="ok"),
        end(id=9, out="y"),
        outputEvents=TOOLS[1:],
    )
    assert shown[:5] == [
        '1 tool_call outputEvents[0] name="ls" id=1 input="-l"',
        '2 tool_call outputEvents[0] name="rm" id=2',
        '3 tool_call outputEvents[1] -> line 2 (rm) id=2 status="failed" output="gone" isError=1',
        '4 tool_call outputEvents[1] -> line 1 (ls) id=1 status="completed" output="x"',
        '5 tool_call outputEvents[1] name="unknown" (no call before it) id=9 status="completed" output="y"',
    ]


def test_a_wrong_id_path_shows() -> None:
    rules = [TOOLS[1], event(is_type("end"), "tool_call", id="$.ident", output="$.out")]
    shown = explained(call(id=1, name="ls"), call(id=2, name="rm"), end(id=2, out="gone"), outputEvents=rules)
    assert '3 tool_call outputEvents[1] -> line 1 (ls) status="completed" output="gone"' in shown
    assert shown[-1] == "found nothing in any line: outputEvents[0].extract.input; outputEvents[1].extract.id"


def test_events_in_a_list_keep_their_order() -> None:
    log = [call(id=1, name="ls"), end(id=1, out="x"), {"type": "text", "text": "a"}, call(id=2)]
    assert explained({"log": log}, nestedEvents="$.log", outputEvents=TOOLS)[:4] == [
        '1 tool_call outputEvents[1] name="ls" id=1',
        'tool_call outputEvents[2] -> line 1 (ls) id=1 status="completed" output="x"',
        'message outputEvents[0] content="a"',
        'tool_call outputEvents[1] name="unknown" (title $.name finds nothing) id=2',
    ]


def test_pieces_are_joined_and_the_whole_is_dropped() -> None:
    piece = {**text("d"), "delta": True}
    shown = explained(
        {"type": "d", "x": "a"},
        {"type": "d", "x": ""},
        {"type": "d", "x": "b"},
        {"type": "m", "x": "ab"},
        {"type": "m", "x": "c"},
        outputEvents=[piece, text("m")],
    )
    assert shown == [
        '1 message outputEvents[0] content="a"',
        '2 (empty) outputEvents[0] matched; content is ""',
        '3 + message outputEvents[0] content="b"',
        "4 (dropped) outputEvents[1] the same message as the pieces from line 1 on",
        '5 message outputEvents[1] content="c"',
        'gives output="c"',
    ]


def test_an_empty_piece_beside_another_of_the_same_event_is_not_shown() -> None:
    thought = {**event(is_type("d"), "thought", content="$.r"), "delta": True, "also": True}
    rules = [thought, {**text("d"), "delta": True}]
    shown = explained({"type": "d", "r": "hm", "x": ""}, {"type": "d", "r": None, "x": "a"}, outputEvents=rules)
    assert shown == [
        '1 thought outputEvents[0] content="hm"',
        '2 message outputEvents[1] content="a"',
        'gives output="a"',
    ]


def test_result_usage_and_metadata() -> None:
    schema: dict[str, Any] = {
        "result": {"matchPath": "$.type", "matchValue": "end", "contentPath": "$.a", "isErrorPath": "$.bad"},
        "usage": {"inputTokens": "$.in", "costUsd": "$.cost", "perTurn": "sum"},
        "metadata": {"model": "$.model", "host": "$.host"},
        "resume": {"flag": "-r", "sessionIdPath": "$.s"},
    }
    shown = explained(
        {"type": "x", "in": 2, "model": "m"},
        {"type": "x", "in": 3, "model": "m"},
        {"type": "end", "a": "no key", "bad": True},
        {"type": "end", "a": "fine", "bad": False, "s": 7},
        **schema,
    )
    assert shown == [
        "1 usage usage inputTokens=2",
        'metadata metadata model="m"',
        "2 usage usage inputTokens=3",
        '3 error result "no key"',
        '4 output result "fine"',
        'session resume "7"',
        'gives output="fine" inputTokens=5',
        "found nothing in any line: usage.costUsd; metadata.host",
    ]


def test_the_session_id_that_counts() -> None:
    shown = explained(
        {"session_id": "spare"},
        {"thread": "own"},
        {"session_id": "ignored"},
        {"thread": "own"},
        resume={"flag": "-r", "sessionIdPath": "$.thread"},
    )
    assert shown == [
        '1 session $.session_id "spare"',
        '2 session resume "own"',
        '3 - has session_id {"session_id": "ignored"}',
        '4 - has thread {"thread": "own"}',
        "2 of 4 lines matched no rule: has session_id (1), has thread (1)",
        'gives output=""',
    ]


# --- what was not ---------------------------------------------------------------------------------


def test_what_matched_and_found_nothing() -> None:
    schema: dict[str, Any] = {
        "outputEvents": [event(is_type("a"), "message", content=["$.txt", "$.tex"]), event(is_type("p"), "plan")],
        "result": {"matchPath": "$.type", "matchValue": "end", "contentPath": "$.answr"},
        "usage": {"match": is_type("end"), "inputTokens": "$.tokens"},
        "resume": {"flag": "-r", "sessionIdPath": "$.s"},
    }
    never = [
        "outputEvents[0] (matched line 1, content $.txt or $.tex finds nothing)",
        "result (matched line 3, contentPath $.answr finds nothing)",
        "usage (matched line 3, no path finds a number)",
        "resume.sessionIdPath",
    ]
    shown = explained({"type": "a", "text": "hi"}, {"type": "p"}, {"type": "end"}, {"type": "a"}, **schema)
    assert shown == [
        "1 (empty) outputEvents[0] matched; content $.txt or $.tex finds nothing",
        "2 plan outputEvents[1] entries=[] (there is no extract.entries)",
        "3 (empty) result matched; contentPath $.answr finds nothing",
        "(empty) usage matched; no path finds a number",
        "4 (empty) outputEvents[0] matched; content $.txt or $.tex finds nothing",
        'gives output=""',
        f"found nothing in any line: {'; '.join(never)}",
    ]


def test_what_one_record_uses_is_used() -> None:
    explaining = explainer(outputEvents=[text("a"), text("b"), text("c")])
    assert list(explaining.ending()) == []
    for name, event_ in (("one", {"type": "a", "x": "hi"}), ("two", {"type": "b"})):
        list(explaining.explain({**RAW, "id": name, "rawLines": lines(event_)}))
    (row,) = explaining.ending()
    never, two = row.split("; ")
    assert never == "found nothing in any line: outputEvents[1] (matched line 1 of two, content $.x finds nothing)"
    assert two == "outputEvents[2]"


def test_kinds_are_named_by_what_the_rules_ask_for() -> None:
    rules = [
        event({"path": "$.ev", "value": "say"}, "message", content="$.x"),
        event([{"path": "$.ev", "value": "msg"}, {"path": "$.by", "not": "me"}], "message", content="$.x"),
        event({"path": "$.list[*]", "value": "t"}, "message", content="$.x"),
    ]
    fields = discriminators(explainer(outputEvents=rules).adapter)
    given = {
        '{"ev": "progress", "type": "x"}': "ev=progress",
        '{"by": "me", "ev": "msg"}': "ev=msg by=me",
        '{"ev": 7, "list": [{"type": "u"}, 3, {"type": "v"}]}': "ev=7 list[*]=u,v",
        '{"type": "x"}': "type=x",
        '{"method": "m"}': "method=m",
        '{"a": 1}': "has a",
        '{"type": {"b": 1}}': "has type",
        "{}": "has nothing",
        "": "blank",
        "[1]": "no JSON object",
        '{"ev": "\\ud83d"}': "ev=\ufffd",
        '{"ev": "%s"}' % ("x" * 99): f"ev={'x' * 40}…",
    }
    assert {line: kind_of(line, fields) for line in given} == given


def test_many_kinds_add_up() -> None:
    shown = explained(*[{"type": f"t{n}"} for n in range(20)], {"type": "t0"})
    assert shown[-2].startswith("21 of 21 lines matched no rule: type=t0 (2), type=t1 (1), ")
    assert shown[-2].endswith("type=t7 (1) … and 12 more kinds (12)")


def test_a_long_run_of_the_same_is_cut() -> None:
    rules = [{**text("d"), "delta": True}]
    pieces = [{"type": "d", "x": str(n)} for n in range(100)]
    shown = explained(*pieces, *["noise"] * (ALIKE_SHOWN + 1), "x" * 999, outputEvents=rules)
    assert len(shown) == 1 + ALIKE_SHOWN + 1 + ALIKE_SHOWN + 1 + 2, shown
    assert shown[1 + ALIKE_SHOWN] == f"… {99 - ALIKE_SHOWN} more of these, up to line 100"
    assert shown[-3] == "… 2 more of these, up to line 106"
    long = explained("x" * 999, "y" + " " * 999 + "z", "w" * SHOWN)
    assert long[:3] == [
        f"1 - no JSON object {'x' * SHOWN}…",
        "2 - no JSON object y…",
        f"3 - no JSON object {'w' * SHOWN}",
    ]


# --- other modes, turns, endings ------------------------------------------------------------------

SPLIT = {
    "path": "$.text",
    "into": "parts",
    "patterns": {"run": "^> (?P<cmd>.*)$", "tokens": r"^tokens: (?P<n>\S+)$", "cost": r"^\$(?P<usd>\S+)$"},
    "numbers": ["n"],
}
PARTS = [
    event({"path": "$.parts[*]", "value": "run"}, "tool_call", title="'sh'", input="$.cmd", status="'completed'"),
    event({"path": "$.parts[*]", "value": "text"}, "message", content="$.text"),
]


def test_events_in_lines_of_plain_text() -> None:
    schema: dict[str, Any] = {
        "linePatterns": {"session": r"^Session (?P<session>\w+)$", "wrong": "^Error: (?P<why>.+)$", "never": "^!$"},
        "outputEvents": [event({"path": "$.type", "value": "wrong"}, "error", content="$.why")],
        "resume": {"flag": "--resume", "sessionIdPath": "$.session"},
    }
    assert explained("Session s1", "hello", "Error: no disk", **schema) == [
        '1 session resume "s1"',
        "2 - no JSON object hello",
        '3 error outputEvents[0] "no disk"',
        "1 of 3 lines matched no rule: no JSON object (1)",
        'gives output=""',
        "found nothing in any line: linePatterns.never",
    ]


def test_the_parts_of_a_text() -> None:
    schema: dict[str, Any] = {"splits": [SPLIT], "outputEvents": PARTS, "usage": {"inputTokens": "$.parts[*].n"}}
    printed = ["", "> ls -l", "I see", "two files.", "", "tokens: 1.2k"]
    assert explained(*printed, outputMode="text", **schema) == [
        "2 part splits[0] run > ls -l",
        'tool_call outputEvents[0] name="sh" status="completed" input="ls -l"',
        "3 part splits[0] text I see",
        'message outputEvents[1] content="I see two files."',
        "6 part splits[0] tokens tokens: 1.2k",
        "1-6 usage usage inputTokens=1200",
        'gives output="I see two files." inputTokens=1200',
        "found nothing in any line: splits[0].patterns.cost",
    ]
    assert explained({"text": "Hi.\n> ls"}, {"text": "tokens: 7"}, {"x": 1}, **schema)[:7] == [
        "1 part splits[0] text Hi.",
        'message outputEvents[1] content="Hi."',
        "part splits[0] run > ls",
        'tool_call outputEvents[0] name="sh" status="completed" input="ls"',
        "2 part splits[0] tokens tokens: 7",
        "usage usage inputTokens=7",
        '3 - has x {"x": 1}',
    ]


def test_a_text_that_no_rule_takes_and_one_that_needs_none() -> None:
    rules = [event({"path": "$.nothing", "value": "*"}, "message", content="$.text")]
    assert explained("\x1b[1mone", "two", outputMode="text", outputEvents=rules) == [
        "1-2 - no rule ␛[1mone two",
        'gives output=""',
        "found nothing in any line: outputEvents[0]",
    ]
    assert explained("", "one", "two", outputMode="text")[0] == '1-3 message outputMode text content=" one two"'


def test_passthrough_shows_what_a_line_was_mapped_to() -> None:
    types = {"typeField": "kind", "typeValues": {"say": "message", "think": "thought"}}
    shown = explained(
        {"kind": "say", "content": "hi"},
        {"kind": "tool_call", "name": "ls", "id": 1},
        {"kind": "tool_call", "id": 1, "output": "x"},
        {"kind": "other"},
        outputMode="passthrough",
        passthroughTypeMap=types,
    )
    assert shown == [
        '1 message kind=say content="hi"',
        '2 tool_call kind=tool_call name="ls" id=1 status="pending"',
        '3 tool_call kind=tool_call -> line 2 (ls) id=1 status="completed" output="x"',
        '4 - kind=other {"kind": "other"}',
        "1 of 4 lines matched no rule: kind=other (1)",
        'gives output="hi"',
        "found nothing in any line: passthroughTypeMap.typeValues.think",
    ]


def test_turns_and_how_a_run_ended(tmp_path: Path) -> None:
    line = '{"type": "a", "x": "hi"}'
    turns = [{"lines": 1, "exitCode": 0}, {"lines": 0, "exitCode": 3}]
    records = [
        {
            **RAW,
            "id": "two",
            "input": ["one", "more"],
            "rawLines": [line],
            "turns": turns,
            "exitCode": 3,
            "errors": ["no"],
        },
        {**RAW, "id": "late", "rawLines": [], "exitCode": None, "signal": "SIGTERM", "timedOut": True},
    ]
    write(tmp_path / "raw", *records)
    write(tmp_path / "my.json", {**BASE, "outputEvents": [text("a")]})
    done = run("ae-extract", "-s", "my.json", "--explain", "raw", cwd=tmp_path).expect(0, stderr="")
    assert squeezed(done.stdout.splitlines()) == [
        "two: 1 line, 2 turns",
        'turn 1: line 1, "one"',
        '1 message outputEvents[0] content="hi"',
        'turn 2: no lines, exit code 3, "more"',
        'gives output=""',
        'ended with exit code 3, "no"',
        "late: 0 lines",
        'gives output=""',
        "ended with signal SIGTERM, time-out",
    ]


def test_a_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    """Here the input has no end."""
    noise = [f'{{"type": "{n}"}}' for n in range(1_000)]
    write(tmp_path / "raw", {**RAW, "id": "r", "rawLines": noise})
    write(tmp_path / "my.json", {**BASE, "outputEvents": [text("a")]})
    endless = 'yes "$(cat raw)" | ae-extract -s my.json --explain | head -2'
    done = run("/bin/sh", "-c", endless, cwd=tmp_path).expect(0, stderr="")
    assert done.stdout.startswith("r: 1,000 lines\n     1  -          type=0 ")


# --- it is the same reading -------------------------------------------------------------------------


@pytest.mark.parametrize(("agent", "case"), CASES)
def test_it_reads_as_ae_extract_does(agent: str, case: str) -> None:
    turns = [recorded(agent, turn) for turn in case.split("+")]
    printed = [line for turn in turns for line in turn]
    counts = [len(turn) for turn in turns]
    adapter = compiled_once(adapter_name(agent))
    reading = adapter.read(printed, None, counts, "r")
    explaining = Explainer(adapter.config, agent)
    rows = list(explaining.explain({**RAW, "rawLines": printed, "turns": [{"lines": count} for count in counts]}))
    assert contents(explaining.reading) == contents(reading)
    assert f"        gives {pairs({'output': reading.output, **reading.usage})}" in rows
    begun = [row for row in rows if row[8:17].strip() in get_args(StepKind) and " -> line " not in row]
    assert len(begun) == len(reading.trajectory), rows


def test_a_schema_that_fits_nothing_is_reported(tmp_path: Path) -> None:
    raw = {"id": "a", "input": "x", "rawLines": ['{"kind":"other"}'], "timing": {"start": 0, "end": 1, "total": 1}}
    run("ae-extract", "-s", "claude", stdin=jsonl(raw, raw), cwd=tmp_path).expect(0).says(
        "matches nothing", "--explain"
    )
    good = {**raw, "rawLines": ['{"type":"result","result":"yes"}']}
    for records in ((raw, good), (good, raw), ({**raw, "rawLines": []},), ()):
        run("ae-extract", "-s", "claude", stdin=jsonl(*records), cwd=tmp_path).expect(0, stderr="")
