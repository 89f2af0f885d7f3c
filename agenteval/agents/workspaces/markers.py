"""Markers: which workspaces below a directory were made by the suite, so that no other is ever replaced or removed.

A marker is a file beside the workspaces, DIR/.agenteval/<name>, where no agent and no git sees it as a change. It holds
the identity of the directory, because the user may have put another one in its place.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import sys
import threading
from contextlib import suppress

from agenteval.processes.remove_tree import remove_tree
from agenteval.streams.files import replace_file

FOLDER = ".agenteval"
AT_FDCWD = -100
AT_SYMLINK_NOFOLLOW = 0x100
STATX_BTIME = 0x800
STATX_SIZE = 256


class Markers:
    """The markers below a base directory, and a lock on each workspace that this process uses."""

    def __init__(self, base: str) -> None:
        self.folder = os.path.join(base, FOLDER)
        self._locks: int | None = None
        self._opening = threading.Lock()

    def claim(self, path: str) -> bool:
        """Locks a workspace until this process ends; returns False if another process has it.

        The lock is that of a byte in one file, named by the workspace: thousands need one descriptor. Processes that
        share a directory but no prompt, as those of several shards, do not meet.
        """
        with self._opening:
            if self._locks is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                self._locks = os.open(os.path.join(self.folder, "locks"), flags, 0o666)
        place = int.from_bytes(hashlib.sha256(os.fsencode(os.path.basename(path))).digest()[:7], "big")
        try:
            fcntl.lockf(self._locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError as error:
            return error.errno not in (errno.EACCES, errno.EAGAIN)  # else a file system without locks
        return True

    def prepare(self) -> None:
        """Makes the folder of markers, which git ignores; OSError if that cannot be."""
        if os.path.islink(self.folder):
            raise OSError(None, f"{FOLDER} in it is a symbolic link; remove that")
        if not os.path.isdir(self.folder):
            os.makedirs(self.folder, exist_ok=True)
            replace_file(os.path.join(self.folder, ".gitignore"), b"*\n")

    def ignores_case(self) -> bool:
        """Whether the file system takes `A` and `a` for the same name; a guess until the folder is there."""
        if not os.path.isdir(self.folder):
            return sys.platform == "darwin"
        return os.path.exists(os.path.join(os.path.dirname(self.folder), FOLDER.upper()))

    def make(self, path: str) -> None:
        """Makes a workspace, marked before it is at its place: what a crash leaves never looks like the user's."""
        self.prepare()
        new = os.path.join(self.folder, f"new-{os.path.basename(path)}")
        if os.path.lexists(new):
            remove_tree(new)
        os.mkdir(new)
        try:
            replace_file(self._marker(path), _identity(new).encode())
            os.rename(new, path)
        except OSError:
            with suppress(OSError):
                os.rmdir(new)
            raise

    def put(self, path: str) -> None:
        """Marks a workspace that is there as made by the suite."""
        self.prepare()
        replace_file(self._marker(path), _identity(path).encode())

    def has(self, path: str) -> bool:
        """Whether the suite has made what is at that path now."""
        try:
            with open(self._marker(path)) as file:
                return file.read() == _identity(path)
        except OSError:
            return False

    def drop(self, path: str) -> None:
        """Forgets a workspace that is removed."""
        with suppress(OSError):
            os.unlink(self._marker(path))

    def _marker(self, path: str) -> str:
        return os.path.join(self.folder, os.path.basename(path))


def _identity(path: str) -> str:
    """Returns what tells a directory from one that takes its place: a new one may get the inode of a removed one."""
    status = os.lstat(path)
    born = getattr(status, "st_birthtime", None) or _birth_time(path)
    return f"{status.st_dev} {status.st_ino} {born}\n"


def _birth_time(path: str) -> str:
    """Returns when a file was created, which Python does not say on Linux; empty where the system does not know."""
    if sys.platform != "linux":
        return ""
    import ctypes

    buffer = ctypes.create_string_buffer(STATX_SIZE)
    try:
        statx = ctypes.CDLL(None).statx
    except AttributeError:  # an old C library
        return ""
    if statx(AT_FDCWD, os.fsencode(path), AT_SYMLINK_NOFOLLOW, STATX_BTIME, buffer) != 0:
        return ""
    known = int.from_bytes(buffer.raw[:4], sys.byteorder) & STATX_BTIME
    seconds, nanoseconds = (int.from_bytes(buffer.raw[start:end], sys.byteorder) for start, end in ((80, 88), (88, 92)))
    return f"{seconds}.{nanoseconds:09}" if known else ""
