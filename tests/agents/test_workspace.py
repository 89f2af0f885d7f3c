"""Workspaces: names are safe and unique, copies are exact, removal is complete and stays inside."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenteval.agents.workspace_git import forget_repository, git_environment
from agenteval.agents.workspaces import copy_tree, workspace_name
from agenteval.processes.scratch import remove_tree
from tests.support.privileges import removed, unprivileged
from tests.support.tool import run, script, write
from tests.support.watching import Running, sleepers, until

SAFE = re.compile(r"prompt-[A-Za-z0-9._-]+\Z")


@pytest.mark.parametrize("name", ["a", "fix-bug_2", "v1.0", "A", "0", "x" * 100, "-", ".", ".."])
def test_a_safe_id_is_its_own_name(name: str) -> None:
    assert workspace_name(name) == f"prompt-{name}"
    assert workspace_name(name, 3) == f"prompt-{name}-trial-3"


@pytest.mark.parametrize(
    "name", ["../../x", "a/b", "/etc/passwd", "é", "a b", "x" * 300, "a\0b", "a\nb", "日本", "\\", "*"]
)
def test_an_unsafe_id_keeps_a_digest(name: str) -> None:
    made = workspace_name(name)
    assert SAFE.match(made), made
    assert len(os.fsencode(made)) < 200
    assert made != f"prompt-{name}"
    assert workspace_name(name) == made, "not stable"


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8"), min_size=1), min_size=2, max_size=20, unique=True))
@settings(max_examples=60, deadline=None)
def test_two_ids_never_share_a_workspace(ids: list[str]) -> None:
    names = [workspace_name(name) for name in ids]
    assert all(SAFE.match(name) for name in names)
    assert len(set(names)) == len(ids)


@pytest.mark.parametrize("name", ["a/b", "é", "x" * 300])
def test_an_id_that_looks_like_the_name_of_another(name: str) -> None:
    other = workspace_name(name).removeprefix("prompt-")
    assert workspace_name(other) != workspace_name(name)


def test_a_trial_is_not_the_workspace_of_another_id() -> None:
    assert workspace_name("a", 1) != workspace_name("a-trial-1", 1)
    assert len({workspace_name(name, trial) for name in ("a", "a-trial-1", "a-trial") for trial in (1, 2, 11)}) == 9


def test_names_where_the_file_system_ignores_case() -> None:
    ids = ["a", "A", "a.", "ab", "Ab", "aB", "AB"]
    names = [workspace_name(name, ignores_case=True).lower().rstrip(".") for name in ids]
    assert len(set(names)) == len(ids), names
    assert workspace_name("a", ignores_case=True) == "prompt-a"


def test_the_digest_of_a_changed_name_has_128_bits() -> None:
    assert re.fullmatch(r"prompt-a_b-[0-9a-f]{32}", workspace_name("a/b"))
    assert workspace_name("a-trial-1") != workspace_name("a", 1), "ae-run and ae-trials in one directory"


# --- copy ---------------------------------------------------------------------------------------


def test_a_copy_is_exact(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "locked" / "deep").mkdir(parents=True)
    (source / "locked" / "deep" / "file").write_bytes(b"\0\xff\r\n")
    for name, mode in (("setuid", 0o4755), ("secret", 0o400), ("sticky", 0o1777)):
        (source / name).write_text(name)
        (source / name).chmod(mode)
    (source / "dangling").symlink_to("/nowhere/at/all")
    (source / "loop").symlink_to("loop")
    (source / "up").symlink_to("locked/..")
    for odd in (b"new\nline", b"\xff\xfe", b"-rf", b"*", "é".encode(), b"x" * 255):
        (source / os.fsdecode(odd)).write_bytes(odd)
    for path in source.iterdir():
        os.utime(path, (1, 1_000_000_000.5), follow_symlinks=False)
    (source / "locked" / "deep").chmod(0o555)
    (source / "locked").chmod(0o500)
    copy_tree(str(source), str(tmp_path / "target"))
    assert everything(tmp_path / "target") == everything(source)


def everything(root: Path) -> dict[str, tuple[object, ...]]:
    """Returns mode, time and content of each file below root."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (root, *root.rglob("*")):
        status = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(root))] = (status.st_mode, status.st_mtime_ns, content)
    return found


def test_a_copy_of_what_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    os.mkfifo(source / "fifo", 0o600)
    monkeypatch.chdir(source)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        (source / "one").write_text("same")
        copy_tree(str(source), str(target), lambda path: path.endswith("left"))
    assert sorted(path.name for path in target.iterdir()) == ["one"]


# --- removal ------------------------------------------------------------------------------------


def test_no_tree_is_too_deep_to_be_removed(tmp_path: Path) -> None:
    """3,000 levels of long names: deeper than Python recurses, a path longer than any system call takes."""
    (tmp_path / "top").mkdir()
    fd = os.open(tmp_path / "top", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("a long name", dir_fd=fd)
        os.close(os.open("file", os.O_CREAT, dir_fd=fd))
        below = os.open("a long name", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    with removed(tmp_path / "top") as top:
        remove_tree(str(top))
        assert list(tmp_path.iterdir()) == []


def test_what_stands_in_the_place_of_a_directory_is_removed(tmp_path: Path) -> None:
    (tmp_path / "other" / "sub").mkdir(parents=True)
    (tmp_path / "other" / "sub" / "kept").touch()
    place = tmp_path / "place"
    for make in ("touch place", "mkfifo place", "ln -s other place", "ln -s nowhere place"):
        subprocess.run(make.split(), cwd=tmp_path, check=True)
        remove_tree(str(place))
        assert not os.path.lexists(place), make
    place.mkdir()
    (place / "link").symlink_to("../other")
    (place / "link to all").symlink_to("/")
    remove_tree(str(place))
    assert [path.name for path in tmp_path.iterdir()] == ["other"] and (tmp_path / "other" / "sub" / "kept").exists()


def test_what_is_locked_is_removed_and_what_must_stay_costs_nothing_else(tmp_path: Path) -> None:
    """Without root's privileges; in a read-only base, the workspace is emptied but cannot be removed itself."""
    code = """
import os, sys
from agenteval.agents.workspaces import copy_tree
from agenteval.processes.scratch import remove_tree
os.makedirs("ws/locked/deep/none")
open("ws/locked/deep/file", "w").close()
for name in ("ws/locked/deep/none", "ws/locked/deep", "ws/locked"):
    os.chmod(name, 0 if name.endswith("none") else 0o555)
remove_tree(os.path.abspath("ws"))
assert os.listdir(".") == [], os.listdir(".")
os.makedirs("base/ws/sub")
os.makedirs("template/fixed")
open("template/fixed/file", "w").close()
os.chmod("template/fixed", 0o555)
os.chmod("template", 0o555)
copy_tree("template", "base/copy")
assert os.listdir("base/copy/fixed") == ["file"] and os.stat("base/copy").st_mode & 0o777 == 0o555
os.chmod("base", 0o555)
try:
    remove_tree(os.path.abspath("base/ws"))
    sys.exit("removed")
except OSError as error:
    assert error.strerror == "Permission denied" and error.filename.endswith("base/ws"), error
assert os.listdir("base/ws") == []
os.chmod("base", 0o755)
for name in ("base", "template"):
    remove_tree(os.path.abspath(name))
"""
    run(*unprivileged(), sys.executable, "-c", code, cwd=tmp_path).expect(0, stderr="")


def test_a_tree_with_a_mount_in_it_is_left_alone(tmp_path: Path) -> None:
    """Nothing on the mounted file system is removed: neither on another device nor behind a bind mount."""
    code = """
import os, subprocess, sys
from agenteval.processes.scratch import remove_tree
for number, options in enumerate((["-t", "tmpfs", "none"], ["--bind", "other"])):
    place = f"ws{number}/a sub/\\u00e9"
    os.makedirs(place)
    os.makedirs("other", exist_ok=True)
    subprocess.run(["mount", *options, place], check=True)
    open(f"{place}/kept", "w").close()
    try:
        remove_tree(os.path.abspath(f"ws{number}"))
        sys.exit("removed")
    except OSError as error:
        assert "a file system is mounted there" in str(error) and "\\u00e9" in str(error), error
    assert os.listdir(place) == ["kept"]
    subprocess.run(["umount", place], check=True)
    remove_tree(os.path.abspath(f"ws{number}"))
assert os.listdir("other") == ["kept"], "what was mounted is still there"
"""
    namespace = [shutil.which("unshare") or "false", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("needs unshare and user namespaces")
    run(*namespace, sys.executable, "-c", code, cwd=tmp_path).expect(0, stderr="")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


# --- git's environment --------------------------------------------------------------------------


def test_git_of_ours_heeds_none_of_the_users_variables() -> None:
    local = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_TEMPLATE_DIR", "GIT_TRACE")
    config = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c", "GIT_CONFIG_GLOBAL": "x"}
    access = {"GIT_SSH_COMMAND": "ssh -i key", "GIT_ASKPASS": "ask", "GIT_SSL_CAINFO": "ca"}
    given = {"HOME": "/h", "GITHUB_TOKEN": "t", **dict.fromkeys(local, "x"), **config, **access}
    assert git_environment(given, clone=True) == {
        "HOME": "/h",
        "GITHUB_TOKEN": "t",
        "GIT_TERMINAL_PROMPT": "0",
        **config,
        **access,
    }
    alone = git_environment(given)
    assert {name for name in alone if name.startswith("GIT_")} == {
        *("GIT_TERMINAL_PROMPT", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_ALLOW_PROTOCOL"),
        *("GIT_ATTR_NOSYSTEM", "GIT_NO_LAZY_FETCH", "GIT_OPTIONAL_LOCKS"),
    }
    assert alone["GIT_CONFIG_GLOBAL"] == os.devnull
    forget_repository(given)
    assert "GIT_DIR" not in given and "GIT_INDEX_FILE" not in given and access.items() <= given.items()


# --- crashes ------------------------------------------------------------------------------------

KILLED = """
import os, sys
from agenteval.agents import workspaces

write = workspaces.replace_file

def killed(path, content):
    if os.path.basename(path).startswith("prompt-"):
        if sys.argv.pop(1) == "after":
            write(path, content)
        os.kill(os.getpid(), 9)
    write(path, content)

workspaces.replace_file = killed
from agenteval.cli.tools.run import main
main(sys.argv[2:])
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_a_crash_leaves_is_not_taken_for_the_users(moment: str, tmp_path: Path) -> None:
    """Killed when the workspace is being marked as made by the suite: the next run makes it anew."""
    (tmp_path / "template").mkdir()
    (tmp_path / "template" / "note").write_text("from the template\n")
    write(tmp_path / "prompts", {"id": "a", "input": "x"})
    args = ["prompts", "--shell", "cat note", "--workspace-dir", "ws", "--workspace-template", "template"]
    run(sys.executable, "-c", KILLED, moment, *args, cwd=tmp_path).expect(-9)
    done = run("ae-run", *args, cwd=tmp_path).expect(0, stderr="")
    assert done.records[0]["rawLines"] == ["from the template"], done
    assert {path.name for path in (tmp_path / "ws" / ".agenteval").iterdir()} == {".gitignore", "locks", "prompt-a"}


def test_no_temporary_file_is_left_by_a_tool_that_is_killed(mark: str, tmp_path: Path) -> None:
    """Killed while git commits what is in a workspace."""
    for name in ("programs", "tmp"):
        (tmp_path / name).mkdir()
    script(tmp_path / "programs" / "git", f"sleep {mark}")
    env = {"TMPDIR": str(tmp_path / "tmp"), "PATH": f"{tmp_path}/programs:{os.environ['PATH']}"}
    args = ["--simple", "true {}", "--workspace-dir", "ws", "--workspace-git"]
    with Running("ae-run", *args, cwd=tmp_path, env=env) as tool:
        tool.feed({"id": "a", "input": "x"})
        until(lambda: sleepers(mark), "git runs")
        assert list((tmp_path / "tmp").iterdir())
        tool.process.kill()
        until(lambda: not list((tmp_path / "tmp").iterdir()), "the temporary files are removed")


def test_a_workspace_that_cannot_be_made_leaves_nothing_that_looks_like_the_users(tmp_path: Path) -> None:
    """All workspaces are removed while git works in one: git makes the directory again, and the marker is gone."""
    (tmp_path / "programs").mkdir()
    removed_meanwhile = f"rm -rf {tmp_path}/ws; mkdir -p {tmp_path}/ws/prompt-a/.git; exit 1"
    git = f'[ -e {tmp_path}/mended ] && exec {shutil.which("git")} "$@"; {removed_meanwhile}'
    script(tmp_path / "programs" / "git", git)
    write(tmp_path / "prompts", {"id": "a", "input": "x"})
    env = {"PATH": f"{tmp_path}/programs:{os.environ['PATH']}"}
    args = ["ae-run", "prompts", "--simple", "echo {}", "--workspace-dir", "ws", "--workspace-git"]
    run(*args, cwd=tmp_path, env=env).expect(1)
    (tmp_path / "mended").touch()
    assert run(*args, cwd=tmp_path, env=env).expect(0, stderr="").records[0]["rawLines"] == ["x"]
