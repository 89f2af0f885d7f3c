"""Starts a process in a session of its own."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Mapping

import msgspec

OWN_LIMITS = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)  # of processes, memory, open files


class Command(msgspec.Struct, frozen=True):
    """What to start: the program's path, then its argument list."""

    program: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    stdin: bytes | None = None
    alone: bool = False  # the environment is `env` only, nothing is inherited


def spawn(command: Command, env: Mapping[str, str], stdin: int, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
    """Starts a process; raises OSError or ValueError if it cannot be started."""
    return subprocess.Popen(
        command.argv,
        executable=command.program,
        cwd=command.cwd,
        env=env if command.alone else {**os.environ, **env},
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        close_fds=False,  # Python opens none that are inherited
    )
