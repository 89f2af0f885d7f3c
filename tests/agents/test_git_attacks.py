"""What agents and template authors may put into a repository: it runs nothing of ours, and hides nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.tool import Record, clean_env, jsonl, run, script

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

ONE = jsonl({"id": "a", "input": "x"})
RUNS = ("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "core.alternateRefsCommand")
FILTERS = ("filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "diff.trap.command", "diff.trap.textconv")
OTHERS = ("diff.external", "gpg.program", "uploadpack.packObjectsHook", "credential.helper", "sequence.editor")
HOOKS = ("post-index-change", "reference-transaction", "pre-commit", "commit-msg", "post-commit", "post-checkout")


def git(root: Path, *args: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=a@b", "-c", "commit.gpgSign=false", "-c", "core.hooksPath=/"]
    command = ["git", *identity, "-c", "core.fsmonitor=false", *args]
    return subprocess.run(command, cwd=root, check=True, env=clean_env(root), text=True, stdout=subprocess.PIPE).stdout


def repository(path: Path) -> Path:
    (path / "sub").mkdir(parents=True)
    for name in ("kept", "other", "sub/inner"):
        (path / name).write_text(f"content of {name}\n")
    git(path, "init", "-q", "-b", "main")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")
    return path


def set_traps(root: Path, folder: Path) -> Path:
    """Configures all that may run a program; returns the file that would then exist."""
    ran = folder / "ran"
    trap = script(folder / "trap", f'echo "$0 $@" >> {ran}; cat')
    for name in (*RUNS, *FILTERS, *OTHERS):
        git(root, "config", name, str(trap))
    for command in ("status", "add", "remote-none", "ls-files"):
        git(root, "config", f"alias.{command}", f"!{trap}")
    git(root, "config", "include.path", str(folder / "included"))
    (folder / "included").write_text(f'[filter "trap"]\n\tclean = {trap}\n\trequired = true\n')
    for hook in HOOKS:
        (root / ".git" / "hooks").mkdir(exist_ok=True)
        script(root / ".git" / "hooks" / hook, str(trap))
    (root / ".git" / "info").mkdir(exist_ok=True)
    (root / ".git" / "info" / "attributes").write_text("* filter=trap diff=trap\n")
    (root / ".gitattributes").write_text("* filter=trap diff=trap\n")
    return ran


def look(cwd: Path, **metadata: object) -> Record:
    done = run("ae-grader-git", stdin=jsonl({"id": "a", "output": "o", "cwd": str(cwd), "metadata": metadata}))
    answer: Record = done.records[0]
    return answer


def files(answer: Record) -> tuple[list[str], list[str], list[str]]:
    outcome = answer["outcome"]
    return outcome["filesCreated"], outcome["filesChanged"], outcome["filesDeleted"]


# --- nothing is run -------------------------------------------------------------------------------


def test_a_partial_clone_is_not_completed_by_the_agents_commands(tmp_path: Path) -> None:
    """A missing object is fetched from where the configuration says: here by an alias, which is a command.

    HEAD is complete; what is missing is needed only to read the index, which is one of a sparse checkout.
    """
    root = repository(tmp_path / "root")
    (root / "sub" / "inner").write_text("another\n")
    git(root, "commit", "-q", "-a", "-m", "second")
    git(root, "sparse-checkout", "set", "--sparse-index", "other-directory")
    missing = git(root, "rev-parse", "HEAD:sub").strip()
    git(root, "update-ref", "HEAD", "HEAD~1")
    ran = set_traps(root, tmp_path)
    settings = {"extensions.partialClone": "o", "remote.o.promisor": "true", "remote.o.url": "none::x"}
    for name, value in {**settings, "core.repositoryFormatVersion": "1"}.items():
        git(root, "config", name, value)
    (root / ".git" / "objects" / missing[:2] / missing[2:]).unlink()
    answer = look(root)
    assert not ran.exists(), ran.read_text()
    assert "error" in answer or files(answer)[2] == ["sub/inner"], "what cannot be read is not left out"


@pytest.mark.parametrize("nested", [False, True])
def test_a_template_runs_nothing_while_its_copy_is_committed(nested: bool, tmp_path: Path) -> None:
    template = repository(tmp_path / "template")
    root = template
    if nested:
        root = repository(template / "module")
        git(template, "-c", "advice.addEmbeddedRepo=false", "add", "module")
        git(template, "commit", "-q", "-m", "module")
    ran = set_traps(root, tmp_path)
    (root / "kept").write_text("changed in the template\n")
    args = ("--workspace-dir", "ws", "--workspace-template", "template", "--workspace-git", "-g", "ae-grader-git")
    done = run("ae-capture", "--shell", "echo new > new", *args, stdin=ONE, cwd=tmp_path).expect(0, stderr="")
    assert not ran.exists(), ran.read_text()
    assert files(done.records[0]) == (["new"], [], [])
    copy = tmp_path / "ws" / "prompt-a"
    assert git(copy, "log", "--format=%s").splitlines()[0] == "As the agent found it"
    if not nested:
        assert git(copy, "show", "HEAD:kept") == "changed in the template\n"
        assert git(copy, "ls-files", "--others") == "new\n"  # `git status` would run the filters of the template


def test_a_template_with_links_in_its_repository_writes_nowhere_else(tmp_path: Path) -> None:
    template = repository(tmp_path / "template")
    victim = tmp_path / "victim"
    shutil.move(template / ".git" / "refs" / "heads", victim)
    (template / ".git" / "refs" / "heads").symlink_to(victim)
    before = (victim / "main").read_text()
    args = ("--workspace-dir", "ws", "--workspace-template", "template", "--workspace-git")
    run("ae-run", "--shell", "true", *args, stdin=ONE, cwd=tmp_path).expect(0, stderr="")
    assert (victim / "main").read_text() == before
    assert git(tmp_path / "ws" / "prompt-a", "log", "--format=%s").split("\n")[0] == "As the agent found it"


def test_a_sparse_template_stays_sparse(tmp_path: Path) -> None:
    template = repository(tmp_path / "template")
    git(template, "sparse-checkout", "set", "--no-cone", "/kept")
    agent = ("--shell", "git status --short; git ls-tree -r --name-only HEAD; ls")
    args = ("--workspace-dir", "ws", "--workspace-template", "template", "--workspace-git", "-g", "ae-grader-git")
    [record] = run("ae-capture", *agent, *args, stdin=ONE, cwd=tmp_path).expect(0, stderr="").records
    assert record["output"].split() == ["kept", "other", "sub/inner", "kept"]
    assert files(record) == ([], [], [])


# --- nothing is hidden ----------------------------------------------------------------------------

WORK = "echo new > new; echo changed > kept; rm other; mkdir deep; echo x > deep/x.log"
IDENTITY = "git config user.name agent; git config user.email a@b"
ATTACKS = {
    "nothing": "true",
    "commit": f"{IDENTITY}; git add -A; git commit -qm mine",
    "moved ref": f"{IDENTITY}; git add -A; git commit -qm mine; git update-ref refs/agenteval/start HEAD",
    "skip-worktree": "git config core.sparseCheckout true; git update-index --skip-worktree other kept",
    "assume-unchanged": "git update-index --assume-unchanged other kept",
    "ignored": "echo '*' > .git/info/exclude; git config core.excludesFile .git/info/exclude",
    "other times": "touch -d @0 kept new",
    "no repository": "rm -rf .git",
    "new repository": f"rm -rf .git; git init -q; {IDENTITY}; git add -A; git commit -qm all",
    "nested repository": "git init -q deep",
    "broken repository": "rm -rf .git/objects; echo nonsense > .git/config",
    "a pipe": "rm -rf .git; mkfifo .git",
}
EXPECTED = (["deep/x.log", "new"], ["kept"], ["other"])


def capture(tmp_path: Path, attack: str) -> Record:
    (tmp_path / "template" / "sub").mkdir(parents=True)
    for name in ("kept", "other", "sub/inner"):
        (tmp_path / "template" / name).write_text(f"content of {name}\n")
    (tmp_path / "template" / ".gitignore").write_text("*.tmp\n/ignored/\n")
    args = ("--workspace-dir", "ws", "--workspace-template", "template", "--workspace-git", "-g", "ae-grader-git")
    line = f"{{ {WORK}; mkdir ignored; touch a.tmp ignored/x; {attack}; }} >&2"
    done = run("ae-capture", "--shell", line, *args, stdin=ONE, cwd=tmp_path)
    record: Record = done.records[0]
    return record


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_agent_cannot_hide_what_it_did(attack: str, tmp_path: Path) -> None:
    record = capture(tmp_path, ATTACKS[attack])
    assert files(record) == EXPECTED, record
    assert files(look(Path(record["cwd"]))) == EXPECTED, "a record without metadata"


def test_a_later_gitignore_hides_nothing(tmp_path: Path) -> None:
    record = capture(tmp_path, "echo '*' > .gitignore; mkdir -p deep; echo '*' > deep/.gitignore")
    assert files(record) == (["deep/.gitignore", "deep/x.log", "new"], [".gitignore", "kept"], ["other"])


def test_what_is_compared_with_is_found_elsewhere_and_its_loss_is_reported(tmp_path: Path) -> None:
    record = capture(tmp_path, "true")
    digest = record["metadata"]["workspaceBaseline"]
    (tmp_path / "ws").rename(tmp_path / "moved")
    moved = tmp_path / "moved" / "prompt-a"
    assert files(look(moved, workspaceBaseline=digest)) == EXPECTED
    assert files(look(moved / "deep", workspaceBaseline=digest)) == (["deep/x.log"], [], [])
    kept = tmp_path / "moved" / ".agenteval" / "baselines" / digest
    content = json.loads(kept.read_text())
    content["files"]["new"] = "100644 4 x"
    kept.write_text(json.dumps(content))
    assert "the baseline was changed" in look(moved, workspaceBaseline=digest)["error"]
    shutil.rmtree(tmp_path / "moved" / ".agenteval")
    assert "its baseline is missing" in look(moved, workspaceBaseline=digest)["error"]
    assert "its baseline is missing" in look(moved, workspaceBaseline="../../x")["error"]
    answer = look(moved)
    assert files(answer) == EXPECTED, "the last commit, as in any repository"


def test_names_and_kinds_of_files(tmp_path: Path) -> None:
    names = ["with\\nnewline", "é", "-dash", "\\377", "a -> b"]
    made = " ".join(f"$'{name}'" for name in names)
    line = f'bash -c "touch -- {made}; rm sub/inner; ln -s ../kept sub/inner; chmod +x .gitignore; mkfifo pipe"'
    record = capture(tmp_path, line)
    created, changed, deleted = files(record)
    assert sorted(created) == sorted(["deep/x.log", "new", "with\nnewline", "é", "-dash", "\ufffd", "a -> b"])
    assert (changed, deleted) == ([".gitignore", "kept", "sub/inner"], ["other"])


def test_workspaces_of_the_same_content_share_what_they_are_compared_with(tmp_path: Path) -> None:
    prompts = jsonl(*({"id": name, "input": "x"} for name in "abc"))
    args = ("--workspace-dir", "ws", "--workspace-git", "--shell", 'touch "$PROMPT"')
    records = run("ae-run", *args, stdin=prompts, cwd=tmp_path).expect(0, stderr="").records
    assert len({record["metadata"]["workspaceBaseline"] for record in records}) == 1
    run("ae-run", "--workspace-dir", "ws", "--shell", "true", stdin=prompts, cwd=tmp_path).expect(0, stderr="")
    kept = tmp_path / "ws" / ".agenteval" / "baselines"
    assert [path.name for path in kept.iterdir()] == [records[0]["metadata"]["workspaceBaseline"]], "of another run"
