"""The recipes quickstart, regression and qa, copied out of the checkout and changed as users change them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.tool import ROOT, Done, run, script, write

Make = Callable[..., Done]
PROMPT = {"id": "one", "input": "Say blue.", "hint": "blue", "reference": "It is blue."}
LOGGED = "agent.log"  # a line for every start of the agent


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], tuple[Path, Make]]:
    """Copies an example; returns the copy, and make in it. Its agent is one that answers "blue" and logs its starts."""

    def copied(example: str) -> tuple[Path, Make]:
        folder = tmp_path / "my evaluation"
        shutil.copytree(ROOT / "examples" / example, folder, ignore=shutil.ignore_patterns("build", "__pycache__"))
        write(folder / "prompts.jsonl", PROMPT)
        script(folder / "mine", f'echo "$1" >> "{folder}/{LOGGED}"; echo The sea is blue')
        return folder, lambda *arguments: run("/usr/bin/env", "make", *arguments, cwd=folder, timeout=60)

    return copied


def starts(folder: Path) -> int:
    return len((folder / LOGGED).read_text().splitlines())


# --- quickstart ---------------------------------------------------------------------------------


def test_quickstart_with_own_agent_one_run_and_another_grader(copy: Callable[[str], tuple[Path, Make]]) -> None:
    """What its README says to type; only what depends on a change is made again."""
    folder, make = copy("quickstart")
    for ours in ("agent", "facts.json", "careful.json", "hasty.json"):
        (folder / ours).unlink()
    own = ("show", "RUNS=mine", "AGENT=--simple './mine {}'")
    done = make(*own, "GRADERS=hint=ae-grader-hint").expect(0)
    assert "1 passed" in done.stdout and " against " not in done.stdout and starts(folder) == 1, done
    assert "ae-" not in make(*own, "GRADERS=hint=ae-grader-hint").expect(0).stdout, "nothing is made a second time"
    (folder / "graders" / "mine.py").write_text("def grade(record):\n    return {'pass': False, 'score': 0.0}\n")
    table = ("build/mine.csv", "RUNS=mine", "GRADERS=graders/mine.py")
    make(*table, "AGENT=--simple './mine {}'").expect(0)
    assert ",false," in (folder / "build" / "mine.csv").read_text() and starts(folder) == 1, "another grader, no agent"
    other = make(*table, "AGENT=--simple './mine {} more'").expect(0)
    assert "ae-run" in other.stdout and starts(folder) == 2, "another agent"


def test_quickstart_with_an_adapter_of_the_suite(copy: Callable[[str], tuple[Path, Make]]) -> None:
    """Two runs: a schema of the folder, and one of the suite by its name; then one of them alone."""
    folder, make = copy("quickstart")
    (folder / "bin").mkdir()
    script(folder / "bin" / "claude", 'echo \'{"type":"result","result":"It is blue.","is_error":false}\'')
    path = f"PATH={folder}/bin:{ROOT}/bin:/usr/bin:/bin"
    both = make("show", "RUNS=careful claude", "GRADERS=ae-grader-hint", path).expect(0)
    assert "CANNOT TELL  claude from careful" in both.stdout, both
    alone = make("show", "RUNS=claude", "GRADERS=ae-grader-hint", path).expect(0)
    assert both.page().name == "comparison.html" and alone.page().name == "claude.html"
    assert "1 passed" in alone.stdout and " against " not in alone.stdout, alone


def test_quickstart_checks_the_references(copy: Callable[[str], tuple[Path, Make]]) -> None:
    folder, make = copy("quickstart")
    make("check", "GRADERS=ae-grader-hint").expect(0)
    write(folder / "prompts.jsonl", {**PROMPT, "reference": "red"})
    wrong = make("check", "GRADERS=ae-grader-hint")
    assert wrong.code != 0 and "one" in wrong.stderr, wrong


# --- regression ---------------------------------------------------------------------------------


def test_regression_baseline_is_what_was_checked(copy: Callable[[str], tuple[Path, Make]]) -> None:
    """`make baseline` stores the results that a person has looked at, and starts no agent."""
    folder, make = copy("regression")
    own = ("AGENT=--simple './mine {}'", "GRADER=ae-grader-hint", "K=1")
    nothing = make("baseline", *own)
    assert nothing.code != 0 and "make check first" in nothing.stderr, nothing
    others = make("check", *own)
    assert others.code != 0 and "has other prompts" in others.stderr and "not shown" not in others.stdout, others
    assert starts(folder) == 2

    reviewed = {name: (folder / "build" / name).read_bytes() for name in ("results.jsonl", "trials.jsonl")}
    make("baseline", *own).expect(0, stderr="")
    assert {name: (folder / "baseline" / name).read_bytes() for name in reviewed} == reviewed
    assert starts(folder) == 2, "no agent was started"
    few = make("check", *own)
    assert few.code != 0 and "5 are needed" in few.stderr, few  # one prompt cannot show anything

    shutil.rmtree(folder / "baseline")
    missing = make("check", *own)
    assert missing.code != 0 and "no baseline yet" in missing.stderr, missing


# --- qa -----------------------------------------------------------------------------------------


def test_qa_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "qa"
    shutil.copytree(ROOT / "examples" / "qa", folder, ignore=shutil.ignore_patterns("build"))
    done = run("/usr/bin/env", "make", "show", "check", cwd=folder, timeout=60).expect(0)
    assert re.fullmatch(r"ae-capture: 1 of 6 agents failed: .*\n", done.stderr), done
    (shown,) = re.findall(r"^```text\n(.*?)^```", (folder / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert shown in done.stdout, done
    readme = (folder / "README.md").read_text()
    assert all(f"`{path.name}`" in readme for path in folder.iterdir() if path.name not in ("README.md", "build"))


def test_qa_with_own_agent_and_grader(copy: Callable[[str], tuple[Path, Make]]) -> None:
    folder, make = copy("qa")
    own = ("show", "AGENT=--simple './mine {}'")
    shown = make(*own).expect(0, stderr="")
    assert "1 passed" in shown.stdout and shown.page() == folder / "build" / "report.html"
    assert "1 did not pass" in make(*own, "GRADER=ae-grader-hint --exact").expect(0).stdout
    assert starts(folder) == 1, "another grader, no agent"
    (folder / "agent").unlink()
    assert "1 passed" in make("show", "AGENT=--shell 'echo blue'", "GRADER=ae-grader-hint --exact").expect(0).stdout
