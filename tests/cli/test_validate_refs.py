"""ae-validate-refs: do reference answers pass their grader."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool import Done, Record, jsonl, read, run, script, write
from tests.support.watching import Running, until

ECHO = "def grade(record):\n    return {'pass': True, 'score': 1.0, 'outcome': {'seen': record}}\n"


def validate(*records: object, grader: str = "ae-grader-hint", cwd: Path, more: tuple[str, ...] = ()) -> Done:
    return run("ae-validate-refs", "-g", grader, *more, stdin=jsonl(*records), cwd=cwd)


def prompt(name: str, reference: str | None = "Paris", **fields: Any) -> Record:
    return {"id": name, "input": f"question {name}", "reference": reference, "hint": "Paris", **fields}


def test_the_seeds_record_first_then_the_prompts_other_fields(tmp_path: Path) -> None:
    given = {
        "tags": ["mine"],
        "hint": "<button>",
        "input": ["Create a button", "Now blue"],
        "metadata": {"category": "ui"},
        "reference": "<button>Click</button>",
        "id": "test-001",
        "output": "the prompt's own",
        "timeout": 5,
    }
    done = validate(given, cwd=tmp_path).expect(0, stderr="")
    (record,) = done.records
    assert list(record) == [
        *("id", "input", "reference", "pass", "score", "reasoning"),
        *("tags", "hint", "metadata", "output", "timeout"),
    ]
    assert (record["pass"], record["score"]) == (True, 1.0)
    assert {field: record[field] for field in given} == given


def test_the_grader_sees_an_agent_that_answered_with_the_reference(tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(ECHO)
    own: Record = {
        "score": {"pass": False, "score": 0},
        "scores": {"x": {"pass": False, "score": 0}},
        "graderError": True,
    }
    with_metadata = prompt("a", metadata={"k": 1}, tags=["t"], output="another", **own)
    first, second = validate(with_metadata, prompt("b", "Rome"), grader="echo.py", cwd=tmp_path).expect(0).records
    expected = {"id": "a", "input": "question a", "output": "Paris", "hint": "Paris", "trajectory": []}
    assert first["outcome"]["seen"] == {
        **expected,
        "metadata": {"k": 1},
        "toolErrors": False,
        "reference": "Paris",
        "tags": ["t"],
    }
    assert second["outcome"]["seen"]["metadata"] == {} and second["outcome"]["seen"]["output"] == "Rome"
    assert "graderError" not in first and "scores" not in first, "an earlier verdict is not this one's"


def test_a_reference_that_fails_is_exit_1_and_named(tmp_path: Path) -> None:
    done = validate(prompt("good"), prompt("bad", "Rome"), prompt("empty", ""), cwd=tmp_path).expect(1)
    assert [(record["id"], record["pass"]) for record in done.records] == [
        ("good", True),
        ("bad", False),
        ("empty", False),
    ]
    done.says("1 of 3 references passed, 2 did not pass (bad, empty)")


def test_only_a_few_of_many_failing_ids_are_named(tmp_path: Path) -> None:
    prompts = [prompt(f"p{number}" + "x" * 100, "Rome") for number in range(12)]
    message = (
        validate(*prompts, cwd=tmp_path).expect(1).says("0 of 12 references passed, 12 did not pass (p0xx", "7 more")
    )
    assert len(message) < 350


def test_prompts_without_a_reference_are_counted(tmp_path: Path) -> None:
    without = {"id": "none", "input": "x"}
    given = [prompt("a"), without, prompt("null", None), prompt("b")]
    for path, stdin in ((write(tmp_path / "prompts.jsonl", *given), None), ("-", jsonl(*given))):
        done = run("ae-validate-refs", path, "-g", "ae-grader-hint", stdin=stdin, cwd=tmp_path).expect(0)
        assert done.ids == ["a", "b"], done
        done.says("2 prompts have no reference, and were not validated")


def test_prompts_of_which_none_has_a_reference_are_not_valid(tmp_path: Path) -> None:
    """Nothing was checked: that must not look like a check that passed."""
    prompts = write(tmp_path / "prompts.jsonl", {"id": "a", "input": "x"}, {"id": "b", "input": "x", "Reference": "y"})
    for path, stdin in ((prompts, None), ("-", prompts.read_text())):
        done = run("ae-validate-refs", path, "-g", "ae-grader-hint", stdin=stdin, cwd=tmp_path).expect(1)
        done.says('no prompt has a "reference"', "nothing was validated")
        assert done.stdout == ""


def test_references_without_a_hint_are_not_valid(tmp_path: Path) -> None:
    prompts = [
        {"id": "a", "input": "x", "reference": "y", "expected": "y"},
        {"id": "b", "input": "x", "reference": "y"},
    ]
    done = run("ae-validate-refs", "-g", "ae-grader-hint", stdin=jsonl(*prompts), cwd=tmp_path).expect(1)
    assert 'it has "expected": rename that to "hint"' in done.records[0]["graderError"]
    assert "0 of 2 references passed, 2 could not be graded" in done.stderr


def test_a_grader_that_breaks_costs_its_record_and_exit_1(tmp_path: Path) -> None:
    script(
        tmp_path / "grader",
        'read -r r; case $r in *\'"id":"b"\'*) exit 3;; esac; echo \'{"pass": true, "score": 1}\'',
    )
    done = validate(prompt("a"), prompt("b"), prompt("c"), grader="./grader", cwd=tmp_path).expect(1)
    assert done.ids == ["a", "b", "c"]
    broken = done.records[1]
    assert broken["graderError"] == "exited with code 3"
    assert "pass" not in broken and "score" not in broken
    assert "b: grader grader: exited with code 3" in done.messages[0]
    assert done.messages[1] == "ae-validate-refs: 2 of 3 references passed, 1 could not be graded"
    strict = validate(prompt("a"), prompt("b"), prompt("c"), grader="./grader", cwd=tmp_path, more=("--strict",))
    assert strict.expect(1).ids == ["a", "b"]


def test_several_graders_must_all_pass(tmp_path: Path) -> None:
    more = ("-g", "exact=ae-grader-hint --exact")
    done = validate(prompt("a"), prompt("b", "It is Paris."), cwd=tmp_path, more=more).expect(1)
    assert [record["pass"] for record in done.records] == [True, False]
    assert {name: score["pass"] for name, score in done.records[1]["scores"].items()} == {"hint": True, "exact": False}


def test_bad_lines_and_duplicates_cost_only_themselves(tmp_path: Path) -> None:
    write(
        tmp_path / "p.jsonl", prompt("a"), "{bad", prompt("a"), {"id": "x", "input": "i", "reference": 7}, prompt("b")
    )
    done = run("ae-validate-refs", "p.jsonl", "-g", "ae-grader-hint", cwd=tmp_path).expect(1)
    assert done.ids == ["a", "b"]
    assert [line.split(": ")[1] for line in done.messages] == ["p.jsonl:2", "p.jsonl:3", "p.jsonl:4"]
    assert 'duplicate id "a"' in done.messages[1] and '"reference" must be a string' in done.messages[2]


def test_many_at_a_time_keep_their_order(tmp_path: Path) -> None:
    script(tmp_path / "grader", 'read -r r; sleep 0.0$(($$ % 9)); echo \'{"pass": true, "score": 1}\'')
    prompts = write(tmp_path / "p.jsonl", *(prompt(f"p{number}", tail=number) for number in range(40)))
    done = run("ae-validate-refs", prompts, "-g", "./grader", "-j", 8, cwd=tmp_path).expect(0, stderr="")
    assert [(record["id"], record["tail"]) for record in done.records] == [(f"p{n}", n) for n in range(40)]


def test_progress_counts_references(tmp_path: Path) -> None:
    prompts = write(tmp_path / "p.jsonl", prompt("a"), {"id": "none", "input": "x"}, prompt("b", "Rome"))
    done = run("ae-validate-refs", prompts, "-g", "ae-grader-hint", "--progress", cwd=tmp_path).expect(1)
    assert done.messages[:2] == ["ae-validate-refs: [1/2] a", "ae-validate-refs: [2/2] b: did not pass"]


def test_ctrl_c_keeps_what_is_done_and_promises_no_resume(tmp_path: Path) -> None:
    script(
        tmp_path / "grader",
        'read -r r; case $r in *\'"id":"b"\'*) sleep 60;; esac; echo \'{"pass": true, "score": 1}\'',
    )
    prompts = write(tmp_path / "p.jsonl", prompt("a"), prompt("b"))
    out = tmp_path / "out.jsonl"
    with Running("ae-validate-refs", prompts, "-g", "./grader", "-o", out, cwd=tmp_path) as tool:
        until(lambda: out.exists() and out.stat().st_size > 0, "the first record")
        tool.signal(signal.SIGINT)
        done = tool.end().expect(130)
    assert done.says("stopped by SIGINT after 1 reference\n") and "--resume" not in done.stderr
    assert [record["id"] for record in read(out)] == ["a"]


@pytest.mark.parametrize("args", [[], ["-g", "no-such-grader"], ["-g", ""]])
def test_no_grader_is_a_usage_error(args: list[str], tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("kept\n")
    done = run("ae-validate-refs", *args, "-o", "out.jsonl", stdin=jsonl(prompt("a")), cwd=tmp_path).expect(2)
    assert done.says() and (tmp_path / "out.jsonl").read_text() == "kept\n"


def test_the_seeds_way_to_find_failures(tmp_path: Path) -> None:
    """`jq 'select(.pass == false)'` on the records."""
    records = validate(prompt("a"), prompt("b", "Rome"), cwd=tmp_path).records
    assert [record["id"] for record in records if record["pass"] is False] == ["b"]
    assert json.dumps(records[1]["input"]) == '"question b"'
