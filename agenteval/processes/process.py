"""One process: start it, feed its stdin, read what it prints with arrival times, terminate it at a limit.

`ProcessSupervisor.run` runs one in the calling thread, which sleeps in poll until something happens.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from agenteval.processes.outcome import Outcome, describe_start_failure, read_status
from agenteval.processes.pipes import PIPE_SIZE, SMALLEST_PIPE, PipeWriter, open_pipe, poll_timeout
from agenteval.processes.scratch import take_file
from agenteval.processes.spawn import Command

if TYPE_CHECKING:
    from agenteval.processes.supervisor import Child, ProcessSupervisor

TERM_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
EXIT_GRACE = 0.5  # seconds in which a process that is done has to exit by itself
TREE_INTERVAL = 0.02  # seconds between two looks at a tree that is being terminated

ANSWER_FILE = f"{{answer file {os.urandom(8).hex()}}}"  # in an argument: the name of a file for the answer
ANSWER_WAIT = 1.0  # seconds: of several processes, one may write the answer when the first has been killed
READ_SIZE = 1 << 16
STDERR_TAIL = 8 << 10
SHORT_LINE = 16  # bytes: an agent may print as many lines as --max-output holds of this length
FEW_LINES = 10_000


class ProcessPeer(Protocol):
    """The other end of a conversation with a process: it is given each line as soon as it is printed."""

    interactive: bool  # stdin stays open for its replies until it is done
    turn: int  # the time limit starts anew when it changes
    done: bool  # nothing more is expected: the process has to exit

    def reply_to(self, line: bytes, running: bool) -> bytes:
        """Returns what to write to stdin in reply to a line; nothing is written once the process has ended."""
        ...


class RunningProcess:
    """One process from its start to its end; `run` is called once."""

    child: Child | None = None
    deadline: float | None = None  # since its start, or that of a turn
    wait: float | None = None  # how long to wait for the next event, in ms
    answer_file: str | None = None
    status: int | None = None
    error: str | None = None
    left_helpers = timed_out = too_much = False
    stdin: PipeWriter | None = None
    stdout = -1
    size = line_count = 0
    turn = 0  # of the conversation with a peer
    exiting = False
    kill_at: float | None = None  # when it gets SIGKILL, while its tree is being terminated

    def __init__(
        self,
        supervisor: ProcessSupervisor,
        key: int,
        command: Command,
        timeout: float | None,
        max_output: int,
        peer: ProcessPeer | None = None,
    ) -> None:
        self.supervisor, self.key, self.command = supervisor, key, command
        self.max_output, self.timeout, self.peer = max_output, timeout, peer
        self.poll = select.poll()
        self.outputs: dict[int, Callable[[bytes], None]] = {}  # stdout and stderr while they are open
        # What it printed, as it came: a list of lines would take fifty times the memory of short ones.
        self.chunks: list[bytes] = []
        self.arrivals: list[tuple[int, float]] = []
        self.stderr_tail = bytearray()
        self.signalled: set[int] = set()  # what has got SIGTERM
        if peer:
            self.turn = peer.turn
        self.unfinished_line: list[bytes] = []
        self.unanswered: deque[bytes] = deque()  # lines that the peer has not been given yet

    def run(self) -> Outcome:
        """Starts the process and attends to it until it has ended; returns what it printed and how it ended."""
        if self._name_answer_file():
            self._start()
        while not self._has_ended():
            for fd, event in self.poll.poll(self.wait):
                self._handle(fd, event)
        return self._outcome()

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
        """Starts the process; `error` says why it could not be started."""
        theirs: list[int] = []
        try:
            stdout = self._open_output(self._take_stdout, theirs, PIPE_SIZE)
            self.stdout = next(iter(self.outputs))
            stderr = self._open_output(self._take_stderr, theirs)
            stdin = self._open_stdin(self.command.stdin, theirs) if self.command.stdin is not None else None
            self.child = self.supervisor.start(self.key, self.command, stdin, stdout, stderr)
            self.deadline = time.monotonic() + self.timeout if self.timeout is not None else None
            self.poll.register(self.child.ended, select.POLLIN)
        except (OSError, ValueError) as error:
            self.error = describe_start_failure(error, self.command.argv[0], self.command.cwd)
        finally:
            for fd in theirs:
                os.close(fd)

    def _open_output(self, take: Callable[[bytes], None], theirs: list[int], size: int | None = None) -> int:
        """Opens a pipe to read from; returns the end for the process."""
        ours, other = open_pipe(size)
        theirs.append(other)
        self.outputs[ours] = take
        self.poll.register(ours, select.POLLIN)
        return other

    def _open_stdin(self, data: bytes, theirs: list[int]) -> int:
        """Opens a pipe to write to, and writes as much as it takes; returns the end for the process."""
        if not self.peer and len(data) <= SMALLEST_PIPE:
            other, ours = open_pipe()
            theirs.append(other)
            os.write(ours, data)
            os.close(ours)
            return other
        other, ours = open_pipe(PIPE_SIZE)
        theirs.append(other)
        self.stdin = PipeWriter(ours)
        self._write_stdin(data)
        return other

    def _handle(self, fd: int, event: int) -> None:
        if fd in self.outputs:
            self._read(fd, event)
        elif self.child is not None and fd == self.child.ended:
            self.poll.unregister(fd)
            self.status, self.left_helpers = self.supervisor.collect(self.child)
        else:
            self._write_stdin()
            if self.peer:
                self._answer_lines(self.peer)

    def _has_ended(self) -> bool:
        """Whether the process has ended and, if its tree is being terminated, nothing of that is left.

        If not, `wait` is how long to wait until something has to be done.
        """
        if self.child is None:
            return True
        if self.kill_at is not None:
            self.wait = TREE_INTERVAL * 1000
            if self.supervisor.signal_tree(self.key, self.kill_at, self.signalled):
                return False
            return self.status is not None or self.supervisor.gave_up(self.child)
        if self.peer:
            self._follow_peer(self.peer)
        if self.status is not None:
            return True
        left = None if self.deadline is None else self.deadline - time.monotonic()
        self.wait = poll_timeout(left)
        if left is not None and left <= 0:
            self.timed_out = not self.exiting
            self._terminate()
        return False

    def _terminate(self) -> None:
        if self.kill_at is None:
            self.kill_at = time.monotonic() + TERM_GRACE

    def _outcome(self) -> Outcome:
        if self.outputs:
            self._drain()
        if self.answer_file is not None:
            self._take_answer(self.answer_file)
        if self.peer:
            if self.unfinished_line:
                self.unanswered.append(b"".join(self.unfinished_line))
            self._answer_lines(self.peer)
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
            lingered=self.exiting and self.kill_at is not None,
        )

    # --- stdout and stderr ---

    def _read(self, fd: int, event: int) -> bool:
        """Takes what a pipe has; returns whether it may have more."""
        data = os.read(fd, READ_SIZE) if event & select.POLLIN else b""  # POLLHUP alone: the end, and all is read
        if data:
            self.outputs[fd](data)
            if len(data) == READ_SIZE or not event & select.POLLHUP:
                return len(data) == READ_SIZE
        self._close_output(fd)
        if fd == self.stdout and self.peer and self.peer.interactive:
            self._expect_exit()  # no reply can come any more
        return False

    def _drain(self) -> None:
        """Takes what the process left in its pipes; a helper that holds one open is not waited for."""
        more = True
        if self.peer and self.stdout in self.outputs:
            self.poll.register(self.stdout, select.POLLIN)  # which back-pressure may have stopped
        while more:
            more = False
            for fd, event in self.poll.poll(0):
                if fd in self.outputs:
                    more = self._read(fd, event) and self.size <= self.max_output or more
        for fd in self.outputs:
            os.close(fd)
        self.outputs.clear()

    def _close_output(self, fd: int) -> None:
        if self.outputs.pop(fd, None) is not None:
            self._unregister(fd)
            os.close(fd)

    def _take_stdout(self, data: bytes) -> None:
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
        if self.peer:
            self._split_lines(data, self.peer)

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
        """Writes what there is room for; closes stdin after the last of it, unless a peer may have more to write."""
        if self.stdin is None:
            return
        self.stdin.write(data)
        if self.stdin.unsent_size:
            self.poll.register(self.stdin.fd, select.POLLOUT)
        elif self.peer and self.peer.interactive and not self.exiting:
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
            pass

    # --- the conversation with a peer ---

    def _split_lines(self, data: bytes, peer: ProcessPeer) -> None:
        """Gives the peer the lines that are complete."""
        first, *more = data.split(b"\n")
        self.unfinished_line.append(first)
        if more:
            self.unanswered.append(b"".join(self.unfinished_line))
            self.unfinished_line = [last] if (last := more.pop()) else []
            self.unanswered.extend(more)
        self._answer_lines(peer)

    def _answer_lines(self, peer: ProcessPeer) -> None:
        """Answers the lines read so far.

        Back-pressure: stops reading stdout while more than PIPE_SIZE bytes of replies are unread.
        """
        running = self.status is None
        while self.unanswered and self.kill_at is None and not (running and self._replies_unread()):
            if reply := peer.reply_to(self.unanswered.popleft(), running):
                self._write_stdin(reply)
        if running and self.stdout in self.outputs:
            if self.unanswered:
                self._unregister(self.stdout)
            else:
                self.poll.register(self.stdout, select.POLLIN)
        self._follow_peer(peer)

    def _replies_unread(self) -> bool:
        return self.stdin is not None and self.stdin.unsent_size > PIPE_SIZE

    def _follow_peer(self, peer: ProcessPeer) -> None:
        """Starts the time limit anew with a new turn, and lets the process exit when the peer is done."""
        if self.exiting:
            return
        if peer.done:
            self._expect_exit()
        elif peer.turn != self.turn:
            self.turn = peer.turn
            self.deadline = time.monotonic() + self.timeout if self.timeout is not None else None

    def _expect_exit(self) -> None:
        """Closes stdin once all is sent; a process that does not exit soon is terminated."""
        self.exiting = True
        self.deadline = time.monotonic() + EXIT_GRACE
        self._write_stdin()
