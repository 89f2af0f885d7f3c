"""examples/coding, copied out of the checkout and run as a user runs it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.support.tool import ROOT, Done, Record, read, run

EXAMPLE = ROOT / "examples" / "coding"
PASSED = {"careful": ["median", "slug", "roman", "seconds"], "hasty": ["median"]}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path / "copy", ignore=shutil.ignore_patterns("build", "__pycache__"))
    return tmp_path / "copy"


@pytest.fixture
def small(copy: Path) -> Path:
    """A copy with the first two tasks."""
    tasks = (copy / "prompts.jsonl").read_text().splitlines(keepends=True)
    (copy / "prompts.jsonl").write_text("".join(tasks[:2]))
    return copy


def make(copy: Path, *arguments: str) -> Done:
    return run("/usr/bin/env", "make", *arguments, cwd=copy, timeout=120)


def without_times(text: str) -> str:
    return re.sub(r" +[\d.]+ m?s\b", " TIME", text)


def test_the_evaluation_is_what_its_readme_shows(copy: Path) -> None:
    done = make(copy, "show").expect(0)
    assert done.page() == copy / "build" / "comparison.html"
    failed, verdict = done.messages
    assert failed.startswith("ae-capture: 1 of 5 agents failed: ")
    assert verdict.startswith("ae-compare: cannot tell hasty from careful")
    for variant, ids in PASSED.items():
        graded = read(copy / "build" / f"{variant}.graded.jsonl")
        assert [record["id"] for record in graded if record["score"]["pass"]] == ids
    assert "careful" in (copy / "build" / "comparison.md").read_text()
    check_what_the_agents_did(read(copy / "build" / "hasty.graded.jsonl"))

    readme = (copy / "README.md").read_text()
    (table,) = re.findall(r"^```text\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    assert without_times(table) in without_times(done.stdout), done
    (diff,) = re.findall(r"^```diff\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    report = (copy / "build" / "hasty.md").read_text()
    assert diff in report and "AssertionError: 'IIII' != 'IV'" in report

    for rest in ("agent", "changes", "hidden/", "prompts.jsonl", "project/"):
        assert f"`{rest}`" in readme, "every file is explained"
    assert "ae-" not in make(copy, "show").expect(0).stdout, "nothing is run a second time"


def check_what_the_agents_did(hasty: list[Record]) -> None:
    roman = next(record for record in hasty if record["id"] == "roman")
    assert [step.get("name") for step in roman["trajectory"]] == [None, "Bash", "Edit", None]
    assert "FAILED (failures=1)" in roman["trajectory"][1]["output"], "the agent has really run the tests"
    assert roman["outcome"]["filesChanged"] == ["test_kit.py"]
    assert roman["outcome"]["commandPassed"] is False, "a test that was changed does not help"
    assert "AssertionError: 'IIII' != 'IV'" in roman["outcome"]["output"], "what the tests printed is kept"
    seconds = next(record for record in hasty if record["id"] == "seconds")
    assert seconds["errors"] and not seconds["score"]["pass"]


def test_own_agent_one_run_another_grader(small: Path) -> None:
    """The three changes that its README names; only what depends on a change is made again."""
    agent = "--shell 'echo \"# $$PROMPT\" >> kit.py; echo no idea'"
    done = make(small, "show", "RUNS=mine", f"AGENT={agent}", "GRADER=ae-grader-git").expect(0, stderr="")
    assert "2 passed" in done.stdout and "Comparison" not in done.stdout, done
    assert "+# slug in kit.py keeps punctuation." in (small / "build" / "mine.md").read_text()

    regraded = make(small, "show", "RUNS=mine", f"AGENT={agent}").expect(0)
    assert "ae-grade " in regraded.stdout and "ae-capture" not in regraded.stdout, "another grader, no agent"
    assert "2 did not pass" in regraded.stdout, regraded
    assert "ae-capture" in make(small, "RUNS=mine", "AGENT=--simple 'echo {}'").expect(0).stdout, "another agent"


def test_an_agent_cannot_show_other_files_in_the_report(small: Path) -> None:
    secret = small / "secret"
    secret.write_text("a secret of the user\n")
    make(small, "RUNS=mine", f"AGENT=--shell 'ln -s {secret} link; cat kit.py > new.py'").expect(0)
    report = (small / "build" / "mine.md").read_text()
    assert "+++ b/new.py" in report and "a secret of the user" not in report


def test_texts_that_graders_keep_are_in_the_report(small: Path) -> None:
    """Also what any other grader puts into `outcome`, whatever is in it."""
    outcome = '{"output": "line 1\\nline ```` 2", "exitCode": 1}'
    (small / "grader.py").write_text(
        f"def grade(record):\n    return {{'pass': False, 'score': 0.0, 'outcome': {outcome}}}\n"
    )
    make(small, "RUNS=careful", "GRADER=kept=grader.py").expect(0)
    assert "output:\n\n`````text\nline 1\nline ```` 2\n`````\n" in (small / "build" / "careful.md").read_text()


def test_a_task_without_held_out_tests_has_not_passed(copy: Path) -> None:
    (copy / "prompts.jsonl").write_text('{"id": "other", "input": "Do something else."}\n')
    make(copy, "RUNS=mine", "AGENT=--shell 'echo >> kit.py'").expect(0)
    (record,) = read(copy / "build" / "mine.graded.jsonl")
    assert record["outcome"]["exitCode"] == 1 and not record["score"]["pass"]
