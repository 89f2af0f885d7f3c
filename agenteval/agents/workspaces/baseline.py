"""Baselines: the files that an agent started with, kept where it has no reason to look, to find what it changed.

A baseline is a file beside the workspaces, DIR/.agenteval/baselines/<digest>, named after its own content: workspaces
of the same content share one, and one that was tampered with no longer has its name. The record has the digest in
metadata.workspaceBaseline; DIR/.agenteval/baselines/prompt-<id> has it, too. It lists mode, size and hash of each
file, and holds the .gitignore files, so that nothing that an agent does to its repository changes what is found.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

from agenteval.agents.workspaces.markers import FOLDER
from agenteval.streams.files import replace_file

BASELINES = "baselines"
DIGEST = re.compile(r"[0-9a-f]{64}")
IGNORE_FILE = ".gitignore"
CHUNK = 1 << 20


class Changes(NamedTuple):
    """Sorted file names, relative to the top of the work tree."""

    created: list[str]
    changed: list[str]
    deleted: list[str]


class Baseline(NamedTuple):
    """The files of a work tree: name → mode, size and hash; and the content of its .gitignore files."""

    files: dict[str, str]
    ignoring: dict[str, str]


# --- take and keep ------------------------------------------------------------------------------


def take_baseline(top: str) -> Baseline:
    """Returns the files of a work tree as they are now."""
    files = {name: _describe(path, status) for name, path, status in _files(top)}
    ignoring = {}
    for name in files:
        path = os.path.join(top, name)
        if os.path.basename(name) == IGNORE_FILE and not os.path.islink(path):
            with open(path, "rb") as file:
                ignoring[name] = file.read().decode("latin-1")  # any bytes
    return Baseline(files, ignoring)


def keep_baseline(baseline: Baseline, top: str) -> str:
    """Stores the baseline of a workspace beside it, and returns its digest."""
    content = json.dumps(baseline._asdict(), sort_keys=True).encode()
    digest = hashlib.sha256(content).hexdigest()
    folder = os.path.join(os.path.dirname(top), FOLDER, BASELINES)
    os.makedirs(folder, exist_ok=True)
    if _read(os.path.join(folder, digest)) != content:
        replace_file(os.path.join(folder, digest), content)
    replace_file(os.path.join(folder, os.path.basename(top)), digest.encode())
    return digest


def drop_baseline(top: str) -> None:
    """Forgets the baseline of a workspace that is made anew."""
    path = os.path.join(os.path.dirname(top), FOLDER, BASELINES, os.path.basename(top))
    if os.path.lexists(path):
        os.unlink(path)


# --- find and compare ---------------------------------------------------------------------------


def find_baseline(cwd: str, digest: str | None) -> tuple[str, Baseline] | None:
    """Returns the workspace that a directory belongs to, and its baseline; None if it has none.

    `digest` is what the record says; OSError if there is no such baseline, or another one in its place.
    """
    top = os.path.abspath(cwd)
    while True:
        folder = os.path.join(os.path.dirname(top), FOLDER, BASELINES)
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
            f"its baseline is missing, {FOLDER}/{BASELINES}/{digest} beside the workspace: "
            "copy a workspace directory with all that is in it"
        )
    return None


def compare(top: str, baseline: Baseline, cwd: str) -> Changes:
    """Returns what is different now below a directory of the workspace; OSError if that is no directory any more."""
    if os.path.islink(top):
        raise OSError("a symbolic link is in the place of the workspace")
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
    digest = hashlib.sha256()
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        return _kind(status) + "unreadable"
    with os.fdopen(fd, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return _kind(status) + digest.hexdigest()


def _read(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(fd).st_mode) else None
