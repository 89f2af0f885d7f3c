"""ae-show: records as timelines, on a real terminal and in a pipe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agenteval.reports.answers import answers_in
from agenteval.reports.timeline import View, since_start, timeline_lines, value_text
from agenteval.streams.text import screen_lines, width
from agenteval.wire.row import RowWithSteps
from agenteval.wire.validation import check
from tests.support.tool import Record, jsonl, on_terminal, run, script, write

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\rover\x00"
COLORS = re.compile(r"\x1b\[[0-9]*m")

RECORD: Record = {
    "id": "far",
    "input": ["first turn", "second turn"],
    "hint": "42",
    "output": "It is 42.",
    "trajectory": [
        {"type": "thought", "content": "Let me see.", "timestamp": 5},
        {
            "type": "tool_call",
            "name": "Bash",
            "status": "failed",
            "input": {"command": "ls -la"},
            "output": "\n".join(f"line {at}" for at in range(40)),
            "duration": 1200,
            "timestamp": 30,
        },
        {"type": "plan", "entries": [{"content": "do it", "status": "completed"}, {"content": "rest"}]},
        {"type": "message", "content": "Done."},
    ],
    "timing": {"start": 0, "end": 1500, "inputTokens": 100, "outputTokens": 20, "costUsd": 0.25},
    "score": {"pass": False, "score": 0.25, "reasoning": "not quite"},
}
PASSED: Record = {"id": "ok", "output": "fine", "score": {"pass": True, "score": 1}}
TRIALS: Record = {
    "id": "t",
    "input": "q",
    "k": 2,
    "trials": [{"trialNum": 1, "output": "one", "pass": True}, {"trialNum": 2, "output": "two", "pass": False}],
}


def test_a_record_in_a_pipe(tmp_path: Path) -> None:
    done = run("ae-show", write(tmp_path / "in.jsonl", PASSED, RECORD), "far").expect(0, stderr="")
    text = done.stdout
    assert text.startswith("== far\nFAIL  0.250, 1.50 s, 120 tokens, $0.2500, 4 steps\n")
    order = [
        "Input\n  first turn\n\n  second turn",
        "Hint\n  42",
        "1  thought  +5 ms\n  Let me see.",
        "2  Bash  failed",
    ]
    order += ["\n  ls -la\n  →\n    line 0\n", "… 29 lines more (--full shows all)", "[x] do it\n  [ ] rest", "Done."]
    order += ["Output\n  It is 42.", "Reasoning\n  not quite"]
    places = [text.index(part) for part in order]
    assert places == sorted(places) and "\x1b" not in text and "fine" not in text
    assert "line 20" not in text
    assert "line 20" in run("ae-show", "--full", stdin=jsonl(RECORD)).expect(0).stdout


def test_the_steps_of_a_sub_agent_are_marked(tmp_path: Path) -> None:
    steps = [
        {"type": "tool_call", "name": "Task", "status": "completed", "callId": "c1", "output": "ok"},
        {"type": "message", "content": "word " * 40, "parentId": "c1"},
        {"type": "message", "content": "Done."},
    ]
    record = {"id": "far", "output": "Done.", "trajectory": steps}
    lines = run("ae-show", write(tmp_path / "in.jsonl", record)).expect(0).stdout.splitlines()
    first, last = lines.index("│ 2  message"), lines.index("3  message")
    assert all(line.startswith("│   word") for line in lines[first + 1 : last - 1]) and lines[last - 1] == ""
    assert not any("│" in line for line in (*lines[:first], *lines[last:]))


def test_one_step(tmp_path: Path) -> None:
    text = run("ae-show", "-", "far", "--step", "2", stdin=jsonl(RECORD)).expect(0).stdout
    assert "line 20" in text and "thought" not in text and "Output" not in text
    assert "there is no step 9: it has 4 steps" in run("ae-show", "--step", "9", stdin=jsonl(RECORD)).expect(0).stdout


def test_all_records_or_only_failures() -> None:
    failed = {"id": "crash", "output": "", "errors": ["exited with code 3"]}
    broken = {"id": "broken", "output": "x", "graderError": "g: exit 1"}
    records = jsonl(PASSED, RECORD, failed, broken, TRIALS)
    everything = run("ae-show", stdin=records).expect(0, stderr="").stdout
    assert re.findall(r"^== (.*)", everything, re.M) == ["ok", "far", "crash", "broken", "t#1", "t#2"]
    some = run("ae-show", "--failed", stdin=records).expect(0, stderr="").stdout
    assert re.findall(r"^== (.*)", some, re.M) == ["far", "crash", "broken", "t#2"]
    assert "Agent failed\n  exited with code 3" in some and "Grader error\n  g: exit 1" in some
    run("ae-show", "--failed", stdin=jsonl(PASSED)).expect(0).says("nothing to show with --failed")


@pytest.mark.parametrize(
    ("ids", "shown"), [(["t"], ["t#1", "t#2"]), (["t#2"], ["t#2"]), (["t#2", "far"], ["far", "t#2"])]
)
def test_trials_are_named(ids: list[str], shown: list[str]) -> None:
    text = run("ae-show", "-", *ids, stdin=jsonl(RECORD, TRIALS)).expect(0, stderr="").stdout
    assert re.findall(r"^== (.*)", text, re.M) == shown


def test_an_id_that_is_not_there() -> None:
    done = run("ae-show", "-", "nope", stdin=jsonl(RECORD, TRIALS)).expect(1)
    assert done.says("no record nope; it has far, t#1, t#2") and done.out == b""


def test_no_escape_sequence_of_an_agent_reaches_the_terminal(tmp_path: Path) -> None:
    call = {"type": "tool_call", "name": EVIL, "status": EVIL, "input": {EVIL: EVIL}, "output": [EVIL]}
    steps = [call, {"type": "message", "content": EVIL}, {"type": "plan", "entries": [EVIL, {"content": EVIL}]}]
    grade = {"pass": False, "score": 0, "reasoning": EVIL}
    record = {"id": f"a{EVIL}", "input": EVIL, "hint": EVIL, "output": EVIL, "trajectory": steps, "score": grade}
    more = {**record, "id": "b", "errors": [EVIL]}
    erred = {**record, "id": "c", "score": None, "graderError": EVIL}
    several = {**record, "id": "d", "scores": {EVIL: grade, "other": grade}}
    file = write(tmp_path / "in.jsonl", record, more, erred, several)
    for args in ([], ["--full"], ["--step", "1"]):
        done = on_terminal("ae-show", file, *args, cwd=tmp_path, env={"PAGER": "cat"}).expect(0)
        plain = COLORS.sub("", done.stdout)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", plain), plain
        assert "␛]0;owned␇" in plain and COLORS.search(done.stdout)


@pytest.mark.parametrize("columns", [40, 80])
def test_lines_fit_the_terminal(columns: int, tmp_path: Path) -> None:
    wide = {**RECORD, "output": "漢字 " * 100 + "x" * 300, "id": "i" * 90}
    file = write(tmp_path / "in.jsonl", wide)
    done = on_terminal("ae-show", file, cwd=tmp_path, columns=columns, env={"PAGER": "cat"}).expect(0)
    assert all(width(line) <= columns for line in COLORS.sub("", done.stdout).splitlines()), done


def test_the_pager_gets_what_does_not_fit_on_the_screen(tmp_path: Path) -> None:
    pager = script(tmp_path / "pager", 'sed "s/^/paged: /"')
    file = write(tmp_path / "in.jsonl", RECORD, PASSED)
    long = on_terminal("ae-show", file, "far", cwd=tmp_path, env={"PAGER": str(pager)}).expect(0)
    assert long.stdout.splitlines() and all(line.startswith("paged: ") for line in long.stdout.splitlines()), long
    short = on_terminal("ae-show", file, "ok", cwd=tmp_path, env={"PAGER": str(pager)}).expect(0)
    assert "paged" not in short.stdout and "fine" in short.stdout
    left = script(tmp_path / "left", "head -1")
    many = write(tmp_path / "many.jsonl", *({**RECORD, "id": f"r{at}"} for at in range(500)))
    done = on_terminal("ae-show", many, cwd=tmp_path, env={"PAGER": str(left)}).expect(0)
    assert len(done.stdout.splitlines()) == 1
    for missing in ("cat", "/no/such/pager"):
        assert "Done." in on_terminal("ae-show", file, cwd=tmp_path, env={"PAGER": missing}).expect(0).stdout


def test_values_of_tools() -> None:
    assert value_text("as it is") == "as it is"
    assert value_text({"command": "ls"}) == "ls"
    assert value_text({"a": "x\ny", "n": 1}) == "a:\n  x\n  y\nn: 1"
    assert value_text([1]) == "[\n  1\n]"


def test_times_since_the_start() -> None:
    assert since_start(5, None) == 5 and since_start(None, 1) is None and since_start(-1, None) is None
    assert since_start(1_700_000_000_500, 1_700_000_000_000) == 500 and since_start(1_700_000_000_500, None) is None


def test_screen_lines() -> None:
    assert screen_lines("a\r\nb\u2028c\td\re") == ["a", "b", "c   d␍e"]


def test_what_is_not_there_has_no_line() -> None:
    [answer] = answers_in(check({"id": "a", "output": ""}, RowWithSteps))
    assert list(timeline_lines(answer, View(80))) == ["== a", "ungraded", "", "Output", "  (empty)", ""]


PATCH = "*** Begin Patch\n*** Update File: a.py\n-old\n+new\n*** End Patch"


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        ("Edit", {"file_path": "a.py", "old_string": "x\nold", "new_string": "x\nnew"}, "a.py\n   x\n  -old\n  +new"),
        ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "x"}, "a.py\n  (no change)"),
        ("str_replace_editor", {"command": "str_replace", "path": "a", "old_str": "b", "new_str": ""}, "path: a\n  -b"),
        ("Write", {"file_path": "a.py", "content": "one\ntwo\n"}, "a.py\n  +one\n  +two"),
        ("MultiEdit", {"edits": [{"oldText": "a", "newText": "b"}] * 2}, "ms\n  -a\n  +b\n  @@\n  -a\n  +b"),
        ("apply_patch", {"input": PATCH}, "ms\n  " + PATCH.replace("\n", "\n  ")),
        ("shell", {"command": ["apply_patch", PATCH]}, "ms\n  " + PATCH.replace("\n", "\n  ")),
        ("Edit", PATCH, "ms\n  " + PATCH.replace("\n", "\n  ")),
        ("Edit", {"old_string": ["odd"], "new_string": 1}, "new_string: 1"),
        ("Grep", {"path": "a", "content": "x"}, "content: x"),
    ],
)
def test_edits_are_shown_as_diffs(name: str, given: object, shown: str) -> None:
    step = {"type": "tool_call", "name": name, "status": "completed", "duration": 1, "input": given}
    done = run("ae-show", stdin=jsonl({**PASSED, "trajectory": [step]})).expect(0, stderr="")
    assert f"{shown}\n" in done.stdout


def test_a_diff_on_a_terminal_has_colours_and_hostile_text_none(tmp_path: Path) -> None:
    given = {"file_path": EVIL, "old_string": f"a\n{EVIL}", "new_string": "a\n" + "b" * 200}
    step = {"type": "tool_call", "name": "Edit", "input": given}
    file = write(tmp_path / "in.jsonl", {**PASSED, "trajectory": [step]})
    shown = on_terminal("ae-show", file, cwd=tmp_path, env={"PAGER": "cat"}).expect(0).stdout
    assert "\x1b[31m-␛]0;owned␇" in shown and shown.count("\x1b[32mb") == 2 and "\x1b[32m+b" in shown
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", COLORS.sub("", shown))
