"""One process tree: start it, read it with arrival times, end it for sure.

`Processes.run` starts one process, feeds its stdin, reads stdout and stderr until it has ended and says how.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from agenteval.processes import Processes

GRACE = 2.0  # seconds between SIGTERM and SIGKILL
TICK = 0.02  # how often to look whether a tree that is being ended is gone

PIPE_SIZE = 1 << 20  # an agent that exits without flushing is cut off at the pipe's size, 64 KiB by default
STDERR_TAIL = 8 << 10
READ_SIZE = 1 << 16
SHORT_LINE = 16  # bytes: of lines shorter than that, fewer may be printed than --max-output says
FEW_LINES = 10_000
LONGEST_WAIT = 3600.0  # poll takes no more than 24 days; then it just looks again
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


class Child:
    """A process that was started, and a descriptor that becomes readable when it has ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.started = time.monotonic()
        self._status: int | None = None
        if hasattr(os, "pidfd_open"):
            self.ended = os.pidfd_open(pid)
        else:
            self.ended, signal_end = os.pipe()
            threading.Thread(target=self._wait, args=(signal_end,), daemon=True).start()

    def status(self) -> int:
        """Its exit code, or the number of the signal that killed it, negative; to be asked once, after its end."""
        os.close(self.ended)
        if self._status is None:
            self._status = os.waitpid(self.pid, 0)[1]
        return os.waitstatus_to_exitcode(self._status)

    def _wait(self, signal_end: int) -> None:
        self._status = os.waitpid(self.pid, 0)[1]
        os.close(signal_end)


class Switchboard:
    """Who is interested in which descriptor; one wait for all of them."""

    def __init__(self, many: bool = False) -> None:
        self._owners: dict[int, Listener] = {}
        # poll takes one system call per wait, epoll one per descriptor besides: it is for hundreds of them.
        self._epoll = select.epoll() if many and hasattr(select, "epoll") else None
        self._poll = select.poll()

    def register(self, fd: int, mask: int, owner: Listener) -> None:
        """Call owner.handle(fd) when there is something to do."""
        self._owners[fd] = owner
        (self._epoll or self._poll).register(fd, mask)

    def unregister(self, fd: int) -> None:
        """No more; nothing where it was not registered."""
        if self._owners.pop(fd, None) is not None:
            (self._epoll or self._poll).unregister(fd)

    def wait(self, seconds: float | None) -> None:
        """Wait, at most so long, and let the owners handle what has come."""
        if seconds is not None:
            seconds = min(max(0.0, seconds), LONGEST_WAIT)
        if self._epoll is not None:
            events = self._epoll.poll(seconds)
        else:
            events = self._poll.poll(None if seconds is None else seconds * 1000 + 1)
        for fd, _event in events:
            owner = self._owners.get(fd)
            if owner is not None:  # else one that was handled before it has closed this one
                owner.handle(fd)


class Listener(Protocol):
    """Something with descriptors on a switchboard."""

    def handle(self, fd: int) -> None: ...


class Attendance:
    """One process while it runs: `begin`, `handle` what comes, `tick` now and then until it says True, `outcome`."""

    def __init__(
        self, owner: Processes, board: Switchboard, key: int, command: Command, timeout: float | None, max_output: int
    ) -> None:
        self.owner, self.board, self.key, self.command = owner, board, key, command
        self.max_output = max_output
        self.size = self.line_count = 0
        self.stdout: list[bytes] = []  # as it came: a list of lines would take fifty times the memory of short ones
        self.arrivals: list[tuple[int, float]] = []
        self.stderr = bytearray()
        self.child: Child | None = None
        self.status: int | None = None
        self.left_helpers = False
        self.ending_until: float | None = None
        self.told: set[int] = set()
        self.input = memoryview(command.stdin or b"")
        self.error: str | None = None
        self.timed_out = self.too_much = False
        self.open: dict[int, str] = {}
        self.deadline = time.monotonic() + timeout if timeout is not None else None

    def begin(self) -> None:
        """Start the process; where that fails, `error` says why and the first tick is True."""
        theirs: list[int] = []
        try:
            stdout, stderr = self._pipe("stdout", theirs), self._pipe("stderr", theirs)
            stdin = self._pipe("stdin", theirs) if self.command.stdin is not None else None
            self.child = self.owner.start(self.key, self.command, stdin, stdout, stderr)
        except (OSError, ValueError) as error:
            self.error = describe_start_failure(error, self.command)
            return
        finally:
            for fd in theirs:
                os.close(fd)
        self.open[self.child.ended] = "ended"
        for fd, role in self.open.items():
            self.board.register(fd, select.POLLOUT if role == "stdin" else select.POLLIN, self)

    def _pipe(self, role: str, theirs: list[int]) -> int:
        """A pipe of which our end is to be listened to; returns the other end, which is to be closed."""
        read, write = open_pipe(PIPE_SIZE if role in ("stdout", "stdin") else None)
        ours, other = (write, read) if role == "stdin" else (read, write)
        theirs.append(other)
        self.open[ours] = role
        if role == "stdin":
            os.set_blocking(ours, False)  # reading needs none of this: it happens only when there is something
            self._write_stdin(ours)  # most of what is said fits into the pipe before anybody listens
        return other

    def handle(self, fd: int) -> None:
        """Something came on one of its descriptors, or one has room."""
        role = self.open[fd]
        if role == "stdout":
            self._read_stdout(fd)
        elif role == "stderr":
            self._read_stderr(fd)
        elif role == "stdin":
            self._write_stdin(fd)
        elif self.child is not None:
            del self.open[fd]
            self.board.unregister(fd)
            self.status, self.left_helpers = self.owner.collect(self.child)

    def tick(self) -> bool:
        """Whether it has ended and, where its tree is being ended, all of that is gone; sees to the time limit."""
        if self.child is None:
            return True
        if self.ending_until is not None:
            return not self.owner.press_on(self.key, self.ending_until, self.told) and self.status is not None
        if self.status is None and self.deadline is not None and time.monotonic() >= self.deadline:
            self.timed_out = True
            self._end()
        return self.status is not None

    def next_tick(self) -> float | None:
        """The time.monotonic() at which it wants to tick even if nothing comes."""
        return time.monotonic() + TICK if self.ending_until is not None else self.deadline

    def outcome(self) -> Outcome:
        """Take what is left in the pipes, and sum up."""
        self._drain()
        for fd in list(self.open):
            self._close(fd)
        if self.stdout and not self.stdout[-1].endswith(b"\n"):
            self.arrivals.append((1, time.monotonic()))  # a last line without its end is a line too
        code, signal_name = read_status(self.status)
        return Outcome(
            stdout=b"".join(self.stdout),
            arrivals=self.arrivals,
            stderr=bytes(self.stderr),
            exit_code=code,
            signal=signal_name,
            timed_out=self.timed_out,
            too_much=self.too_much,
            started=self.child.started if self.child else None,
            error=self.error,
            left_helpers=self.left_helpers,
        )

    def _end(self) -> None:
        if self.ending_until is None:
            self.ending_until = time.monotonic() + GRACE

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
            self.board.unregister(fd)
            os.close(fd)

    def _drain(self) -> None:
        """Take what the process left in its pipes; a helper that holds them open is not waited for."""
        for role, read in (("stdout", self._read_stdout), ("stderr", self._read_stderr)):
            for fd in [fd for fd, name in self.open.items() if name == role]:
                os.set_blocking(fd, False)
                while read(fd) and self.size <= self.max_output:
                    pass


def read_status(status: int | None) -> tuple[int | None, str | None]:
    """Exit code and signal of a child's status; None for what does not apply."""
    if status is not None and status < 0:
        return None, _signal_name(-status)
    return status, None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def describe_start_failure(error: OSError | ValueError, command: Command) -> str:
    """Why a process could not be started, and what to do."""
    program = command.argv[0]
    number = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
    advice = {
        errno.ENOENT: "not found (or the interpreter its #! line names is not)",
        errno.EACCES: "not executable: chmod +x it",
        errno.ENOEXEC: "not a program: a script needs a #! line",
        errno.E2BIG: "the prompt is too long for an argument; use a schema with prompt.stdin",
        errno.EINVAL: "an argument or the environment has a NUL character, which no process can be given",
    }
    return f"cannot start {program}: {advice.get(number, os.strerror(number))}"
