"""One process tree: start it, read it with arrival times, end it for sure.

`ProcessSupervisor.run` starts one process, feeds its stdin, reads stdout and stderr until it has ended and says how.
"""

from __future__ import annotations

import fcntl
import os
import select
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from agenteval.processes.outcome import Outcome, describe_start_failure, read_status
from agenteval.processes.poller import Poller

if TYPE_CHECKING:
    from agenteval.processes.supervisor import Child, ProcessSupervisor

GRACE = 2.0  # seconds between SIGTERM and SIGKILL
LEAVE = 0.5  # seconds for a process that has said all to leave by itself
TICK = 0.02  # how often to look whether a tree that is being ended is gone

PIPE_SIZE = 1 << 20  # an agent that exits without flushing is cut off at the pipe's size, 64 KiB by default
STDERR_TAIL = 8 << 10
READ_SIZE = 1 << 16
SHORT_LINE = 16  # bytes: of lines shorter than that, fewer may be printed than --max-output says
FEW_LINES = 10_000
F_SETPIPE_SZ = getattr(fcntl, "F_SETPIPE_SZ", None)


class Command(NamedTuple):
    """What to start: the program's path first, then its argument list."""

    program: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    stdin: bytes | None = None
    alone: bool = False  # the environment is env, and nothing of ours


def open_pipe(size: int | None = None) -> tuple[int, int]:
    """A pipe, as large as asked where the system allows it."""
    read, write = os.pipe()
    if size is not None and F_SETPIPE_SZ is not None:
        try:
            fcntl.fcntl(read, F_SETPIPE_SZ, size)
        except OSError:
            pass  # the user's share of pipe memory is used up; 64 KiB will do
    return read, write


class ProcessPeer(Protocol):
    """Somebody who follows what a process prints while it runs, and may talk with it."""

    interactive: bool  # stdin stays open for its replies until it is done
    turn: int  # when it changes, the time limit starts anew
    done: bool  # the process has said all: it may leave, and is made to

    def reply_to(self, line: bytes, running: bool) -> bytes:
        """Returns what to write to stdin in reply to a line; nothing is written once the process has ended."""
        ...


class RunningProcess:
    """One process while it runs: `begin`, `handle` what comes, `tick` now and then until it says True, `outcome`."""

    def __init__(
        self,
        owner: ProcessSupervisor,
        board: Poller,
        key: int,
        command: Command,
        timeout: float | None,
        max_output: int,
        peer: ProcessPeer | None = None,
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
        self.unsaid = deque([memoryview(command.stdin)] if command.stdin else [])
        self.unsaid_size = len(command.stdin or b"")
        self.error: str | None = None
        self.timed_out = self.too_much = self.leaving = False
        self.open: dict[int, str] = {}
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout if timeout is not None else None
        self.peer, self.turn = peer, peer.turn if peer else 0
        self.unended: list[bytes] = []  # pieces of a line that the peer has not heard because it has no end yet
        self.unheard: deque[bytes] = deque()
        self.holding = False

    def begin(self) -> None:
        """Start the process; where that fails, `error` says why and the first tick is True."""
        theirs: list[int] = []
        try:
            stdout, stderr = self._pipe("stdout", theirs), self._pipe("stderr", theirs)
            stdin = self._pipe("stdin", theirs) if self.command.stdin is not None else None
            self.child = self.owner.start(self.key, self.command, stdin, stdout, stderr)
        except (OSError, ValueError) as error:
            self.error = describe_start_failure(error, self.command.argv[0])
            return
        finally:
            for fd in theirs:
                os.close(fd)
        self.open[self.child.ended] = "ended"
        for fd, role in self.open.items():
            if role != "stdin":
                self.board.register(fd, select.POLLIN, self)
            elif self.unsaid:
                self.board.register(fd, select.POLLOUT, self)

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
            self._converse()
        elif self.child is not None:
            del self.open[fd]
            self.board.unregister(fd)
            self.status, self.left_helpers = self.owner.collect(self.child)

    def tick(self) -> bool:
        """Whether it has ended and, where its tree is being ended, all of that is gone; sees to the time limit."""
        if self.child is None:
            return True
        if self.ending_until is not None:
            return not self.owner.signal_tree(self.key, self.ending_until, self.told) and self.status is not None
        self._heed()
        if self.status is None and self.deadline is not None and time.monotonic() >= self.deadline:
            self.timed_out = not self.leaving
            self._end()
        return self.status is not None

    def next_tick(self) -> float | None:
        """The time.monotonic() at which it wants to tick even if nothing comes."""
        return time.monotonic() + TICK if self.ending_until is not None else self.deadline

    def outcome(self) -> Outcome:
        """Take what is left in the pipes, and sum up."""
        self._drain()
        if self.unended:
            self.unheard.append(b"".join(self.unended))
        self._converse()
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
            dismissed=self.leaving and self.ending_until is not None,
        )

    def _end(self) -> None:
        if self.ending_until is None:
            self.ending_until = time.monotonic() + GRACE

    def _read_stdout(self, fd: int) -> bool:
        data = self._read(fd)
        if not data:
            if self.peer and self.peer.interactive and fd not in self.open:
                self._dismiss()  # no answer can come any more
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
        if self.peer:
            self._listen(data)
        return True

    def _read_stderr(self, fd: int) -> bool:
        data = self._read(fd)
        self.stderr += data
        del self.stderr[:-STDERR_TAIL]
        return bool(data)

    def _write_stdin(self, fd: int) -> None:
        """Write what is to be said, as far as there is room; when all is said, stdin is closed unless a peer talks."""
        try:
            while self.unsaid:
                first = self.unsaid[0]
                written = os.write(fd, first[:PIPE_SIZE])
                self.unsaid_size -= written
                if written < len(first):
                    self.unsaid[0] = first[written:]
                else:
                    self.unsaid.popleft()
        except BlockingIOError:
            return
        except OSError:
            self.unsaid.clear()  # it does not want to read its input; that is its own business
            self.unsaid_size = 0
        if self.peer and self.peer.interactive and not self.leaving:
            self.board.unregister(fd)
        else:
            self._close(fd)

    # --- talking with it ---

    def _listen(self, data: bytes) -> None:
        """Let the peer hear the lines that have ended."""
        first, *more = data.split(b"\n")
        self.unended.append(first)
        if more:
            self.unheard.append(b"".join(self.unended))
            self.unended = [last] if (last := more.pop()) else []
            self.unheard.extend(more)
        self._converse()

    def _converse(self) -> None:
        """Answer what has been heard; one who does not read the answers is not listened to until it does."""
        if self.peer is None:
            return
        running = self.status is None
        while self.unheard and self.ending_until is None and not (running and self.unsaid_size > PIPE_SIZE):
            if reply := self.peer.reply_to(self.unheard.popleft(), running):
                self._say(reply)
        if running and self.holding != bool(self.unheard):
            self.holding = not self.holding
            for fd in self._fds("stdout"):
                self.board.unregister(fd)
                if not self.holding:
                    self.board.register(fd, select.POLLIN, self)
        self._heed()

    def _say(self, words: bytes) -> None:
        for fd in self._fds("stdin"):
            silent = not self.unsaid
            self.unsaid.append(memoryview(words))
            self.unsaid_size += len(words)
            self._write_stdin(fd)
            if silent and self.unsaid:
                self.board.register(fd, select.POLLOUT, self)

    def _heed(self) -> None:
        """Give a new turn its time, and let a process go that has said all."""
        if self.peer is None or self.leaving:
            return
        if self.peer.done:
            self._dismiss()
        elif self.peer.turn != self.turn:
            self.turn = self.peer.turn
            self.deadline = time.monotonic() + self.timeout if self.timeout is not None else None

    def _dismiss(self) -> None:
        """Close its stdin; if it does not leave soon, it is ended."""
        self.leaving = True
        self.deadline = time.monotonic() + LEAVE
        if not self.unsaid:
            for fd in self._fds("stdin"):
                self._close(fd)

    def _fds(self, role: str) -> list[int]:
        return [fd for fd, name in self.open.items() if name == role]

    # --- descriptors ---

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
            for fd in self._fds(role):
                os.set_blocking(fd, False)
                while read(fd) and self.size <= self.max_output:
                    pass
