"""Finds what changed in a git work tree since a commit, whatever the user's or the agent's git settings are.

The work tree is compared with the help of a temporary git directory, because an agent may have written anything into
the configuration, index and ignore files of its own one. From that one come only the objects, the commit to compare
with and the settings that describe the file system. New files count unless a .gitignore of the commit ignores them.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable
from typing import NamedTuple

from agenteval.agents.workspaces.git import OWN_CONFIG, START, find_work_tree, git_environment

TIMEOUT = 60
# Settings that describe the file system and the checkout; none of them runs a program.
KEPT_SETTINGS = r"^core\.(filemode|symlinks|ignorecase|precomposeunicode|autocrlf|eol|sparsecheckout)$"
FILES, SUBMODULE = ("100644", "100755"), "160000"
SHA256_DIGITS = 64


class Changes(NamedTuple):
    """Sorted file names, relative to the top of the work tree."""

    created: list[str]
    changed: list[str]
    deleted: list[str]


def changed_files(cwd: str) -> Changes:
    """Returns what changed below a directory since the commit of --workspace-git, or else since the last commit.

    SubprocessError or OSError outside a repository.
    """
    cwd = os.path.realpath(cwd)
    theirs = _find_repository(cwd)
    return _compare(theirs, theirs.commit(START) or theirs.commit("HEAD"), cwd)


class _Git(NamedTuple):
    """Runs git in a work tree, with the git directory that the variables name."""

    top: str
    variables: dict[str, str]
    settings: tuple[str, ...] = ()

    def __call__(self, *arguments: str, cwd: str | None = None, stdin: str = "", also: int = 0) -> str:
        """Returns what git prints; raises CalledProcessError unless its exit code is 0 or `also` (which means no)."""
        command = ["git", *self.settings, *arguments]
        environment = {**git_environment(), "GIT_WORK_TREE": self.top, **self.variables}
        done = subprocess.run(
            command,
            cwd=cwd or self.top,
            env=environment,
            input=os.fsencode(stdin),
            capture_output=True,
            timeout=TIMEOUT,
        )
        if done.returncode not in (0, also):
            raise subprocess.CalledProcessError(done.returncode, command, stderr=done.stderr)
        return os.fsdecode(done.stdout)

    def items(self, *arguments: str, cwd: str | None = None, stdin: Iterable[str] = (), also: int = 0) -> list[str]:
        """Returns the items that git prints; they and the items of stdin are separated as by -z."""
        return self(*arguments, cwd=cwd, stdin="".join(f"{item}\0" for item in stdin), also=also).split("\0")[:-1]

    def commit(self, name: str) -> str | None:
        """Returns the id of a commit, None if there is none of that name."""
        return self("rev-parse", "--verify", "--quiet", name, also=1).strip() or None

    def path(self, name: str) -> str:
        """Returns the path of something in the git directory."""
        return os.path.join(self.top, self("rev-parse", "--git-path", name).removesuffix("\n"))


class _Entry(NamedTuple):
    """A file or submodule of the commit."""

    mode: str
    digest: str
    name: str


def _find_repository(cwd: str) -> _Git:
    """Returns the repository around a directory; git itself would trust its core.worktree setting."""
    top = find_work_tree(cwd)
    if top is None:
        raise OSError("not a git repository (or any of the parent directories)")
    return _Git(top, {"GIT_DIR": os.path.join(top, ".git")})


def _compare(theirs: _Git, base: str | None, cwd: str) -> Changes:
    with tempfile.TemporaryDirectory(prefix="agenteval-") as folder:
        folder = os.path.realpath(folder)
        ours = _own_directory(base, theirs, folder)
        entries = _entries(ours)
        states = _states(ours, cwd)
        deleted = {name for name, state in states.items() if "D" in state} - _sparse_files(theirs)
        changed = {name for name, state in states.items() if "D" not in state}
        changed |= {entry.name for entry in entries if entry.mode == SUBMODULE and _differs(entry, theirs.top, cwd)}
        ignoring = [entry.name for entry in entries if _ignores(entry)]
        new = ours.items("ls-files", "--others", "-z", "--full-name", "--", ".", cwd=cwd)
        created = _not_ignored(new, ignoring, ours, os.path.join(folder, "ignoring"))
    return Changes(*(sorted(map(_as_text, names)) for names in (created, changed, deleted)))


def _own_directory(base: str | None, theirs: _Git, folder: str) -> _Git:
    """Returns a git directory below a folder that has the objects of another, and the commit in its index."""
    kept = [item.replace("\n", "=", 1) for item in theirs.items("config", "-z", "--get-regexp", KEPT_SETTINGS, also=1)]
    settings = (*OWN_CONFIG, *(argument for item in kept for argument in ("-c", item)))
    directory = os.path.join(folder, "git")
    kind = "sha256" if base is not None and len(base) == SHA256_DIGITS else "sha1"
    ours = _Git(theirs.top, {"GIT_DIR": directory}, settings)
    ours("init", "--quiet", "--template=", f"--object-format={kind}")
    ours = ours._replace(variables={"GIT_DIR": directory, "GIT_OBJECT_DIRECTORY": theirs.path("objects")})
    if base is not None:
        ours("update-ref", "--no-deref", "HEAD", base)  # without it, each file would count as added
        ours("read-tree", base)
    return ours


def _entries(ours: _Git) -> list[_Entry]:
    lines = (line.partition("\t") for line in ours.items("ls-files", "--stage", "-z"))
    heads = ((head.split(" "), name) for head, _tab, name in lines)
    return [_Entry(mode, digest, name) for (mode, digest, _stage), name in heads]


def _states(ours: _Git, cwd: str) -> dict[str, str]:
    """Returns each file of the commit that is different now, with the two status letters of git."""
    # --no-renames: a rename is a deletion and a creation; -z: names are not quoted.
    # --ignore-submodules: inside a submodule, git would use its settings.
    options = ("--porcelain=v1", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=dirty")
    return {line[3:]: line[:2] for line in ours.items("status", *options, "--", ".", cwd=cwd)}


def _sparse_files(theirs: _Git) -> set[str]:
    """Returns the files that a sparse checkout leaves out: they are not deleted."""
    if theirs("config", "--type=bool", "core.sparseCheckout", also=1).strip() != "true":
        return set()
    lines = theirs._replace(settings=tuple(OWN_CONFIG)).items("ls-files", "-t", "-z")
    return {line[2:] for line in lines if line.startswith("S ")}


def _differs(entry: _Entry, top: str, cwd: str) -> bool:
    """Whether a submodule below a directory differs from its commit."""
    place = os.path.join(top, entry.name)
    directory = os.path.join(place, ".git")
    if not os.path.lexists(directory) or not f"{place}/".startswith(os.path.join(cwd, "")):
        return False
    return any(_compare(_Git(place, {"GIT_DIR": directory}), entry.digest, place))


def _ignores(entry: _Entry) -> bool:
    return entry.mode in FILES and os.path.basename(entry.name) == ".gitignore"


def _not_ignored(names: list[str], ignoring: list[str], ours: _Git, folder: str) -> set[str]:
    """Returns the names that the .gitignore files of the commit do not cover; checks them out into a folder."""
    names = [name for name in names if not os.path.join(ours.top, name).startswith(os.path.dirname(folder))]
    if not names or not ignoring:
        return set(names)
    ours.items("checkout-index", "-z", "--stdin", f"--prefix={folder}/", stdin=ignoring)
    there = ours._replace(top=folder)
    paths = (f"./{name}" for name in names)  # a leading colon would be pathspec magic
    covered = there.items("check-ignore", "--no-index", "-z", "--stdin", stdin=paths, also=1)
    return set(names) - {name.removeprefix("./") for name in covered}


def _as_text(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")
