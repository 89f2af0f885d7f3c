"""Files of our own: made new, never through a link that somebody put in their place, and replaced in one step."""

from __future__ import annotations

import os
import stat

NEW = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def create_file(path: str, mode: int = 0o666) -> int:
    """Makes a new file and returns its descriptor; what a crash left there, or a link, is removed first."""
    if os.path.lexists(path):
        os.unlink(path)
    return os.open(path, NEW, mode)


def replace_file(path: str, content: bytes) -> None:
    """Writes a small file in one step: a reader sees the old content or the new one."""
    import threading

    new = f"{path}.{os.getpid()}.{threading.get_ident()}.new"
    try:
        with os.fdopen(create_file(new), "wb") as file:
            file.write(content)
        os.replace(new, path)
    except OSError:
        if os.path.lexists(new):
            os.unlink(new)
        raise


def describe_kind(mode: int) -> str | None:
    """Returns what is no regular file, as a user would call it; None for a regular file."""
    kinds = {
        stat.S_IFDIR: "a directory",
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
    }
    return None if stat.S_ISREG(mode) else kinds.get(stat.S_IFMT(mode), "a device")
