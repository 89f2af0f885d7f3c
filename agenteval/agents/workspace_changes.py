"""Finds what an agent changed in its working directory, whatever it did to its repository.

A workspace that --workspace-git made has a baseline: the files that the agent started with, in a file beside the
workspaces, DIR/.agenteval/baselines/<digest>. It is named after its own content, so that workspaces of the same content
share one, and one that was tampered with no longer has its name. The record has the digest in
metadata.workspaceBaseline; DIR/.agenteval/baselines/prompt-<id> has it, too. A baseline lists mode, size and hash of
each file, and holds the .gitignore files: git is asked only what these cover.

Any other repository is compared with its last commit, through a git directory of our own. New files count unless a
.gitignore of the baseline or the commit ignores them.
"""

import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from agenteval.agents.workspace_git import Git, empty_git, find_work_tree, left_out, private_git, repository_of
from agenteval.processes.scratch import Scratch
from agenteval.streams.digests import digest_of
from agenteval.streams.files import LONGEST_LINE, create_file, read_regular, replace_file

FOLDER = ".agenteval"  # beside the workspaces: what the suite keeps about them
BASELINES = "baselines"
DIGEST = re.compile(r"[0-9a-f]{64}")
IGNORE_FILE = ".gitignore"

SUBMODULE = "160000"
REGULAR_FILES = ("100644", "100755")


class Changes(NamedTuple):
    """Sorted file names, relative to the top of the work tree."""

    created: list[str]
    changed: list[str]
    deleted: list[str]


class Baseline(NamedTuple):
    """The files of a work tree: name → mode, size and hash; and the content of its .gitignore files."""

    files: dict[str, str]
    ignoring: dict[str, str]


# --- the baseline of a workspace ----------------------------------------------------------------


def keep_baseline(top: str) -> str:
    """Stores the files of a workspace as they are now beside it, and returns the digest of this baseline."""
    files = {name: _describe(path, status) for name, path, status in _files(top)}
    ignoring = {}
    for name in files:
        path = os.path.join(top, name)
        if os.path.basename(name) == IGNORE_FILE and not os.path.islink(path):
            ignoring[name] = read_regular(path).decode("latin-1")  # any bytes
    content = json.dumps(Baseline(files, ignoring)._asdict(), sort_keys=True).encode()
    digest = hashlib.sha256(content).hexdigest()
    folder = _folder_beside(top)
    os.makedirs(folder, exist_ok=True)
    if _read(os.path.join(folder, digest)) != content:
        replace_file(os.path.join(folder, digest), content)
    replace_file(os.path.join(folder, os.path.basename(top)), digest.encode())
    return digest


def drop_baseline(top: str) -> None:
    """Forgets the baseline of a workspace that is made anew."""
    path = os.path.join(_folder_beside(top), os.path.basename(top))
    if os.path.lexists(path):
        os.unlink(path)


def _folder_beside(top: str) -> str:
    return os.path.join(os.path.dirname(top), FOLDER, BASELINES)


# --- what changed -------------------------------------------------------------------------------


def changed_files(cwd: str, digest: str | None, scratch: Scratch) -> Changes:
    """Returns what changed below a directory: since its baseline if it has one, else since the last commit.

    `digest` names the baseline, if the record does. SubprocessError or OSError outside a repository.
    """
    if found := _find_baseline(cwd, digest):
        changes = _since_baseline(*found, cwd, scratch)
    else:
        cwd = os.path.realpath(cwd)
        top = find_work_tree(cwd)
        if top is None:
            raise OSError("not a git repository (or any of the parent directories)")
        theirs = repository_of(top)
        changes = _since_commit(theirs, theirs.commit("HEAD"), cwd, scratch)
    return Changes(*(sorted(os.fsencode(name).decode("utf-8", "replace") for name in names) for names in changes))


def _find_baseline(cwd: str, digest: str | None) -> tuple[str, Baseline] | None:
    """Returns the workspace that a directory belongs to, and its baseline; None if it has none.

    OSError if the baseline that the record names is missing or was changed.
    """
    top = os.path.abspath(cwd)
    while True:
        folder = _folder_beside(top)
        name = digest or (_read(os.path.join(folder, os.path.basename(top))) or b"").decode("latin-1").strip()
        if DIGEST.fullmatch(name) and (content := _read(os.path.join(folder, name))) is not None:
            if hashlib.sha256(content).hexdigest() != name:
                raise OSError(f"the baseline was changed: {os.path.join(folder, name)}")
            return top, Baseline(**json.loads(content))
        if top == os.path.dirname(top):
            break
        top = os.path.dirname(top)
    if digest:
        raise OSError(
            f"its baseline is missing, {FOLDER}/{BASELINES}/{digest} next to the workspace: copy workspace "
            f"directories with all their contents"
        )
    return None


def _since_baseline(top: str, baseline: Baseline, cwd: str, scratch: Scratch) -> Changes:
    changes = _compare_with_baseline(top, baseline, cwd)
    created = _without_scratch(changes.created, top, scratch)
    if baseline.ignoring:
        with tempfile.TemporaryDirectory(dir=scratch.folder()) as folder:
            place = os.path.join(folder, "ignoring")
            _write_ignoring(baseline, place)
            created = _not_ignored(created, empty_git(place, folder))
    return changes._replace(created=created)


def _compare_with_baseline(top: str, baseline: Baseline, cwd: str) -> Changes:
    """Returns what is different now below a directory of the workspace; OSError if the workspace is a link now."""
    if os.path.islink(top):
        raise OSError("the workspace has been replaced by a symbolic link")
    prefix = os.path.relpath(os.path.abspath(cwd), top) + os.sep
    prefix = "" if prefix == os.curdir + os.sep else prefix
    created, changed, seen = [], [], set()
    for name, path, status in _files(top):
        seen.add(name)
        if not name.startswith(prefix):
            continue
        if (before := baseline.files.get(name)) is None:
            created.append(name)
        elif not before.startswith(_kind(status)) or before != _describe(path, status):
            changed.append(name)
    deleted = [name for name in baseline.files if name not in seen and name.startswith(prefix)]
    return Changes(created, changed, deleted)


def _write_ignoring(baseline: Baseline, place: str) -> None:
    """Writes the .gitignore files of the baseline to a directory."""
    os.mkdir(place)
    for name, content in baseline.ignoring.items():
        path = os.path.normpath(os.path.join(place, name))
        if not path.startswith(os.path.join(place, "")):
            raise OSError(f"the baseline names a file outside the workspace: {name}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with os.fdopen(create_file(path), "wb") as file:
            file.write(content.encode("latin-1"))


# --- since the last commit ----------------------------------------------------------------------


class _Entry(NamedTuple):
    """A file or submodule of the commit."""

    mode: str
    digest: str
    name: str


def _since_commit(theirs: Git, base: str | None, cwd: str, scratch: Scratch) -> Changes:
    with tempfile.TemporaryDirectory(dir=scratch.folder()) as folder:
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
        new = ours.items("ls-files", "--others", "-z", "--full-name", "--", ".", cwd=cwd)
        created = _without_scratch(new, theirs.top, scratch)
        files = [entry.name for entry in entries if entry.mode in REGULAR_FILES]
        if ignoring := [name for name in files if os.path.basename(name) == IGNORE_FILE]:
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


def _without_scratch(names: list[str], top: str, scratch: Scratch) -> list[str]:
    """Returns the names without those of our own temporary files: TMPDIR may be in the work tree."""
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


# --- files of a work tree -----------------------------------------------------------------------


def _files(top: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """Yields name, path and status of the files and links of a work tree, without repositories."""
    folders = [("", top)]
    while folders:
        prefix, folder = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if entry.name == ".git":
                    continue
                if stat.S_ISDIR(status.st_mode):
                    folders.append((f"{prefix}{entry.name}/", entry.path))
                elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    yield prefix + entry.name, entry.path, status


def _kind(status: os.stat_result) -> str:
    """Returns mode and size of a file; of its permissions git knows only whether it is executable."""
    if stat.S_ISLNK(status.st_mode):
        return f"120000 {status.st_size} "
    return f"{'100755' if status.st_mode & stat.S_IXUSR else '100644'} {status.st_size} "


def _describe(path: str, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return _kind(status) + hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()
    try:
        return _kind(status) + (digest_of(path) or f"too large to be compared, {status.st_mtime_ns}")
    except PermissionError:
        return _kind(status) + "unreadable"


def _read(path: str) -> bytes | None:
    """Returns the content of a baseline or of the file that names it; None if there is none."""
    with suppress(OSError):
        return read_regular(path, LONGEST_LINE)
    return None
