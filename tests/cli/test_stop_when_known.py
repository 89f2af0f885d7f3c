"""--stop-when-known as a user sees it: agents that are not started any more, the end line, --resume, wrong options."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.tool import Record, read, run, write

COUNT = 80
RIGHT, WRONG = 'echo "$PROMPT"', "echo no"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "prompts.jsonl", *({"id": f"p{n}", "input": f"q{n}", "hint": f"q{n}"} for n in range(COUNT)))
    write(tmp_path / "baseline.jsonl", *(result(f"p{n}") for n in range(COUNT)))
    return tmp_path


def result(id: str) -> Record:
    return {"id": id, "input": id.replace("p", "q"), "output": "x", "score": {"pass": True, "score": 1}}


def args(agent: str, *more: str) -> list[str]:
    return ["prompts.jsonl", "--shell", agent, "-g", "ae-grader-hint", "-j", "2", "--stop-when-known", *more]


def test_a_run_that_is_worse_is_not_paid_for(folder: Path) -> None:
    done = run("ae-capture", *args(WRONG, "--against", "baseline.jsonl", "-o", "out.jsonl"), cwd=folder).expect(0)
    written = read(folder / "out.jsonl")
    assert 5 < len(written) < 25
    found = re.search(r"known after (\d+) prompts: worse than baseline.jsonl \(.*\); (\d+) of 80 prompts", done.stderr)
    assert found and int(found[1]) <= len(written) and int(found[2]) == COUNT - len(written), done.stderr
    again = run("ae-capture", *args(WRONG, "--against", "baseline.jsonl", "-o", "out.jsonl", "--resume"), cwd=folder)
    assert again.expect(0).stderr.count(f"known after {found[1]} prompts") == 1
    assert len(read(folder / "out.jsonl")) == len(written), "it was known"


def test_the_exit_code_says_that_it_is_worse_and_ae_compare_agrees(folder: Path) -> None:
    more = ("--against", "baseline.jsonl", "-o", "out.jsonl", "--fail-if-worse", "--margin", "0.1")
    run("ae-capture", *args(WRONG, *more), cwd=folder).expect(1)
    written = read(folder / "out.jsonl")
    assert all(one["metadata"]["stopWhenKnown"] == {"against": "baseline.jsonl", "margin": 0.1} for one in written)
    compared = ("baseline.jsonl", "out.jsonl", "--ignore-input")
    done = run("ae-compare", *compared, "--fail-if-worse", cwd=folder).expect(1)
    assert "stopped early: the direction is known, but the size is overstated" in done.stderr
    assert "out is worse than baseline: pass rate 100.0% → 0.0%" in done.stderr and "only" not in done.stderr


def test_it_stops_once_it_is_known_to_be_hardly_worse(folder: Path) -> None:
    more = ("--against", "baseline.jsonl", "--margin", "0.15", "-o", "out.jsonl", "--fail-if-worse")
    done = run("ae-capture", *args(RIGHT, *more), cwd=folder).expect(0)
    assert re.search(r"known after \d+ prompts: at most 15 points worse than baseline.jsonl", done.stderr), done
    assert len(read(folder / "out.jsonl")) < COUNT - 10
    compared = ("baseline.jsonl", "out.jsonl", "--ignore-input", "--margin", "0.15", "--require-proof")
    run("ae-compare", *compared, cwd=folder).expect(0)


def test_a_run_that_does_not_differ_is_run_to_its_end(folder: Path) -> None:
    done = run("ae-capture", *args(RIGHT, "--against", "baseline.jsonl"), cwd=folder).expect(0)
    assert {record["id"] for record in done.records} == {f"p{n}" for n in range(COUNT)}
    assert "cannot tell whether it is better than or worse than baseline.jsonl" in done.stderr


def test_trials_against_a_threshold(folder: Path) -> None:
    done = run("ae-trials", *args(RIGHT, "-k", "2", "--threshold", "0.5"), cwd=folder).expect(0)
    assert len(done.records) < 20 and all(len(record["trials"]) == 2 for record in done.records)
    assert re.search(r"known after \d+ prompts: above 0.5 \(on \d+ prompts it passes 100.0%\)", done.stderr), done
    run("ae-trials", *args(WRONG, "-k", "2", "--threshold", "0.5", "--fail-if-worse"), cwd=folder).expect(1)


def test_interrupted_and_resumed_it_decides_the_same(folder: Path) -> None:
    first = run("ae-capture", *args(WRONG, "--threshold", "0.5", "-o", "whole.jsonl"), cwd=folder).expect(0)
    part = read(folder / "whole.jsonl")[:3]
    write(folder / "part.jsonl", *part)
    second = run("ae-capture", *args(WRONG, "--threshold", "0.5", "-o", "part.jsonl", "--resume"), cwd=folder).expect(0)
    known = [re.search(r"known after \d+ prompts", done.stderr) for done in (first, second)]
    assert known[0] and known[1] and known[0][0] == known[1][0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--stop-when-known", "-g", "ae-grader-hint"], "either --against FILE or --threshold RATE"),
        (["--stop-when-known", "--threshold", "0.5"], "needs a grader"),
        (["--threshold", "0.5", "-g", "ae-grader-hint"], "--threshold needs --stop-when-known"),
        (["--against", "baseline.jsonl"], "--against needs --stop-when-known"),
        (["--fail-if-worse"], "--fail-if-worse needs --stop-when-known"),
        (["--stop-when-known", "--threshold", "0.5", "--margin", "0.1", "-g", "ae-grader-hint"], "--against FILE"),
        (["--stop-when-known", "--against", "-", "-g", "ae-grader-hint"], "needs a file"),
        (["--stop-when-known", "--against", "other.jsonl", "-g", "ae-grader-hint"], "no graded record for any"),
        (["--stop-when-known", "--threshold", "0.5", "-g", "ae-grader-hint", "--shard", "1/2"], "leave out --shard"),
    ],
)
def test_what_is_refused_starts_no_agent(options: list[str], message: str, folder: Path) -> None:
    write(folder / "other.jsonl", result("elsewhere"))
    done = run("ae-capture", "prompts.jsonl", "--shell", "touch started", *options, cwd=folder).expect(2)
    assert message in done.stderr and not (folder / "started").exists()
    assert json.dumps(done.stdout) == '""'
