"""An error of the operating system is one line that says what to do."""

from __future__ import annotations

import errno
import os

import pytest

from agenteval.errors import describe_system_error

CASES: list[tuple[BaseException, str | None]] = [
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "/no/such"), "/no/such: No such file or directory"),
    (FileNotFoundError(errno.ENOENT, "No such file or directory", b"/no/such"), "/no/such: No such file or directory"),
    (OSError(errno.EBADF, "Bad file descriptor"), "Bad file descriptor"),
    (
        OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
        "Too many open files; raise the limit on open files (ulimit -n), or lower -j",
    ),
    (MemoryError(), "not enough memory"),
    (
        RuntimeError("can't start new thread"),
        f"cannot start a thread: {os.strerror(errno.EAGAIN)}; raise the limit on processes (ulimit -u), or lower -j",
    ),
    (KeyError("x"), None),
]


@pytest.mark.parametrize(("error", "message"), CASES, ids=[str(message) for _, message in CASES])
def test_errors_of_the_system(error: BaseException, message: str | None) -> None:
    assert describe_system_error(error) == message
