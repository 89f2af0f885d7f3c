"""Copies directory trees exactly, and removes them: of any depth and mode, following no link, crossing no mount."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
MOUNTS = "/proc/self/mountinfo"
Links = dict[tuple[int, int], str]  # device and inode of a file with several names → the first copy of it


# --- copy ---------------------------------------------------------------------------------------


def copy_tree(source: str, target: str, leave: Callable[[os.DirEntry[str]], bool] = lambda _entry: False) -> None:
    """Copies a directory with its links, hard links, modes and times, without sockets, devices and what to `leave`."""
    directories = [(source, target)]
    links: Links = {}
    for here, there in directories:  # the list grows: a parent always stands before its children
        if there != target or not os.path.isdir(target):
            os.mkdir(there, 0o700)
        directories += _copy_entries(here, there, links, leave)
    for here, there in reversed(directories):  # last: the copied mode may forbid writing
        shutil.copystat(here, there)


def _copy_entries(
    here: str, there: str, links: Links, leave: Callable[[os.DirEntry[str]], bool]
) -> Iterator[tuple[str, str]]:
    """Copies the files in a directory; yields its directories, which are still to be copied."""
    with os.scandir(here) as entries:
        for entry in entries:
            if leave(entry):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield entry.path, os.path.join(there, entry.name)
            else:
                _copy_entry(entry, os.path.join(there, entry.name), links)


def _copy_entry(entry: os.DirEntry[str], target: str, links: Links) -> None:
    status = entry.stat(follow_symlinks=False)
    if stat.S_ISFIFO(status.st_mode):
        os.mkfifo(target)
        shutil.copystat(entry.path, target)
    elif stat.S_ISLNK(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1):
        shutil.copy2(entry.path, target, follow_symlinks=False)
    elif stat.S_ISREG(status.st_mode):
        first = links.setdefault((status.st_dev, status.st_ino), target)
        if first == target:
            shutil.copy2(entry.path, target)
        else:
            os.link(first, target)


# --- remove -------------------------------------------------------------------------------------


class _Level(NamedTuple):
    """A directory on the way down: device and inode, its name in its parent, and the names left in it."""

    identity: tuple[int, int]
    name: str
    names: list[str]


def remove_tree(path: str) -> None:
    """Removes a directory and all below it, or the file in its place; OSError if something is left.

    Needs one descriptor and no path longer than a name, so that no depth is too deep: it opens a directory from its
    parent, and the parent as "..". A tree with a mount point in it is left as it is.
    """
    if mounted := _mount_below(path):
        raise OSError(f"{mounted}: a file system is mounted there; unmount it first")
    folder, name = os.path.split(path)
    fd = os.open(folder, DIRECTORY & ~os.O_NOFOLLOW)
    levels = [_Level(_identity(fd), "", [name])]
    problem: OSError | None = None  # the first; everything else is removed nevertheless
    try:
        while levels and _identity(fd) == levels[-1].identity:  # else it was moved meanwhile, or cannot be left
            try:
                if levels[-1].names:
                    _remove_or_enter(levels[-1].names.pop(), fd, levels)
                elif (done := levels.pop()).name:
                    _enter("..", fd)
                    os.rmdir(done.name, dir_fd=fd)
            except OSError as error:
                problem = problem or OSError(f"{error.strerror}: {error.filename} in {path}")
    finally:
        os.close(fd)
    if os.path.lexists(path):
        raise problem or OSError(f"moved while it was being removed: {path}")


def _remove_or_enter(name: str, fd: int, levels: list[_Level]) -> None:
    """Removes a file, or enters a directory, which becomes the last level."""
    status = os.lstat(name, dir_fd=fd)
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(name, dir_fd=fd)
        return
    if status.st_dev != levels[-1].identity[0]:
        raise OSError(None, "a file system is mounted there", name)
    if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        with suppress(PermissionError):  # of another user; opening it reports that
            os.chmod(name, stat.S_IMODE(status.st_mode) | stat.S_IRWXU, dir_fd=fd)
    _enter(name, fd)
    levels.append(_Level(_identity(fd), name, []))
    levels[-1].names.extend(os.listdir(fd))


def _enter(name: str, fd: int) -> None:
    """Makes the descriptor of a directory that of another one, named relative to it."""
    opened = os.open(name, DIRECTORY, dir_fd=fd)
    os.dup2(opened, fd, inheritable=False)
    os.close(opened)


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _mount_below(path: str) -> str | None:
    """Returns a mount point at or below a path: also of a bind mount, which has the device number of its source."""
    folder, name = os.path.split(path)
    top = os.path.join(os.path.realpath(folder), name, "")
    try:
        with open(MOUNTS, "rb") as file:
            points = [line.split(b" ")[4].decode("unicode_escape") for line in file]  # a space is \\040
    except OSError:
        return None  # not Linux: device numbers have to do
    found = (os.fsdecode(point.encode("latin-1")) for point in points)
    return next((point for point in found if f"{point}/".startswith(top)), None)
