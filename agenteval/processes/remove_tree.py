"""Removes directory trees of any depth and mode, following no link, crossing no mount."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

import msgspec

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
MOUNTS = "/proc/self/mountinfo"


class _Level(msgspec.Struct, frozen=True):
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
            points = [line.split(b" ")[4] for line in file]
    except OSError:
        return None  # not Linux: device numbers have to do
    found = (os.fsdecode(_unescaped(point)) for point in points)
    return next((point for point in found if f"{point}/".startswith(top)), None)


def _unescaped(point: bytes) -> bytes:
    """Returns a mount point as it is, not as it stands in the table, where a space is \\\\040."""
    return point.decode("unicode_escape").encode("latin-1") if b"\\" in point else point
