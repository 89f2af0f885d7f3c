"""The line of a terminal in which progress is shown: one at a time of the tools that share the terminal has it."""

from __future__ import annotations

import os
from _thread import allocate_lock  # threading.Lock, but threading takes 1 ms to import

from agenteval.streams import descriptors

ERASE = "\r\x1b[K"


class ProgressLine:
    """The last line of stderr, if that is a terminal: text that is replaced in place, with messages above it.

    The tools of a pipeline have one stderr. The one that shows progress first holds a lock on the terminal until it is
    done; the others draw nothing, and erase that line before a message, after which its owner draws it again.
    """

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._text = ""

    def show(self, text: str) -> None:
        """Replaces the text, unless another tool shows its own."""
        with self._lock:
            if self._text or _take(2):
                self._text = text
                self._write(f"{ERASE}{text}")

    def say(self, line: str, *, alone: bool = False) -> None:
        """Writes a line above it; `alone` also removes what the terminal itself may have put there, such as ^C."""
        with self._lock:
            self._write(f"{self._erase(always=alone)}{line}\n{self._text}")

    def end(self, line: str | None = None) -> None:
        """Removes it, or replaces it by a line that stays; another tool may show its own then."""
        with self._lock:
            if not self._text and line is None:
                return
            erase = self._erase()
            shown, self._text = self._text, ""
            self._write(erase if line is None else f"{erase}{line}\n")
            if shown:
                _release(2)

    def abandon(self) -> None:
        """Removes it in a signal handler that exits at once: the thread that has the lock will not run again."""
        if self._text:
            self._write(ERASE)

    def _erase(self, *, always: bool = False) -> str:
        if self._text:
            return ERASE
        return ERASE if is_terminal(2) and (always or another_shows(2)) else ""

    def _write(self, text: str) -> None:
        try:
            descriptors.write(2, [text.encode("utf-8", "replace")])
        except OSError:
            pass  # stderr is closed or full; the data on stdout still counts


def is_terminal(fd: int) -> bool:
    """Returns whether it is a terminal that understands escape sequences."""
    return os.environ.get("TERM") != "dumb" and os.isatty(fd)


def another_shows(fd: int) -> bool:
    """Returns whether another process shows its progress on this terminal; this one must not."""
    taken = _take(fd)
    if taken:
        _release(fd)
    return not taken


# A lock of fcntl belongs to the process, although all of a pipeline have inherited the same open terminal.


def _take(fd: int) -> bool:
    import fcntl  # only where there is a terminal

    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # POSIX allows either
        return False
    except OSError:
        pass  # a terminal that cannot be locked, or is open for reading only
    return True


def _release(fd: int) -> None:
    import fcntl

    try:
        fcntl.lockf(fd, fcntl.LOCK_UN)
    except OSError:
        pass


PROGRESS = ProgressLine()
