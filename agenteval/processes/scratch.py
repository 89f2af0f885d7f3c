"""A directory for what must not outlive the tool: the answer files of agents, and a TMPDIR for each of them.

It is removed when the tool ends: by the tool, by the guardian if the tool was killed, or by the next tool if both were.
The owner holds a lock on a file in it, so that no other tool takes it for abandoned.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

from agenteval.processes.remove_tree import remove_tree

PREFIX = "agenteval-"
LOCK = "lock"
VARIABLES = ("TMPDIR", "TEMP", "TMP")
PLACES = ("/tmp", "/var/tmp", "/usr/tmp")
ENTERED = 0o711  # an agent may switch to another user, who has to get to its TMPDIR
SHARED = 0o1777  # as /tmp
REMOVALS = 5  # tries to remove it: a thread that has not noticed yet that the tool ends may add to it meanwhile
FILE_INTERVAL = 0.02  # seconds between two looks at a file that is waited for


class Scratch:
    """The directory of one tool, made when it is needed; `announce` is called with its name."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._path: str | None = None
        self._removed = False
        self._lock_file = -1
        self._making = threading.Lock()
        self._numbers = count(1)

    def new_name(self, prefix: str = "") -> str:
        """Returns an unused path for a file or directory; OSError if the directory for it cannot be made.

        It is short: the name of a socket below it may have 107 bytes in all.
        """
        return f"{self.folder()}/{prefix}{next(self._numbers)}"

    def folder(self) -> str:
        """Returns the directory itself, and makes it if it is missing; OSError if it cannot be made."""
        with self._making:
            if self._removed:  # a thread that has not noticed yet that the tool ends would leave a new one behind
                raise OSError(errno.ENOENT, "the tool is ending")
            if self._path is None or not os.path.isdir(self._path):  # an agent may have cleaned up /tmp
                self._path = self._make()
            return self._path

    def new_directory(self) -> str:
        """Returns a new directory for temporary files; OSError if it cannot be made."""
        path = self.new_name()
        os.mkdir(path)
        os.chmod(path, SHARED)
        return path

    def remove(self) -> None:
        """Removes it with its content, as far as possible; it is not made again."""
        with self._making:
            self._removed = True
        if self._path is not None:
            for _ in range(REMOVALS):
                discard(self._path)
                if not os.path.lexists(self._path):
                    break
            os.close(self._lock_file)
            self._path = None

    def _make(self) -> str:
        base, path = _make_private(self._announce)
        _remove_abandoned(base)
        if self._lock_file >= 0:
            os.close(self._lock_file)
        self._lock_file = _locked(path)
        os.chmod(path, ENTERED)
        return path


def take_file(path: str, size: int, *, wait: float) -> bytes:
    """Removes a file and returns its first `size` bytes; waits up to `wait` seconds until it is not empty."""
    data = b""
    deadline = time.monotonic() + wait
    while not (is_written := _size_of(path) > 0) and time.monotonic() < deadline:
        time.sleep(FILE_INTERVAL)
    if is_written:
        with suppress(OSError), open(path, "rb") as file:
            data = file.read(size)
    with suppress(OSError):
        os.unlink(path)
    return data


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def discard(path: str) -> None:
    """Removes a directory as far as possible: files that an agent made as another user may have to stay."""
    with suppress(OSError):
        os.rmdir(path)
        return
    with suppress(OSError):
        remove_tree(path)


def _make_private(announce: Callable[[str], None]) -> tuple[str, str]:
    """Makes a directory with a new name; returns its parent and its path.

    It is announced before it is made: a tool that is killed in between leaves nothing.
    """
    problem = OSError()
    for base in filter(None, (*map(os.environ.get, VARIABLES), *PLACES)):
        try:
            base = os.path.realpath(base)
            path = os.path.join(base, PREFIX + os.urandom(4).hex())
            announce(path)
            os.mkdir(path, 0o700)
            return base, path
        except OSError as error:
            problem = error
    raise problem


def _locked(path: str) -> int:
    """Makes the lock file; it gets its name only once it is locked."""
    made, name = os.path.join(path, f"{LOCK}-"), os.path.join(path, LOCK)
    fd = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # a file system without locks
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.rename(made, name)
    return fd


def _remove_abandoned(base: str) -> None:
    """Removes the directories of tools that were killed together with their guardians."""
    with suppress(OSError):
        for path in list(_of_ours(base)):
            _remove_if_unlocked(path)


def _of_ours(base: str) -> Iterator[str]:
    with os.scandir(base) as entries:
        for entry in entries:
            with suppress(OSError):
                is_ours = entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False)
                if is_ours and entry.stat(follow_symlinks=False).st_uid == os.getuid():
                    yield entry.path


def _remove_if_unlocked(path: str) -> None:
    try:
        fd = os.open(os.path.join(path, LOCK), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # not one of these, or it is being made
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        discard(path)
    except OSError:
        pass  # its owner is alive
    finally:
        os.close(fd)
