"""A long-lived process that answers each input line with one output line."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator

from agenteval.processes.outcome import describe_start_failure, read_status
from agenteval.processes.poller import LONGEST_WAIT
from agenteval.processes.process import GRACE, PIPE_SIZE, STDERR_TAIL, Command, open_pipe
from agenteval.processes.supervisor import ProcessSupervisor


class NoAnswer(Exception):
    """The process ended, was too slow or broke the protocol; it has to be started anew."""


class LineProcess:
    """One such process, ended by close."""

    def __init__(self, processes: ProcessSupervisor, key: int, command: Command) -> None:
        self.processes, self.key, self.command = processes, key, command
        self.stdout, stdout = open_pipe(PIPE_SIZE)
        self.stderr, stderr = open_pipe()
        stdin, self.stdin = open_pipe(PIPE_SIZE)
        try:
            self.child = processes.start(key, command, stdin, stdout, stderr)
        except (OSError, ValueError) as error:
            for fd in (self.stdout, self.stderr, self.stdin):
                os.close(fd)
            raise NoAnswer(describe_start_failure(error, command.argv[0])) from None
        finally:
            for fd in (stdout, stderr, stdin):
                os.close(fd)
        os.set_blocking(self.stdin, False)
        self.poller = select.poll()
        for fd in (self.child.ended, self.stdout, self.stderr):
            self.poller.register(fd, select.POLLIN)
        self.status: int | None = None
        self.pieces: list[bytes] = []  # of an answer that has not ended yet
        self.ready: list[bytes] = []
        self.tail = bytearray()

    def exchange(self, lines: list[bytes], timeout: float) -> Iterator[bytes]:
        """One answer per line, each within `timeout` seconds of the one before; NoAnswer ends the exchange."""
        unsent = memoryview(b"".join(line + b"\n" for line in lines))
        self.poller.register(self.stdin, select.POLLOUT)
        owed = len(lines)
        deadline = time.monotonic() + timeout
        while owed:
            unsent = self._step(unsent, deadline, timeout)
            while self.ready and owed:
                yield self.ready.pop(0)
                owed -= 1
                deadline = time.monotonic() + timeout

    def has_more(self, patience: float) -> bool:
        """Whether it has said more than it was asked for, or does so within that many seconds."""
        waiting = select.poll()
        waiting.register(self.stdout, select.POLLIN)
        said = [event for _fd, event in waiting.poll(patience * 1000) if event & select.POLLIN]
        return bool(self.ready or any(self.pieces) or said)

    def greeting(self, timeout: float) -> bytes:
        """The line it prints before it is asked anything."""
        deadline = time.monotonic() + timeout
        while not self.ready:
            self._step(memoryview(b""), deadline, timeout)
        return self.ready.pop(0)

    def finish(self) -> None:
        """Say that nothing more comes, and give it time to go."""
        os.close(self.stdin)
        waiting = select.poll()
        waiting.register(self.child.ended, select.POLLIN)
        waiting.poll(GRACE * 1000)
        self._release()

    def close(self) -> None:
        """End the process and all it started."""
        os.close(self.stdin)
        self._release()

    def _release(self) -> None:
        self.processes.terminate_tree(self.key, 0)
        if self.status is None:
            self.status, _ = self.processes.collect(self.child)
        os.close(self.stdout)
        os.close(self.stderr)

    def _step(self, unsent: memoryview, deadline: float, timeout: float) -> memoryview:
        wait = deadline - time.monotonic()
        events = self.poller.poll(min(wait, LONGEST_WAIT) * 1000) if wait > 0 else []
        if not events and time.monotonic() >= deadline:
            raise NoAnswer(f"timeout: no answer within {timeout * 1000:g} ms (does it flush its output?)")
        ended = False
        for fd, _event in events:
            if fd == self.stdout:
                ended = not self._read_answers() or ended
            elif fd == self.stderr:
                self._read_stderr()
            elif fd == self.child.ended:
                ended = True
            elif fd == self.stdin:
                unsent = self._send(unsent)
        if ended and not self.ready:
            raise NoAnswer(self._last_words())
        return unsent

    def _send(self, unsent: memoryview) -> memoryview:
        try:
            unsent = unsent[os.write(self.stdin, unsent[:PIPE_SIZE]) :]
        except BlockingIOError:
            return unsent
        except OSError:
            unsent = memoryview(b"")  # it stopped reading; its answers or its end will tell
        if not unsent:
            self.poller.unregister(self.stdin)
        return unsent

    def _read_answers(self) -> bool:
        data = os.read(self.stdout, PIPE_SIZE)
        first, *more = data.split(b"\n")
        self.pieces.append(first)
        if more:
            self.ready.append(b"".join(self.pieces))
            self.pieces = [more.pop()]
            self.ready += more
        return bool(data)

    def _read_stderr(self) -> None:
        data = os.read(self.stderr, PIPE_SIZE)
        if not data:
            self.poller.unregister(self.stderr)
        self.tail += data
        del self.tail[:-STDERR_TAIL]

    def _last_words(self) -> str:
        """Why it ended, as far as its status and its last line on stderr tell."""
        self.status, _ = self.processes.collect(self.child)
        os.set_blocking(self.stderr, False)
        try:
            self.tail += os.read(self.stderr, PIPE_SIZE)
        except OSError:
            pass
        last = self.tail.decode("utf-8", "replace").strip().rpartition("\n")[2].strip()
        code, signal_name = read_status(self.status)
        how = f"killed by {signal_name}" if signal_name else f"exited with code {code}"
        return f"{how} without an answer{f': {last[:300]}' if last else ''}"
