"""--dry-run of ae-run, ae-capture and ae-trials: what would be started is printed, and nothing is touched."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.tool import jsonl, on_terminal, python_script, run, script, write

PROMPTS = jsonl({"id": "a", "input": "it's one"}, {"id": "b/c", "input": ["two", "three"], "timeout": 700})
REPORT = """\
import json, os, sys
print(json.dumps({"argv": sys.argv, "env": sorted(os.environ), "cwd": os.getcwd()}))
"""


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Returns every file and directory below a folder, with its time of change and its content."""
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [folder, *folder.rglob("*")]
    }


@pytest.mark.parametrize("tool", ["ae-run", "ae-capture", "ae-trials"])
def test_nothing_is_started_and_nothing_is_touched(tmp_path: Path, tool: str) -> None:
    prompts = write(tmp_path / "prompts.jsonl", PROMPTS)
    agent = script(tmp_path / "agent", "touch started")
    grader = [] if tool == "ae-run" else ["-g", script(tmp_path / "grader", "touch graded")]
    (tmp_path / "out.jsonl").write_text('{"id": "old"}\n{"id": "cut')
    before = tree(tmp_path)
    for output in (["-o", "out.jsonl"], ["-o", "out.jsonl", "--resume"], ["-o", "new/out.jsonl", "--append"]):
        options = ["--simple", f"{agent} {{}}", "--workspace-dir", "ws", *grader, *output]
        done = run(tool, prompts, *options, "--dry-run", cwd=tmp_path).expect(0)
        assert {record["id"] for record in done.records} == {"a", "b/c"}, done
        assert tree(tmp_path) == before, output


@pytest.mark.parametrize("options", [[], ["--clean-env", "--env", "EXTRA=1"], ["--workspace-dir", "ws"]])
def test_it_is_exactly_what_is_started(tmp_path: Path, options: list[str]) -> None:
    agent = python_script(tmp_path / "agent", REPORT)
    write(tmp_path / "prompts.jsonl", jsonl({"id": "odd id", "input": "it's $HOME"}))
    given = ["prompts.jsonl", "--simple", f"{agent} --flag {{}}", *options]
    env = {"GIT_DIR": "/nowhere", "SOME_TOKEN": "s3cret-s3cret"}
    planned = run("ae-run", *given, "--dry-run", cwd=tmp_path, env=env).expect(0).records[0]
    seen = json.loads(run("ae-run", *given, cwd=tmp_path, env=env).expect(0).records[0]["rawLines"][0])
    assert planned["command"][1:] == seen["argv"][1:] == ["--flag", "it's $HOME"]
    assert (planned["program"], planned["cwd"]) == (str(agent), seen["cwd"])
    assert set(planned["env"]) == set(seen["env"]) - {"LC_CTYPE"}  # which Python sets for itself
    assert "s3cret" not in json.dumps(planned)


def test_turns_stdin_and_time_limit(tmp_path: Path) -> None:
    schema = {"version": 1, "name": "mine", "command": ["cat"], "sessionMode": "iterative"}
    schema |= {"prompt": {"stdin": True}, "outputEvents": []}
    write(tmp_path / "mine.json", json.dumps(schema))
    done = run("ae-run", "-s", "mine.json", "--dry-run", "-t", "5s", stdin=PROMPTS, cwd=tmp_path).expect(0)
    first, second = done.records
    assert (first["stdin"], first["turns"], first["timeout"]) == (len("it's one\n"), 1, 5000)
    assert (second["stdin"], second["turns"], second["timeout"]) == (len("two\n"), 2, 700)
    closed = run("ae-run", "--shell", "true", "--dry-run", stdin=PROMPTS).expect(0).records[0]
    assert closed["command"] == ["sh", "-c", "true"] and closed["stdin"] is False and "PROMPT" in closed["env"]
    spoken = run("ae-run", "--dry-run", "--", "cat", "-u", stdin=PROMPTS).expect(0).records[0]
    assert spoken["command"] == ["cat", "-u"] and spoken["stdin"] is True


def test_every_trial_is_listed_with_its_directory(tmp_path: Path) -> None:
    done = run(
        "ae-trials", "-k", 2, "--shell", "true", "--workspace-dir", "ws", "--dry-run", stdin=PROMPTS, cwd=tmp_path
    )
    found = [(record["id"], record["trial"], os.path.basename(record["cwd"])) for record in done.expect(0).records]
    assert found[:2] == [("a", 1, "prompt-a-trial-1"), ("a", 2, "prompt-a-trial-2")] and len(found) == 4


def test_what_is_done_is_not_listed(tmp_path: Path) -> None:
    shell = ["--shell", "echo hi", "-o", "out.jsonl"]
    run("ae-run", *shell, stdin=PROMPTS.splitlines()[0], cwd=tmp_path).expect(0)
    assert run("ae-run", *shell, "--resume", "--dry-run", stdin=PROMPTS, cwd=tmp_path).expect(0).ids == ["b/c"]


def test_a_prompt_that_is_refused_is_reported(tmp_path: Path) -> None:
    done = run("ae-run", "--shell", "true", "--dry-run", stdin=PROMPTS + "{}\n").expect(1)
    assert done.ids == ["a", "b/c"] and "stdin:3" in done.says()


def test_on_a_terminal_the_command_is_as_one_would_type_it(tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", PROMPTS)
    shown = on_terminal("ae-run", "prompts.jsonl", "--simple", "echo -n {}", "--dry-run", cwd=tmp_path).stdout
    assert """  echo -n 'it'"'"'s one'""" in shown and f"  cd {tmp_path}" in shown, shown
    assert "b/c, the first of 2 turns, 700 ms a turn" in shown, shown


@pytest.mark.parametrize("agent", [["-s", "claude"], ["--simple", "claude -p {}"], ["--", "claude", "--acp"]])
def test_an_agent_that_is_not_installed(tmp_path: Path, agent: list[str]) -> None:
    env = {"PATH": str(tmp_path)}
    done = run("ae-run", "--dry-run", *agent, stdin=PROMPTS, cwd=tmp_path, env=env).expect(0)
    assert [start["program"] for start in done.records] == ["claude", "claude"]
    assert [start["command"][0] for start in done.records] == ["claude", "claude"]
    assert done.stderr == "ae-run: claude: command not found; is it installed and on PATH?\n"
    run("ae-run", *agent, stdin=PROMPTS, cwd=tmp_path, env=env).expect(2)
