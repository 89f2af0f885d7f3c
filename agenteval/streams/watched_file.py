"""An output file while it is written: what other programs do to it is noticed, and records are not lost with it."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from agenteval.streams.files import NEW

COPY = 1 << 20
INTERVAL = 1.0  # seconds between two syncs: what a power cut may cost


class WatchedFile:
    """A regular file that is open for writing; `problems` are lines for the user about what happened to it.

    The caller serializes the calls.
    """

    def __init__(self, fd: int, path: str, name: str) -> None:
        self.fd, self.path, self.name = fd, path, name
        self.problems: list[str] = []
        self.size = os.fstat(fd).st_size
        self._reader = _open_again(fd, path)
        self._named = False  # whether its name is on the disk

    def check(self) -> None:
        """Restores the file if it was removed or replaced; notes if it was cut short."""
        status = os.fstat(self.fd)
        if status.st_nlink == 0:
            self._restore()
        elif status.st_size < self.size:
            self._note("was cut short by another program: records are missing in it, whose prompts --resume runs again")
            self._end_line(status.st_size)
        self.size = os.fstat(self.fd).st_size

    def final_check(self) -> None:
        """Does the same, and notes if the file was moved: its records are in another place now."""
        self.check()
        with suppress(OSError):
            if os.path.samestat(os.fstat(self.fd), os.stat(self.path)):
                return
        if not self.problems:
            where = "its records went with it"
            with suppress(OSError):
                where = f"its records are in {os.readlink(f'/proc/self/fd/{self.fd}')}"
            self._note(f"was moved during the run: {where}")

    def sync(self) -> None:
        """Brings what is written to the disk; a file system that cannot do that is left alone."""
        with suppress(OSError):
            copy = os.dup(self.fd)  # the file may be closed meanwhile
            try:
                os.fdatasync(copy) if hasattr(os, "fdatasync") else os.fsync(copy)
            finally:
                os.close(copy)
        if not self._named:
            self._named = True
            with suppress(OSError):
                folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(folder)  # a new file has its name only in there
                finally:
                    os.close(folder)

    def close(self) -> None:
        """Closes what this object itself has opened."""
        if self._reader is not None:
            os.close(self._reader)
            self._reader = None

    def _restore(self) -> None:
        """Writes the records of a removed file again, to the same place or, if something is there, beside it."""
        path, number = self.path, 1
        while True:
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                new = os.open(path, NEW)
                break
            except FileExistsError:
                path = f"{self.path}.recovered" + (f".{number}" if number > 1 else "")
                number += 1
        os.fchmod(new, stat.S_IMODE(os.fstat(self.fd).st_mode))
        copied = self._copy(new)
        os.dup2(new, self.fd, inheritable=False)
        os.close(new)
        self.close()
        self._reader = _open_again(self.fd, path)
        if path == self.path:
            what, where = "removed", "were written there again"
        else:
            what, where = "replaced", f"are in {path}"
        self._note(f"was {what} during the run: its records {where if copied else 'are lost'}")
        self.path, self._named = path, False

    def _copy(self, target: int) -> bool:
        """Copies the whole file; returns False if it may be written but not read."""
        if self._reader is None:
            return False
        os.lseek(self._reader, 0, os.SEEK_SET)
        while chunk := os.read(self._reader, COPY):
            while chunk:
                chunk = chunk[os.write(target, chunk) :]
        return True

    def _end_line(self, size: int) -> None:
        """Ends a line that was cut off, so that the next record does not become a part of it."""
        if size and self._reader is not None and os.pread(self._reader, 1, size - 1) != b"\n":
            os.write(self.fd, b"\n")

    def _note(self, problem: str) -> None:
        line = f"{self.name} {problem}"
        if line not in self.problems:
            self.problems.append(line)


def _open_again(fd: int, path: str) -> int | None:
    """Returns a descriptor to read the file; None if that is not permitted, or it is not the same any more."""
    try:
        reader = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    if os.path.samestat(os.fstat(fd), os.fstat(reader)):
        return reader
    os.close(reader)
    return None


class Syncer:
    """Calls functions that sync a file every second, in a thread: a disk that is busy holds up no agent."""

    def __init__(self, syncs: Sequence[Callable[[], None]]) -> None:
        self._syncs = syncs
        self._stopped = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def stop(self) -> None:
        """Makes the thread end; the files sync themselves when they are closed."""
        self._stopped.set()

    def _serve(self) -> None:
        while not self._stopped.wait(INTERVAL):
            for sync in self._syncs:
                sync()
