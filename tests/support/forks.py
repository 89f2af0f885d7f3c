"""Runs a tool in a fork of a process that has imported it: a test pays for the work of the tool, not for its start.

Most tests ask so little of a tool that Python's start and its imports would take most of their time. Here one process
per tool does that once, with the script of the tool, and forks at its last line; it is a fork itself, of one that has
imported what all tools import. What runs is a process like any other:
its own session, descriptors, directory, environment, command line, signals and exit code. What it shares with the
others is what Python and the tool have done before main(), and the modules that earlier ones have imported in main().
A test of that (PYTHON* and locale variables, bin/, the time and the memory that a start takes) starts it: by its path,
or from a shell, as the golden files and the examples do.
"""

from __future__ import annotations

import atexit
import marshal
import os
import select
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPTS = ROOT / ".venv" / "bin"  # what bin/ runs
SERVER = Path(__file__).with_name("fork_server.py")
LONGEST = 100_000  # bytes of a request: a packet is at most 200 kB
LONGEST_COMMAND = 4000  # bytes of a command line
READ_BEFORE_MAIN = ("PYTHON", "LANG", "LC_", "TZ", "LD_", "MALLOC_")  # by Python or the C library, when it starts

File = int | IO[bytes]


class Fork(subprocess.Popen[bytes]):
    """A process that a server has forked: its parent is the server, which waits for it when it is asked to."""

    def __init__(self, server: _Server, request: dict[str, Any], stdin: File, stdout: File, stderr: File) -> None:
        self._server, self._request = server, request
        super().__init__(request["args"], stdin=stdin, stdout=stdout, stderr=stderr)

    def _execute_child(self, *arguments: Any) -> None:
        """Replaces what subprocess does once it has opened the pipes: their ends are six of its arguments."""
        stdin, writing, reading, stdout, reading_errors, stderr = arguments[10:16]
        try:
            self.pid = self._server.ask(self._request, [stdin, stdout, stderr])
        finally:
            pipes = {stdin: writing, stdout: reading, stderr: reading_errors}
            for descriptor in {theirs for theirs, ours in pipes.items() if ours != -1}:
                os.close(descriptor)
        self._exit = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        """Returns the exit code; None while the process runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit code; subprocess.TimeoutExpired if the process does not end within so many seconds."""
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._exit, select.POLLIN)
            if not poll.poll(None if timeout is None else max(0, timeout) * 1000):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            os.close(self._exit)
            self.returncode = self._server.ask({"reap": self.pid})
        return self.returncode


class _Base:
    """The process that has imported what all tools import whose names begin so."""

    def __init__(self, python: str, tools: str, env: Mapping[str, str]) -> None:
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [python, "-P", SERVER, tools, str(theirs.fileno()), "-" * LONGEST_COMMAND],
                env=env,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def start_server(self, script: Path, link: socket.socket) -> None:
        """Starts the server of a script; it reads requests from the link."""
        socket.send_fds(self._link, [os.fsencode(script)], [link.fileno()])

    def close(self) -> None:
        """Ends the process, once all its servers have ended."""
        self._link.close()
        self._process.wait()


class _Server:
    """The process that has imported a tool."""

    def __init__(self, base: _Base, script: Path) -> None:
        self._lock, self._script = Lock(), script
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            base.start_server(script, theirs)

    def ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> int:
        """Sends a request and returns the number that is the answer."""
        with self._lock:
            socket.send_fds(self._link, [marshal.dumps(request)], descriptors)
            answer = self._link.recv(100)
        assert answer, f"the server of {self._script} has ended"
        return int(answer)

    def close(self) -> None:
        """Ends the server: it sees the end of its link."""
        self._link.close()


_bases: dict[tuple[str, str], _Base] = {}
_servers: dict[str, _Server] = {}


def fork(
    command: list[str],
    cwd: Path,
    env: Mapping[str, str],
    common: Mapping[str, str],
    stdin: File = subprocess.PIPE,
    stdout: File = subprocess.PIPE,
    stderr: File = subprocess.PIPE,
) -> Fork | None:
    """Runs the tool of this name; None if only a start of its own shows what it does.

    `common` is the environment of all tests, in which the server is started.
    """
    tool, *args = command
    script = SCRIPTS / tool
    different = {name for name in env.keys() | common.keys() if env.get(name) != common.get(name)}
    if (
        "/" in tool
        or not script.exists()
        or any(name.startswith(READ_BEFORE_MAIN) for name in different)
        or not hasattr(os, "pidfd_open")
    ):
        return None
    request: dict[str, Any] = {"args": [str(script), *args], "cwd": str(cwd), "env": dict(env)}
    length = sum(len(os.fsencode(word)) + 1 for word in request["args"])
    if length > LONGEST_COMMAND or len(marshal.dumps(request)) > LONGEST:
        return None
    server = _servers.get(tool)
    if server is None:
        python = script.read_text().removeprefix("#!").split()[0]
        alike = python, tool[: len("ae-")]
        if alike not in _bases:
            _bases[alike] = _Base(*alike, common)
        server = _servers[tool] = _Server(_bases[alike], script)
    return Fork(server, request, stdin, stdout, stderr)


@atexit.register
def _close_all() -> None:
    for opened in (_servers, _bases):
        while opened:
            opened.popitem()[1].close()
