"""Files and descriptors: how they are opened, created, read, written and removed, whatever an agent has put there.

A named pipe would make the tool wait for ever, a link to /dev/zero or a sparse file fill its memory, any link lead it
elsewhere. Of the files that an agent can reach, only regular ones are opened here, links are not followed, and what is
read has a largest size. Everything else is an OSError that names the path, which costs the record that the file belongs
to. tests/streams/test_files.py forbids other ways to open a file in the packages that touch such paths. Files that the
user names on a command line may be links and pipes (`<(command)`): read_given() waits for a pipe only if a program
writes to it.
"""

import errno
import io
import os
import select
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

from agenteval.errors import CannotGoOn, ClosedPipe

PIECE = 1 << 16  # bytes that are written or read at a time
NEW = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
LARGEST = 64 << 20  # bytes of a file that is read as a whole, and of a line
LONGEST_LINE = 1 << 30  # bytes of a line that the suite itself may have written
COPIED = 1 << 20  # bytes at a time
PIPE_PATIENCE = 10.0  # seconds for which a named pipe waits for the program at its other end
SAFELY = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


# --- files that an agent can reach -----------------------------------------------------------------


def open_regular(path: str, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Opens a regular file and returns its descriptor; raises OSError for anything else, and says what it is.

    A link is opened only with `follow`, for a path that the user has named.
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
    """Whether there is a regular file at that path, not a link to one."""
    with suppress(OSError, ValueError):  # ValueError: a NUL character in the path
        return stat.S_ISREG(os.lstat(path).st_mode)
    return False


def _not_regular(path: str, mode: int) -> OSError:
    return OSError(errno.EINVAL, f"is {describe_kind(mode)}, not a regular file", path)


def _too_large(path: str, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"is larger than {limit:,} bytes", path)


def read_regular(path: str, limit: int = LARGEST, *, follow: bool = False) -> bytes:
    """Returns the content of a regular file; raises OSError if it is something else, or larger than the limit."""
    fd = open_regular(path, follow=follow)
    with os.fdopen(fd, "rb") as file:
        if os.fstat(fd).st_size > limit or len(data := file.read(limit + 1)) > limit:
            raise _too_large(path, limit)
        return data


def lines_of(path: str, start: int = 0, *, follow: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a regular file from an offset on, each with its own; raises OSError if one is too long."""
    limit = LONGEST_LINE
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        file.seek(start)
        while line := file.readline(limit + 1):
            if len(line) > limit:
                raise OSError(errno.EFBIG, f"has a line of more than {limit:,} bytes", path)
            yield start, line
            start += len(line)


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
    """Yields start and end of each part of a file that is not a hole."""
    end = 0
    with suppress(OSError):  # ENXIO: only a hole is left
        while end < size:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, start, os.SEEK_HOLE)
            yield start, end


def describe_kind(mode: int) -> str | None:
    """Returns what a user would call a file that is not regular, such as "a named pipe"; None for a regular file."""
    kinds = {
        stat.S_IFDIR: "a directory",
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
    }
    return None if stat.S_ISREG(mode) else kinds.get(stat.S_IFMT(mode), "a device")


# --- files that the user names ---------------------------------------------------------------------


def open_given(path: str) -> int:
    """Opens a file, a pipe or a device to read, without waiting for the program that writes to a named pipe."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


def is_null(fd: int) -> bool:
    """Whether it is /dev/null, the only device whose content ends."""
    return os.fstat(fd).st_rdev == os.stat(os.devnull).st_rdev


def read_first(fd: int, size: int) -> bytes:
    """Returns the first bytes that can be read; raises OSError if it is a named pipe that nothing writes to."""
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(PIPE_PATIENCE * 1000):
            try:
                if data := os.read(fd, size):
                    return data
                raise OSError(errno.EPIPE, "is a named pipe that nothing writes to")
            except BlockingIOError:
                pass  # a program has it open, and has not written yet
    return read_ready(fd, size)


def read_given(path: str, limit: int = LARGEST) -> bytes:
    """Returns the content of a small file that the user names; raises OSError if it is unreadable or too large."""
    fd = open_given(path)
    try:
        pieces = [read_first(fd, PIECE)]
        while pieces[-1] and len(pieces) <= limit // PIECE + 1:
            pieces.append(read_ready(fd, PIECE))
    finally:
        os.close(fd)
    if len(data := b"".join(pieces)) > limit:
        raise _too_large(path, limit)
    return data


# --- files of our own ------------------------------------------------------------------------------


def make_directories(path: str) -> None:
    """Creates the missing directories of a file; NotADirectoryError names the part of the path that is a file."""
    folder = os.path.dirname(path)
    try:
        if folder:
            os.makedirs(folder, exist_ok=True)
    except (FileExistsError, FileNotFoundError, NotADirectoryError):  # which one depends on the depth
        while folder and not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if not folder or os.path.isdir(folder):
            raise
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a directory") from None


def open_private(path: str) -> int:
    """Creates a directory for this user alone, or takes the one that is there; returns its descriptor.

    Raises OSError if another user may have put something there: everyone can create names in /tmp and /var/tmp.
    """
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.ENOTDIR, f"is {describe_kind(status.st_mode) or 'a file'}, not a directory", path)
    if status.st_uid != os.getuid():
        raise OSError(errno.EPERM, "belongs to another user", path)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OSError(errno.EPERM, "can be written to by other users", path)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    os.fchmod(fd, 0o700)
    return fd


def create_file(path: str) -> int:
    """Creates a file and returns its descriptor; removes a link or a file left by a crash first."""
    if os.path.lexists(path):
        os.unlink(path)
    return os.open(path, NEW, 0o666)


def write_new(path: str, content: bytes, mode: int) -> None:
    """Writes a file that does not exist yet."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(content)


def replace_file(path: str, content: bytes) -> None:
    """Writes a small file in one step: a reader sees the old content or the new one."""
    new = f"{path}.{os.getpid()}.{threading.get_ident()}.new"
    try:
        with os.fdopen(create_file(new), "wb") as file:
            file.write(content)
        os.replace(new, path)
    except OSError:
        if os.path.lexists(new):
            os.unlink(new)
        raise


# --- descriptors -----------------------------------------------------------------------------------
# They may be in non-blocking mode, as those shared with node, ssh or tmux are. The mode belongs to the open file, and
# so to all processes that share it: it is left as it is, and these functions wait until the descriptor is ready.


def read_ready(fd: int, size: int) -> bytes:
    """Waits for data or the end; returns at most `size` bytes."""
    while True:
        try:
            return os.read(fd, size)
        except BlockingIOError:
            _wait(fd, for_writing=False)


def write_all(fd: int, parts: list[bytes]) -> None:
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
            write_all(1, [bytes(data)])
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
