"""Directory trees, copied exactly and removed for sure: however deep, whatever their modes, no link followed."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
Links = dict[tuple[int, int], str]  # where the first name of a file that has several was copied to


# --- copy ---------------------------------------------------------------------------------------


def copy_tree(source: str, target: str, leave: Callable[[os.DirEntry[str]], bool] = lambda _entry: False) -> None:
    """Copy a directory: bytes, links, hard links, modes and times; sockets, devices and what to `leave` are not."""
    directories = [(source, target)]
    links: Links = {}
    for here, there in directories:  # it grows: a parent always stands before what is in it
        if there != target or not os.path.isdir(target):
            os.mkdir(there, 0o700)
        directories += _copy_entries(here, there, links, leave)
    for here, there in reversed(directories):  # last, for a directory may be one that nobody can write to
        shutil.copystat(here, there)


def _copy_entries(
    here: str, there: str, links: Links, leave: Callable[[os.DirEntry[str]], bool]
) -> Iterator[tuple[str, str]]:
    """Copy what is in a directory; the directories among it are what is still to be done."""
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


def remove_tree(path: str) -> None:
    """Remove a directory and all below it, or whatever stands in its place; OSError if something has to stay."""
    removal = _Removal(path)
    try:
        removal.run()
    finally:
        os.close(removal.fd)
    if removal.problem is not None and os.path.lexists(path):
        raise removal.problem


class _Level:
    """A directory on the way down: which one it is, and the names in it that are still to be removed."""

    def __init__(self, fd: int, names: list[str]) -> None:
        self.identity, self.names = _identity(fd), names


class _Removal:
    """Goes through a tree with two descriptors and no path longer than a name, so that no depth is too deep."""

    def __init__(self, path: str) -> None:
        folder, name = os.path.split(path)
        self.path = path
        self.fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self.levels = [_Level(self.fd, [name])]
        self.problem: OSError | None = None  # the first; all else is removed nevertheless

    def run(self) -> None:
        """Remove all that can be."""
        while self.levels:
            try:
                self._remove_next()
            except OSError as error:
                why = f"{error.strerror or error}: {error.filename or ''} in {self.path}"
                self.problem = self.problem or OSError(error.errno, why)
                if not self._is_back():
                    return
                self.levels[-1].names.pop()

    def _remove_next(self) -> None:
        """Remove a file, step down into a directory, or up from one that is done."""
        if not self.levels[-1].names:
            self._leave()
            return
        name = self.levels[-1].names[-1]
        mode = os.lstat(name, dir_fd=self.fd).st_mode
        if stat.S_ISDIR(mode):
            self._enter(name, stat.S_IMODE(mode))
        else:
            os.unlink(name, dir_fd=self.fd)
            self.levels[-1].names.pop()

    def _enter(self, name: str, mode: int) -> None:
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            with suppress(PermissionError):  # somebody else's; then the next line says so
                os.chmod(name, mode | stat.S_IRWXU, dir_fd=self.fd)
        self._step(name)
        self.levels.append(_Level(self.fd, os.listdir(self.fd)))

    def _leave(self) -> None:
        self.levels.pop()
        if self.levels:
            self._step("..")
            if not self._is_back():
                raise OSError("moved while it was removed")
            os.rmdir(self.levels[-1].names[-1], dir_fd=self.fd)
            self.levels[-1].names.pop()

    def _step(self, name: str) -> None:
        to = os.open(name, DIRECTORY, dir_fd=self.fd)
        os.close(self.fd)
        self.fd = to

    def _is_back(self) -> bool:
        """Whether we are where we think; not so if somebody moves directories about meanwhile."""
        return _identity(self.fd) == self.levels[-1].identity


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
