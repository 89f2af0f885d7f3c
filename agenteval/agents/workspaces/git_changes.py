"""Finds what an agent changed in its working directory, whatever it did to its repository.

A workspace that --workspace-git made has a baseline outside of it, and git is asked only what its .gitignore files
cover. Any other repository is compared with its last commit, by means of a git directory of our own. New files count
unless a .gitignore of the baseline or the commit ignores them.
"""

from __future__ import annotations

import os
import tempfile
from typing import NamedTuple

from agenteval.agents.workspaces.baseline import IGNORE_FILE, Baseline, Changes, compare, find_baseline
from agenteval.agents.workspaces.git import Git, find_work_tree
from agenteval.agents.workspaces.private_git import empty_git, left_out, private_git, repository_of
from agenteval.processes.scratch import Scratch

FILES, SUBMODULE = ("100644", "100755"), "160000"


def changed_files(cwd: str, digest: str | None, scratch: Scratch) -> Changes:
    """Returns what changed below a directory since its baseline, whose digest the record may have, or the last commit.

    SubprocessError or OSError outside a repository.
    """
    if found := find_baseline(cwd, digest):
        changes = _since_baseline(*found, cwd, scratch)
    else:
        cwd = os.path.realpath(cwd)
        top = find_work_tree(cwd)
        if top is None:
            raise OSError("not a git repository (or any of the parent directories)")
        theirs = repository_of(top)
        changes = _since_commit(theirs, theirs.commit("HEAD"), cwd, scratch)
    return Changes(*(sorted(map(_as_text, names)) for names in changes))


def _since_baseline(top: str, baseline: Baseline, cwd: str, scratch: Scratch) -> Changes:
    changes = compare(top, baseline, cwd)
    created = _not_ours(changes.created, top, scratch)
    if baseline.ignoring:
        with tempfile.TemporaryDirectory(dir=scratch.folder()) as folder:
            place = os.path.join(folder, "ignoring")
            _write_ignoring(baseline, place)
            created = _not_ignored(created, empty_git(place, folder))
    return changes._replace(created=created)


def _write_ignoring(baseline: Baseline, place: str) -> None:
    """Writes the .gitignore files of the baseline to a directory."""
    os.mkdir(place)
    for name, content in baseline.ignoring.items():
        path = os.path.normpath(os.path.join(place, name))
        if not path.startswith(os.path.join(place, "")):
            raise OSError(f"the baseline names a file outside of the workspace: {name}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode("latin-1"))


# --- without a baseline -------------------------------------------------------------------------


class _Entry(NamedTuple):
    """A file or submodule of the commit."""

    mode: str
    digest: str
    name: str


def _since_commit(theirs: Git, base: str | None, cwd: str, scratch: Scratch) -> Changes:
    with tempfile.TemporaryDirectory(dir=scratch.folder()) as folder:
        return _compare_with_commit(theirs, base, cwd, folder, scratch)


def _compare_with_commit(theirs: Git, base: str | None, cwd: str, folder: str, scratch: Scratch) -> Changes:
    ours = private_git(theirs, folder)
    if base is not None:
        ours("update-ref", "--no-deref", "HEAD", base)  # without it, each file would count as added
        ours("read-tree", base)
    entries = _entries(ours)
    states = _states(ours, cwd)
    absent = {entry.partition("\t")[2] for entry in left_out(theirs, ours)}
    deleted = {name for name, state in states.items() if "D" in state} - absent
    changed = {name for name, state in states.items() if "D" not in state}
    changed |= {
        entry.name for entry in entries if entry.mode == SUBMODULE and _differs(entry, theirs.top, cwd, scratch)
    }
    ignoring = [entry.name for entry in entries if _ignores(entry)]
    new = ours.items("ls-files", "--others", "-z", "--full-name", "--", ".", cwd=cwd)
    created = _not_ours(new, theirs.top, scratch)
    if ignoring:
        place = os.path.join(folder, "ignoring")
        ours.items("checkout-index", "-z", "--stdin", f"--prefix={place}/", stdin=ignoring)
        created = _not_ignored(created, ours._replace(top=place))
    return Changes(created, list(changed), list(deleted))


def _entries(ours: Git) -> list[_Entry]:
    lines = (line.partition("\t") for line in ours.items("ls-files", "--stage", "-z"))
    heads = ((head.split(" "), name) for head, _tab, name in lines)
    return [_Entry(mode, digest, name) for (mode, digest, _stage), name in heads]


def _states(ours: Git, cwd: str) -> dict[str, str]:
    """Returns each file of the commit that is different now, with the two status letters of git."""
    # --no-renames: a rename is a deletion and a creation; -z: names are not quoted.
    # --ignore-submodules: inside a submodule, git would use its settings.
    options = ("--porcelain=v1", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=dirty")
    return {line[3:]: line[:2] for line in ours.items("status", *options, "--", ".", cwd=cwd)}


def _differs(entry: _Entry, top: str, cwd: str, scratch: Scratch) -> bool:
    """Whether a submodule below a directory differs from its commit."""
    place = os.path.join(top, entry.name)
    if not os.path.lexists(os.path.join(place, ".git")) or not f"{place}/".startswith(os.path.join(cwd, "")):
        return False
    return any(_since_commit(repository_of(place), entry.digest, place, scratch))


def _ignores(entry: _Entry) -> bool:
    return entry.mode in FILES and os.path.basename(entry.name) == IGNORE_FILE


def _not_ours(names: list[str], top: str, scratch: Scratch) -> list[str]:
    """Returns the names without those of our own files, if TMPDIR is in the work tree."""
    ours = os.path.join(scratch.folder(), "")
    return [name for name in names if not os.path.join(top, name).startswith(ours)]


def _not_ignored(names: list[str], there: Git) -> list[str]:
    """Returns the names that the .gitignore files in a work tree do not cover."""
    if not names:
        return names
    paths = (f"./{name}" for name in names)  # a leading colon would be pathspec magic
    ignored = there.items("check-ignore", "--no-index", "-z", "--stdin", stdin=paths, also=1)
    covered = {name.removeprefix("./") for name in ignored}
    return [name for name in names if name not in covered]


def _as_text(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")
