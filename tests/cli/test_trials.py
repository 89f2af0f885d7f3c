"""ae-trials: each prompt k times, side by side, and nothing paid for twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agenteval.grading.verdict import pass_fields
from tests.support.crash import kill_and_resume
from tests.support.tool import TIMEOUT, Done, Record, jsonl, meeting, python_script, read, run, script, start, write
from tests.support.watching import Running, expect_gone, marked, sleepers, until, written

# Passes where the trial's own number (from its workspace) is among those named in the prompt.
COUNTING = """
import os, sys
trial = os.getcwd().rpartition("-")[2]
print("yes" if trial in sys.argv[1].split() else "no")
"""


def prompts(*inputs: str, **fields: Any) -> str:
    return jsonl(*({"id": f"p{number}", "input": text, **fields} for number, text in enumerate(inputs, 1)))


def counting(tmp_path: Path, *inputs: str, k: int, more: tuple[object, ...] = (), hint: str = "yes") -> Done:
    agent = python_script(tmp_path / "agent", COUNTING)
    args = ["--simple", f"{agent} {{}}", "--workspace-dir", "ws", "-k", k, "-g", "ae-grader-hint"]
    return run("ae-trials", *args, *more, stdin=prompts(*inputs, hint=hint), cwd=tmp_path)


# --- the record ---------------------------------------------------------------------------------


WRITTEN = ("runId", "suiteVersion", "agentCommand", "agentDigest", "promptDigest", "fieldsDigest", "graderDigests")


def test_a_graded_record(tmp_path: Path) -> None:
    source = {"id": "a", "input": "2 3", "hint": "yes", "metadata": {"category": "c"}, "own": [1], "reference": "yes"}
    agent = python_script(tmp_path / "agent", COUNTING)
    args = ["--simple", f"{agent} {{}}", "--workspace-dir", "ws", "-k", 3, "-g", "ae-grader-hint"]
    [record] = run("ae-trials", *args, stdin=jsonl(source), cwd=tmp_path).expect(0).records
    trials = record.pop("trials")
    of_run = {name: record["metadata"].pop(name) for name in WRITTEN}
    assert len(of_run["runId"]) == len(of_run["graderDigests"]["hint"]) == 16
    assert record == {
        "id": "a",
        "input": "2 3",
        "hint": "yes",
        "k": 3,
        "passRate": 2 / 3,
        "passAtK": pytest.approx(1 - (1 / 3) ** 3),
        "passExpK": pytest.approx((2 / 3) ** 3),
        "passAt": {"1": pytest.approx(2 / 3), "2": 1.0, "3": 1.0},
        "passExp": {"1": pytest.approx(2 / 3), "2": pytest.approx(1 / 3), "3": 0.0},
        "metadata": {"category": "c", "agent": "text", "isolated": False, "workspaceDir": str(tmp_path / "ws")},
        "own": [1],
        "reference": "yes",
    }
    assert [trial["trialNum"] for trial in trials] == [1, 2, 3]
    assert [trial["pass"] for trial in trials] == [False, True, True]
    assert [trial["score"] for trial in trials] == [0.0, 1.0, 1.0]
    assert [trial["output"] for trial in trials] == ["no", "yes", "yes"]
    assert all(trial["trajectory"][0]["content"] == trial["output"] for trial in trials)
    assert all(trial["duration"] == trial["timing"]["total"] and "errors" not in trial for trial in trials)
    assert [trial["cwd"] for trial in trials] == [str(tmp_path / "ws" / f"prompt-a-trial-{n}") for n in (1, 2, 3)]


def test_without_a_grader_there_is_no_verdict() -> None:
    [record] = run("ae-trials", "-k", 2, "--simple", "echo {}", stdin=prompts("x")).expect(0, stderr="").records
    assert list(record) == ["id", "input", "k", "trials", "metadata"]
    assert [{"pass", "score"} & trial.keys() for trial in record["trials"]] == [set(), set()]


def test_five_trials_by_default() -> None:
    [record] = run("ae-trials", "--simple", "echo {}", stdin=prompts("x")).expect(0).records
    assert (record["k"], len(record["trials"])) == (5, 5)


def test_several_graders() -> None:
    graders = ["-g", "hint=ae-grader-hint", "-g", "exact=ae-grader-hint --exact"]
    trials = ["ae-trials", "-k", 1, "--simple", "echo {} more", *graders]
    [record] = run(*map(str, trials), stdin=prompts("x", hint="x")).expect(0).records
    [trial] = record["trials"]
    assert (trial["pass"], trial["score"]) == (False, 0.5)
    assert {name: score["pass"] for name, score in trial["scores"].items()} == {"hint": True, "exact": False}


def test_outcome_and_reasoning_stay_with_their_trial(tmp_path: Path) -> None:
    answer = '{pass: true, score: 0.25, reasoning: "because", outcome: {seen: .output}}'
    grader = script(tmp_path / "grader", f"jq -c '{answer}'")
    [record] = run("ae-trials", "-k", 2, "--simple", "echo {}", "-g", grader, stdin=prompts("x")).expect(0).records
    found = [(trial["score"], trial["reasoning"], trial["outcome"]) for trial in record["trials"]]
    assert found == [(0.25, "because", {"seen": "x"})] * 2


# --- what fails ---------------------------------------------------------------------------------


def test_a_failed_trial_is_told_from_a_failure(tmp_path: Path) -> None:
    """The agent of trial 2 crashes although it prints the right answer; trial 3 is graded a failure."""
    line = "case $PWD in *-2) echo yes; exit 7;; *-3) echo no;; *) echo yes;; esac"
    args = ["--shell", line, "--workspace-dir", "ws", "-k", 3, "-g", "ae-grader-hint"]
    [record] = run("ae-trials", *args, stdin=prompts("x", hint="yes"), cwd=tmp_path).expect(0).records
    passed, failed, missed = record["trials"]
    assert (passed["pass"], passed["score"]) == (True, 1.0)
    assert (failed["pass"], failed["errors"], failed["exitCode"]) == (False, ["exited with code 7"], 7)
    assert (failed["score"], failed["reasoning"]) == (0.0, "agent failed: exited with code 7")
    assert (missed["pass"], missed["score"]) == (False, 0.0)
    assert "errors" not in missed
    assert record["passRate"] == 1 / 3
    run("ae-trials", *args, "-e", stdin=prompts("x", hint="yes"), cwd=tmp_path).expect(1)


def test_a_grader_error_counts_neither_way(tmp_path: Path) -> None:
    answer = 'echo \'{"pass": true, "score": 1}\''
    grader = script(tmp_path / "grader", f"case $(cat) in *trial-2*) exit 3;; *) {answer};; esac")
    args = ["--shell", "true", "--workspace-dir", "ws", "-k", 3, "-g", grader]
    done = run("ae-trials", *args, stdin=prompts("x"), cwd=tmp_path).expect(1)
    assert "p1#2: grader grader: exited with code 3" in done.messages[0], done
    [record] = done.records
    assert (record["passRate"], record["graderErrors"]) == (1.0, 1)
    assert record["passAt"] == {"1": 1.0, "2": 1.0, "3": None}, "three of two cannot be estimated"
    assert record["trials"][1]["graderError"] == "exited with code 3"
    assert "pass" not in record["trials"][1] and "score" not in record["trials"][1]


PASSES: dict[str, tuple[list[Record], Record]] = {
    "all": ([{"pass": True}] * 2, {"passRate": 1.0, "passAtK": 1.0, "passExpK": 1.0}),
    "none": ([{"pass": False}] * 2, {"passRate": 0.0, "passAtK": 0.0, "passExpK": 0.0}),
    "half": ([{"pass": True}, {"pass": False}], {"passRate": 0.5, "passAtK": 0.75, "passExpK": 0.25}),
    "not graded": ([{}, {}], {}),
    "graders all broken": ([{"graderError": "why"}] * 2, {"graderErrors": 2}),
}


@pytest.mark.parametrize("name", PASSES)
def test_pass_fields(name: str) -> None:
    trials, expected = PASSES[name]
    found = pass_fields(trials, 2)
    assert {field: value for field, value in found.items() if field not in ("passAt", "passExp")} == expected
    assert ("passAt" in found) == ("passRate" in found)


# --- side by side -------------------------------------------------------------------------------


def test_trials_of_one_prompt_run_side_by_side_in_directories_of_their_own(tmp_path: Path) -> None:
    args = ("-k", 6, "-j", 6, "--shell", meeting(6, tmp_path), "-t", "20s", "--workspace-dir", "ws")
    done = run("ae-trials", *args, stdin=prompts("x")).expect(0)
    assert not any("errors" in trial for trial in done.records[0]["trials"]), done


@pytest.mark.parametrize("order", [(), ("--keep-order",)])
def test_trials_that_share_a_directory_run_one_after_another(order: tuple[str, ...], tmp_path: Path) -> None:
    """Those of one prompt: different prompts still run side by side."""
    # The first trials of both prompts wait for each other: a busy machine may start the second one late.
    both = meeting(2, tmp_path)
    line = f'mkdir "busy-$PROMPT" || exit; {both}; ls -d busy-* | wc -l; sleep 0.2; rmdir "busy-$PROMPT"'
    args = ("-k", 3, "-j", 6, "--shell", line, *order)
    done = run("ae-trials", *args, stdin=prompts("a", "b"), cwd=tmp_path).expect(0)
    trials = [trial for record in done.records for trial in record["trials"]]
    assert len(trials) == 6 and not any("errors" in trial for trial in trials), done
    assert "2" in {trial["output"] for trial in trials}, done


def test_no_more_than_asked_for_at_once(tmp_path: Path) -> None:
    line = f"touch $$.run; {meeting(3, tmp_path)}; ls *.run | wc -l >> seen; sleep 0.05; rm $$.run"
    run("ae-trials", "-k", 4, "-j", 3, "--shell", line, stdin=prompts("a", "b", "c"), cwd=tmp_path).expect(0)
    seen = [int(count) for count in (tmp_path / "seen").read_text().split()]
    assert len(seen) == 12
    assert max(seen) == 3


def test_records_in_the_order_of_the_prompts(tmp_path: Path) -> None:
    args = ["ae-trials", "-k", "2", "-j", "6", "--shell"]
    waits = '[ "$PROMPT" = quick ] || until [ -e others-are-out ]; do sleep 0.02; done'
    with Running(*args, waits, cwd=tmp_path) as tool:
        tool.feed(*map(json.loads, prompts("slow", "quick", "quick").splitlines()))
        assert {tool.record()["id"], tool.record()["id"]} == {"p2", "p3"}
        (tmp_path / "others-are-out").touch()
        assert tool.record()["id"] == "p1"
        tool.end().expect(0)
    source = prompts("0.4", "0.1", "0.0")
    assert run(*args, "sleep $PROMPT", "--keep-order", stdin=source).expect(0).ids == ["p1", "p2", "p3"]


def test_every_trial_is_a_fresh_session(tmp_path: Path) -> None:
    """Each of the trials' second turns resumes the session that its own first turn opened."""
    agent = python_script(
        tmp_path / "agent",
        "import json, os, sys\n"
        "resumed = sys.argv[2] if sys.argv[1] == '--resume' else None\n"
        "print(json.dumps({'session': resumed or str(os.getpid()), 'text': f'resumed {resumed}'}))",
    )
    schema = {
        "version": 1,
        "name": "sessions",
        "command": [str(agent)],
        "sessionMode": "stream",
        "prompt": {"flag": ""},
        "resume": {"flag": "--resume", "sessionIdPath": "$.session"},
        "outputEvents": [
            {"match": {"path": "$.text", "value": "*"}, "emitAs": "message", "extract": {"content": "$.text"}}
        ],
    }
    write(tmp_path / "schema.json", schema)
    source = jsonl({"id": "a", "input": ["one", "two"]})
    [record] = run("ae-trials", "-k", 4, "-j", 4, "-s", "schema.json", stdin=source, cwd=tmp_path).expect(0).records
    outputs = [trial["output"] for trial in record["trials"]]
    assert len(set(outputs)) == 4
    assert all(output.startswith("resumed ") and output != "resumed None" for output in outputs), outputs


# --- resume -------------------------------------------------------------------------------------

LOG = 'echo "$PROMPT $PWD" >> "$LOG"; echo yes'


def logged(tmp_path: Path, *more: object, line: str = LOG, k: int = 3) -> tuple[Done, list[str]]:
    """A run over two prompts, and which trials it ran."""
    log = tmp_path / "log"
    log.unlink(missing_ok=True)
    args = ["--shell", line, "--workspace-dir", "ws", "-k", k, "-g", "ae-grader-hint", "-o", "out"]
    done = run("ae-trials", *args, *more, stdin=prompts("a", "b", hint="yes"), cwd=tmp_path, env={"LOG": str(log)})
    ran = log.read_text().splitlines() if log.exists() else []
    return done, [f"{entry.split()[0]}{entry.rpartition('-')[2]}" for entry in ran]


def leftover(tmp_path: Path, read: Callable[[Path], list[Record]] = read) -> list[str]:
    path = tmp_path / "out.unfinished"
    return sorted({f"{entry['id']}{entry['trial']}" for entry in read(path) if "id" in entry}) if path.exists() else []


def kept(prompt_id: str, text: str, *, graded: bool = True, **fields: object) -> Record:
    """A line of the file beside the output: the first trial of a prompt, which answered `old`."""
    result: Record = {"output": "old", "trajectory": [], "timing": {"total": 1}, "metadata": {}, **fields}
    result |= {"score": {"pass": True, "score": 1.0}} if graded else {}
    return {"id": prompt_id, "input": text, "trial": 1, "graded": graded, "record": {"id": prompt_id, **result}}


def test_finished_trials_are_not_run_again(tmp_path: Path) -> None:
    """Stopped in the second prompt's second trial, as by a crash; the cut-off line of a crash is passed over."""
    first, ran = logged(tmp_path, "--strict", line=f'{LOG}; case "$PROMPT$PWD" in b*-2) exit 9;; esac')
    first.expect(1)
    assert ran == ["a1", "a2", "a3", "b1", "b2"]
    assert [record["id"] for record in read(tmp_path / "out")] == ["p1"]
    assert leftover(tmp_path) == ["p21", "p22"]
    with (tmp_path / "out.unfinished").open("ab") as file:
        file.write(b'{"id":"p2","input":"b","tri')
    again, ran = logged(tmp_path, "--resume", "--force")  # the command is another
    assert "out: 1 kept, 1 new" in again.expect(0).messages[0], again
    assert ran == ["b3"]
    one, two = read(tmp_path / "out")
    assert [trial["trialNum"] for trial in two["trials"]] == [1, 2, 3]
    assert two["trials"][1]["errors"] == ["exited with code 9"], "failed is finished"
    assert two["passRate"] == pytest.approx(2 / 3)
    assert one["passRate"] == 1.0
    assert not (tmp_path / "out.unfinished").exists()


def test_nothing_to_do(tmp_path: Path) -> None:
    logged(tmp_path)[0].expect(0)
    before = (tmp_path / "out").read_bytes()
    again, ran = logged(tmp_path, "--resume")
    assert again.expect(0).messages == ["ae-trials: out: 2 kept, nothing to do"]
    assert (ran, (tmp_path / "out").read_bytes()) == ([], before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "ws"]


def test_a_changed_prompt_is_run_again(tmp_path: Path) -> None:
    write(tmp_path / "out.unfinished", kept("p1", "another"), kept("p2", "b"))
    done, ran = logged(tmp_path, "--resume")
    done.expect(0)
    assert ran == ["a1", "a2", "a3", "b2", "b3"]
    assert read(tmp_path / "out")[1]["trials"][0]["output"] == "old"


def test_trials_without_a_verdict_are_graded_not_run(tmp_path: Path) -> None:
    write(tmp_path / "out.unfinished", kept("p1", "a", graded=False, hint="old"))
    assert logged(tmp_path, "--resume")[1] == ["a2", "a3", "b1", "b2", "b3"]
    first = read(tmp_path / "out")[0]["trials"][0]
    assert (first["output"], first["pass"]) == ("old", False), "by the hint that the prompt has now"


def test_without_resume_everything_is_run_again(tmp_path: Path) -> None:
    write(tmp_path / "out.unfinished", kept("p1", "a"))
    assert len(logged(tmp_path)[1]) == 6
    assert not (tmp_path / "out.unfinished").exists()


def test_an_unfinished_file_that_is_none(tmp_path: Path) -> None:
    write(tmp_path / "out.unfinished", "my notes")
    done, ran = logged(tmp_path, "--resume")
    done.expect(2).says("out.unfinished:1: not written by this suite")
    assert ran == []
    assert (tmp_path / "out.unfinished").read_text() == "my notes\n"


def test_another_k_is_refused(tmp_path: Path) -> None:
    logged(tmp_path)[0].expect(0)
    done, ran = logged(tmp_path, "--resume", k=5)
    done.expect(2).says("out: its trials of p1 have -k 3")
    assert ran == []
    first, *others = read(tmp_path / "out")
    write(tmp_path / "out", *others, first | {"k": 2, "trials": first["trials"][:2]})
    done, ran = logged(tmp_path, "--resume")
    done.expect(2).says("out: its trials of p1 have -k 2")
    assert ran == [], "not only the first record counts"


def test_a_pipe_leaves_no_file_behind(tmp_path: Path) -> None:
    run("ae-trials", "-k", 2, "--simple", "echo {}", "-o", "/dev/stdout", stdin=prompts("x"), cwd=tmp_path).expect(0)
    run("ae-trials", "-k", 2, "--simple", "echo {}", "-o", "-", stdin=prompts("x"), cwd=tmp_path).expect(0)
    assert list(tmp_path.iterdir()) == []


def test_resumes_after_every_crash(tmp_path: Path) -> None:
    """SIGKILL at any moment: no trial that was finished is run twice, none is lost."""
    with marked() as mark:
        source = write(
            tmp_path / "prompts", *({"id": str(n), "input": f"0.0{5 + n % 20:02}", "hint": "x"} for n in range(12))
        )
        line = f": {mark}; sleep $PROMPT; head -c 20000 /dev/zero | tr '\\0' x"

        def check(records: list[Record]) -> None:
            assert sorted(int(record["id"]) for record in records) == list(range(12))
            for record in records:
                assert [trial["trialNum"] for trial in record["trials"]] == [1, 2, 3, 4, 5]
                assert all(trial["output"] == "x" * 20000 and trial["pass"] for trial in record["trials"])

        command = ["ae-trials", source, "-k", 5, "-j", 4, "--shell", line, "-g", "ae-grader-hint"]
        kill_and_resume(command, tmp_path / "out", mark, check)
        assert not (tmp_path / "out.unfinished").exists()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_is_finished(signum: signal.Signals, tmp_path: Path) -> None:
    with marked() as mark:
        line = f"case $PWD in *-1) echo yes;; *) sleep {mark};; esac"
        args = ["--shell", line, "--workspace-dir", "ws", "-k", 2, "-j", 2, "-o", "out"]
        with start("ae-trials", *args, cwd=tmp_path) as process:
            assert process.stdin and process.stderr
            process.stdin.write(prompts("x").encode())
            process.stdin.close()
            until(lambda: sleepers(mark), "the second trial has started")
            until(lambda: leftover(tmp_path, written) == ["p11"], "the first trial is on disk")
            process.send_signal(signum)
            assert process.wait(TIMEOUT) == 128 + signum
            assert "--resume" in process.stderr.read().decode()
        expect_gone(mark)
    assert (tmp_path / "out").read_bytes() == b""
    assert leftover(tmp_path) == ["p11"]


# --- the rest -----------------------------------------------------------------------------------


def test_what_was_tried_again_is_told(tmp_path: Path) -> None:
    line = "[ -e tried ] && echo yes && exit; touch tried; echo 429 >&2; exit 1"
    done = run("ae-trials", "-k", 1, "--retries", 1, "--shell", line, stdin=prompts("x"), cwd=tmp_path).expect(0)
    trial = done.records[0]["trials"][0]
    assert (trial["output"], trial["attempts"], trial["retried"]) == ("yes", 2, ["exited with code 1: 429"])
    run("ae-trials", "--retry-on", "x", "--shell", "true", stdin=prompts("x")).expect(2).says(
        "--retry-on needs --retries"
    )


def test_progress_counts_trials(tmp_path: Path) -> None:
    write(tmp_path / "in", *map(json.loads, prompts("a", "b").splitlines()))
    done = run("ae-trials", "in", "-k", 2, "--shell", "exit 1", "--progress", cwd=tmp_path).expect(0)
    assert done.messages == [
        "ae-trials: [1/4] p1 trial 1/2: agent failed",
        "ae-trials: [2/4] p1 trial 2/2: agent failed",
        "ae-trials: [3/4] p2 trial 1/2: agent failed",
        "ae-trials: [4/4] p2 trial 2/2: agent failed",
        "ae-trials: 4 of 4 agents failed: the agent exited with code 1",
    ]


@pytest.mark.parametrize("k", ["0", "-1", "x", "1.5"])
def test_a_wrong_k(k: str) -> None:
    run("ae-trials", "-k", k, "--simple", "echo {}", stdin=prompts("x")).expect(2).says("-k")


def test_a_prompt_brings_no_rates_of_its_own() -> None:
    """What a prompt says of rates is not that of these trials, which are not graded."""
    prompt = {"id": "a", "input": "x", "passRate": 1.0, "passAtK": [], "graderErrors": 3, "more": 1}
    done = run("ae-trials", "--shell", "echo x", "-k", "1", stdin=jsonl(prompt)).expect(0)
    (record,) = done.records
    assert record["more"] == 1 and not record.keys() & {"passRate", "passAtK", "graderErrors"}, record
