"""No single record ends a run: what its agent, its grader or its own text does costs only itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agenteval.adapters.paths import compile_path
from agenteval.adapters.reader import result_of
from agenteval.adapters.schema_file import load_adapter, parse_adapter
from agenteval.agents.acp.client import WorkFiles
from agenteval.streams.console import Console
from agenteval.streams.output import guarded, without_unwritable
from agenteval.streams.patterns import Pattern, SlowPattern
from tests.support.tool import ROOT, Record, jsonl, run, script, write

AGENT = [sys.executable, str(ROOT / "tests" / "data" / "acp_agent.py")]
NEXT = {"id": "next", "input": "x", "output": "x", "hint": "x"}
DIGITS = "9" * 400
EVIL = "(?:a|aa)+$"
EVIL_TEXT = "a" * 60 + "b"


def raw(*lines: str, **fields: Any) -> Record:
    return {"id": "a", "input": "x", "rawLines": list(lines), "timing": {"start": 1, "end": 2}, **fields}


# --- numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ("claude", '{"type":"result","result":"ok","usage":{"input_tokens":DIGITS,"output_tokens":2.5}}'),
        ("aider", "yes\nTokens: DIGITS sent, 4 received."),
        ("qwen", '{"type":"result","result":"ok","usage":{"input_tokens":DIGITS,"output_tokens":4}}'),
    ],
)
def test_numbers_of_400_digits(schema: str, line: str) -> None:
    lines = line.replace("DIGITS", DIGITS).splitlines()
    done = run("ae-extract", "-s", schema, stdin=jsonl(raw(*lines), {**raw(), "id": "next"})).expect(0, stderr="")
    assert done.ids == ["a", "next"] and "inputTokens" not in done.records[0]["timing"]
    assert done.records[0]["timing"]["outputTokens"] in (2.5, 4)
    assert run("ae-format", "-f", "table", stdin=done.out).expect(0)


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (["answer_as", int("9" * 4000)], "the agent answered a request that was not sent (id of many digits)"),
        (["answer_as", "9" * 5000], "the agent answered a request that was not sent (id "),
        (["put", '{"jsonrpc":"2.0","id":' + "9" * 5000 + ',"method":"x"}'], None),
        (["put", '{"jsonrpc":"2.0","id":' + "9" * 4000 + ',"result":{}}'], "not sent (id of many digits)"),
    ],
)
def test_ids_of_thousands_of_digits(action: list[Any], error: str | None) -> None:
    prompts = [{"id": "a", "input": json.dumps([action])}, {"id": "next", "input": "hello"}]
    done = run("ae-run", "--", *AGENT, stdin=jsonl(*prompts)).expect(0)
    assert done.ids == ["a", "next"] and "errors" not in done.records[1], done
    if error is not None:
        assert error in done.records[0]["errors"][0], done


def test_files_of_acp_agents(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\ntwo\nthree\n")
    files = WorkFiles(str(tmp_path))
    assert files.read("f", 2, 2**70) == "two\nthree\n" and files.read("f", 2**70, 1) == ""
    ask = ["ask", "fs/read_text_file", {"path": "f", "limit": 2**63}]
    prompts = [{"id": "a", "input": json.dumps([ask])}, {"id": "next", "input": "hello"}]
    done = run("ae-run", "--", *AGENT, stdin=jsonl(*prompts), cwd=tmp_path).expect(0, stderr="")
    assert not any("errors" in record for record in done.records) and "three" in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is needed")
def test_a_full_disk_when_an_acp_agent_writes(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk."""
    ask = ["ask", "fs/write_text_file", {"path": "f", "content": "x" * 100_000}]
    write(tmp_path / "p", {"id": "a", "input": json.dumps([ask])}, {"id": "next", "input": "hello"})
    command = f"ulimit -f 40; trap '' XFSZ; {ROOT}/bin/ae-run p -- {' '.join(AGENT)}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["id"] for record in records] == ["a", "next"] and done.returncode == 0, done
    assert "File too large" in records[0]["rawLines"][-2], "the agent is told"


# --- regular expressions ------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory")
def test_a_pattern_that_calls_itself_is_said_to_take_too_much_memory() -> None:
    """(?R) takes 500 MB without a limit, and seconds."""
    record = {"id": "a", "input": "x", "output": "a", "hint": "(?R)"}
    command = ["sh", "-c", 'ulimit -v 200000; exec "$@"', "sh", f"{ROOT}/bin/ae-grader-hint", "--regex"]
    done = subprocess.run(command, input=json.dumps(record), capture_output=True, text=True, timeout=60)
    assert "took too much memory on a text of 1 characters" in json.loads(done.stdout)["error"], done


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory")
def test_a_retry_on_that_calls_itself_is_said_and_costs_no_record() -> None:
    prompts = jsonl({"id": "a", "input": "x"}, {"id": "next", "input": "y"})
    args = [f"{ROOT}/bin/ae-run", "--simple", "echo {}", "--retries", "1", "--retry-on", "(?R)"]
    command = ["sh", "-c", 'ulimit -v 200000; exec "$@"', "sh", *args]
    done = subprocess.run(command, input=prompts, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["a", "next"], done
    said = "ae-run: a: not retried: --retry-on: the regular expression '(?R)' took too much memory on a text of"
    assert done.stderr.startswith(said), done


def test_a_pattern_has_a_limit_of_time() -> None:
    with pytest.raises(SlowPattern, match="took too long on a text of 61 characters"):
        Pattern(EVIL).search(EVIL_TEXT, seconds=0.2)
    assert Pattern("B", ignore_case=True).search(EVIL_TEXT)
    for wrong in ("(", "a{99999999999999999999}", "(?P<x>a)(?P<x"):
        with pytest.raises(ValueError, match="not a regular expression"):
            Pattern(wrong)


def test_hints_that_are_hostile_expressions() -> None:
    """The grader takes the two seconds that users see, which other tests shorten."""
    odd = [{**NEXT, "id": "a", "hint": "a{99999999999999999999}"}, {**NEXT, "id": "b", "hint": "("}]
    slow = {**NEXT, "id": "c", "hint": EVIL, "output": EVIL_TEXT}
    done = run("ae-grade", "-g", "ae-grader-hint --regex", stdin=jsonl(*odd, slow, NEXT)).expect(1)
    assert [record.get("graderError", "") != "" for record in done.records] == [True, True, True, False], done
    assert "took too long" in done.records[2]["graderError"] and done.records[3]["score"]["pass"]


def test_an_unclosed_thought_of_gptme_takes_no_time() -> None:
    for text in ("<think>" + "\n" * 20_000, "<think>" + "x \n" * 20_000, ("<think>" + " " * 50) * 200):
        event = {"type": "message", "role": "assistant", "content": text}
        reading = load_adapter("gptme").read([json.dumps(event)])
        assert not reading.errors and len(reading.trajectory) == 1
    closed = {"type": "message", "role": "assistant", "content": "<think>\n a </b\n c \n</think>\n\nyes"}
    steps = load_adapter("gptme").read([json.dumps(closed)]).trajectory
    assert [(step["type"], step["content"]) for step in steps] == [("thought", "a </b\n c"), ("message", "yes")]


@pytest.mark.usefixtures("short_searches")
def test_a_slow_pattern_of_a_schema_is_an_error_of_the_record() -> None:
    event = {"match": {"path": "$.parts[*]", "value": "text"}, "emitAs": "message", "extract": {"content": "$.text"}}
    schema = {
        "version": 1,
        "name": "x",
        "command": ["true"],
        "sessionMode": "iterative",
        "prompt": {"flag": "-p"},
        "outputMode": "text",
        "splits": [{"path": "$.text", "into": "parts", "patterns": {"p": f"^{EVIL}"}}],
        "outputEvents": [event],
    }
    adapter = parse_adapter(json.dumps(schema).encode(), "s.json")
    slow, after = (result_of(record, adapter) for record in (raw(EVIL_TEXT), raw("b", id="next")))
    assert "took too long" in slow["errors"][0] and after["output"] == "b" and "errors" not in after


@pytest.mark.usefixtures("short_searches")
def test_a_slow_filter_of_a_path_is_an_error_of_the_record() -> None:
    """The expression in the filter may even come from the event itself."""
    get = compile_path("$.a[?search(@, $.pattern)]").get
    assert get({"a": ["xay", "b"], "pattern": "a"}) == "xay"
    assert compile_path("$.a[?match(@, 'a.c')]").get({"a": ["abc", "abcd"]}) == "abc"
    with pytest.raises(SlowPattern):
        get({"a": [EVIL_TEXT], "pattern": "(a|aa)+c"})


# --- the guard ----------------------------------------------------------------------------------------


def test_what_nobody_foresaw_is_an_error_of_its_record() -> None:
    console = Console("ae-x")
    found = [guarded(n, lambda n: 1 // n, lambda n, error: console.fault(str(n), error)) for n in (1, 0, 2)]
    assert found == [1, "internal error: ZeroDivisionError: integer division or modulo by zero", 0]
    assert console.refused == 1, "exit code 1"


def test_fields_that_cannot_be_written_are_named() -> None:
    odd = object()
    record = {"id": "a", "output": odd, "trajectory": [{"content": odd}], "hint": "h", "errors": ["e"]}
    assert without_unwritable(record, "why") == {
        "id": "a",
        "hint": "h",
        "errors": ["e", "cannot be written: output, trajectory (why)"],
        "output": "",
        "trajectory": [],
    }


def test_scores_in_a_prompt_do_not_count(tmp_path: Path) -> None:
    fail = {"pass": False, "score": 0.0}
    odd: list[Any] = ["oops", {"x": "oops"}, {"x": fail}, 7]
    prompts = [{"id": f"p{n}", "input": "x", "hint": "x", "scores": scores} for n, scores in enumerate(odd)]
    args = ["--simple", "echo {}", "-g", "h=ae-grader-hint"]
    done = run("ae-capture", *args, stdin=jsonl(*prompts)).expect(0, stderr="")
    assert all(record["score"]["pass"] and list(record["scores"]) == ["h"] for record in done.records), done


# --- many steps, and --explain ------------------------------------------------------------------------


def test_max_steps() -> None:
    call = '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"%d","name":"n"}]}}'
    end = '{"type":"result","result":"done"}'
    stdin = jsonl(raw(*(call % n for n in range(12)), end), raw(*(call % n for n in range(10)), end, id="b"))
    cut, whole = run("ae-extract", "-s", "claude", "--max-steps", 10, stdin=stdin).expect(0).records
    assert len(cut["trajectory"]) == len(whole["trajectory"]) == 10 and "errors" not in whole
    assert cut["errors"] == ["more than 10 steps: the rest are left out (--max-steps)"] and cut["output"] == "done"


def test_explain_prints_no_control_characters(tmp_path: Path) -> None:
    evil = "\x1b]0;evil\x07\x9b31m"
    schema = {"version": 1, "name": evil, "command": ["x"], "sessionMode": "stream", "prompt": {"flag": "-p"}}
    event = {"match": {"path": "$.t", "value": evil}, "emitAs": "message", "extract": {"content": "$.x"}}
    write(tmp_path / "s.json", {**schema, "outputEvents": [event], "metadata": {evil: "$.m"}})
    line = json.dumps({"t": evil, "x": evil, "m": evil})
    odd = raw(line, line, signal=evil, exitCode=1, errors=[evil], lineTimes=[1], turns=[{"lines": 2, "signal": evil}])
    done = run("ae-extract", "-s", "s.json", "--explain", stdin=jsonl({**odd, "id": evil}), cwd=tmp_path).expect(0)
    assert "␛" in done.stdout and not {"\x1b", "\x07", "\x9b"} & {*done.stdout, *done.stderr}, done


def test_durations_and_k_beyond_all_measure(tmp_path: Path) -> None:
    def result(n: int, total: float) -> Record:
        score = {"pass": True, "score": 1.0}
        return {"id": f"{n}", "output": "x", "timing": {"start": 1, "end": 2, "total": total}, "score": score}

    for name in "ab":
        write(tmp_path / name, *(result(n, 1e308) for n in range(3)), result(3, 7.0))
        trials = [{"trialNum": 1, "output": "", "trajectory": [], "duration": 5, "pass": True, "score": 1.0}]
        odd = [{"id": f"{k}", "input": "x", "k": k, "trials": trials} for k in (2**63, 10**30, 1)]
        write(tmp_path / f"t{name}", *odd)
    for files in (["a", "b"], ["ta", "tb"]):
        for form in ("json", "markdown"):
            done = run("ae-compare", *files, "-f", form, cwd=tmp_path).expect(1)
            assert "internal error" not in done.stderr and done.stdout and "<=" in done.stderr, done


def test_the_verdict_cache_is_private(tmp_path: Path) -> None:
    script(tmp_path / "nothing", "true")
    stdin = jsonl({"id": "a", "input": "What?", "output": "That.", "reference": "That."})
    run("ae-grader-judge", "--offline", "--cache", "c", stdin=stdin, cwd=tmp_path).expect(0)
    modes = [oct(path.stat().st_mode & 0o777) for path in (tmp_path / "c", *(tmp_path / "c").iterdir())]
    assert modes == ["0o700", "0o600"], modes
