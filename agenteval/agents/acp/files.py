"""Text files below one directory, for an agent that asks us to read and write them; nothing outside is touched.

A path is resolved first, so that `..` and symbolic links may lead anywhere inside. Then it is opened from the
directory down, part by part and following no link: what is swapped meanwhile leads nowhere.
"""

from __future__ import annotations

import os
import stat
from itertools import islice

LARGEST = 16 << 20  # bytes of a file that is read: it goes through a pipe, and stays in memory until it is read

NOT_FOUND = -32002  # the protocol's code for a missing resource
REFUSED = -32602
FAILED = -32603


class FileRefused(Exception):
    """Why a file is not read or written, and the JSON-RPC code for that."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class WorkFiles:
    """The files below a directory."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)

    def read(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """The text of a file, or so many lines from the given one (1 is the first) on."""
        with os.fdopen(self._open(path, os.O_RDONLY), "rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise FileRefused(REFUSED, f"{path}: larger than {LARGEST} bytes")
        if line is not None or limit is not None:
            start = max(1, line or 1) - 1
            lines = islice(data.splitlines(keepends=True), start, None if limit is None else start + max(0, limit))
            data = b"".join(lines)
        return data.decode("utf-8", "replace")

    def write(self, path: str, text: str) -> None:
        """Put the text into a file, which is made with its directories if it is not there."""
        with os.fdopen(self._open(path, os.O_WRONLY | os.O_CREAT), "wb") as file:
            file.truncate(0)
            file.write(text.encode("utf-8", "replace"))

    def _open(self, path: str, flags: int) -> int:
        try:
            parts = self._inside(path)
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for part in parts[:-1]:
                fd = _step(fd, part, make=bool(flags & os.O_CREAT))
            # Without O_NONBLOCK a fifo would make us wait for whoever opens its other end.
            fd = _open_at(fd, parts[-1], flags | os.O_NONBLOCK)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            raise FileRefused(NOT_FOUND if missing else FAILED, f"{path}: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise FileRefused(REFUSED, f"{path}: not a regular file")
        return fd

    def _inside(self, path: str) -> list[str]:
        """The parts of a path below the root."""
        if not path or "\0" in path:
            raise FileRefused(REFUSED, "the path is empty or has a NUL character")
        real = os.path.realpath(os.path.join(self.root, path))
        parts = os.path.relpath(real, self.root).split(os.sep)
        if parts[0] in (os.pardir, os.curdir):
            raise FileRefused(REFUSED, f"{path}: only files inside {self.root} can be read and written")
        return parts


def _step(directory: int, name: str, *, make: bool) -> int:
    """The directory below, made if it may be; the one above is closed."""
    if make:
        try:
            os.mkdir(name, dir_fd=directory)
        except FileExistsError:
            pass
        except OSError:
            os.close(directory)
            raise
    return _open_at(directory, name, os.O_RDONLY | os.O_DIRECTORY)


def _open_at(directory: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=directory)
    finally:
        os.close(directory)
