"""One process: start it, feed its stdin, read what it prints with arrival times, terminate it at a limit.

`conversation.py` is for one that expects replies.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agenteval.processes.outcome import Outcome, describe_start_failure, read_status
from agenteval.processes.pipes import PIPE_SIZE, PipeWriter, open_pipe, poll_timeout
from agenteval.processes.scratch import take_file
from agenteval.processes.spawn import Command

if TYPE_CHECKING:
    from agenteval.processes.supervisor import Child, ProcessSupervisor

TERM_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
TREE_INTERVAL = 0.02  # seconds between two looks at a tree that is being terminated

ANSWER_FILE = f"{{answer file {os.urandom(8).hex()}}}"  # in an argument: the name of a file for the answer
ANSWER_WAIT = 1.0  # seconds: of several processes, one may write the answer when the first has been killed
READ_SIZE = 1 << 16
STDERR_TAIL = 8 << 10
SHORT_LINE = 16  # bytes: an agent may print as many lines as --max-output holds of this length
FEW_LINES = 10_000


class RunningProcess:
    """One process from its start to its end: `run` does it all, in the calling thread."""

    child: Child | None = None
    deadline: float | None = None  # since its start, or that of a turn
    answer_file: str | None = None
    status: int | None = None
    error: str | None = None
    left_helpers = timed_out = too_much = False
    stdin: PipeWriter | None = None
    keeps_stdin = False  # whether there may be more to write
    stdout = -1
    size = line_count = 0
    kill_at: float | None = None  # when it gets SIGKILL, while its tree is being terminated

    def __init__(
        self, supervisor: ProcessSupervisor, key: int, command: Command, timeout: float | None, max_output: int
    ) -> None:
        self.supervisor, self.key, self.command = supervisor, key, command
        self.max_output, self.timeout = max_output, timeout
        self.poll = select.poll()
        self.outputs: dict[int, Callable[[bytes], object]] = {}  # stdout and stderr while they are open
        # What it printed, as it came: a list of lines would take fifty times the memory of short ones.
        self.chunks: list[bytes] = []
        self.arrivals: list[tuple[int, float]] = []
        self.stderr_tail = bytearray()
        self.signalled: set[int] = set()  # what has got SIGTERM

    def run(self) -> Outcome:
        """Starts the process and attends to it to its end; returns its outcome."""
        if self._name_answer_file():
            self._start()
        while self.child is not None and not self._has_ended():
            for fd, event in self.poll.poll(poll_timeout(self._wait())):
                self._handle(fd, event)
        return self._outcome()

    # --- start ---

    def _name_answer_file(self) -> bool:
        """Puts the name of a new file into the arguments if they ask for one; returns whether it could."""
        if ANSWER_FILE in "\0".join(self.command.argv):
            try:
                self.answer_file = name = self.supervisor.new_answer_file()
            except OSError as error:
                self.error = f"cannot make a file for the agent's answer: {error.strerror} (TMPDIR)"
                return False
            argv = [word.replace(ANSWER_FILE, name) for word in self.command.argv]
            self.command = replace(self.command, argv=argv)
        return True

    def _start(self) -> None:
        theirs: list[int] = []
        try:
            self.stdout, stdout = open_pipe(PIPE_SIZE)
            theirs.append(stdout)
            self.outputs[self.stdout] = self._take_stdout
            ours, stderr = open_pipe()
            theirs.append(stderr)
            self.outputs[ours] = self._take_stderr
            stdin = None
            if self.command.stdin is not None:
                stdin, feed = open_pipe(PIPE_SIZE)
                theirs.append(stdin)
                self.stdin = PipeWriter(feed)
                self._write_stdin(self.command.stdin)
            self.child = child = self.supervisor.start(self.key, self.command, stdin, stdout, stderr)
            self.deadline = child.started + self.timeout if self.timeout is not None else None
            for fd in (child.ended, *self.outputs):
                self.poll.register(fd, select.POLLIN)
        except (OSError, ValueError) as error:
            self.error = describe_start_failure(error, self.command.argv[0], self.command.cwd)
        finally:
            for fd in theirs:
                os.close(fd)

    # --- until it has ended ---

    def _wait(self) -> float | None:
        """Returns for how many seconds nothing has to be done unless something happens."""
        if self.kill_at is not None:
            return TREE_INTERVAL
        return None if self.deadline is None else self.deadline - time.monotonic()

    def _handle(self, fd: int, event: int) -> None:
        """Handles an event of one of its descriptors."""
        if fd in self.outputs:
            self._read(fd, event)
        elif self.child is not None and fd == self.child.ended:
            self.poll.unregister(fd)
            self.status, self.left_helpers = self.supervisor.collect(self.child)
        else:
            self._write_stdin()

    def _has_ended(self) -> bool:
        """Whether the process has ended and, if its tree is being terminated, nothing of that is left."""
        if self.kill_at is None and self.status is None:
            if self.deadline is not None and time.monotonic() >= self.deadline:
                self._miss_deadline()
        if self.kill_at is None:
            return self.status is not None
        if self.supervisor.signal_tree(self.key, self.kill_at, self.signalled):
            return False
        return self.status is not None or (self.child is not None and self.supervisor.gave_up(self.child))

    def _miss_deadline(self) -> None:
        self.timed_out = True
        self._terminate()

    def _terminate(self) -> None:
        if self.kill_at is None:
            self.kill_at = time.monotonic() + TERM_GRACE

    def _outcome(self) -> Outcome:
        """Returns what the process printed and how it ended."""
        self._drain()
        if self.answer_file is not None:
            self._take_answer(self.answer_file)
        self._finish_reading()
        self._close_stdin()
        if self.chunks and not self.chunks[-1].endswith(b"\n"):
            self.arrivals.append((1, time.monotonic()))  # a last line without a line break is a line too
        code, signal_name = read_status(self.status)
        return Outcome(
            stdout=b"".join(self.chunks),
            arrivals=self.arrivals,
            stderr=bytes(self.stderr_tail),
            exit_code=code,
            signal=signal_name,
            timed_out=self.timed_out,
            too_much=self.too_much,
            started=self.child.started if self.child else None,
            error=self.error,
            left_helpers=self.left_helpers,
        )

    # --- stdout and stderr ---

    def _finish_reading(self) -> None:
        """Is called when all output is taken."""

    def _read(self, fd: int, event: int) -> None:
        """Takes what a pipe has."""
        data = os.read(fd, READ_SIZE) if event & select.POLLIN else b""  # POLLHUP alone: the end, and all is read
        if data:
            self.outputs[fd](data)
        else:
            self._end_output(fd)

    def _drain(self) -> None:
        """Takes what the process left in its pipes; a helper that holds one open is not waited for."""
        poll = select.poll()
        for fd in self.outputs:
            poll.register(fd, select.POLLIN)
        while self.outputs and self.size <= self.max_output and (events := poll.poll(0)):
            for fd, event in events:
                self._read(fd, event)
                if fd not in self.outputs:
                    poll.unregister(fd)
        for fd in [*self.outputs]:
            self._end_output(fd)

    def _end_output(self, fd: int) -> None:
        del self.outputs[fd]
        self._unregister(fd)
        os.close(fd)

    def _take_stdout(self, data: bytes) -> bytes:
        """Takes what was printed; returns what is kept of it."""
        self.size += len(data)
        if self.size > self.max_output:
            data = data[: max(0, len(data) - (self.size - self.max_output))]
            self.too_much = True
            self._terminate()
        if data:
            self.chunks.append(data)
        if ended := data.count(b"\n"):
            self.arrivals.append((ended, time.monotonic()))
            self.line_count += ended
            if self.line_count > max(FEW_LINES, self.max_output // SHORT_LINE):
                self.too_much = True  # `yes`: each line takes far more memory than its two bytes
                self._terminate()
        return data

    def _take_answer(self, path: str) -> None:
        """Adds what the process wrote to its answer file, as one line, and removes the file.

        The answer is JSON, which has line breaks only between its values.
        """
        killed = self.kill_at is None and self.status is not None and not 0 <= self.status <= 128
        room = max(0, self.max_output - self.size)
        if answer := take_file(path, room + 1, wait=ANSWER_WAIT if killed else 0.0):
            before = b"\n" if self.chunks and not self.chunks[-1].endswith(b"\n") else b""
            self._take_stdout(before + answer.replace(b"\r", b"").replace(b"\n", b"") + b"\n")

    def _take_stderr(self, data: bytes) -> None:
        self.stderr_tail += data
        del self.stderr_tail[:-STDERR_TAIL]

    # --- stdin ---

    def _write_stdin(self, data: bytes = b"") -> None:
        """Writes what there is room for; closes stdin after the last of it, unless there may be more to write."""
        if self.stdin is None:
            return
        self.stdin.write(data)
        if self.stdin.unsent_size:
            self.poll.register(self.stdin.fd, select.POLLOUT)
        elif self.keeps_stdin:
            self._unregister(self.stdin.fd)
        else:
            self._close_stdin()

    def _close_stdin(self) -> None:
        if self.stdin is not None:
            self._unregister(self.stdin.fd)
            os.close(self.stdin.fd)
            self.stdin = None

    def _unregister(self, fd: int) -> None:
        try:
            self.poll.unregister(fd)
        except KeyError:
            pass  # it is not watched
