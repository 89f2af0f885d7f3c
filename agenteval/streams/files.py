"""Files that the suite itself creates: never through a link that somebody put there, and replaced in one step."""

import errno
import os
import stat
import threading

PIECE = 1 << 16  # bytes that are written or read at a time
NEW = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_directories(path: str) -> None:
    """Creates the missing directories of a file; NotADirectoryError names the part of the path that is a file."""
    folder = os.path.dirname(path)
    try:
        if folder:
            os.makedirs(folder, exist_ok=True)
    except (FileExistsError, FileNotFoundError, NotADirectoryError):  # which of them depends on how deep it is
        while folder and not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if not folder or os.path.isdir(folder):
            raise
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a directory") from None


def create_file(path: str) -> int:
    """Creates a file and returns its descriptor; what a crash left there, or a link, is removed first."""
    if os.path.lexists(path):
        os.unlink(path)
    return os.open(path, NEW, 0o666)


def write_new(path: str, content: bytes, mode: int) -> None:
    """Writes a file that is not there yet."""
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


def describe_kind(mode: int) -> str | None:
    """Returns what a user would call a file that is not regular, such as "a named pipe"; None for a regular file."""
    kinds = {
        stat.S_IFDIR: "a directory",
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
    }
    return None if stat.S_ISREG(mode) else kinds.get(stat.S_IFMT(mode), "a device")
