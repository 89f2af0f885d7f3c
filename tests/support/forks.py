"""Runs a tool in a fork of a process that has imported it: a test pays for the work of the tool, not for its start.

Most tests ask so little of a tool that Python's start and its imports would take most of their time. Here one process
per tool does that once, with the script of the tool, and forks at its last line. The fork is a process like any other:
its own session, descriptors, directory, environment, arguments, signals and exit code. What it shares with the others
is what Python and the tool have done before main(). A test of that (PYTHON* and locale variables, bin/
and the command line in /proc) starts it: with `start` or `on_terminal` of tests/support/tool.py, by its path, or from a
shell, as the golden files and the examples do.
"""

from __future__ import annotations

import atexit
import marshal
import os
import select
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPTS = ROOT / ".venv" / "bin"  # what bin/ runs
SERVER = Path(__file__).with_name("fork_server.py")
LONGEST = 100_000  # bytes of a request: a packet is at most 200 kB
READ_BEFORE_MAIN = ("PYTHON", "LANG", "LC_", "TZ", "LD_", "MALLOC_")  # by Python or the C library, when it starts


class Fork:
    """A process that a server has forked, with pipes: as much of subprocess.Popen as `run` needs."""

    def __init__(self, server: _Server, request: dict[str, Any], stdin: int | None, stdout: int | None) -> None:
        self.args: list[str] = request["args"]
        self.returncode: int = 0
        self._server = server
        self._texts = {1: b"", 2: b""}
        given, writing = (stdin, None) if stdin is not None else os.pipe()
        pipes = {number: os.pipe() for number in ((1, 2) if stdout is None else (2,))}
        theirs = [given, pipes[1][1] if stdout is None else stdout, pipes[2][1]]
        self.pid = server.ask(request, theirs)
        for descriptor in {*theirs} - {stdin, stdout}:
            os.close(descriptor)
        self._exit = os.pidfd_open(self.pid)
        self._writing = writing
        self._threads = [Thread(target=self._read, args=(number, reading)) for number, (reading, _) in pipes.items()]
        for thread in self._threads:
            thread.start()

    def _read(self, number: int, descriptor: int) -> None:
        with open(descriptor, "rb") as pipe:
            self._texts[number] = pipe.read()

    def _write(self, descriptor: int, data: bytes) -> None:
        with suppress(BrokenPipeError), open(descriptor, "wb") as pipe:
            pipe.write(data)

    def communicate(self, data: bytes = b"", timeout: float | None = None) -> tuple[bytes, bytes]:
        """Writes stdin, reads the rest to its end and waits; subprocess.TimeoutExpired if that takes longer."""
        end = time.monotonic() + timeout if timeout is not None else None
        if self._writing is not None:
            self._threads.append(Thread(target=self._write, args=(self._writing, data)))
            self._threads[-1].start()
            self._writing = None
        for thread in self._threads:
            thread.join(end and max(0.0, end - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(end and max(0.0, end - time.monotonic()))
        return self._texts[1], self._texts[2]

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit code; subprocess.TimeoutExpired if the process does not end within so many seconds."""
        if self._exit:
            if not select.select([self._exit], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            os.close(self._exit)
            self._exit = 0
            self.returncode = self._server.ask({"reap": self.pid})
        return self.returncode


class _Server:
    """The process that has imported a tool."""

    def __init__(self, script: Path, env: Mapping[str, str]) -> None:
        self._lock = Lock()
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            python = script.read_text().partition("\n")[0].removeprefix("#!").split()
            self._process = subprocess.Popen(
                [*python, "-P", SERVER, script, str(theirs.fileno())],
                env=env,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> int:
        """Sends a request and returns the number that is the answer."""
        with self._lock:
            socket.send_fds(self._link, [marshal.dumps(request)], descriptors)
            answer = self._link.recv(100)
        assert answer, f"the server of {self._process.args!r} has ended"
        return int(answer)

    def close(self) -> None:
        """Ends the server: it sees the end of its link."""
        self._link.close()
        self._process.wait()


_servers: dict[str, _Server] = {}


def fork(
    command: list[str],
    cwd: Path,
    env: Mapping[str, str],
    common: Mapping[str, str],
    stdin: int | None = None,
    stdout: int | None = None,
) -> Fork | None:
    """Runs the tool of this name with pipes or these descriptors; None if only a start of its own shows what it does.

    `common` is the environment of all tests, in which the server is started.
    """
    tool, *args = command
    script = SCRIPTS / tool
    different = {name for name in env.keys() | common.keys() if env.get(name) != common.get(name)}
    request: dict[str, Any] = {"args": [str(script), *args], "cwd": str(cwd), "env": dict(env)}
    if (
        "/" in tool
        or not script.exists()
        or any(name.startswith(READ_BEFORE_MAIN) for name in different)
        or not hasattr(os, "pidfd_open")
    ):
        return None
    if len(marshal.dumps(request)) > LONGEST:
        return None
    server = _servers.get(tool)
    if server is None:
        server = _servers[tool] = _Server(script, common)
    return Fork(server, request, stdin, stdout)


@atexit.register
def _close_all() -> None:
    while _servers:
        _servers.popitem()[1].close()
