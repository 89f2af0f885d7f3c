"""Pipes to processes: as large as the system allows, and written to without blocking."""

from __future__ import annotations

import fcntl
import os
from collections import deque

PIPE_SIZE = 1 << 20  # an agent that exits without flushing is cut off at the pipe's size, by default 64 KiB
LONGEST_WAIT = 3600.0  # seconds; poll takes no more than 24 days
F_SETPIPE_SZ = getattr(fcntl, "F_SETPIPE_SZ", None)


def open_pipe(size: int | None = None) -> tuple[int, int]:
    """Returns a pipe (read end, write end), as large as asked for where the system allows it."""
    read, write = os.pipe()
    if size is not None and F_SETPIPE_SZ is not None:
        try:
            fcntl.fcntl(read, F_SETPIPE_SZ, size)
        except OSError:
            pass  # the user's share of pipe memory is used up; 64 KiB will do
    return read, write


def poll_timeout(seconds: float | None) -> float | None:
    """Returns the argument of poll for a wait of so many seconds; None is no limit."""
    return None if seconds is None else min(max(0.0, seconds), LONGEST_WAIT) * 1000


class PipeWriter:
    """The write end of a pipe that is never waited for: what does not fit is kept until there is room."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.unsent_size = 0
        self._unsent: deque[memoryview] = deque()

    def write(self, data: bytes = b"") -> None:
        """Writes as much of what is unsent, and then of `data`, as there is room for."""
        if data:
            self._unsent.append(memoryview(data))
            self.unsent_size += len(data)
        try:
            while self._unsent:
                first = self._unsent[0]
                written = os.write(self.fd, first[:PIPE_SIZE])
                self.unsent_size -= written
                if written < len(first):
                    self._unsent[0] = first[written:]
                else:
                    self._unsent.popleft()
        except BlockingIOError:
            pass
        except OSError:  # the process has closed its stdin, as it is free to do
            self._unsent.clear()
            self.unsent_size = 0
