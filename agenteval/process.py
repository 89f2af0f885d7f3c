"""One process tree: start it, read it with arrival times, end it for sure.

The tool's half of the process layer; the guardian's half starts and ends the processes. A call of
`Processes.run` starts one process, feeds its stdin, reads stdout and stderr until it has ended and says how.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import select
import signal
import socket
import threading
import time
from itertools import count
from typing import NamedTuple, NoReturn

from agenteval.errors import CannotGoOn
from agenteval.guardian import GRACE, adopt_orphans, become_guardian, kill_descendants, send

PIPE_SIZE = 1 << 20  # an agent that exits without flushing is cut off at the pipe's size, 64 KiB by default
STDERR_TAIL = 8 << 10
MAX_ARGUMENT = 128 << 10
READ_SIZE = 1 << 16
SHORT_LINE = 16  # bytes: of lines shorter than that, fewer may be printed than --max-output says
FEW_LINES = 10_000
LONGEST_WAIT = 3600.0  # poll takes no more than 24 days; then it just looks again
DESCRIPTORS_EACH = 8
DESCRIPTORS_BESIDE = 24
F_SETPIPE_SZ = getattr(fcntl, "F_SETPIPE_SZ", None)


class Command(NamedTuple):
    """What to start: the program's path first, then its argument list."""

    program: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    stdin: bytes | None = None


class Outcome(NamedTuple):
    """What a process printed and how it ended; `error` says why it could not be run."""

    stdout: bytes
    arrivals: list[tuple[int, float]]  # so many lines ended at that time.monotonic()
    stderr: bytes
    exit_code: int | None
    signal: str | None
    timed_out: bool
    too_much: bool  # it printed more than it may, and was ended for it
    started: float | None
    error: str | None
    left_helpers: bool


def open_pipe(size: int | None = None) -> tuple[int, int]:
    """A pipe, as large as asked where the system allows it."""
    read, write = os.pipe()
    if size is not None and F_SETPIPE_SZ is not None:
        try:
            fcntl.fcntl(read, F_SETPIPE_SZ, size)
        except OSError:
            pass  # the user's share of pipe memory is used up; 64 KiB will do
    return read, write


def _allow_descriptors(concurrency: int) -> int:
    """Raise the limit on open files as far as so many processes at once need; returns how many it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = concurrency * DESCRIPTORS_EACH + DESCRIPTORS_BESIDE
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(1, min(concurrency, (soft - DESCRIPTORS_BESIDE) // DESCRIPTORS_EACH))
    return concurrency


class Processes:
    """Starts processes through the guardian; one for the whole tool, used from many threads."""

    def __init__(self, concurrency: int = 1) -> None:
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.concurrency = _allow_descriptors(concurrency)
        self.stopping = False
        self._keys = count(1)
        self._lock = threading.Lock()
        adopt_orphans()  # should the guardian be killed, its agents come to us
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            become_guardian(theirs, soft)
        theirs.close()
        self._guardian = pid
        self._control = ours

    def new_key(self) -> int:
        """A number for one agent and everything it will ever start."""
        return next(self._keys)

    def run(self, key: int, command: Command, *, timeout: float | None, max_output: int) -> Outcome:
        """Run one process of agent `key` to its end; seconds for the timeout, None for no limit."""
        return _Run(self, key, command, timeout, max_output).outcome()

    def start(self, key: int, command: Command, fds: list[int]) -> None:
        """Ask the guardian for a process; fds are its status pipe, stdout, stderr and, if used, stdin."""
        request = ("start", key, [command.program, *command.argv], command.cwd, command.env)
        with self._lock:
            if not self.stopping:  # else the status pipe just closes, as if it had been ended at once
                self._request(request, fds)

    def stop(self) -> None:
        """Start nothing more, end everything, and return when nothing is left."""
        with self._lock:
            self.stopping = True
        self.end_and_wait(None)

    def end(self, key: int | None, grace: float = GRACE) -> int:
        """Begin to end an agent's whole tree (None: all); the descriptor returned closes when it is gone."""
        gone, reply = os.pipe()
        try:
            with self._lock:
                self._request(("end", key, grace), [reply])
        finally:
            os.close(reply)
        return gone

    def end_and_wait(self, key: int | None, grace: float = GRACE) -> None:
        """End an agent's whole tree and return when nothing of it is left."""
        gone = self.end(key, grace)
        try:
            os.read(gone, 1)
        finally:
            os.close(gone)

    def close(self) -> None:
        """Let the guardian kill what is left, and wait for it."""
        self._control.close()
        try:
            os.waitpid(self._guardian, 0)
        except ChildProcessError:
            pass

    def _request(self, request: tuple[object, ...], fds: list[int]) -> None:
        """With the lock held: requests are taken in the order in which they are sent."""
        try:
            send(self._control, request, fds)
        except OSError:
            self.give_up()

    def give_up(self) -> NoReturn:
        """The guardian has been killed: its agents are ours now, and nothing can be started any more."""
        self.stopping = True
        kill_descendants()
        raise CannotGoOn("the guardian process was killed, so all agents were ended")


class _Run:
    """One process while it runs."""

    def __init__(self, owner: Processes, key: int, command: Command, timeout: float | None, max_output: int) -> None:
        self.owner, self.key, self.command = owner, key, command
        self.max_output = max_output
        self.size = self.line_count = 0
        self.stdout: list[bytes] = []  # as it came: a list of lines would take fifty times the memory of short ones
        self.arrivals: list[tuple[int, float]] = []
        self.stderr = bytearray()
        self.status = b""
        self.input = memoryview(command.stdin or b"")
        self.started: float | None = None
        self.error: str | None = None
        self.timed_out = self.too_much = False
        self.poller = select.poll()
        self.open: dict[int, str] = {}
        self.deadline = time.monotonic() + timeout if timeout is not None else None

    def outcome(self) -> Outcome:
        """Start, attend until the end, and sum up."""
        try:
            self._start()
            self._attend()
            self._drain()
        finally:
            for fd in list(self.open):
                self._close(fd)
        if self.stdout and not self.stdout[-1].endswith(b"\n"):
            self.arrivals.append((1, time.monotonic()))  # a last line without its end is a line too
        code, signal_name, left = self._ending()
        return Outcome(
            stdout=b"".join(self.stdout),
            arrivals=self.arrivals,
            stderr=bytes(self.stderr),
            exit_code=code,
            signal=signal_name,
            timed_out=self.timed_out,
            too_much=self.too_much,
            started=self.started,
            error=self.error,
            left_helpers=left,
        )

    # --- start ---

    def _start(self) -> None:
        theirs = [self._pipe("status"), self._pipe("stdout"), self._pipe("stderr")]
        if self.command.stdin is not None:
            theirs.append(self._pipe("stdin"))
        try:
            self.owner.start(self.key, self.command, theirs)
        finally:
            for fd in theirs:
                os.close(fd)

    def _pipe(self, role: str) -> int:
        """A pipe of which our end is polled; returns the other end."""
        read, write = open_pipe(PIPE_SIZE if role in ("stdout", "stdin") else None)
        ours, theirs = (write, read) if role == "stdin" else (read, write)
        if role == "stdin":
            os.set_blocking(ours, False)  # reading needs none of this: it happens only when there is something
        self.open[ours] = role
        self.poller.register(ours, select.POLLOUT if role == "stdin" else select.POLLIN)
        return theirs

    # --- attend ---

    def _attend(self) -> None:
        """Poll until the process has ended (status closed) or, once it is being ended, its tree is gone."""
        roles = {"stdout": self._read_stdout, "stderr": self._read_stderr, "status": self._read_status}
        while True:
            for fd, _event in self.poller.poll(self._patience()):
                role = self.open.get(fd)
                if role == "stdin":
                    self._write_stdin(fd)
                elif role == "gone":
                    self._close(fd)
                elif role is not None:
                    roles[role](fd)
            busy = self.open.values()
            if "gone" not in busy and "status" not in busy:
                return
            if self.deadline is not None and time.monotonic() >= self.deadline:
                self.timed_out = True
                self._end()

    def _patience(self) -> float | None:
        if self.deadline is None:
            return None
        return min(max(0.0, self.deadline - time.monotonic()), LONGEST_WAIT) * 1000 + 1

    def _end(self) -> None:
        self.deadline = None
        if "gone" not in self.open.values():
            gone = self.owner.end(self.key)
            self.open[gone] = "gone"
            self.poller.register(gone, select.POLLIN)

    def _read_stdout(self, fd: int) -> bool:
        data = self._read(fd)
        if not data:
            return False
        room = self.max_output - self.size
        self.size += len(data)
        if len(data) > room:
            data = data[: max(0, room)]
            self.too_much = True
            self._end()
        if data:
            self.stdout.append(data)
        if ended := data.count(b"\n"):
            self.arrivals.append((ended, time.monotonic()))
            self.line_count += ended
            if self.line_count > max(FEW_LINES, self.max_output // SHORT_LINE):
                self.too_much = True  # `yes`: each line takes far more memory than its two bytes
                self._end()
        return True

    def _read_stderr(self, fd: int) -> bool:
        data = self._read(fd)
        self.stderr += data
        del self.stderr[:-STDERR_TAIL]
        return bool(data)

    def _read_status(self, fd: int) -> bool:
        data = self._read(fd)
        self.status += data
        return bool(data)

    def _write_stdin(self, fd: int) -> None:
        try:
            self.input = self.input[os.write(fd, self.input[:PIPE_SIZE]) :]
        except BlockingIOError:
            return
        except OSError:
            self.input = memoryview(b"")  # it does not want to read its input; that is its own business
        if not self.input:
            self._close(fd)

    def _read(self, fd: int) -> bytes:
        try:
            data = os.read(fd, READ_SIZE)
        except BlockingIOError:
            return b""
        if not data:
            self._close(fd)
        return data

    def _close(self, fd: int) -> None:
        if self.open.pop(fd, None) is not None:
            self.poller.unregister(fd)
            os.close(fd)

    # --- the end ---

    def _drain(self) -> None:
        """Take what the process left in its pipes; a helper that holds them open is not waited for."""
        for role, read in (("stdout", self._read_stdout), ("stderr", self._read_stderr)):
            for fd in [fd for fd, name in self.open.items() if name == role]:
                os.set_blocking(fd, False)
                while read(fd) and self.size <= self.max_output:
                    pass

    def _ending(self) -> tuple[int | None, str | None, bool]:
        words = self.status.split()
        if words[:1] == [b"failed"]:
            self.error = describe_start_failure(int(words[1]), self.command)
        elif not words:
            if not self.owner.stopping:
                self.owner.give_up()
            self.error = "stopped"
        if words[:1] != [b"ended"]:
            return None, None, False
        status, left = int(words[1]), words[2] == b"1"
        self.started = float(words[3])
        if os.WIFSIGNALED(status):
            return None, _signal_name(os.WTERMSIG(status)), left
        return os.WEXITSTATUS(status), None, left


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def describe_start_failure(number: int, command: Command) -> str:
    """Why a process could not be started, and what to do."""
    program = command.argv[0]
    advice = {
        errno.ENOENT: "not found (or the interpreter its #! line names is not)",
        errno.EACCES: "not executable: chmod +x it",
        errno.ENOEXEC: "not a program: a script needs a #! line",
        errno.E2BIG: "the prompt is too long for an argument; use a schema with prompt.stdin",
        errno.EINVAL: "an argument or the environment has a NUL character, which no process can be given",
    }
    return f"cannot start {program}: {advice.get(number, os.strerror(number))}"
