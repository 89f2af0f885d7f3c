"""examples/skill and examples/playoffs: written by `ae init`, then run, stopped and changed as users do it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.tool import Done, kill_all, read, run, start
from tests.support.watching import until


def init(folder: Path, example: str, prompts: slice) -> Path:
    """Writes an example into a folder whose name has a space, with some of its prompts."""
    copy = folder / "my evaluation"
    run("ae", "init", copy, "--from", example, cwd=folder).expect(0, stderr="")
    lines = (copy / "prompts.jsonl").read_text().splitlines(keepends=True)
    (copy / "prompts.jsonl").write_text("".join(lines[prompts]))
    return copy


def make(copy: Path, *arguments: str, env: dict[str, str] | None = None) -> Done:
    return run("/usr/bin/env", "make", *arguments, cwd=copy, env=env, timeout=120)


# --- skill --------------------------------------------------------------------------------------


def test_does_the_skill_help(tmp_path: Path) -> None:
    copy = init(tmp_path, "skill", slice(None))
    done = make(copy, "show", "K=1").expect(0)
    assert done.page() == copy / "build" / "scripted" / "report.html"
    assert "BETTER  with is better than without." in done.stdout and "BETTER  with" in (copy / "README.md").read_text()
    assert re.search(r"^Skill loaded +precision .*\(\d/\d\), recall .*\(\d/8\)$", done.stdout, re.MULTILINE), done
    assert re.search(r"^  Cost +\$", done.stdout, re.MULTILINE)
    runs = {name: read(copy / "build" / "scripted" / f"{name}.jsonl") for name in ("without", "with")}
    assert {record["id"] for record in runs["without"] if record["passRate"]} == {
        record["id"] for record in runs["without"] if not record["metadata"]["shouldTrigger"]
    }
    for record in runs["with"]:
        (trial,) = record["trials"]
        loaded = [step["input"] for step in trial["trajectory"] if step["type"] == "tool_call"]
        assert loaded in ([], [{"skill": "release-notes"}])
        assert trial["scores"]["skill"]["outcome"]["skillTriggered"] == bool(loaded)
    assert runs["with"][0]["metadata"]["variant"] == {"skills": ["release-notes"]}
    readme = (copy / "README.md").read_text()
    assert all(f"`{name}`" in readme for name in ("skills/release-notes/", "prompts.jsonl", "scripted", "Makefile"))


def test_a_changed_skill_is_run_again_and_the_results_before_it_are_kept(tmp_path: Path) -> None:
    copy = init(tmp_path, "skill", slice(1))
    make(copy, "show", "K=1").expect(0)
    skill = copy / "skills" / "release-notes" / "SKILL.md"
    skill.write_text(skill.read_text().replace("- KIND: WHAT", "* KIND, WHAT"))
    changed = make(copy, "show", "K=1").expect(0)
    assert changed.stderr.count("1 kept, nothing to do") == 1, "only the run with the skill is repeated"
    before, now = (read(copy / "build" / "scripted" / f"{name}.jsonl")[0] for name in ("before", "with"))
    assert before["trials"][0]["output"].startswith("- Fixed: "), "the agent does what the skill says"
    assert now["trials"][0]["output"].startswith("* Fixed, ")


# --- playoffs -----------------------------------------------------------------------------------

CELLS = {f"{agent}/{tool}" for agent in ("curious", "hasty") for tool in ("builtin", "archive")}


def cells(copy: Path) -> dict[str, list[dict[str, object]]]:
    found = (copy / "results").glob("*/*.jsonl")
    return {f"{path.parent.name}/{path.stem}": read(path) for path in found}


def test_every_cell_is_run_and_ranked(tmp_path: Path) -> None:
    copy = init(tmp_path, "playoffs", slice(5, 7))
    assert len((copy / "Makefile").read_text().splitlines()) <= 40
    done = make(copy, "-j2", "K=1").expect(0)
    assert done.page() == copy / "results" / "report.html"
    runs = cells(copy)
    assert set(runs) == CELLS and all(name in done.stdout for name in CELLS)
    tools = {
        (name, record["id"]): [step.get("name") for step in record["trials"][0]["trajectory"]][:-1]  # type: ignore[index]
        for name, records in runs.items()
        for record in records
    }
    asked = ["mcp__archive__search"]
    assert (
        tools["curious/archive", "tram"] == tools["curious/archive", "mill"] == tools["hasty/archive", "mill"] == asked
    )
    assert tools["hasty/archive", "tram"] == tools["curious/builtin", "mill"] == []
    readme = (copy / "README.md").read_text()
    files = [str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file() and "results" not in path.parts]
    assert [name for name in files if f"`{name}`" not in readme] == ["README.md"]


def test_four_agents_two_tools_and_five_trials_are_one_command(tmp_path: Path) -> None:
    """What make would start for youdotcom-oss/web-search-agent-evals; each command is accepted with --dry-run."""
    copy = init(tmp_path, "playoffs", slice(1))
    matrix = ("AGENTS=claude codex gemini opencode", "TOOLS=builtin you", "K=5")
    listed = make(copy, "-n", *matrix).expect(0).stdout.replace("\\\n", "")
    commands = [line for line in listed.splitlines() if "ae-trials" in line]
    assert len(commands) == 8
    env = {"YDC_API_KEY": "ydc-secret-0123456789", "HOME": str(tmp_path)}
    for command in commands:
        shown = run("/bin/sh", "-c", f"{command} --dry-run", cwd=copy, env=env).expect(0)
        assert len(shown.records) == 5 and "ydc-secret" not in shown.stdout + shown.stderr
        variant = shown.records[0].get("variant")
        assert variant == ({"mcpServers": ["ydc-server"]} if "tools/you.json" in command else None), json.dumps(variant)
    unset = run("/bin/sh", "-c", f"{commands[1]} --dry-run", cwd=copy).expect(2)
    assert "${YDC_API_KEY} is not set" in unset.stderr
    models = make(copy, "-n", "AGENTS=claude", "TOOLS=builtin", "MODELS=opus anthropic/haiku").expect(0).stdout
    assert "--model opus " in models and "-o results/claude/builtin-anthropic_haiku.jsonl" in models
    typo = make(copy, "AGENTS=hasty", "TOOLS=yuo")
    assert typo.code != 0 and "--mcp tools/yuo.json: No such file" in typo.stderr


# --- Ctrl-C -------------------------------------------------------------------------------------

RUNS = {  # of an example: its agent, what each run of it writes, and what to type
    "playoffs": (
        "agents/scripted",
        ("results/curious/builtin", "results/curious/archive"),
        ("AGENTS=curious", "TOOLS=builtin archive"),
    ),
    "skill": ("scripted", ("build/scripted/without", "build/scripted/with"), ("show",)),
}


@pytest.mark.parametrize(("example", "last"), [("playoffs", "tools"), ("playoffs", "make"), ("skill", "make")])
def test_ctrl_c_and_again(example: str, last: str, tmp_path: Path) -> None:
    """The second question waits for a file; what was answered before Ctrl-C is not asked again.

    make removes on Ctrl-C what it has not finished. A tool that still writes puts that back: make must not come last.
    """
    copy = init(tmp_path, example, slice(3))
    first, second, third = (record["id"] for record in read(copy / "prompts.jsonl"))
    program, runs, words = RUNS[example]
    agent, folders = copy / program, [copy / run for run in runs]
    waits = "import os, time\nopen('../asked', 'a').write('x')\n"
    waits += f"while {second!r} in os.getcwd() and not os.path.exists('../go'): time.sleep(0.05)\n"
    agent.write_text(agent.read_text().replace("\nmain()\n", f"\n{waits}main()\n"))
    command = ("-j2", *words, "K=1", "JOBS=1")

    def asked() -> list[str]:
        return [path.read_text() if (path := folder / "asked").exists() else "" for folder in folders]

    process = start("/usr/bin/env", "make", *command, cwd=copy)
    try:
        until(lambda: asked() == ["xx", "xx"] or process.poll() is not None, "both ask the second question", within=60)
        assert process.poll() is None
        if last == "make":
            process.send_signal(signal.SIGSTOP)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        if last == "make":
            until(lambda: all(is_free(folder.with_suffix(".jsonl")) for folder in folders), "the tools have ended")
            process.send_signal(signal.SIGCONT)
        process.communicate(timeout=60)
    finally:
        kill_all(process)
    assert process.returncode != 0
    for folder in folders:
        (folder / "go").touch()
    make(copy, *command).expect(0).page()
    for folder in folders:
        assert [record["id"] for record in read(folder.with_suffix(".jsonl"))] == [first, second, third]
    assert asked() == ["x" * 4] * 2, "once each, and the second again"


def is_free(output: Path) -> bool:
    """Returns whether no tool writes to the file any more."""
    with output.open("rb") as file, suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
