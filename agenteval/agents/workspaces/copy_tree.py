"""Copies directory trees exactly."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator

Links = dict[tuple[int, int], str]  # device and inode of a file with several names → the first copy of it


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
