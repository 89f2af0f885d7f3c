"""Session logs of real programs → results: goldens in full, and what must be in them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agenteval.adapters.sessions.schema import command_line, session_formats
from agenteval.adapters.values import epoch_milliseconds as milliseconds
from tests.support.tool import ROOT, Done, Record, run

SESSIONS = ROOT / "tests" / "data" / "sessions"
BOTH = ROOT / "tests" / "data" / "live_and_logged"  # of each agent, what it printed and what it logged in one session
GOLDEN = ROOT / "tests" / "golden" / "sessions"
UPDATE = "AE_UPDATE_GOLDEN"  # set it to write the golden files anew, then read the diff
FIRST = "Please create hello.txt with a shell command, then tell me the answer. The codeword is heliotrope."
SECOND = "FOLLOWUP: what was the answer?"
REQUEST = {"inputTokens": 1200, "outputTokens": 57, "cachedTokens": 500}  # of each request of the scripted model
UNKNOWN = {("goose", "cachedTokens")}
NESTING = ("claude", "goose", "opencode")


def logs_of(program: str, folder: Path) -> Path:
    """Returns the logs of a program."""
    return as_left(SESSIONS / program, folder / program)


def as_left(logs: Path, copy: Path) -> Path:
    """Returns a copy of logs as the program leaves them; a database is kept as SQL."""
    shutil.copytree(logs, copy)
    for dump in copy.glob("*.sql"):
        database = sqlite3.connect(dump.with_suffix(".db"))
        database.executescript(dump.read_text())
        database.close()
    return copy


def imported(program: str, folder: Path, *options: str) -> Done:
    return run("ae-import", program, logs_of(program, folder), *options, cwd=folder)


@pytest.mark.parametrize("program", session_formats())
def test_golden(program: str, tmp_path: Path) -> None:
    done = imported(program, tmp_path).expect(0, stderr="")
    golden = GOLDEN / f"{program}.jsonl"
    if UPDATE in os.environ:
        golden.write_text(done.stdout)
    assert done.stdout == golden.read_text()
    two_turns = next(record for record in done.records if record["input"] == [FIRST, SECOND])
    assert two_turns["output"] == "I remember. The answer is still 42."
    assert [step["type"] for step in two_turns["trajectory"]] == [
        "thought",
        "message",
        "tool_call",
        "message",
        "message",
    ]
    assert two_turns["metadata"]["turnSteps"] == [4, 1] and two_turns["cwd"] == "/work/project"
    assert tokens(two_turns) == requests(program, 5 if program == "qwen" else 3)  # two of them for its memory
    failing = next(record for record in done.records if record["toolErrors"])
    (call,) = [step for step in failing["trajectory"] if step["type"] == "tool_call"]
    assert call["status"] == "failed" and "it-was-written" in str(call["output"]) and failing["input"] == FIRST
    assert tokens(failing) == requests(program, 2)


def tokens(record: dict[str, Any]) -> dict[str, Any]:
    return {name: count for name, count in record["timing"].items() if name in REQUEST}


def requests(program: str, number: int) -> dict[str, int]:
    """Returns the tokens of so many requests, as far as the program keeps them."""
    kept = [name for name in REQUEST if (program, name) not in UNKNOWN]
    return {name: number * REQUEST[name] for name in kept}


@pytest.mark.parametrize("program", NESTING)
def test_sub_agents_are_nested_and_their_tokens_count(program: str, tmp_path: Path) -> None:
    (record,) = [one for one in imported(program, tmp_path).records if "DELEGATE" in one["input"]]
    steps = record["trajectory"]
    (parent,) = [step for step in steps if step["type"] == "tool_call" and "parentId" not in step]
    children = [step for step in steps if step.get("parentId") == parent["callId"]]
    assert [step["type"] for step in children] == ["thought", "message", "tool_call", "message"]
    first = steps.index(parent) + 1
    assert children == steps[first : first + 4], "in the place of the call that started it"
    assert [step["stepId"].rpartition("-")[2] for step in steps] == [str(n) for n in range(1, len(steps) + 1)]
    assert tokens(record) == requests(program, 4)


@pytest.mark.parametrize("program, reason", [("claude", "API Error: 500 scripted refusal"), ("codex", "high demand")])
def test_a_session_that_ended_with_an_error_has_failed(program: str, reason: str, tmp_path: Path) -> None:
    (record,) = [one for one in imported(program, tmp_path).records if "errors" in one]
    assert reason in record["errors"][0] and record["output"] == ""
    assert record["metadata"].get("model") != "<synthetic>"


# --- a session as the agent printed it, and as it logged it ----------------------------------------


def both_ways(case: str, folder: Path) -> tuple[Record, list[Record]]:
    """Returns the result of what an agent printed, and those of what it logged meanwhile."""
    agent = case.partition("/")[0]
    turns = [file.read_text().splitlines() for file in sorted((BOTH / case).glob("live*.jsonl"))]
    raw = {
        "id": "live",
        "input": ["p"] * len(turns),
        "rawLines": [line for lines in turns for line in lines],
        "turns": [{"lines": len(lines)} for lines in turns],
        "timing": {"start": 0, "end": 1, "total": 1},
    }
    (live,) = run("ae-extract", "-s", agent, stdin=json.dumps(raw) + "\n", cwd=folder).expect(0, stderr="").records
    logs = as_left(BOTH / case / "log", folder / "log")
    return live, run("ae-import", agent, logs, cwd=folder).expect(0, stderr="").records


def calls(record: Record) -> list[Record]:
    """Returns the tool calls of the agent itself."""
    return [step for step in record["trajectory"] if step["type"] == "tool_call" and "parentId" not in step]


def messages(record: Record) -> list[str]:
    steps = [step for step in record["trajectory"] if step["type"] == "message"]
    return [step["content"] for step in steps if "parentId" not in step]


def is_printed(call: Record, agent: str) -> bool:
    """Returns whether the agent prints a call that it logs; codex does not print one that it refuses to carry out."""
    refusals = ("unsupported call", "failed to parse function arguments", "unable to process image")
    return agent != "codex" or not str(call.get("output")).startswith(refusals)


@pytest.mark.parametrize("case", sorted(f"{path.parent.name}/{path.name}" for path in BOTH.glob("*/*")))
def test_live_and_imported_records_use_one_vocabulary(case: str, tmp_path: Path) -> None:
    agent = case.partition("/")[0]
    live, (logged, *_) = both_ways(case, tmp_path)
    printed = [call for call in calls(logged) if is_printed(call, agent)]
    for one, other in zip(calls(live), printed, strict=True):
        assert (one["name"], one.get("input")) == (other["name"], other.get("input"))
        if one.get("output"):  # gemini prints nothing, or "", where it logs the text of a file
            assert one["output"] == other["output"]
        exit_code_unprinted = agent == "gemini" and "exit 3" in str(one["input"])
        assert one["status"] == other["status"] or (exit_code_unprinted and other["status"] == "failed")
    assert live["toolErrors"] == logged["toolErrors"]
    assert messages(live) == messages(logged) and live["output"] == logged["output"]
    assert len(calls(live)) >= 1 and "errors" not in live and "errors" not in logged


def test_every_agent_with_logs_is_recorded_both_ways() -> None:
    assert sorted(path.name for path in BOTH.iterdir()) == session_formats()


@pytest.mark.parametrize("agent", session_formats())
def test_an_empty_answer_is_not_replaced_by_what_was_said_before_it(agent: str, tmp_path: Path) -> None:
    _, (record,) = both_ways(f"{agent}/empty-answer", tmp_path)
    assert messages(record) == ["Step 1."] and record["output"] == ""
    assert "costUsd" not in record["timing"] or agent == "pi", "unknown, not 0"


def test_a_plan_of_codex_is_a_plan_in_its_log_too(tmp_path: Path) -> None:
    live, (logged,) = both_ways("codex/plan", tmp_path)
    plans = [[step["entries"] for step in one["trajectory"] if step["type"] == "plan"] for one in (live, logged)]
    assert (
        plans[0]
        == plans[1]
        == [[{"text": "one", "completed": first}, {"text": "two", "completed": False}] for first in (False, True)]
    )


def test_codex_has_not_completed_what_it_refused(tmp_path: Path) -> None:
    _, (record,) = both_ways("codex/tools", tmp_path)
    refused = [call for call in calls(record) if not is_printed(call, "codex")]
    assert [(call["name"], call["status"]) for call in refused] == [
        ("no_such_tool", "failed"),
        ("command_execution", "failed"),  # without the argument that it needs
        ("update_plan", "failed"),  # not a tool of this model
        ("view_image", "failed"),
    ]


def test_codex_has_not_completed_what_still_ran_at_the_end(tmp_path: Path) -> None:
    _, (record,) = both_ways("codex/still-running", tmp_path)
    (call,) = calls(record)
    assert call["status"] == "pending" and "output" not in call and not record["toolErrors"]


def test_a_log_of_codex_without_whole_calls(tmp_path: Path) -> None:
    """Older versions log a call and its result only: the names and forms are the same, but for the shell."""
    kept = [line for line in log_of_codex("tools") if '"CommandExecution"' not in line]
    kept += [line for line in log_of_codex("still-running") if '"CommandExecution"' not in line]
    old = {"type": "function_call", "name": "shell", "call_id": "old", "arguments": '{"command":["sh","-c","a b"]}'}
    output = json.dumps({"output": 'a\n"b"', "metadata": {"exit_code": 2, "duration_seconds": 0.1}})
    result = {"type": "function_call_output", "call_id": "old", "output": output}
    kept += [json.dumps({"type": "response_item", "payload": item}) for item in (old, result)]
    log = tmp_path / "rollout-old.jsonl"
    log.write_text("\n".join(kept))
    (record,) = run("ae-import", "codex", log, cwd=tmp_path).expect(0, stderr="").records
    commands = [call for call in calls(record) if call["name"] == "command_execution" and is_printed(call, "codex")]
    ok, failing, *_, running, oldest = commands
    assert ok["input"] == "echo hello > hello.txt && echo it-was-written"
    assert (ok["status"], ok["output"]) == ("completed", "it-was-written\n")
    assert (failing["status"], failing["output"]) == ("failed", "it-was-written\n")
    assert running["status"] == "pending"
    assert (oldest["input"], oldest["status"], oldest["output"]) == ("sh -c 'a b'", "failed", 'a\n"b"')


def test_ids_of_codex_that_are_no_texts(tmp_path: Path) -> None:
    """Found by make fuzz: a list as the id of a call, or of a turn, cost the whole session."""
    events = [json.loads(line) for line in log_of_codex("tools")]
    done = [event["payload"] for event in events if event["payload"].get("type") == "item_completed"]
    done[0]["turn_id"], done[-1]["item"]["id"] = [1], ["a"]
    events.append({"type": "event_msg", "payload": {"type": "task_complete", "turn_id": [1]}})
    log = tmp_path / "rollout-odd.jsonl"
    log.write_text("\n".join(map(json.dumps, events)))
    (record,) = run("ae-import", "codex", log, cwd=tmp_path).expect(0, stderr="").records
    assert [call["name"] for call in calls(record) if call["name"] == "command_execution"]


def log_of_codex(case: str) -> list[str]:
    (file,) = (BOTH / "codex" / case).rglob("rollout-*.jsonl")
    return file.read_text().splitlines()


@pytest.mark.parametrize(
    "words, line",
    [
        (["ls", "-l", "a/b.c:d"], "ls -l a/b.c:d"),
        (["", "a b", "it's"], "'' 'a b' \"it's\""),
        (["é", "$x", 'say "hi"', "a\\b"], "'é' '$x' 'say \"hi\"' \"a\\\\b\""),
        (["'$'"], "\"'\"'$'\"'\""),
        (["echo a ^ b 'c' ü=1,2 100% !x"], "'echo a ''^ b '\"'c' ü=1,2 100% \"'!x'"),
    ],
)
def test_a_command_line_has_the_quotes_of_codex(words: list[str], line: str) -> None:
    assert command_line(words) == line and shlex.split(line) == words


def test_gemini_resumed_within_a_minute_keeps_the_first_turn(tmp_path: Path) -> None:
    """The file of such a session has both parts, and the second begins with a copy that lacks tool calls and tokens."""
    _, (record,) = both_ways("gemini/resumed", tmp_path)
    assert record["input"] == [FIRST, SECOND] and record["metadata"]["turnSteps"] == [4, 1]
    (call,) = calls(record)
    assert call["output"] == "it-was-written" and tokens(record) == requests("gemini", 3)
    assert [step["timestamp"] for step in record["trajectory"]] == sorted(
        step["timestamp"] for step in record["trajectory"]
    )
    assert call["timestamp"] < 1000, "when the first turn called it, not when the session was resumed"


def test_gemini_sub_agents_are_read_with_their_session(tmp_path: Path) -> None:
    _, (record,) = both_ways("gemini/sub-agent", tmp_path)
    (parent,) = calls(record)
    children = [step for step in record["trajectory"] if step.get("parentId") == parent["callId"]]
    assert [step.get("name", step["type"]) for step in children] == [
        "thought",
        "message",
        "run_shell_command",
        "complete_task",
    ]
    assert tokens(record) == requests("gemini", 4)
    (child,) = (BOTH / "gemini" / "sub-agent").rglob("chats/*/*.jsonl")
    (alone,) = run("ae-import", "gemini", child, cwd=tmp_path).expect(0, stderr="").records
    assert alone["input"] == "SUBTASK: run one command", "also readable by itself"


def test_an_invalid_call_of_opencode_has_failed(tmp_path: Path) -> None:
    _, (record,) = both_ways("opencode/tools", tmp_path)
    (invalid,) = [call for call in calls(record) if call["name"] == "invalid"]
    assert invalid["status"] == "failed" and invalid["input"]["tool"] == "no_such_tool"


# --- what others did to the files -----------------------------------------------------------------


@pytest.mark.parametrize(
    "program, broken",
    [
        ("goose", "UPDATE messages SET content_json = '[{' WHERE content_json LIKE '%remember%'"),
        ("opencode", "UPDATE part SET data = '{' WHERE data LIKE '%remember%'"),
        (
            "opencode",
            "UPDATE message SET data = '{' WHERE id = (SELECT message_id FROM part WHERE data LIKE '%remember%')",
        ),
    ],
)
def test_a_broken_row_of_a_database_costs_its_row(program: str, broken: str, tmp_path: Path) -> None:
    folder = logs_of(program, tmp_path)
    whole = run("ae-import", program, folder, cwd=tmp_path).expect(0, stderr="").records
    for file in folder.glob("*.db"):
        with sqlite3.connect(file) as database:
            assert database.execute(broken).rowcount
        database.close()
    done = run("ae-import", program, folder, cwd=tmp_path).expect(1)
    assert "not JSON" in done.stderr
    first = next(number for number, record in enumerate(whole) if record["input"] == [FIRST, SECOND])
    assert done.records[first]["trajectory"] == whole[first]["trajectory"][:-1]
    assert done.records[:first] + done.records[first + 1 :] == whole[:first] + whole[first + 1 :]


def line(kind: str, text: str, number: int, **more: Any) -> str:
    """Returns a line of a log of claude."""
    message = {"role": kind, "content": text if kind == "user" else [{"type": "text", "text": text}]}
    event = {"type": kind, "message": message, "sessionId": "s", "timestamp": f"2026-11-01T10:00:{number:02}Z"}
    return json.dumps({**event, **more})


def test_a_broken_line_costs_its_line_and_an_unreadable_file_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "a.jsonl").write_text(
        "\n".join([line("user", "q", 0), '{"type": "ass', "[1]", line("assistant", "a", 1)])
    )
    (folder / "b.jsonl").mkdir()
    (folder / "c.jsonl").write_text(line("user", "again", 2) + "\n")
    (folder / "d.jsonl").symlink_to("nowhere")
    (folder / "e.jsonl").write_text('{"type":"summary","summary":"no turn of the user"}\n')
    done = run("ae-import", "claude", folder, folder / "d.jsonl", cwd=tmp_path)
    assert done.code == 2 and "No such file" in done.stderr, done
    done = run("ae-import", "claude", folder, cwd=tmp_path).expect(1)
    assert [(one["input"], one["output"]) for one in done.records] == [("q", "a"), ("again", "")]
    assert done.ids == ["s", "s-2"], "ids are unique"
    assert f"{folder}/a.jsonl:2: " in done.stderr and f"{folder}/a.jsonl:3: not a JSON object" in done.stderr
    assert "several" in done.stderr and len(done.messages) == 4, done
    assert f"{folder}/d.jsonl: is a symbolic link, not a regular file" in done.stderr
    strict = run("ae-import", "claude", folder, "--strict", cwd=tmp_path).expect(1)
    assert len(strict.messages) == 2 and "--strict" in strict.messages[1] and strict.out == b"", strict


def test_what_is_a_turn(tmp_path: Path) -> None:
    lines = [
        line("user", "<command-name>/clear</command-name>", 0),
        line("user", "<local-command-stdout></local-command-stdout>", 1),
        line("user", "one", 2),
        line("assistant", "first", 3),
        line("user", "a reminder", 4, isMeta=True),
        line("user", "<command-name>/init</command-name>", 5),
        line("assistant", "second", 6),
        line("user", "[Request interrupted by user]", 7),
    ]
    log = tmp_path / "s.jsonl"
    log.write_text("\n".join(lines))
    (record,) = run("ae-import", "claude", log, cwd=tmp_path).expect(0, stderr="").records
    assert record["input"] == ["one", "<command-name>/init</command-name>"] and record["output"] == "second"
    assert record["metadata"]["turnSteps"] == [1, 1] and record["timing"]["total"] == 7000
    (same,) = run("ae-import", "claude", "-", stdin=log, cwd=tmp_path).expect(0, stderr="").records
    assert same == record


def test_an_error_before_the_last_turn_is_past(tmp_path: Path) -> None:
    error = line("assistant", "API Error: 529", 1, isApiErrorMessage=True)
    log = tmp_path / "s.jsonl"
    log.write_text("\n".join([line("user", "q", 0), error, line("user", "go on", 2), line("assistant", "done", 3)]))
    (record,) = run("ae-import", "claude", log, cwd=tmp_path).expect(0).records
    assert "errors" not in record and record["output"] == "done"


def test_which_sessions(tmp_path: Path) -> None:
    home, work, other = tmp_path / "home", tmp_path / "work", tmp_path / "workshop"
    folder = home / ".claude" / "projects" / "x"
    folder.mkdir(parents=True)
    (work / "below").mkdir(parents=True)
    other.mkdir()
    for name, where, turns, month in (("a", work, 1, 10), ("b", work / "below", 2, 11), ("c", other, 1, 11)):
        lines = [line("user", f"q{n}", n, sessionId=name, cwd=str(where)) for n in range(turns)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines).replace("2026-11", f"2026-{month}"))

    def ids(*options: str) -> list[str]:
        return run("ae-import", "claude", *options, cwd=tmp_path, env={"HOME": str(home)}).expect(0, stderr="").ids

    assert ids() == ["a", "b", "c"], "the program's own place below HOME"
    assert ids("--since", "2026-11-01") == ["b", "c"]
    assert ids("--cwd", "work") == ["a", "b"], "or below, but not workshop"
    assert ids("--min-turns", "2") == ["b"]
    assert ids("--since", "2026-11-01", "--cwd", str(work)) == ["b"]
    run("ae-import", "claude", "--since", "yesterday", cwd=tmp_path).expect(2).says("is not a date")
    run("ae-import", "claude", cwd=tmp_path).expect(2).says("contains no sessions of claude")
    run("ae-import", "cluade", cwd=tmp_path).expect(2).says("did you mean claude")


@pytest.mark.parametrize(
    "value, expected",
    [
        ("2026-11-17T05:01:35.736Z", 1794891695736),
        ("2026-11-17T06:01:35.736+01:00", 1794891695736),
        ("2026-11-17T05:01:35.736", 1794891695736),
        (1794891695.736, 1794891695736),
        (1794891695736, 1794891695736),
        ("1794891695736000000", 1794891695736),
        ("soon", None),
        ("²", None),
        ("9" * 5000, None),
        (None, None),
        (-1, None),
        (True, None),
    ],
)
def test_milliseconds(value: Any, expected: int | None) -> None:
    assert milliseconds(value) == expected


# --- the recipe of docs/import.md -----------------------------------------------------------------


def test_which_sessions_ended_with_a_failing_test(tmp_path: Path) -> None:
    """Runs the recipe on two sessions of today and one of last year: only one of today's ended with a failing test."""
    page = (ROOT / "docs" / "import.md").read_text()
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (at,) = [number for number, (language, _) in enumerate(fenced) if language == "sh"]
    recipe, shown = fenced[at][1], fenced[at + 1][1]
    folder = tmp_path / ".claude" / "projects" / "-work-shop"
    folder.mkdir(parents=True)
    today, long_ago = datetime.now(UTC), datetime.now(UTC) - timedelta(days=365)
    for name, failures, when in (
        ("7d1f", [False, True], today),
        ("8e20", [True, False], today),
        ("9f31", [True], long_ago),
    ):
        lines = [line("user", "Fix the discount.", 0)]
        for number, failed in enumerate(failures):
            call = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": "python -m pytest -q"}}
            answer = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "…", "is_error": failed}
            lines.append(json.dumps({"type": "assistant", "message": {"content": [call]}}))
            lines.append(json.dumps({"type": "user", "message": {"content": [answer]}}))
        facts = {"sessionId": name, "cwd": "/home/ann/shop", "timestamp": when.isoformat()}
        (folder / f"{name}.jsonl").write_text("\n".join(json.dumps({**json.loads(one), **facts}) for one in lines))
    if shutil.which("jq") is None:
        pytest.skip("jq is not on PATH")
    assert run("/bin/sh", "-e", "-c", recipe, cwd=tmp_path).expect(0, stderr="").stdout == shown
