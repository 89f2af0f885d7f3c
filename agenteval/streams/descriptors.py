"""Reads and writes descriptors that may be in non-blocking mode, as those shared with node, ssh or tmux are.

The mode belongs to the open file, and so to all processes that share it: it is left as it is, and these functions wait
until the descriptor is ready.
"""

import io
import os
import select
import sys

from agenteval.errors import CannotGoOn, ClosedPipe


def read(fd: int, size: int) -> bytes:
    """Returns what is there, at most `size` bytes; waits until there is something or the end."""
    while True:
        try:
            return os.read(fd, size)
        except BlockingIOError:
            _wait(fd, for_writing=False)


def write(fd: int, parts: list[bytes]) -> None:
    """Writes all parts, in one system call if the descriptor takes them at once."""
    try:
        written = os.writev(fd, parts)
    except BlockingIOError:
        written = 0
    if written == sum(map(len, parts)):
        return
    rest = memoryview(b"".join(parts))[written:]
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            _wait(fd, for_writing=True)


def _wait(fd: int, *, for_writing: bool) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLOUT if for_writing else select.POLLIN)
    poll.poll()


class _RawStdout(io.FileIO):
    """Descriptor 1; it raises the errors that a tool reports."""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        try:
            write(1, [bytes(data)])
        except BrokenPipeError:
            raise ClosedPipe from None
        except OSError as error:
            raise CannotGoOn(f"cannot write to stdout: {error.strerror}") from None
        return len(data)


def replace_stdout() -> None:
    """Makes sys.stdout, on which Click prints help, wait for readiness and fail if descriptor 1 is closed."""
    encoding, errors = getattr(sys.stdout, "encoding", None), getattr(sys.stdout, "errors", None)
    raw: io.RawIOBase = _RawStdout(1, "w", closefd=False)
    sys.stdout = io.TextIOWrapper(raw, encoding or "utf-8", errors or "strict", write_through=True)
