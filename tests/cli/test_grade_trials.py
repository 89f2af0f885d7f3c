"""ae-grade over trials, and how the verdicts of several graders count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.tool import Record, jsonl, python_script, read, run, script, write

CAPITALS = """
def grade(record):
    return {"pass": record["output"].isupper(), "score": 0.25, "reasoning": f"trial {record['trialNum']}"}
"""
ANSWER = """cat > /dev/null; echo '{answer}'"""


def trials(*answers: Record, **fields: object) -> Record:
    """A record of ungraded trials, with a field of the user's own in the record and in each trial."""
    made = [{"trialNum": n, "trajectory": [], "duration": 5, "seen": n, **one} for n, one in enumerate(answers, 1)]
    return {"id": "a", "input": "Say A", "k": len(made), "mine": [1], "trials": made, "metadata": {}, **fields}


def grader(path: Path, **answer: object) -> Path:
    """A grader that always gives this answer."""
    return script(path, ANSWER.format(answer=json.dumps(answer)))


# --- trials ---------------------------------------------------------------------------------------


def test_trials_are_graded_again_without_running_an_agent(tmp_path: Path) -> None:
    """A bug in a grader costs no agent runs: each trial is graded, and the rates are computed anew."""
    prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": "A", "hint": "b"}, {"id": "b", "input": "b"})
    (tmp_path / "capitals.py").write_text(CAPITALS)
    wrong = grader(tmp_path / "wrong.sh", **{"pass": False, "score": 0.0, "reasoning": "always wrong"})
    run("ae-trials", prompts, "--simple", "echo {}", "-k", 3, "-g", wrong, "-o", "trials.jsonl", cwd=tmp_path).expect(0)
    first = read(tmp_path / "trials.jsonl")
    run("ae-grade", "trials.jsonl", "-g", "capitals.py", "-o", "again.jsonl", cwd=tmp_path).expect(0, stderr="")
    again = read(tmp_path / "again.jsonl")
    assert [record["passRate"] for record in first] == [0.0, 0.0]
    assert [record["passRate"] for record in again] == [1.0, 0.0]
    assert again[0]["passAtK"] == again[0]["passExpK"] == 1.0
    assert again[0]["passAt"] == again[0]["passExp"] == {"1": 1.0, "2": 1.0, "3": 1.0}
    assert [trial["reasoning"] for trial in again[0]["trials"]] == ["trial 1", "trial 2", "trial 3"]
    for before, after in zip(first, again, strict=True):
        assert list(before) == list(after)
        assert [list(trial) for trial in before["trials"]] == [list(trial) for trial in after["trials"]]
        unchanged = ("trialNum", "output", "trajectory", "timing", "cwd")
        for one, other in zip(before["trials"], after["trials"], strict=True):
            assert all(one[field] == other[field] for field in unchanged)


def test_a_trial_is_graded_as_the_result_that_it_was(tmp_path: Path) -> None:
    """The grader sees the prompt's fields, the trial's own ones and its part of the metadata; unknown fields stay."""
    seen = python_script(
        tmp_path / "seen.py",
        "import json, sys\nprint(json.dumps({'pass': True, 'outcome': json.load(sys.stdin)}))",
    )
    given = trials({"output": "A", "workspaceDir": "/w/1"}, hint="A", metadata={"agent": "x"}, passRate=0.5, last=True)
    [record] = run("ae-grade", "-g", seen, stdin=jsonl(given), cwd=tmp_path).expect(0).records
    sees = record["trials"][0]["outcome"]
    assert (sees["id"], sees["input"], sees["hint"], sees["mine"], sees["seen"]) == ("a", "Say A", "A", [1], 1)
    assert (sees["output"], sees["trialNum"]) == ("A", 1)
    assert sees["metadata"] == {"agent": "x", "workspaceDir": "/w/1"}
    assert not {"k", "trials", "passRate", "score"} & sees.keys()
    assert record["mine"] == [1] and record["last"] is True and record["trials"][0]["seen"] == 1
    assert record["metadata"].pop("graderDigests").keys() == {"seen"}
    assert record["metadata"] == {"agent": "x"} and record["passRate"] == 1.0


def test_a_failed_trial_does_not_pass_and_a_grader_error_is_that_of_its_trial(tmp_path: Path) -> None:
    (tmp_path / "capitals.py").write_text(CAPITALS.replace("return", "assert record['output'] != 'bad'\n    return"))
    given = trials({"output": "A"}, {"output": "A", "errors": ["exit code 1"]}, {"output": "bad"})
    done = run("ae-grade", "-g", "capitals.py", stdin=jsonl(given, {"id": "r", "output": "B"}), cwd=tmp_path)
    done.expect(1)
    assert "a#3: grader capitals: AssertionError" in done.stderr
    good, failed, erred = done.records[0]["trials"]
    assert (good["pass"], failed["pass"], failed["reasoning"]) == (True, False, "agent failed: exit code 1")
    assert "pass" not in erred and erred["graderError"].startswith("AssertionError")
    assert (done.records[0]["passRate"], done.records[0]["graderErrors"]) == (0.5, 1)
    assert done.records[1]["graderError"].startswith("KeyError"), "a result is no trial: it has no trialNum"
    forced = run("ae-grade", "-g", "capitals.py", "--grade-failed", stdin=jsonl(given), cwd=tmp_path).records[0]
    assert forced["trials"][1]["pass"] is True and forced["trials"][1]["gradedFailed"] is True


@pytest.mark.parametrize("jobs", [1, 4])
def test_trials_and_results_keep_their_order(tmp_path: Path, jobs: int) -> None:
    slow = script(tmp_path / "slow.sh", "read line; case $line in *late*) sleep 0.3;; esac; echo '{\"pass\": true}'")
    mixed = [
        trials({"output": "late"}, {"output": "x"}, {"output": "y"}, id="t1"),
        {"id": "r1", "output": "x"},
        trials({"output": "x"}, {"output": "late"}, id="t2"),
        {"id": "r2", "output": "x"},
    ]
    done = run("ae-grade", "-g", slow, "-j", jobs, stdin=jsonl(*mixed), cwd=tmp_path).expect(0)
    assert done.ids == ["t1", "r1", "t2", "r2"]
    assert [len(record.get("trials", ())) for record in done.records] == [3, 0, 2, 0]
    assert done.records[0]["passRate"] == done.records[1]["score"]["score"] == 1.0


def test_trials_without_a_trial_are_refused(tmp_path: Path) -> None:
    good = {"id": "b", "output": "B"}
    passes = grader(tmp_path / "passes.sh", **{"pass": True})
    done = run("ae-grade", "-g", passes, stdin=jsonl(trials(k=1), good), cwd=tmp_path).expect(1)
    assert done.ids == ["b"]
    done.says("stdin:1:", '"trials" is empty')


def test_grading_trials_can_be_resumed(tmp_path: Path) -> None:
    passes = grader(tmp_path / "passes.sh", **{"pass": True})
    write(tmp_path / "trials.jsonl", trials({"output": "A"}), trials({"output": "B"}, id="b"))
    command = ("ae-grade", "trials.jsonl", "-g", passes, "-o", "graded.jsonl", "--resume")
    run(*command, cwd=tmp_path).expect(0)
    lines = (tmp_path / "graded.jsonl").read_text().splitlines()
    (tmp_path / "graded.jsonl").write_text(lines[0] + "\n")
    run(*command, cwd=tmp_path).expect(0)
    assert (tmp_path / "graded.jsonl").read_text().splitlines() == lines


# --- how verdicts count ---------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [True, False])
def test_a_missing_score_is_one_or_zero(tmp_path: Path, passes: bool) -> None:
    answer = grader(tmp_path / "answer.sh", **{"pass": passes, "reasoning": "so"})
    [record] = run("ae-grade", "-g", answer, stdin=jsonl({"id": "a", "output": "x"}), cwd=tmp_path).expect(0).records
    assert record["score"] == {"pass": passes, "score": float(passes), "reasoning": "so"}


def test_a_score_of_null_is_still_an_error(tmp_path: Path) -> None:
    """JavaScript writes NaN as null: that is a mistake of the grader, not a score that it leaves out."""
    answer = grader(tmp_path / "answer.sh", **{"pass": True, "score": None})
    done = run("ae-grade", "-g", answer, stdin=jsonl({"id": "a", "output": "x"}), cwd=tmp_path).expect(1)
    assert '"score" must be a number' in done.records[0]["graderError"]


@pytest.fixture
def two(tmp_path: Path) -> list[object]:
    """Two graders: `good` passes with 1.0, `style` does not pass, with 0.2."""
    good = grader(tmp_path / "good.sh", **{"pass": True, "score": 1.0})
    style = grader(tmp_path / "style.sh", **{"pass": False, "score": 0.2, "reasoning": "no style"})
    return ["-g", good, "-g", style]


RESULT = jsonl({"id": "a", "output": "x"})


def test_weights_weigh_the_mean(tmp_path: Path, two: list[object]) -> None:
    done = run("ae-grade", *two, "--weight", "good=3", stdin=RESULT, cwd=tmp_path).expect(0)
    [record] = done.records
    assert record["score"]["score"] == pytest.approx((3 * 1.0 + 0.2) / 4)
    assert record["score"]["pass"] is False
    assert record["scores"]["good"] == {"pass": True, "score": 1.0, "weight": 3.0}
    again = run("ae-grade", "-g", f"style={tmp_path / 'good.sh'}", stdin=done.stdout, cwd=tmp_path).expect(0).records
    assert again[0]["score"]["score"] == 1.0, "the verdict of the other grader is kept with its weight"


def test_an_informational_verdict_is_kept_and_not_counted(tmp_path: Path, two: list[object]) -> None:
    [record] = run("ae-grade", *two, "--informational", "style", stdin=RESULT, cwd=tmp_path).expect(0).records
    assert record["score"] == {"pass": True, "score": 1.0}
    assert record["scores"]["style"] == {"pass": False, "score": 0.2, "reasoning": "no style", "informational": True}


def test_an_informational_grader_that_errs_leaves_the_verdict(tmp_path: Path, two: list[object]) -> None:
    options = ("-g", "broken=false", "--informational", "broken")
    done = run("ae-grade", *two[:2], *options, stdin=RESULT, cwd=tmp_path).expect(0)
    assert "a: grader broken: " in done.stderr
    assert done.records[0]["score"]["pass"] is True and "graderError" not in done.records[0]
    assert list(done.records[0]["scores"]) == ["good"]


def test_an_informational_grader_alone_leaves_the_verdict_that_is_there(tmp_path: Path, two: list[object]) -> None:
    graded = run("ae-grade", *two[:2], stdin=RESULT, cwd=tmp_path).stdout
    done = run("ae-grade", *two[2:], "--informational", "style", stdin=graded, cwd=tmp_path).expect(0)
    assert done.records[0]["score"] == {"pass": True, "score": 1.0}
    assert done.records[0]["scores"]["style"]["informational"] is True


def test_every_tool_with_graders_weighs_them(tmp_path: Path, two: list[object]) -> None:
    prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": "x", "reference": "x"})
    weighed = (*two, "--weight", "good=3")
    captured = run("ae-capture", prompts, "--simple", "echo {}", *weighed, cwd=tmp_path).expect(0).records[0]
    tried = run("ae-trials", prompts, "--simple", "echo {}", "-k", 1, *weighed, cwd=tmp_path).expect(0).records[0]
    checked = run("ae-validate-refs", prompts, *weighed, cwd=tmp_path).expect(1).records[0]
    assert captured["score"]["score"] == tried["trials"][0]["score"] == checked["score"] == pytest.approx(0.8)


@pytest.mark.parametrize("option", ["--weight nobody=2", "--informational nobody", "--grader-timeout nobody=5s"])
@pytest.mark.parametrize("tool", ["ae-grade", "ae-capture", "ae-calibrate", "ae-validate-refs"])
def test_an_unknown_name_is_refused_before_anything_starts(
    tmp_path: Path, two: list[object], tool: str, option: str
) -> None:
    agent = ("--simple", "touch started") if tool == "ae-capture" else ()
    source = write(tmp_path / "in.jsonl", {"id": "a", "input": "x", "output": "x", "reference": "x"})
    done = run(tool, source, *agent, *two, *option.split(), cwd=tmp_path).expect(2)
    done.says(f"{option.split()[0]} nobody: no grader has that name; the graders are good, style")
    assert not (tmp_path / "started").exists() and done.stdout == ""


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--weight good", "'good' is not NAME=W"),
        ("--weight good=0", "'good=0' is not NAME=W"),
        ("--weight good=nan", "'good=nan' is not NAME=W"),
        ("--grader-timeout good=soon", "'soon' is not a time"),
        ("--weight style=2 --informational style", "an informational verdict does not count in the mean"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(tmp_path: Path, two: list[object], option: str, message: str) -> None:
    done = run("ae-grade", *two, *option.split(), stdin=RESULT, cwd=tmp_path).expect(2)
    assert message in done.stderr, done


def test_each_grader_has_its_time_limit(tmp_path: Path, two: list[object]) -> None:
    """The limit of one grader takes precedence over that of all."""
    slow = script(tmp_path / "slow.sh", "sleep 60")
    limits = ("-t", "50s", "--grader-timeout", "slow=200ms")
    done = run("ae-grade", *two[:2], "-g", slow, *limits, stdin=RESULT, cwd=tmp_path).expect(1)
    assert (
        "slow: timeout: not done after 200 ms" in done.records[0]["graderError"] and "good" in done.records[0]["scores"]
    )
    prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": "x"})
    limits = ("--grader-timeout", "50s", "--grader-timeout", "slow=200ms")
    done = run("ae-capture", prompts, "--simple", "echo {}", "-g", slow, *limits, cwd=tmp_path).expect(1)
    assert "not done after 200 ms" in done.records[0]["graderError"]
