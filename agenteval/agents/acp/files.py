"""Reads and writes text files below one directory for an agent, and no file outside it.

A path is resolved first, so that `..` and symbolic links work inside the directory. Then its components are opened one
by one without following links, so that a link put there in the meantime does not lead outside.
"""

from __future__ import annotations

import os
import stat

from agenteval.agents.acp import rpc
from agenteval.agents.acp.rpc import RequestError

LARGEST = 16 << 20  # bytes of a file to read: it goes through a pipe, and stays in memory until it is read


class WorkFiles:
    """The text files below a directory."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)

    def read(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """Returns the text of a file, or `limit` lines of it from number `line` on (1 is the first)."""
        with os.fdopen(self._open(path, os.O_RDONLY), "rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise RequestError(rpc.INVALID_PARAMS, f"{path}: larger than {LARGEST} bytes")
        if line is not None or limit is not None:
            start = max(1, line or 1) - 1
            end = None if limit is None else start + max(0, limit)
            data = b"".join(data.splitlines(keepends=True)[start:end])
        return data.decode("utf-8", "replace")

    def write(self, path: str, text: str) -> None:
        """Replaces the content of a file; creates it, with its directories, if it does not exist."""
        fd = self._open(path, os.O_WRONLY | os.O_CREAT)
        try:
            with os.fdopen(fd, "wb") as file:
                file.truncate(0)
                file.write(text.encode("utf-8", "replace"))
        except OSError as error:  # a full disk
            raise RequestError(rpc.INTERNAL_ERROR, f"{path}: {error.strerror}") from None

    def _open(self, path: str, flags: int) -> int:
        try:
            parts = self._parts(path)
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for part in parts[:-1]:
                fd = _enter(fd, part, create=bool(flags & os.O_CREAT))
            # O_NONBLOCK: opening a FIFO would otherwise wait until its other end is opened.
            fd = _open_at(fd, parts[-1], flags | os.O_NONBLOCK)
        except OSError as error:
            code = rpc.RESOURCE_NOT_FOUND if isinstance(error, FileNotFoundError) else rpc.INTERNAL_ERROR
            raise RequestError(code, f"{path}: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise RequestError(rpc.INVALID_PARAMS, f"{path}: not a regular file")
        return fd

    def _parts(self, path: str) -> list[str]:
        """Returns the components of a path below the root; RequestError if it is outside."""
        if not path or "\0" in path:
            raise RequestError(rpc.INVALID_PARAMS, "the path is empty or has a NUL character")
        real = os.path.realpath(os.path.join(self.root, path))
        parts = os.path.relpath(real, self.root).split(os.sep)
        if parts[0] in (os.pardir, os.curdir):
            raise RequestError(rpc.INVALID_PARAMS, f"{path}: only files inside {self.root} can be read and written")
        return parts


def _enter(directory: int, name: str, *, create: bool) -> int:
    """Opens a directory inside another, which is closed."""
    if create:
        try:
            os.mkdir(name, dir_fd=directory)
        except FileExistsError:
            pass
        except OSError:
            os.close(directory)
            raise
    return _open_at(directory, name, os.O_RDONLY | os.O_DIRECTORY)


def _open_at(directory: int, name: str, flags: int) -> int:
    """Opens a file in a directory, following no symbolic link; closes the directory."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=directory)
    finally:
        os.close(directory)
