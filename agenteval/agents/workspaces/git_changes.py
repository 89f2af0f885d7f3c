"""What changed in a git work tree since a commit, whatever the user's or the agent's git settings say of it.

The work tree is compared by means of a git directory of our own: an agent may have written anything into the other's
configuration, index and ignore files. Of that one only the objects are used, the name of the commit to compare with,
and what it says of the file system. New files count unless the .gitignore files of that commit say otherwise.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable
from typing import NamedTuple

from agenteval.agents.workspaces.git import OWN_CONFIG, START, git_environment

TIMEOUT = 60
# Properties of the file system and of the checkout; none of them runs anything.
HEEDED = r"^core\.(filemode|symlinks|ignorecase|precomposeunicode|autocrlf|eol|sparsecheckout)$"
FILES, SUBMODULE = ("100644", "100755"), "160000"
SHA256 = 64  # digits


class Changes(NamedTuple):
    """Names from the top of the work tree, sorted."""

    created: list[str]
    changed: list[str]
    deleted: list[str]


def changed_files(cwd: str) -> Changes:
    """What is different below a directory since an agent found it (--workspace-git notes that) or the last commit.

    SubprocessError or OSError outside a repository.
    """
    cwd = os.path.realpath(cwd)
    theirs = _repository_of(cwd)
    return _compare(theirs, theirs.commit(START) or theirs.commit("HEAD"), cwd)


class _Git(NamedTuple):
    """Git in a work tree, with the git directory that the variables name."""

    top: str
    variables: dict[str, str]
    settings: tuple[str, ...] = ()

    def __call__(self, *arguments: str, cwd: str | None = None, given: str = "", no: int = 0) -> str:
        """What it prints; an exit code that means no, and not that something is wrong, is none to raise."""
        command = ["git", *self.settings, *arguments]
        environment = {**git_environment(), "GIT_WORK_TREE": self.top, **self.variables}
        done = subprocess.run(
            command,
            cwd=cwd or self.top,
            env=environment,
            input=os.fsencode(given),
            capture_output=True,
            timeout=TIMEOUT,
        )
        if done.returncode not in (0, no):
            raise subprocess.CalledProcessError(done.returncode, command, stderr=done.stderr)
        return os.fsdecode(done.stdout)

    def items(self, *arguments: str, cwd: str | None = None, given: Iterable[str] = (), no: int = 0) -> list[str]:
        """What it prints about what it is given, both as -z separates them."""
        return self(*arguments, cwd=cwd, given="".join(f"{item}\0" for item in given), no=no).split("\0")[:-1]

    def commit(self, name: str) -> str | None:
        """The id of a commit; None where there is no such name."""
        return self("rev-parse", "--verify", "--quiet", name, no=1).strip() or None

    def path(self, name: str) -> str:
        """Where something in the git directory is."""
        return os.path.join(self.top, self("rev-parse", "--git-path", name).removesuffix("\n"))


class _Entry(NamedTuple):
    """A file of the commit, or a submodule."""

    mode: str
    digest: str
    name: str


def _repository_of(cwd: str) -> _Git:
    """The repository around a directory: looked for here, for git would heed what it says of where its work tree is."""
    top = cwd
    while not os.path.lexists(os.path.join(top, ".git")):
        if top == os.path.dirname(top):
            raise OSError("not a git repository (or any of the parent directories)")
        top = os.path.dirname(top)
    return _Git(top, {"GIT_DIR": os.path.join(top, ".git")})


def _compare(theirs: _Git, base: str | None, cwd: str) -> Changes:
    with tempfile.TemporaryDirectory(prefix="agenteval-") as folder:
        folder = os.path.realpath(folder)
        ours = _open_at(base, theirs, folder)
        entries = _entries(ours)
        states = _states(ours, cwd)
        deleted = {name for name, state in states.items() if "D" in state} - _left_out(theirs)
        changed = {name for name, state in states.items() if "D" not in state}
        changed |= {entry.name for entry in entries if entry.mode == SUBMODULE and _differs(entry, theirs.top, cwd)}
        ignoring = [entry.name for entry in entries if _ignores(entry)]
        new = ours.items("ls-files", "--others", "-z", "--full-name", "--", ".", cwd=cwd)
        created = _not_ignored(new, ignoring, ours, os.path.join(folder, "ignoring"))
    return Changes(*(sorted(map(_as_text, names)) for names in (created, changed, deleted)))


def _open_at(base: str | None, theirs: _Git, folder: str) -> _Git:
    """A git directory of our own below a folder, with that commit checked out as far as its index goes."""
    heeded = [item.replace("\n", "=", 1) for item in theirs.items("config", "-z", "--get-regexp", HEEDED, no=1)]
    settings = (*OWN_CONFIG, *(argument for item in heeded for argument in ("-c", item)))
    directory = os.path.join(folder, "git")
    kind = "sha256" if base is not None and len(base) == SHA256 else "sha1"
    ours = _Git(theirs.top, {"GIT_DIR": directory}, settings)
    ours("init", "--quiet", "--template=", f"--object-format={kind}")
    ours = ours._replace(variables={"GIT_DIR": directory, "GIT_OBJECT_DIRECTORY": theirs.path("objects")})
    if base is not None:
        ours("update-ref", "--no-deref", "HEAD", base)  # else each of its files would count as added
        ours("read-tree", base)
    return ours


def _entries(ours: _Git) -> list[_Entry]:
    lines = (line.partition("\t") for line in ours.items("ls-files", "--stage", "-z"))
    heads = ((head.split(" "), name) for head, _tab, name in lines)
    return [_Entry(mode, digest, name) for (mode, digest, _stage), name in heads]


def _states(ours: _Git, cwd: str) -> dict[str, str]:
    """Of each file of the commit that is different now, the two letters that git has for it."""
    # --no-renames: a rename is a deletion and a creation; -z: names come as they are, spaces and all.
    # --ignore-submodules: inside one, git would heed its settings.
    options = ("--porcelain=v1", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=dirty")
    return {line[3:]: line[:2] for line in ours.items("status", *options, "--", ".", cwd=cwd)}


def _left_out(theirs: _Git) -> set[str]:
    """What a sparse checkout does not have, and nobody deleted."""
    if theirs("config", "--type=bool", "core.sparseCheckout", no=1).strip() != "true":
        return set()
    lines = theirs._replace(settings=tuple(OWN_CONFIG)).items("ls-files", "-t", "-z")
    return {line[2:] for line in lines if line.startswith("S ")}


def _differs(entry: _Entry, top: str, cwd: str) -> bool:
    """Whether there are changes in a submodule below a directory, compared with the commit that it should be at."""
    place = os.path.join(top, entry.name)
    directory = os.path.join(place, ".git")
    if not os.path.lexists(directory) or not f"{place}/".startswith(os.path.join(cwd, "")):
        return False
    return any(_compare(_Git(place, {"GIT_DIR": directory}), entry.digest, place))


def _ignores(entry: _Entry) -> bool:
    return entry.mode in FILES and os.path.basename(entry.name) == ".gitignore"


def _not_ignored(names: list[str], ignoring: list[str], ours: _Git, folder: str) -> set[str]:
    """Those of the names that the ignore files of the commit do not cover; these are put into a folder for git."""
    names = [name for name in names if not os.path.join(ours.top, name).startswith(os.path.dirname(folder))]
    if not names or not ignoring:
        return set(names)
    ours.items("checkout-index", "-z", "--stdin", f"--prefix={folder}/", given=ignoring)
    there = ours._replace(top=folder)
    asked = (f"./{name}" for name in names)  # a colon in front would be taken for more than a name
    covered = there.items("check-ignore", "--no-index", "-z", "--stdin", given=asked, no=1)
    return set(names) - {name.removeprefix("./") for name in covered}


def _as_text(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")
