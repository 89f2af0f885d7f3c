"""One process: start it, feed its stdin, read what it prints with arrival times, terminate it at a limit.

`ProcessSupervisor.run` runs one in the calling thread, which sleeps in poll until something happens; a thread that
attends to several (interleaved/pool.py) has them share a poll. `conversation.py` is for one that expects replies.
"""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agenteval.processes.outcome import Outcome, describe_start_failure, read_status
from agenteval.processes.pipes import PIPE_SIZE, SMALLEST_PIPE, OutputPipes, PipeWriter, open_pipe, poll_timeout
from agenteval.processes.scratch import take_file
from agenteval.processes.spawn import OWN_LIMITS, Command

if TYPE_CHECKING:
    from agenteval.processes.supervisor import Child, ProcessSupervisor

TERM_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
TREE_INTERVAL = 0.02  # seconds between two looks at a tree that is being terminated

ANSWER_FILE = f"{{answer file {os.urandom(8).hex()}}}"  # in an argument: the name of a file for the answer
ANSWER_WAIT = 1.0  # seconds: of several processes, one may write the answer when the first has been killed
READ_SIZE = 1 << 16
READ_INTERVAL = 0.001  # seconds between two reads: arrival times are in ms, and each read costs a wake-up
STDERR_TAIL = 8 << 10
SHORT_LINE = 16  # bytes: an agent may print as many lines as --max-output holds of this length
FEW_LINES = 10_000


class RunningProcess:
    """One process from its start to its end.

    `run` does it all. A thread that attends to several calls `start`, then `handle` for each event, `has_ended` after
    that and when it is `due`, and `outcome` at the end.
    """

    is_last = False  # whether the work that it is run for needs no other process
    child: Child | None = None
    deadline: float | None = None  # since its start, or that of a turn
    read_at: float | None = None  # when its output is read again; None: as soon as there is some
    due: float | None = None  # when something has to be done even if nothing happens
    answer_file: str | None = None
    status: int | None = None
    error: str | None = None
    left_helpers = timed_out = too_much = False
    stdin: PipeWriter | None = None
    keeps_stdin = False  # whether there may be more to write
    pipes: OutputPipes | None = None
    keeps_pipes = True  # whether another process may have its pipes
    size = line_count = 0
    kill_at: float | None = None  # when it gets SIGKILL, while its tree is being terminated

    def __init__(
        self,
        supervisor: ProcessSupervisor,
        key: int,
        command: Command,
        timeout: float | None,
        max_output: int,
        first_read: float = READ_INTERVAL,
    ) -> None:
        self.supervisor, self.key, self.command = supervisor, key, command
        self.max_output, self.timeout, self.first_read = max_output, timeout, first_read
        self.outputs: dict[int, Callable[[bytes], object]] = {}  # stdout and stderr while they are open
        # What it printed, as it came: a list of lines would take fifty times the memory of short ones.
        self.chunks: list[bytes] = []
        self.arrivals: list[tuple[int, float]] = []
        self.stderr_tail = bytearray()
        self.signalled: set[int] = set()  # what has got SIGTERM

    def run(self) -> Outcome:
        """Starts the process, unless it runs already, and attends to it to its end; returns its outcome."""
        if self.child is None and self.error is None:
            self.start(select.poll())
        while not self.has_ended():
            for fd, event in self.poll.poll(None if self.due is None else poll_timeout(self.due - time.monotonic())):
                self.handle(fd, event)
        return self.outcome()

    # --- start ---

    def start(self, poll: select.poll, *, patient: bool = True) -> bool:
        """Starts the process, to be watched by `poll`; `error` says why it could not be started.

        Unless `patient`, returns False if our own limits do not allow it now: see ProcessSupervisor.start.
        """
        self.poll = poll
        return not self._name_answer_file() or self._start(patient)

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

    def _start(self, patient: bool) -> bool:
        stdin = None
        try:
            self.pipes = pipes = self.supervisor.take_pipes()
            self.outputs = {pipes.stdout: self._take_stdout, pipes.stderr: self._take_stderr}
            if self.command.stdin is not None:
                stdin = self._open_stdin(self.command.stdin)
            self.child = child = self.supervisor.start(
                self.key, self.command, stdin, pipes.their_stdout, pipes.their_stderr, patient=patient
            )
            self.deadline = child.started + self.timeout if self.timeout is not None else None
            self.poll.register(child.ended, select.POLLIN)
            self.read_at = child.started + self.first_read
        except (OSError, ValueError) as error:
            if not patient and isinstance(error, OSError) and error.errno in OWN_LIMITS:
                self._release_pipes()
                self._close_stdin()
                return False
            self.error = describe_start_failure(error, self.command.argv[0], self.command.cwd)
        finally:
            if stdin is not None:
                os.close(stdin)
        return True

    def _open_stdin(self, data: bytes) -> int:
        """Opens a pipe to write to, and writes as much as it takes; returns the end for the process."""
        if len(data) > SMALLEST_PIPE:
            return self._open_large_stdin(data)
        other, ours = open_pipe()
        os.write(ours, data)
        os.close(ours)
        return other

    def _open_large_stdin(self, data: bytes) -> int:
        other, ours = open_pipe(PIPE_SIZE)
        self.stdin = PipeWriter(ours)
        self._write_stdin(data)
        return other

    # --- until it has ended ---

    def descriptors(self) -> list[int]:
        """Returns the descriptors whose events are its own."""
        stdin = [] if self.stdin is None else [self.stdin.fd]
        return [*self.outputs, *stdin, *([self.child.ended] if self.child and self.status is None else [])]

    def move(self, poll: select.poll) -> None:
        """Has another poll watch it from now on."""
        for fd in self.descriptors():
            if self._unregister(fd):
                is_stdin = self.stdin is not None and fd == self.stdin.fd
                poll.register(fd, select.POLLOUT if is_stdin else select.POLLIN)
        self.poll = poll

    def handle(self, fd: int, event: int) -> None:
        """Handles an event of one of its descriptors."""
        if fd in self.outputs:
            if not self._read(fd, event) and self.kill_at is None:
                self._leave_outputs()
        elif self.child is not None and fd == self.child.ended:
            self.poll.unregister(fd)
            self.status, self.left_helpers = self.supervisor.collect(self.child)
        else:
            self._write_stdin()

    def has_ended(self) -> bool:
        """Whether the process has ended and, if its tree is being terminated, nothing of that is left.

        If not, `due` is when to ask again.
        """
        if self.child is None:
            return True
        if self.kill_at is not None:
            self.due = time.monotonic() + TREE_INTERVAL
            if self.supervisor.signal_tree(self.key, self.kill_at, self.signalled):
                return False
            return self.status is not None or self.supervisor.gave_up(self.child)
        if self.status is not None:
            return True
        now = time.monotonic()
        if self.read_at is not None and now >= self.read_at:
            self._watch_outputs()
        if self.deadline is not None and now >= self.deadline:
            self._miss_deadline()
        self.due = self.deadline
        if self.read_at is not None and (self.due is None or self.read_at < self.due):
            self.due = self.read_at
        return False

    def _miss_deadline(self) -> None:
        self.timed_out = True
        self._terminate()

    def _terminate(self) -> None:
        if self.kill_at is None:
            self.kill_at = time.monotonic() + TERM_GRACE
            if self.status is None:
                self._watch_outputs()

    def outcome(self) -> Outcome:
        """Returns what the process printed and how it ended."""
        self._drain()
        if self.answer_file is not None:
            self._take_answer(self.answer_file)
        self._finish_reading()
        if self.stdin is not None:
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

    def _watch_outputs(self) -> None:
        """Has output read as soon as there is some."""
        self.read_at = None
        for fd in self.outputs:
            self.poll.register(fd, select.POLLIN)

    def _leave_outputs(self) -> None:
        """Leaves output in the pipes for a moment: a process that prints often, or ends now, wakes us less often."""
        self.read_at = time.monotonic() + READ_INTERVAL
        for fd in self.outputs:
            self._unregister(fd)

    def _read(self, fd: int, event: int) -> bool:
        """Takes what a pipe has; returns whether it may have more."""
        data = os.read(fd, READ_SIZE) if event & select.POLLIN else b""  # POLLHUP alone: the end, and all is read
        if data:
            self.outputs[fd](data)
            if len(data) == READ_SIZE or not event & select.POLLHUP:
                return len(data) == READ_SIZE
        self._end_output(fd)
        return False

    def _drain(self) -> None:
        """Takes what the process left in its pipes; a helper that holds one open is not waited for."""
        if self.read_at is None:
            for fd in self.outputs:
                self._unregister(fd)
        self.read_at = math.inf
        more = True
        while more and self.pipes is not None:
            more = False
            for fd, event in self.pipes.poll.poll(0):
                if fd in self.outputs:
                    more = self._read(fd, event) and self.size <= self.max_output or more
        self._release_pipes()

    def _end_output(self, fd: int) -> None:
        del self.outputs[fd]
        if self.read_at is None:
            self._unregister(fd)
        if self.pipes is not None:
            self.pipes.close(fd)

    def _release_pipes(self) -> None:
        """Closes the pipes, unless another process can have them: they are empty, and nobody else has them open."""
        pipes, self.pipes = self.pipes, None
        if pipes is not None:
            left_nothing = self.child is not None and self.child.left_nothing and self.kill_at is None
            if self.keeps_pipes and left_nothing and pipes.renew():
                self.supervisor.give_back(pipes)
            else:
                pipes.close()
        self.outputs.clear()

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

    def _unregister(self, fd: int) -> bool:
        """Stops watching a descriptor; returns whether it was watched."""
        try:
            self.poll.unregister(fd)
        except KeyError:
            return False
        return True
