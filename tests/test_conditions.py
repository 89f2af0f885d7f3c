"""What agents run under: workspaces that are kept or not, the environment, secrets, the rate of starts."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from tool import jsonl, run, script

PROMPTS = jsonl({"id": "good", "input": "x", "hint": "fine"}, {"id": "bad", "input": "y", "hint": "fine"})
FINE = 'touch made; if [ "$PROMPT" = x ]; then echo fine; else echo poor; exit 3; fi'


# --- workspaces ---------------------------------------------------------------------------------

KEPT = {"all": ["bad", "good"], "failed": ["bad"], "none": []}


@pytest.mark.parametrize("keep", KEPT)
@pytest.mark.parametrize("tool", ["ae-run", "ae-capture", "ae-trials"])
def test_which_workspaces_are_kept(tool: str, keep: str, tmp_path: Path) -> None:
    more = ("-k", "1") if tool == "ae-trials" else ()
    args = ("--shell", FINE, "--workspace-dir", "ws", "--keep-workspaces", keep)
    run(tool, *args, *more, stdin=PROMPTS, cwd=tmp_path).expect(0, stderr="")
    found = sorted(path.name.split("-")[1] for path in (tmp_path / "ws").iterdir())
    assert found == KEPT[keep]


def test_a_workspace_is_there_while_it_is_graded(tmp_path: Path) -> None:
    grader = script(tmp_path / "grader", 'cd "$(jq -r .cwd)" && [ -e made ] && echo \'{"pass": false, "score": 0}\'')
    args = ("--shell", "touch made", "--workspace-dir", "ws", "-g", grader)
    for keep, left in (("failed", 2), ("none", 0)):
        run("ae-capture", *args, "--keep-workspaces", keep, stdin=PROMPTS, cwd=tmp_path).expect(0, stderr="")
        assert len(list((tmp_path / "ws").iterdir())) == left


def test_a_git_repository_of_one_commit(tmp_path: Path) -> None:
    (tmp_path / "template").mkdir()
    (tmp_path / "template" / "old").write_text("old")
    (tmp_path / "template" / ".gitignore").write_text("*.log\n")
    (tmp_path / "template" / "kept.log").write_text("kept")
    args = ("--workspace-dir", "ws", "--workspace-template", "template", "--workspace-git")
    agent = ("--shell", "echo new > new; echo changed > old")
    done = run("ae-capture", *args, *agent, "-g", "ae-grader-git", stdin=PROMPTS, cwd=tmp_path).expect(0, stderr="")
    assert done.records[0]["outcome"]["filesCreated"] == ["new"], done
    log = subprocess.run(
        ["git", "log", "--oneline", "--name-only"], cwd=tmp_path / "ws" / "prompt-good", capture_output=True
    )
    assert {b"old", b".gitignore", b"kept.log"} <= set(log.stdout.split())


def test_a_cloned_template_stays_what_it_is_and_is_committed_on(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    for command in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *command], cwd=source, check=True)
    args = ("--workspace-dir", "ws", "--workspace-template", f"file://{source}", "--workspace-git", "--shell", "true")
    run("ae-run", *args, stdin=PROMPTS, cwd=tmp_path).expect(0, stderr="")
    log = subprocess.run(["git", "log", "--oneline"], cwd=tmp_path / "ws" / "prompt-good", capture_output=True)
    assert len(log.stdout.splitlines()) == 2


def test_a_repository_around_the_workspaces_is_told(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "own", tmp_path / "plain"):
        folder.mkdir(exist_ok=True)
        if folder.name != "plain":
            subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    template = "--workspace-template"
    for args, told in (
        ((), True),
        ((template, "plain"), True),
        ((template, "own"), False),
        (("--workspace-git",), False),
    ):
        done = run("ae-run", "--shell", "true", "--workspace-dir", "a/ws", *args, stdin=PROMPTS, cwd=tmp_path).expect(0)
        assert done.stderr.count("inside the git repository") == told, args
        assert (f"{tmp_path}," in done.stderr) == told, args


@pytest.mark.parametrize("option", [["--workspace-git"], ["--keep-workspaces", "none"]])
def test_options_that_need_workspaces(option: list[str]) -> None:
    run("ae-run", "--shell", "true", *option, stdin=PROMPTS).expect(2).says(option[0], "--workspace-dir")


# --- environment and secrets --------------------------------------------------------------------


def variables(*args: str, **env: str) -> dict[str, str]:
    """What the agent sees."""
    one = jsonl({"id": "a", "input": "x"})
    done = run("ae-run", "--shell", "env -0 | tr '\\0' '\\n'", *args, stdin=one, env=env).expect(0, stderr="")
    return dict(line.split("=", 1) for line in done.records[0]["rawLines"] if "=" in line)


def test_the_environment_is_passed_on_and_added_to() -> None:
    assert variables(MINE="1")["MINE"] == "1"
    seen = variables("--env", "NEW=a=b", "--env", "MINE", MINE="1")
    assert (seen["NEW"], seen["MINE"]) == ("a=b", "1")


def test_pwd_is_where_the_agent_is(tmp_path: Path) -> None:
    agent = ("--simple", "env {}=1", "--workspace-dir", "ws")
    done = run("ae-run", *agent, stdin=jsonl({"id": "a", "input": "X"}), cwd=tmp_path).expect(0, stderr="")
    assert f"PWD={tmp_path / 'ws' / 'prompt-a'}" in done.records[0]["rawLines"]


def test_a_clean_environment() -> None:
    seen = variables("--clean-env", "--env", "MINE", "--env", "NEW=", MINE="1", OTHER="2", LC_TIME="C")
    assert (seen["MINE"], seen["NEW"], seen["LC_TIME"]) == ("1", "", "C")
    assert "OTHER" not in seen and {"PATH", "HOME", "PROMPT"} <= set(seen)


@pytest.mark.parametrize("wrong", ["NOT_SET_ANYWHERE", "=x", ""])
def test_variables_that_cannot_be(wrong: str) -> None:
    run("ae-run", "--shell", "true", "--env", wrong, stdin=PROMPTS).expect(2).says("--env")


def test_secrets_are_redacted_unless_asked_for() -> None:
    secret = {"SOME_API_KEY": 'sk-"quoted"-1234'}
    agent = ("--shell", 'echo "{\\"key\\": $(printf %s "$SOME_API_KEY" | jq -Rs .)}"; echo "$SOME_API_KEY" >&2; exit 1')
    one = jsonl({"id": "a", "input": "x"})
    for tool in ("ae-run", "ae-capture"):
        done = run(tool, *agent, "--env", "MORE_TOKEN=abcdefgh", stdin=one, env=secret).expect(0)
        assert "quoted" not in done.stdout and "[redacted:SOME_API_KEY]" in done.stdout, done
    assert (
        json.loads(run("ae-run", *agent, stdin=one, env=secret).records[0]["rawLines"][0])["key"]
        == "[redacted:SOME_API_KEY]"
    )
    assert "quoted" in run("ae-run", *agent, "--no-redact", stdin=one, env=secret).stdout


# --- rate ---------------------------------------------------------------------------------------


def test_starts_are_spread(tmp_path: Path) -> None:
    many = jsonl(*({"id": str(n), "input": "x"} for n in range(6)))
    began = time.monotonic()
    done = run("ae-run", "--shell", "date +%s%N", "-j", 6, "--rate", "5/s", stdin=many).expect(0, stderr="")
    assert time.monotonic() - began > 1.0
    moments = sorted(int(record["rawLines"][0]) / 1e9 for record in done.records)
    gaps = [later - earlier for earlier, later in zip(moments, moments[1:], strict=False)]
    assert all(gap > 0.1 for gap in gaps), gaps
    assert all(record["timing"]["total"] < 150 for record in done.records), "waiting is not part of the time it took"


@pytest.mark.parametrize("option", [["--rate", "5"], ["--rate", "x/s"], ["--retry-on", "("]])
def test_wrong_values(option: list[str]) -> None:
    run("ae-run", "--shell", "true", *option, stdin=PROMPTS).expect(2).says(option[0])


def test_an_overloaded_provider_costs_no_record(tmp_path: Path) -> None:
    """The first two starts are refused, whichever prompt they are for."""
    refuse = 'echo "429 Too Many Requests" >&2; exit 1'
    line = f'n=$(ls | grep -c try); touch try$$; if [ "$n" -ge 2 ]; then echo fine; else {refuse}; fi'
    done = run("ae-run", "--shell", line, "--retries", 4, stdin=PROMPTS, cwd=tmp_path).expect(0, stderr="")
    assert [record["rawLines"] for record in done.records] == [["fine"], ["fine"]]
    assert done.records[0]["retried"] == ["exited with code 1: 429 Too Many Requests"] * 2
