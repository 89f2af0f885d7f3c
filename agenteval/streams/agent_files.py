"""Files that an agent can reach: whatever it has put there, opening them neither hangs nor fills the memory.

A named pipe would make the tool wait for ever, a link to /dev/zero or a sparse file fill its memory, any link lead it
elsewhere. Only regular files are opened here, links are not followed, and what is read has a largest size. Everything
else is an OSError that names the path, which costs the record that the file belongs to. tests/test_agent_files.py
forbids other ways to open a file in the packages that touch such paths. Files that the user names on a command line may
be links and pipes (`<(command)`): read_given() waits for a pipe only if a program writes to it.
"""

import errno
import hashlib
import os
import select
import stat
from collections.abc import Iterator
from contextlib import suppress

from agenteval.streams import descriptors
from agenteval.streams.files import PIECE, describe_kind

LARGEST = 64 << 20  # bytes of a file that is read as a whole, and of a line
LONGEST_LINE = 1 << 30  # bytes of a line that the suite itself may have written
LARGEST_HASHED = 4 << 30  # bytes of a file whose content is compared
COPIED = 1 << 20  # bytes at a time
PIPE_PATIENCE = 10.0  # seconds for which a named pipe waits for the program at its other end
SAFELY = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def open_regular(path: str, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Opens a regular file and returns its descriptor; OSError says what it is instead.

    Only a path that the user has named may be a link, to `follow`.
    """
    try:
        fd = os.open(path, flags | SAFELY | (0 if follow else os.O_NOFOLLOW), 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO or (error.errno == errno.ELOOP and os.path.islink(path)):
            raise _not_regular(path, os.lstat(path).st_mode) from None
        raise
    if not stat.S_ISREG(mode := os.fstat(fd).st_mode):
        os.close(fd)
        raise _not_regular(path, mode)
    return fd


def is_regular(path: str) -> bool:
    """Whether there is a regular file at that path, which is not a link to one."""
    with suppress(OSError, ValueError):  # ValueError: a NUL character in the path
        return stat.S_ISREG(os.lstat(path).st_mode)
    return False


def _not_regular(path: str, mode: int) -> OSError:
    return OSError(errno.EINVAL, f"is {describe_kind(mode)}, not a regular file", path)


def _too_large(path: str, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"is larger than {limit:,} bytes", path)


def read_regular(path: str, limit: int = LARGEST, *, follow: bool = False) -> bytes:
    """Returns the content of a regular file; OSError if it is something else, or larger than the limit."""
    fd = open_regular(path, follow=follow)
    with os.fdopen(fd, "rb") as file:
        if os.fstat(fd).st_size > limit or len(data := file.read(limit + 1)) > limit:
            raise _too_large(path, limit)
        return data


def lines_of(path: str, start: int = 0, *, follow: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a regular file from an offset on, each with its own; OSError if one is too long."""
    limit = LONGEST_LINE
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        file.seek(start)
        while line := file.readline(limit + 1):
            if len(line) > limit:
                raise OSError(errno.EFBIG, f"has a line of more than {limit:,} bytes", path)
            yield start, line
            start += len(line)


def digest_of(path: str, *, follow: bool = False) -> str | None:
    """Returns the SHA-256 of a regular file in hexadecimal digits; None if it is too large to be compared."""
    with os.fdopen(fd := open_regular(path, follow=follow), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if os.fstat(fd).st_size <= LARGEST_HASHED else None


def copy_regular(source: str, target: str) -> str:
    """Copies the content of a regular file to a new one, holes as holes, and its mode and times; returns the target."""
    fd = open_regular(source)
    try:
        copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            status = os.fstat(fd)
            for at, end in _data(fd, status.st_size):
                while at < end and (piece := os.pread(fd, min(COPIED, end - at), at)):
                    at += os.pwrite(copy, piece, at)
            os.ftruncate(copy, status.st_size)
            os.fchmod(copy, stat.S_IMODE(status.st_mode))
            os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(copy)
    finally:
        os.close(fd)
    return target


def _data(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Yields start and end of what is not a hole in a file."""
    end = 0
    with suppress(OSError):  # ENXIO: nothing but a hole is left
        while end < size:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, start, os.SEEK_HOLE)
            yield start, end


# --- files that the user names -------------------------------------------------------------------


def open_given(path: str) -> int:
    """Opens a file, a pipe or a device to read, without waiting for the program that writes to a named pipe."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


def is_null(fd: int) -> bool:
    """Whether it is /dev/null, the one device whose content ends."""
    return os.fstat(fd).st_rdev == os.stat(os.devnull).st_rdev


def read_first(fd: int, size: int) -> bytes:
    """Returns the first bytes that can be read; OSError if it is a named pipe that no program writes to."""
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(PIPE_PATIENCE * 1000):
            try:
                if data := os.read(fd, size):
                    return data
                raise OSError(errno.EPIPE, "is a named pipe that no program writes to")
            except BlockingIOError:
                pass  # a program has it open, and has not written yet
    return descriptors.read(fd, size)


def read_given(path: str, limit: int = LARGEST) -> bytes:
    """Returns the content of a small file that the user names; OSError if it cannot be read or is too large."""
    fd = open_given(path)
    try:
        pieces = [read_first(fd, PIECE)]
        while pieces[-1] and len(pieces) <= limit // PIECE + 1:
            pieces.append(descriptors.read(fd, PIECE))
    finally:
        os.close(fd)
    if len(data := b"".join(pieces)) > limit:
        raise _too_large(path, limit)
    return data
