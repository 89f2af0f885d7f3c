"""What agents run under: workspaces that are kept or not, the environment, secrets, the rate of starts."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.privileges import removed, unprivileged
from tests.support.tool import BIN, clean_env, jsonl, run, script
from tests.support.watching import expect_soon

PROMPTS = jsonl({"id": "good", "input": "x", "hint": "fine"}, {"id": "bad", "input": "y", "hint": "fine"})
FINE = 'touch made; if [ "$PROMPT" = x ]; then echo fine; else echo poor; exit 3; fi'


# --- workspaces ---------------------------------------------------------------------------------

KEPT = {"all": ["bad", "good"], "failed": ["bad"], "none": []}


@pytest.mark.parametrize("keep", KEPT)
@pytest.mark.parametrize("tool", ["ae-run", "ae-capture", "ae-trials"])
def test_which_workspaces_are_kept(tool: str, keep: str, tmp_path: Path) -> None:
    more = ("-k", "1") if tool == "ae-trials" else ()
    args = ("--shell", FINE, "--workspace-dir", "ws", "--keep-workspaces", keep)
    run(tool, *args, *more, stdin=PROMPTS, cwd=tmp_path).expect(0).says("1 of 2 agents failed")
    found = sorted(path.name.split("-")[1] for path in (tmp_path / "ws").glob("prompt-*"))
    assert found == KEPT[keep]


def test_a_workspace_is_there_while_it_is_graded(tmp_path: Path) -> None:
    grader = script(tmp_path / "grader", 'cd "$(jq -r .cwd)" && [ -e made ] && echo \'{"pass": false, "score": 0}\'')
    args = ("--shell", "touch made", "--workspace-dir", "ws", "-g", grader)
    for keep, left in (("failed", 2), ("none", 0)):
        run("ae-capture", *args, "--keep-workspaces", keep, stdin=PROMPTS, cwd=tmp_path).expect(0, stderr="")
        assert len(list((tmp_path / "ws").glob("prompt-*"))) == left


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


def test_a_repository_around_the_workspaces_is_reported(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "own", tmp_path / "plain"):
        folder.mkdir(exist_ok=True)
        if folder.name != "plain":
            subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    template = "--workspace-template"
    for args, warned in (
        ((), True),
        ((template, "plain"), True),
        ((template, "own"), False),
        (("--workspace-git",), False),
    ):
        done = run("ae-run", "--shell", "true", "--workspace-dir", "a/ws", *args, stdin=PROMPTS, cwd=tmp_path).expect(0)
        assert done.stderr.count("inside the git repository") == warned, args
        assert (f"{tmp_path}," in done.stderr) == warned, args


@pytest.mark.parametrize("option", [["--workspace-git"], ["--keep-workspaces", "none"]])
def test_options_that_need_workspaces(option: list[str]) -> None:
    run("ae-run", "--shell", "true", *option, stdin=PROMPTS).expect(2).says(option[0], "--workspace-dir")


def git(where: Path, *args: str) -> str:
    """Returns what git prints, with a user's name and no other settings."""
    identity = ("-c", "user.name=n", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    command = ["git", *identity, *args]
    return subprocess.run(
        command, cwd=where, env=clean_env(where), check=True, text=True, stdout=subprocess.PIPE
    ).stdout.strip()


def repository(path: Path) -> Path:
    """Creates a repository with one commit of one file."""
    path.mkdir()
    (path / "f").write_text("one\n")
    git(path, "init", "-q", "-b", "main")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")
    return path


ONE = jsonl({"id": "a", "input": "x"})
COMMITS = "git add . && git -c user.name=agent -c user.email=a@b commit -qm 'by the agent' >/dev/null"


@pytest.mark.parametrize("hook", [True, False])
def test_the_repository_whose_hook_we_are_is_not_touched(hook: bool, tmp_path: Path) -> None:
    """Git sets GIT_INDEX_FILE and more for its hooks; users and other tools set the rest."""
    victim = repository(tmp_path / "victim")
    (victim / "staged").write_text("s")
    git(victim, "add", "staged")
    env = {"GIT_DIR": str(victim / ".git"), "GIT_INDEX_FILE": str(victim / ".git" / "index"), "GIT_PREFIX": "x/"}
    if not hook:
        wrong = {"GIT_AUTHOR_DATE": "bad", "GIT_AUTHOR_NAME": "", "GIT_QUARANTINE_PATH": "/x"}
        env |= {"GIT_WORK_TREE": str(tmp_path), "GIT_CONFIG_COUNT": "1", "GIT_TEMPLATE_DIR": "/nowhere", **wrong}
    line = f"env | grep -E '^GIT_(DIR|INDEX|PREFIX|WORK|QUA)'; unset GIT_CONFIG_COUNT; echo new > new; {COMMITS}"
    args = ("--shell", line, "--workspace-dir", "ws", "--workspace-git", "-g", "ae-grader-git", "--grade-failed")
    done = run("ae-capture", *args, stdin=ONE, cwd=tmp_path, env=env).expect(0)
    assert done.records[0]["output"] == "", "the agent inherited the repository"
    assert done.records[0]["outcome"]["filesCreated"] == ["new"], "what an agent commits counts"
    assert git(victim, "log", "--format=%s") == "first"
    assert git(victim, "status", "--short") == "A  staged"


def linked_worktree(tmp_path: Path) -> Path:
    git(repository(tmp_path / "origin"), "worktree", "add", "-q", "-b", "feature", "../template")
    return tmp_path / "template"


def submodule(tmp_path: Path) -> Path:
    above = repository(tmp_path / "above")
    git(above, "submodule", "--quiet", "add", str(repository(tmp_path / "origin")), "sub")
    git(above, "commit", "-q", "-m", "sub")
    return above / "sub"


def work_tree_setting(tmp_path: Path) -> Path:
    template = repository(tmp_path / "template")
    git(template, "config", "core.worktree", str(template))
    return template


def symbolic_link(tmp_path: Path) -> Path:
    template = tmp_path / "template"
    template.mkdir()
    (template / "f").write_text("one\n")
    (template / ".git").symlink_to(repository(tmp_path / "origin") / ".git")
    return template


@pytest.mark.parametrize("kind", [linked_worktree, submodule, work_tree_setting, symbolic_link])
def test_a_template_whose_repository_is_elsewhere_is_not_shared(kind: object, tmp_path: Path) -> None:
    assert callable(kind)
    template = kind(tmp_path)
    (template / "f").write_text("two\n")
    (template / "new").write_text("n")
    before = git(template, "log", "--all", "--format=%H %D"), git(template, "status", "--short")
    assert before[1] == "M f\n?? new"
    agent = (
        "--shell",
        f"touch mine; git log --format=%s; git remote; git status --short; {COMMITS}; git status --short",
    )
    args = (*agent, "--workspace-dir", "ws", "--workspace-template", template)
    done = run("ae-run", *args, stdin=ONE, cwd=tmp_path).expect(0, stderr="")
    assert done.records[0]["rawLines"] == ["first", " M f", "?? mine", "?? new"], done
    done = run("ae-capture", *args, "--workspace-git", "-g", "ae-grader-git", stdin=ONE, cwd=tmp_path).expect(0)
    assert done.records[0]["output"] == "As the agent found it\nfirst\n?? mine", done
    assert done.records[0]["score"]["reasoning"] == "created: mine", "only what the agent changed counts"
    assert (git(template, "log", "--all", "--format=%H %D"), git(template, "status", "--short")) == before


def test_a_worktree_inside_a_template_is_copied_without_its_link(tmp_path: Path) -> None:
    """Some agents keep worktrees below the repository; a submodule leads to a place in the copy, and stays one."""
    template = repository(tmp_path / "template")
    git(template, "worktree", "add", "-q", "-b", "feature", ".trees/feature")
    git(template, "submodule", "--quiet", "add", str(repository(tmp_path / "origin")), "sub")
    agent = ("--shell", "ls -A .trees/feature; git -C sub rev-parse --show-toplevel --git-dir")
    args = ("--workspace-dir", "ws", "--workspace-template", "template")
    done = run("ae-run", *agent, *args, stdin=ONE, cwd=tmp_path).expect(0, stderr="")
    ws = tmp_path / "ws" / "prompt-a"
    assert done.records[0]["rawLines"] == ["f", f"{ws}/sub", f"{ws}/.git/modules/sub"], done


def test_the_users_ignore_files_hide_nothing_from_the_grader(tmp_path: Path) -> None:
    (tmp_path / ".config" / "git").mkdir(parents=True)
    (tmp_path / ".config" / "git" / "ignore").write_text("*.log\n")
    (tmp_path / "hidden").write_text("*.out\n")
    (tmp_path / "init" / "info").mkdir(parents=True)
    (tmp_path / "init" / "info" / "exclude").write_text("*.tmp\n")
    settings = f"[init]\n\ttemplateDir = {tmp_path}/init\n[core]\n\texcludesFile = {tmp_path}/hidden\n"
    args = ("--shell", "touch a.log a.tmp a.out", "--workspace-dir", "ws", "--workspace-git", "-g", "ae-grader-git")
    for config in ("", settings):
        (tmp_path / ".gitconfig").write_text(config)
        done = run("ae-capture", *args, stdin=ONE, cwd=tmp_path).expect(0, stderr="")
        assert done.records[0]["outcome"]["filesCreated"] == ["a.log", "a.out", "a.tmp"], config


REPLACED = {
    "deep": "python3 -c \"import os\nfor i in range(1500): os.mkdir('d'); os.chdir('d')\"",
    "fifo": 'd=$PWD; cd ..; rmdir "$d"; mkfifo "$d"',
    "file": 'd=$PWD; cd ..; rmdir "$d"; touch "$d"',
    "link": 'd=$PWD; cd ..; rmdir "$d"; ln -s ../precious "$d"',
    "gone": 'rmdir "$PWD"',
    "good": "touch made",
}


def test_whatever_an_agent_leaves_in_its_place_costs_nobody_anything(tmp_path: Path) -> None:
    """Kept in the first run, replaced in the second, removed after it."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    prompts = jsonl(*({"id": name, "input": line} for name, line in REPLACED.items()))
    args = ("--shell", 'eval "$PROMPT"', "--workspace-dir", "ws", "--keep-order")
    with removed(tmp_path / "ws") as ws:
        for keep in ("all", "none"):
            done = run("ae-run", *args, "--keep-workspaces", keep, stdin=prompts, cwd=tmp_path).expect(0, stderr="")
            assert done.ids == list(REPLACED)
            assert not any("errors" in record for record in done.records), done
            assert len(list(ws.glob("prompt-*"))) == (len(REPLACED) - 1 if keep == "all" else 0)
    assert (tmp_path / "precious" / "file").exists()


def test_directories_that_nobody_may_write_to(tmp_path: Path) -> None:
    """Go's module cache is read-only; so may a template be. Retries, later runs and the removal manage."""
    (tmp_path / "template" / "fixed").mkdir(parents=True)
    (tmp_path / "template" / "fixed" / "f").touch()
    (tmp_path / "template" / "fixed").chmod(0o555)
    line = "mkdir -p pkg/mod && touch pkg/mod/f && chmod 555 pkg/mod pkg && echo fine; exit 1"
    args = ("--shell", line, "--workspace-dir", "ws", "--workspace-template", "template")
    for keep in ("all", "none"):
        command = (*unprivileged(), BIN / "ae-run", *args, "--keep-workspaces", keep)
        done = run(*map(str, command), stdin=ONE, cwd=tmp_path).expect(0)
        assert (done.records[0]["rawLines"], done.records[0]["exitCode"]) == (["fine"], 1), done
        assert (tmp_path / "ws" / "prompt-a" / "fixed" / "f").exists() == (keep == "all")


def test_templates_and_places_that_are_refused(tmp_path: Path) -> None:
    precious = tmp_path / "ws" / "prompt-a" / "file"
    precious.parent.mkdir(parents=True)
    precious.write_text("precious")
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to("real")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / ".git").write_text("gitdir: /nowhere/at/all\n")
    (tmp_path / "inside").symlink_to("ws/prompt-a")
    for place, template, message in (
        ("ws", "ws/prompt-a", "is itself a workspace"),
        ("ws", "inside", "is itself a workspace"),
        ("ws", f"file://{precious.parent}", "is itself a workspace"),
        ("alias/ws", "real", "contains the workspace directory"),
        ("other", "broken", "no repository"),
        ("", "real", "--workspace-dir"),
    ):
        args = ("--shell", "touch ran", "--workspace-dir", place, "--workspace-template", template)
        run("ae-run", *args, stdin=ONE, cwd=tmp_path).expect(2).says(message)
    assert precious.read_text() == "precious"
    args = ("--shell", "cat file", "--workspace-dir", "other", "--workspace-template", "ws/prompt-a")
    assert run("ae-run", *args, stdin=ONE, cwd=tmp_path).expect(0).records[0]["rawLines"] == ["precious"]


def test_a_place_where_nothing_can_be_made_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "fixed").mkdir(mode=0o555)
    args = ("--shell", "true", "--workspace-dir", "fixed")
    done = run(*map(str, (*unprivileged(), BIN / "ae-run", *args)), stdin=ONE, cwd=tmp_path).expect(2)
    assert done.messages == ["ae-run: --workspace-dir fixed: cannot create directories there (Permission denied)"]
    assert os.listdir(tmp_path / "fixed") == []


# --- environment and secrets --------------------------------------------------------------------


def variables(*args: str, **env: str) -> dict[str, str]:
    """Returns the environment of the agent."""
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

    def seconds_too_close() -> float:
        """Returns by how much less than 0.2 s two starts are apart: they are if the first of them was late."""
        done = run("ae-run", "--shell", "true", "-j", 6, "--rate", "5/s", stdin=many).expect(0, stderr="")
        moments = sorted(record["timing"]["start"] for record in done.records)  # waiting is not part of it
        gaps = [later - earlier for earlier, later in zip(moments, moments[1:], strict=False)]
        return 0.2 - float(min(*gaps, (moments[-1] - moments[0] - 500) / 2)) / 1000

    expect_soon(seconds_too_close, within=0.1)


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
