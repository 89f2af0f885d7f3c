"""A directory for what must not outlive the tool: the answer files of agents, and a TMPDIR for each of them.

It is removed when the tool ends: by the tool, by the guardian if the tool was killed, or by the next tool if both were.
The owner holds a lock on a file in it, so that no other tool takes it for abandoned.
"""

import errno
import fcntl
import glob
import os
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from agenteval.streams.files import open_regular

PREFIX = "agenteval-"
LOCK = "lock"
ENTERED = 0o711  # an agent may switch to another user, who has to get to its TMPDIR
SHARED = 0o1777  # as /tmp
REMOVALS = 5  # tries to remove it: a thread that has not noticed yet that the tool ends may add to it meanwhile
REMOVAL = 600.0  # seconds for rm, of a tree that is too deep for Python
CLEANING = 2.0  # seconds at the end to remove what other tools have left; the next tool continues with it
MOUNTS = "/proc/self/mountinfo"  # on Linux
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
        self._lent: set[str] = set()
        self._empty: list[str] = []  # directories that were given back as they were lent

    def new_name(self, prefix: str = "") -> str:
        """Returns an unused path for a file or directory; raises OSError if the directory for it cannot be made.

        It is short: the name of a socket below it may have 107 bytes in all.
        """
        return f"{self.folder()}/{prefix}{next(self._numbers)}"

    def folder(self) -> str:
        """Returns the directory itself, and makes it if it is missing; raises OSError if it cannot be made."""
        with self._making:
            if self._removed:  # a thread that has not noticed yet that the tool ends would leave a new one behind
                raise OSError(errno.ENOENT, "the tool is ending")
            if self._path is None or not os.path.isdir(self._path):  # an agent may have cleaned up /tmp
                self._path = self._make()
            return self._path

    def new_directory(self) -> str:
        """Returns an empty directory for temporary files; raises OSError if it cannot be made."""
        with suppress(IndexError, OSError):  # none was given back, or an agent has removed it
            if stat.S_ISDIR(os.lstat(path := self._empty.pop()).st_mode):  # not a link that took its place
                return path
        path = self.new_name()
        os.mkdir(path)
        os.chmod(path, SHARED)
        return path

    def give_back(self, path: str) -> None:
        """Removes a directory whose agent has ended, or keeps it for the next one if it is as new.

        Most are: to remove and make one takes longer than all else that is done for a prompt, and far longer while the
        disk is busy.
        """
        if _is_as_new(path):
            self._empty.append(path)
        else:
            discard(path)

    def lend(self, path: str) -> None:
        """Takes note of a file elsewhere that must not outlive the tool either, before it is written."""
        self._announce(path)
        self._lent.add(path)

    def take_back(self, path: str) -> None:
        """Removes a file that was lent."""
        discard(path)
        self._lent.discard(path)

    def remove(self) -> None:
        """Removes it with its content, as far as possible; it is not made again."""
        with self._making:
            self._removed = True
        for path in list(self._lent):
            self.take_back(path)
        if self._path is not None:
            for _ in range(REMOVALS):
                discard(self._path)
                if not os.path.lexists(self._path):
                    break
            os.close(self._lock_file)
            self._path = None
            self._cleaning.join(CLEANING)

    def _make(self) -> str:
        base = os.path.realpath(tempfile.gettempdir())
        path = os.path.join(base, PREFIX + os.urandom(4).hex())
        self._announce(path)  # before it is made: a tool that is killed in between leaves nothing
        os.mkdir(path, 0o700)
        self._cleaning = threading.Thread(target=_remove_abandoned, args=(base,), daemon=True)
        self._cleaning.start()  # what others left may be a million files: nothing waits for that
        if self._lock_file >= 0:
            os.close(self._lock_file)
        self._lock_file = _locked(path)
        os.chmod(path, ENTERED)
        return path


def _is_as_new(path: str) -> bool:
    """Whether a directory is empty, and still has the owner and the mode that it was made with."""
    with suppress(OSError):
        found = os.lstat(path)
        return (found.st_mode, found.st_uid) == (stat.S_IFDIR | SHARED, os.geteuid()) and not os.listdir(path)
    return False


def take_file(path: str, size: int, *, wait: float) -> bytes:
    """Removes a file and returns its first `size` bytes; waits up to `wait` seconds until it is not empty."""
    deadline = time.monotonic() + wait
    while not _is_written(path) and time.monotonic() < deadline:
        time.sleep(FILE_INTERVAL)
    data = b""
    with suppress(OSError):
        if _is_written(path):
            with os.fdopen(open_regular(path), "rb") as file:
                data = file.read(size)
        os.unlink(path)
    return data


def _is_written(path: str) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) > 0


def discard(path: str) -> None:
    """Removes a directory as far as possible: files that an agent made as another user may have to stay."""
    with suppress(OSError):
        remove_tree(path)


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
    for lock in glob.glob(os.path.join(glob.escape(base), f"{PREFIX}*", LOCK)):
        folder = os.path.dirname(lock)
        with suppress(OSError):  # its owner is alive, or another user
            fd = open_regular(lock, os.O_RDWR)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.lstat(folder).st_uid == os.getuid() and not os.path.islink(folder):
                    discard(folder)
            finally:
                os.close(fd)


# --- trees of any depth and mode ------------------------------------------------------------------


def remove_tree(path: str) -> None:
    """Removes a directory and all below it, or the file in its place; raises OSError if something is left.

    Everything else is removed nevertheless. A tree with a mount point in it is left as it is.
    """
    with suppress(OSError):  # as usual, it is an empty directory
        os.rmdir(path)
        return
    if mounted := _mount_below(path):
        raise OSError(f"{mounted}: a file system is mounted there; unmount it first")
    if os.path.islink(path) or not os.path.isdir(path):
        os.unlink(path)
        return
    try:
        _open_up(path)
        for folder, names, _files in os.walk(path):
            for name in names:
                _open_up(os.path.join(folder, name))
        shutil.rmtree(path, ignore_errors=True)
    except RecursionError:
        with suppress(subprocess.TimeoutExpired):  # no tree is too deep for rm, but an agent may stop it
            subprocess.run(["rm", "-rf", "--", path], capture_output=True, timeout=REMOVAL)
    if os.path.lexists(path):
        shutil.rmtree(path)  # raises what is in the way


def _open_up(folder: str) -> None:
    """Lets the owner read and empty a directory, if possible; removing it reports what is not."""
    with suppress(OSError):
        mode = os.lstat(folder).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(folder, stat.S_IMODE(mode) | stat.S_IRWXU)


def _mount_below(path: str) -> str | None:
    """Returns a mount point at or below a path: also of a bind mount, which has the device number of its source."""
    folder, name = os.path.split(path)
    top = os.path.join(os.path.realpath(folder), name, "")
    if not os.path.exists(MOUNTS):
        return None
    with open(MOUNTS, "rb") as file:
        points = [line.split(b" ")[4] for line in file]
    # A space in the name of a mount point is \040 in the table.
    found = (os.fsdecode(point.decode("unicode_escape").encode("latin-1")) for point in points)
    return next((point for point in found if f"{point}/".startswith(top)), None)
