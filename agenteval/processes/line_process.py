"""A long-lived process that answers each input line with one output line."""

import os
import select
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from agenteval.processes.process import (
    PIPE_SIZE,
    STDERR_TAIL,
    TERM_GRACE,
    Command,
    PipeWriter,
    describe_start_failure,
    open_pipe,
    poll_timeout,
    read_status,
)
from agenteval.processes.supervisor import ProcessSupervisor


class NoAnswer(Exception):
    """The process ended, was too slow or broke the protocol; it has to be started anew."""


class TooSlow(NoAnswer):
    """The process did not answer in time."""


class LineProcess:
    """One such process; `finish` or `close` ends it."""

    def __init__(self, processes: ProcessSupervisor, key: int, command: Command, max_answer: int) -> None:
        self.processes, self.key, self.max_answer = processes, key, max_answer
        self.stdout, stdout = open_pipe(PIPE_SIZE)
        self.stderr, stderr = open_pipe()
        stdin, ours = open_pipe(PIPE_SIZE)
        try:
            self.child = processes.start(key, command, stdin, stdout, stderr)
        except (OSError, ValueError) as error:
            for fd in (self.stdout, self.stderr, ours):
                os.close(fd)
            raise NoAnswer(describe_start_failure(error, command.argv[0], command.cwd)) from None
        finally:
            for fd in (stdout, stderr, stdin):
                os.close(fd)
        self.stdin = PipeWriter(ours)
        os.set_blocking(self.stderr, False)
        self.poll = select.poll()
        for fd in (self.child.ended, self.stdout, self.stderr):
            self.poll.register(fd, select.POLLIN)
        self.status: int | None = None
        self.unfinished_line: list[bytes] = []
        self.unfinished_size = 0
        self.answers: deque[bytes] = deque()
        self.stderr_tail = bytearray()

    @property
    def exit_code(self) -> int | None:
        """Returns its exit code; None before its end was noticed, or if a signal ended it."""
        return None if self.status is None else read_status(self.status)[0]

    def exchange(self, lines: list[bytes], timeout: float) -> Iterator[bytes]:
        """Returns one answer per line, each within `timeout` seconds of the one before; raises NoAnswer."""
        self._write_stdin(b"".join(line + b"\n" for line in lines))
        for _line in lines:
            yield self.read_line(timeout)

    def read_line(self, timeout: float) -> bytes:
        """Returns the next line that it prints within `timeout` seconds; raises NoAnswer."""
        deadline = time.monotonic() + timeout
        while not self.answers:
            events = self.poll.poll(poll_timeout(deadline - time.monotonic()))
            ended = [self._handle(fd) for fd, _event in events]
            if self.answers:
                break
            if any(ended):
                raise NoAnswer(self._how_it_ended(deadline - time.monotonic()))
            if self.unfinished_size > self.max_answer:
                raise NoAnswer(f"its answer is longer than {self.max_answer} bytes")
            if time.monotonic() >= deadline:  # also if it prints something else all the time
                raise TooSlow(f"timeout: no answer within {timeout * 1000:g} ms (does it flush its output?)")
        return self.answers.popleft()

    def has_more(self, patience: float) -> bool:
        """Whether it has printed more lines than it was asked for, or does so within that many seconds."""
        poll = select.poll()
        poll.register(self.stdout, select.POLLIN)
        unread = [event for _fd, event in poll.poll(patience * 1000) if event & select.POLLIN]
        return bool(self.answers or any(self.unfinished_line) or unread)

    def last_stderr(self) -> bytes:
        """Returns what it has printed on stderr and was not taken, at most the last 8 KiB."""
        while self._read_stderr():
            pass
        return bytes(self.stderr_tail)

    def take_stderr(self, end: bytes = b"") -> bytes:
        """Returns what last_stderr() returns, up to `end` if it is there, and forgets it."""
        taken, found, rest = self.last_stderr().partition(end) if end else (self.last_stderr(), b"", b"")
        self.stderr_tail[:] = rest
        return taken

    def end_input(self) -> None:
        """Closes its stdin: it may exit."""
        os.close(self.stdin.fd)

    def finish(self, deadline: float) -> None:
        """Gives it until then (time.monotonic()) to exit by itself, after its input has ended."""
        left = True
        if self.status is None and self._await_exit(deadline - time.monotonic()):
            self.status, left = self.processes.collect(self.child)
        self._release(left=left)

    def close(self) -> None:
        """Kills it and all it started."""
        self.end_input()
        self._release()

    def _await_exit(self, patience: float) -> bool:
        poll = select.poll()
        poll.register(self.child.ended, select.POLLIN)
        return bool(poll.poll(max(0.0, min(patience, TERM_GRACE)) * 1000))

    def _release(self, *, left: bool = True) -> None:
        """Closes what is open; terminates what may be `left`."""
        if left:
            self.processes.terminate_tree(self.key, 0)
        if self.status is None and not self.processes.gave_up(self.child):
            self.status, _ = self.processes.collect(self.child)
        os.close(self.stdout)
        os.close(self.stderr)

    def _handle(self, fd: int) -> bool:
        """Handles an event; returns whether the process has ended."""
        if fd == self.stdout:
            return not self._read_answers()
        if fd == self.stderr:
            self._read_stderr()
        elif fd == self.stdin.fd:
            self._write_stdin()
        return fd == self.child.ended

    def _write_stdin(self, data: bytes = b"") -> None:
        self.stdin.write(data)
        if self.stdin.unsent:
            self.poll.register(self.stdin.fd, select.POLLOUT)
        elif not data:
            self.poll.unregister(self.stdin.fd)

    def _read_answers(self) -> bool:
        data = os.read(self.stdout, PIPE_SIZE)
        first, *more = data.split(b"\n")
        self.unfinished_line.append(first)
        self.unfinished_size += len(first)
        if more:
            self.answers.append(b"".join(self.unfinished_line))
            self.unfinished_line = [more.pop()]
            self.unfinished_size = len(self.unfinished_line[0])
            self.answers.extend(more)
        return bool(data)

    def _read_stderr(self) -> bool:
        """Reads what is there; returns whether there was anything."""
        try:
            data = os.read(self.stderr, PIPE_SIZE)
        except BlockingIOError:
            return False
        if not data:
            with suppress(KeyError):  # it may be gone already
                self.poll.unregister(self.stderr)
        self.stderr_tail += data
        del self.stderr_tail[:-STDERR_TAIL]
        return bool(data)

    def _how_it_ended(self, patience: float) -> str:
        """Returns its status and its last line on stderr; waits that many seconds for its exit."""
        if not self._await_exit(patience):
            return "closed its stdout without an answer"
        self.status, _ = self.processes.collect(self.child)
        last = self.last_stderr().decode("utf-8", "replace").strip().rpartition("\n")[2].strip()
        code, signal_name = read_status(self.status)
        how = f"killed by {signal_name}" if signal_name else f"exited with code {code}"
        return f"{how} without an answer{f': {last[:300]}' if last else ''}"
