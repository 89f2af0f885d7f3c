"""--resume knows the agent, --retry-failed runs failures again, and a run in which all agents fail is loud."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from agenteval.agents.limits import FailureCount
from tests.support.tool import Done, Record, jsonl, on_terminal, read, run, write
from tests.support.watching import Running, until

TOOLS = ["ae-run", "ae-capture", "ae-trials"]
FAILS_ONCE = 'echo "$PROMPT" >> ran; [ "$PROMPT" = bad ] && [ ! -e mended ] && echo "no key" >&2 && exit 1; echo fine'


def some(tmp_path: Path, *inputs: str) -> Path:
    return write(tmp_path / "prompts", *({"id": f"{n}-{text}", "input": text} for n, text in enumerate(inputs)))


def start(tool: str, tmp_path: Path, line: str, *args: object) -> Done:
    k = ("-k", 2) if tool == "ae-trials" else ()
    return run(tool, "prompts", "--shell", line, "-o", "out", *k, *args, cwd=tmp_path)


def runs(tmp_path: Path) -> list[str]:
    return (tmp_path / "ran").read_text().split()


# --- which agent ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
def test_a_file_of_another_agent_is_refused(tool: str, tmp_path: Path) -> None:
    some(tmp_path, "x")
    start(tool, tmp_path, "echo one").expect(0, stderr="")
    before = (tmp_path / "out").read_bytes()
    some(tmp_path, "x", "y")
    refused = start(tool, tmp_path, "touch ran", "--resume").expect(2)
    refused.says("out: its records were made with another command", "--force")
    assert (tmp_path / "out").read_bytes() == before
    assert not (tmp_path / "ran").exists()
    start(tool, tmp_path, "touch ran", "--resume", "--force").expect(0)
    start(tool, tmp_path, "echo one", "--append").expect(0)
    assert len(read(tmp_path / "out")) == 4


def test_another_schema_or_adapter_is_refused(tmp_path: Path) -> None:
    some(tmp_path, "x")
    start("ae-capture", tmp_path, "echo one").expect(0)
    start("ae-capture", tmp_path, "echo one", "--resume", "--extract", "claude").expect(2).says("text, not claude")
    start("ae-capture", tmp_path, "echo one", "--resume").expect(0)
    schema: Record = {"version": 1, "name": "mine", "sessionMode": "iterative", "prompt": {"flag": ""}}
    schema |= {"outputEvents": [], "result": {"matchPath": "$.type", "matchValue": "x", "contentPath": "$.x"}}
    for name, resumed in ((["echo"], 0), (["echo", "-n"], 2)):
        write(tmp_path / "mine.json", {**schema, "command": name})
        options = ["--resume"] if (tmp_path / "raw").exists() else []
        run("ae-run", "prompts", "-s", "mine.json", "-o", "raw", *options, cwd=tmp_path).expect(resumed)


@pytest.mark.parametrize("tool", [*TOOLS, "ae-grade"])
def test_a_file_of_another_kind_is_refused(tool: str, tmp_path: Path) -> None:
    """Its ids would count as done, or it would hold records of two kinds; --force is about agents only."""
    some(tmp_path, "x")
    prompt: Record = {"id": "0-x", "input": "x"}
    result = {**prompt, "output": "x", "trajectory": [], "hint": "x"}
    kinds: dict[str, Record] = {
        "prompts": prompt,
        "raw records": {**prompt, "rawLines": ["x"]},
        "results": {**result, "rawLines": ["x"]},
        "trials": {**prompt, "k": 2, "trials": []},
    }
    writes = {"ae-run": "raw records", "ae-trials": "trials"}.get(tool, "results")
    agent = ["--shell", "echo x", "--force"] if tool in TOOLS else ["-g", "ae-grader-hint"]
    write(tmp_path / "results", result)
    given = "prompts" if tool in TOOLS else "results"
    k = ["-k", 2] if tool == "ae-trials" else []
    for name, record in kinds.items():
        before = write(tmp_path / "out", record).read_bytes()
        done = run(tool, given, "-o", "out", "--resume", *agent, *k, cwd=tmp_path)
        if name == writes or (tool, name) == ("ae-grade", "trials"):
            done.expect(0).says("out: 1 ")
            continue
        done.expect(2).says(f"out: contains {name}", f"give {tool} another file")
        assert (tmp_path / "out").read_bytes() == before, done


def test_what_waits_beside_the_output_is_of_an_agent_too(tmp_path: Path) -> None:
    some(tmp_path, "x")
    record = {"id": "0-x", "metadata": {"agent": "claude", "agentDigest": "0" * 16}}
    entry = {"id": "0-x", "input": "x", "trial": 1, "graded": False, "record": record}
    write(tmp_path / "out.unfinished", entry)
    start("ae-run", tmp_path, "echo", "--resume").expect(2).says("claude, not text")
    assert (tmp_path / "out.unfinished").exists()


# --- what is left ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
def test_failed_prompts_are_run_again(tool: str, tmp_path: Path) -> None:
    some(tmp_path, "good", "bad")
    start(tool, tmp_path, FAILS_ONCE).expect(0)
    resumed = start(tool, tmp_path, FAILS_ONCE, "--resume").expect(0)
    resumed.says("out: 2 kept, 1 of them failed (--retry-failed runs it again), nothing to do")
    (tmp_path / "mended").touch()
    (tmp_path / "ran").unlink()
    again = start(tool, tmp_path, FAILS_ONCE, "--retry-failed").expect(0)
    again.says("out: 1 kept, 1 failed and run again")
    assert set(runs(tmp_path)) == {"bad"}
    good, mended = read(tmp_path / "out")
    assert (good["id"], mended["id"]) == ("0-good", "1-bad")
    assert '"errors"' not in json.dumps(mended)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mended", "out", "prompts", "ran"]
    start(tool, tmp_path, FAILS_ONCE, "--retry-failed").expect(0).says("2 kept, nothing to do")


def test_only_the_failed_trials_are_run_again(tmp_path: Path) -> None:
    some(tmp_path, "x")
    line = "echo $PPID >> ran; [ $(wc -l < ran) = 2 ] && exit 1; echo done"
    start("ae-trials", tmp_path, line, "-k", 3).expect(0)
    first = read(tmp_path / "out")[0]
    start("ae-trials", tmp_path, line, "-k", 3, "--retry-failed").expect(0)
    assert len(runs(tmp_path)) == 4
    [record] = read(tmp_path / "out")
    assert [trial["trialNum"] for trial in record["trials"]] == [1, 2, 3]
    assert not any("errors" in trial for trial in record["trials"])
    assert [record["trials"][n] for n in (0, 2)] == [first["trials"][n] for n in (0, 2)]


def test_a_failed_record_stays_until_there_is_another(tmp_path: Path) -> None:
    """A crash, a signal and a stop lose nothing; what a crash left twice is cleared up by the next run."""
    some(tmp_path, "bad", "bad", "bad")
    start("ae-run", tmp_path, FAILS_ONCE).expect(0)
    old = read(tmp_path / "out")
    (tmp_path / "mended").touch()
    line = FAILS_ONCE + "; [ -e quick ] || [ $(wc -l < ran) -lt 5 ] || sleep 60"
    options = ("prompts", "-o", "out", "--retry-failed", "--force", "--shell", line)
    with Running("ae-run", *options, cwd=tmp_path) as tool:
        until(lambda: len(runs(tmp_path)) == 5, "the second is running")
        until(lambda: len(read(tmp_path / "out")) == 4, "the first is written")
        tool.process.kill()
        tool.process.wait()
    assert read(tmp_path / "out")[:3] == old
    (tmp_path / "quick").touch()
    run("ae-run", *options, cwd=tmp_path).expect(0).says("1 kept, 2 failed and run again")
    records = read(tmp_path / "out")
    assert [record["id"] for record in records] == ["0-bad", "1-bad", "2-bad"]
    assert not any("errors" in record for record in records)


def test_nothing_left_of_a_stream(tmp_path: Path) -> None:
    given = jsonl({"id": "a", "input": "x"})
    args = ("--simple", "echo {}", "-o", "out", "--resume")
    run("ae-run", *args, stdin=given, cwd=write(tmp_path / "p").parent).expect(0, stderr="")
    done = run("ae-run", *args, stdin=given, cwd=tmp_path).expect(0)
    assert done.messages == ["ae-run: out: 1 kept, nothing to do"]


# --- agents that all fail -------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
def test_a_total_failure_is_loud(tool: str, tmp_path: Path) -> None:
    some(tmp_path, *"abcdefgh")
    line = 'echo "Invalid API key (request $$)" >&2; exit 1'
    stopped = start(tool, tmp_path, line).expect(1)
    stopped.says("stopped: the first 5 agents failed in the same way: the agent exited with code 1: Invalid")
    assert "--keep-going" in stopped.stderr and "--retry-failed" in stopped.stderr
    assert len(read(tmp_path / "out")) == (2 if tool == "ae-trials" else 5)
    done = start(tool, tmp_path, line, "--overwrite", "--keep-going").expect(0)
    number = 16 if tool == "ae-trials" else 8
    first, last = done.messages
    assert first.startswith(f"{tool}: the first 5 agents failed in the same way: the agent exited with code 1: Invalid")
    assert last.startswith(f"{tool}: {number} of {number} agents failed: the agent exited with code 1: Invalid API key")


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("option", [[], ["--no-progress"]])
def test_a_failure_among_others_is_reported_once_at_the_end(tool: str, option: list[str], tmp_path: Path) -> None:
    some(tmp_path, "good", "bad", "bad")
    failed, ended = (4, 6) if tool == "ae-trials" else (2, 3)
    done = start(tool, tmp_path, FAILS_ONCE, *option).expect(0)
    done.says(f"{failed} of {ended} agents failed: the agent exited with code 1: no key")


@pytest.mark.parametrize(
    ("reasons", "line"),
    [
        ([], None),
        ([None], None),
        (["timeout"], "1 of 1 agents failed: timeout"),
        ([None, "timeout", None], "1 of 3 agents failed: timeout"),
        (
            ["exited with code 1: busy (request 4f1)", "exited with code 1: busy (request 77)"],
            "2 of 2 agents failed: x",
        ),
        (["timeout", "exited with code 1", "killed by SIGSEGV"], "3 of 3 agents failed, the first: timeout"),
        (["timeout", "no key", None, "no key"], "3 of 4 agents failed, 2 of them in the same way: no key"),
        ([f"reason {'x' * n}" for n in range(500)], "500 of 500 agents failed, the first: reason "),
    ],
)
def test_the_end_has_the_most_common_reason(reasons: list[str | None], line: str | None) -> None:
    said: list[str] = []
    count = FailureCount("x", said.append, None, resumable=False)
    for reason in reasons:
        count.add([reason] if reason else None, len(reasons))
    count.report()
    assert [text for text in said if text.startswith(line or "")] == said[-1:]
    assert (said == []) is (line is None)


def test_the_end_of_an_interrupted_run_counts_agents_that_failed(tmp_path: Path) -> None:
    some(tmp_path, "bad", "slow")
    line = FAILS_ONCE + '; [ "$PROMPT" = slow ] && sleep 60'
    with Running("ae-run", "prompts", "-o", "out", "--shell", line, cwd=tmp_path) as tool:
        until(lambda: (tmp_path / "ran").exists() and runs(tmp_path) == ["bad", "slow"], "the second is running")
        tool.process.send_signal(signal.SIGINT)
        _, stderr = tool.process.communicate(timeout=30)
    assert b"ae-run: 1 of 1 agents failed: the agent exited with code 1: no key\n" in stderr, stderr


@pytest.mark.parametrize("tool", TOOLS)
def test_max_failures_stops_and_resume_goes_on(tool: str, tmp_path: Path) -> None:
    some(tmp_path, "good", "bad", "bad", "bad", "good")
    limit = 4 if tool == "ae-trials" else 2
    done = start(tool, tmp_path, FAILS_ONCE, "--max-failures", limit).expect(1)
    done.says(f"stopped after {limit} failed agents", "no key", "--resume")
    assert [record["id"] for record in read(tmp_path / "out")] == ["0-good", "1-bad", "2-bad"]
    start(tool, tmp_path, FAILS_ONCE, "--resume").expect(0)
    assert len(read(tmp_path / "out")) == 5


def test_grading_again_with_nothing_left(tmp_path: Path) -> None:
    write(tmp_path / "in", {"id": "a", "input": "x", "output": "x", "hint": "x"})
    grade = ["in", "-g", "ae-grader-hint", "-o", "out", "--resume"]
    run("ae-grade", *grade, cwd=tmp_path).expect(0, stderr="")
    run("ae-grade", *grade, cwd=tmp_path).expect(0).says("out: 1 kept, nothing to do")


def test_the_end_counts_agents_that_failed(tmp_path: Path) -> None:
    write(tmp_path / "in", *({"id": str(n), "input": str(n)} for n in range(3)))
    agent = ["in", "--shell", 'test "$PROMPT" = 1', "-o", "out"]
    lines = run("ae-run", *agent, "--progress", cwd=tmp_path).expect(0).messages
    assert lines[0] == "ae-run: [1/3] 0: agent failed" and lines[1] == "ae-run: [2/3] 1", lines
    assert "ae-run: 2 of 3 agents failed: " in lines[-1], lines
    shown = on_terminal("ae-run", *agent, "--overwrite", cwd=tmp_path).stdout
    assert "3 prompts in 0:0" in shown and ", 2 agents failed\n" in shown and "2 of 3 agents failed" in shown, shown


def test_one_prompt_is_not_prompts(tmp_path: Path) -> None:
    write(tmp_path / "in", {"id": "a", "input": "x", "hint": "y"})
    args = ["in", "--simple", "echo {}", "-g", "ae-grader-hint", "-o", "out"]
    shown = on_terminal("ae-capture", *args, cwd=tmp_path).stdout
    assert "ae-capture: 1 prompt in 0:0" in shown and ", 1 did not pass" in shown and "failed" not in shown, shown
