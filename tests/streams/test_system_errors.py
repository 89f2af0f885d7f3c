"""An error of the system says what was attempted."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agenteval.streams.system_errors import describe


def fail(error: BaseException) -> None:
    raise error


CASES: list[tuple[Callable[[], object], str | None]] = [
    (lambda: os.close(-1), "close: Bad file descriptor"),
    (lambda: os.lseek(os.pipe()[0], 0, 0), "lseek: Illegal seek"),
    (lambda: Path("/no/such").stat(), "/no/such: No such file or directory"),
    (lambda: os.stat(b"/no/such"), "/no/such: No such file or directory"),
    (lambda: fail(MemoryError()), "not enough memory: raise the limit on memory (ulimit -v), or lower -j"),
    (
        lambda: fail(RuntimeError("can't start new thread")),
        "starting a thread: Resource temporarily unavailable; raise the limit on processes (ulimit -u), or lower -j",
    ),
    (lambda: fail(KeyError("x")), None),
]


@pytest.mark.parametrize(("attempt", "message"), CASES, ids=[str(message) for _, message in CASES])
def test_what_was_attempted(attempt: Callable[[], object], message: str | None) -> None:
    with pytest.raises(BaseException) as caught:
        attempt()
    assert describe(caught.value) == message


def test_an_error_that_was_never_raised() -> None:
    assert describe(OSError(errno.EMFILE, "Too many open files")) == (
        "a system call: Too many open files; raise the limit on open files (ulimit -n), or lower -j"
    )
