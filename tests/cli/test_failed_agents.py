"""A failed agent never passes: the same rule in every tool that grades or reads grades."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.tool import Record, jsonl, read, run, script, write

PROMPTS = [{"id": "good", "input": "yes", "hint": "yes"}, {"id": "crash", "input": "die", "hint": "yes"}]
AGENT = 'echo yes; [ "$PROMPT" != die ] || { echo "no key" >&2; exit 3; }'
FAILED = {"pass": False, "score": 0.0, "reasoning": "agent failed: exited with code 3: no key"}
CRASHED: Record = {"id": "crash", "input": "q", "output": "yes", "hint": "yes", "errors": ["boom"]}
CRASHED_GRADED = {**CRASHED, "score": {"pass": False, "score": 0.0, "reasoning": "agent failed: boom"}}


@pytest.mark.parametrize("tool", ["ae-capture", "pipeline"])
def test_it_is_not_graded(tool: str, tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *PROMPTS)
    if tool == "ae-capture":
        done = run("ae-capture", "prompts.jsonl", "--shell", AGENT, "-g", "ae-grader-hint", cwd=tmp_path)
    else:
        raw = run("ae-run", "prompts.jsonl", "--shell", AGENT, cwd=tmp_path).stdout
        results = run("ae-extract", "-s", "text", stdin=raw, cwd=tmp_path).stdout
        done = run("ae-grade", "-g", "ae-grader-hint", stdin=results, cwd=tmp_path)
    scores = {record["id"]: record["score"] for record in done.expect(0).records}
    assert scores["good"]["pass"] is True
    assert scores["crash"] == FAILED


def test_no_grader_is_started_for_it(tmp_path: Path) -> None:
    script(tmp_path / "grader", 'cat >> seen; echo \'{"pass":true,"score":1}\'')
    done = run("ae-grade", "-g", "a=./grader", "-g", "b=./grader", stdin=jsonl(CRASHED), cwd=tmp_path).expect(0)
    assert not (tmp_path / "seen").exists()
    assert done.records[0]["score"] == {"pass": False, "score": 0.0, "reasoning": "agent failed: boom"}
    assert "scores" not in done.records[0]


@pytest.mark.parametrize("tool", ["ae-grade", "ae-capture", "ae-trials"])
def test_grade_failed_grades_it_all_the_same(tool: str, tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", PROMPTS[1])
    write(tmp_path / "results.jsonl", CRASHED)
    agent: list[object] = ["--shell", AGENT] if tool != "ae-grade" else []
    file = "results.jsonl" if tool == "ae-grade" else "prompts.jsonl"
    more: list[object] = ["-k", 1] if tool == "ae-trials" else []
    [record] = run(tool, file, *agent, *more, "-g", "ae-grader-hint", "--grade-failed", cwd=tmp_path).expect(0).records
    verdict = record["trials"][0] if tool == "ae-trials" else record["score"]
    assert verdict["pass"] is True


def test_without_a_grader_there_is_no_score(tmp_path: Path) -> None:
    [record] = run("ae-capture", "--shell", AGENT, stdin=jsonl(PROMPTS[1]), cwd=tmp_path).expect(0).records
    assert record["errors"] and "score" not in record


def test_readers_count_it_as_not_passed_with_score_0(tmp_path: Path) -> None:
    """Also in a file of another harness, whose failed records have no score."""
    good: Record = {"id": "good", "output": "x", "score": {"pass": True, "score": 1.0}}
    write(tmp_path / "a.jsonl", good, {"id": "crash", "output": "", "errors": ["boom"]})
    write(tmp_path / "b.jsonl", good, {"id": "crash", "output": "x", "score": {"pass": True, "score": 1.0}})
    report = json.loads(run("ae-compare", "a.jsonl", "b.jsonl", cwd=tmp_path).expect(0).stdout)
    quality = report["quality"]["a"]
    assert (quality["n"], quality["passRate"], quality["avgScore"], quality["errors"]) == (2, 0.5, 0.5, 1)
    table = run("ae-format", "a.jsonl", "-f", "table", cwd=tmp_path).expect(0).stdout
    assert "2 (1 passed, 1 agent failed)" in table and "1/2 (50.0%)" in table
    csv = run("ae-format", "a.jsonl", "-f", "csv", cwd=tmp_path).expect(0).stdout
    assert csv.splitlines()[2].endswith('false,0.0,"agent failed: boom","error",,,,,')


def test_a_failed_trial_counts_as_0_in_the_mean_score(tmp_path: Path) -> None:
    entries = [
        {"trialNum": 1, "output": "x", "pass": True, "score": 1.0},
        {"trialNum": 2, "output": "", "errors": ["x"]},
    ]
    trials = {"id": "p", "input": "q", "k": 2, "trials": entries}
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", trials)
    report = json.loads(run("ae-compare", "a.jsonl", "b.jsonl", cwd=tmp_path).expect(0).stdout)
    quality = report["quality"]["a"]
    assert (quality["n"], quality["avgScore"], quality["failedTrials"]) == (2, 0.5, 1)


PASSED_BY_AN_OLDER_TOOL: Record = {
    **CRASHED,
    "score": {"pass": True, "score": 1.0, "outcome": {"hit_rate": 1.0, "mrr": 1.0}},
    "scores": {"sources": {"pass": True, "score": 1.0}, "judge": {"pass": True, "score": 1.0}},
}
GRADED_ON_REQUEST = {**PASSED_BY_AN_OLDER_TOOL, "gradedFailed": True}


@pytest.mark.parametrize(("record", "passes"), [(PASSED_BY_AN_OLDER_TOOL, False), (GRADED_ON_REQUEST, True)])
def test_a_pass_beside_errors_counts_only_if_it_was_asked_for(record: Record, passes: bool, tmp_path: Path) -> None:
    good: Record = {"id": "good", "input": "q", "output": "x", "score": {"pass": True, "score": 1.0}}
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", record, good)

    def read_by(tool: str, *command: object) -> str:
        return run(tool, *command, cwd=tmp_path).expect(0).stdout

    quality = json.loads(read_by("ae-compare", "a.jsonl", "b.jsonl"))["quality"]["a"]
    assert (quality["n"], quality["passRate"], quality["avgScore"]) == ((2, 1.0, 1.0) if passes else (2, 0.5, 0.5))
    csv = read_by("ae-format", "a.jsonl", "-f", "csv").splitlines()[1]
    assert csv.endswith('true,1.0,,"pass",,,,,' if passes else 'false,0.0,"agent failed: boom","error",,,,,')
    assert ("2/2 (100.0%)" if passes else "1/2 (50.0%)") in read_by("ae-format", "a.jsonl", "-f", "table")
    assert ("2/2 (100.0%)" if passes else "1/2 (50.0%)") in read_by("ae-format", "a.jsonl", "-f", "markdown")
    assert ("**Score:** PASS (1)" if passes else "**Score:** FAIL (0)") in read_by(
        "ae-summarize", "a.jsonl", "--markdown"
    ).partition("good")[0]
    evaluation = json.loads(read_by("ae-score", "a.jsonl"))["results"][0]
    assert evaluation["hit_rate"] == evaluation["judge_score"] == (1.0 if passes else 0.0)
    counts = json.loads(read_by("ae-calibrate", "a.jsonl", "-f", "json"))["records"]
    assert (counts["passed"], counts["errors"]) == ((2, 0) if passes else (1, 1))


@pytest.mark.parametrize(("marker", "rate"), [({}, 0.5), ({"gradedFailed": True}, 1.0)])
def test_so_it_is_in_trials(marker: Record, rate: float, tmp_path: Path) -> None:
    entries = [
        {"trialNum": 1, "output": "x", "pass": True, "score": 1.0},
        {"trialNum": 2, "output": "x", "pass": True, "score": 1.0, "errors": ["x"], **marker},
    ]
    whole = {"passRate": 1.0, "passAtK": 1.0, "passExpK": 1.0}
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", {"id": "p", "input": "q", "k": 2, **whole, "trials": entries})
    report = json.loads(run("ae-compare", "a.jsonl", "b.jsonl", cwd=tmp_path).expect(0).stdout)
    assert report["statistics"]["runs"]["a"]["passRate"] == report["quality"]["a"]["avgScore"] == rate
    assert report["reliability"]["a"]["avgPassExpK"] == rate**2


def test_a_prompt_whose_trials_all_fail_counts_in_the_means(tmp_path: Path) -> None:
    passed = {"id": "p", "input": "q", "k": 1, "trials": [{"trialNum": 1, "output": "x", "pass": True, "score": 1.0}]}
    failed = {"id": "f", "input": "q", "k": 1, "trials": [{"trialNum": 1, "output": "", "errors": ["x"]}]}
    with_verdict = {**failed, "trials": [{**failed["trials"][0], "pass": False, "score": 0.0}]}  # type: ignore[index]
    write(tmp_path / "a.jsonl", passed, failed)
    write(tmp_path / "b.jsonl", passed, with_verdict)
    report = json.loads(run("ae-compare", "a.jsonl", "b.jsonl", cwd=tmp_path).expect(0).stdout)
    for name in ("a", "b"):
        assert report["quality"][name]["avgScore"] == report["capability"][name]["avgPassAtK"] == 0.5


@pytest.mark.parametrize("tool", ["ae-grade", "ae-trials"])
def test_grade_failed_leaves_a_mark(tool: str, tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *PROMPTS)
    write(tmp_path / "results.jsonl", CRASHED, {"id": "good", "output": "yes", "hint": "yes"})
    agent: list[object] = ["prompts.jsonl", "--shell", AGENT, "-k", 1] if tool == "ae-trials" else ["results.jsonl"]
    records = run(tool, *agent, "-g", "ae-grader-hint", "--grade-failed", cwd=tmp_path).expect(0).records
    marks = {record["id"]: record.get("trials", [record])[0].get("gradedFailed") for record in records}
    assert marks == {"crash": True, "good": None}
    if tool == "ae-grade":
        [again, _] = run("ae-grade", "-g", "ae-grader-hint", stdin=jsonl(*records)).expect(0).records
        assert again["score"]["pass"] is False and "gradedFailed" not in again


def test_ae_score_counts_it_as_0(tmp_path: Path) -> None:
    done = run("ae-score", "-o", "evaluation.json", stdin=jsonl(CRASHED_GRADED), cwd=tmp_path)
    [question] = json.loads((tmp_path / "evaluation.json").read_text())["results"]
    assert done.code == 0, done
    assert [question[name] for name in ("hit_rate", "mrr", "judge_score", "combined_score")] == [0.0] * 4


def test_ae_calibrate_does_not_ask_a_person_about_it(tmp_path: Path) -> None:
    wrong = {"id": "b", "input": "q", "output": "x", "score": {"pass": False, "score": 0.0}}
    write(tmp_path / "graded.jsonl", CRASHED_GRADED, wrong)
    run("ae-calibrate", "graded.jsonl", "-f", "json", "-o", "report.json", cwd=tmp_path).expect(0)
    report = json.loads((tmp_path / "report.json").read_text())
    assert [item["id"] for item in report["items"]] == ["b"]
    assert (report["records"]["failed"], report["records"]["errors"]) == (1, 1)


def test_keep_workspaces_failed_keeps_its_workspace(tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", *PROMPTS)
    options = ["--workspace-dir", "ws", "--keep-workspaces", "failed", "-g", "ae-grader-hint", "-o", "out.jsonl"]
    run("ae-capture", "prompts.jsonl", "--shell", AGENT, *options, cwd=tmp_path).expect(0)
    assert [path.name for path in (tmp_path / "ws").iterdir() if path.name.startswith("prompt-")] == ["prompt-crash"]
    assert len(read(tmp_path / "out.jsonl")) == 2
