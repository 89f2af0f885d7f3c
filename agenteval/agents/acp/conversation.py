"""Runs a process that expects replies on its stdin, as one that speaks the Agent Client Protocol does."""

import select
import time
from collections import deque
from typing import Protocol

from msgspec.structs import replace

from agenteval.processes.process import PIPE_SIZE, Command, Outcome, RunningProcess
from agenteval.processes.supervisor import ProcessSupervisor

EXIT_GRACE = 0.5  # seconds in which a process that is done has to exit by itself
CANCEL_GRACE = 1.0  # seconds in which a process that ran out of time may answer with what it has


class ProcessPeer(Protocol):
    """The other end of a conversation with a process: it is given each line as soon as it is printed."""

    interactive: bool  # stdin stays open for its replies until it is done
    turn: int  # the time limit starts anew when it changes
    done: bool  # nothing more is expected: the process has to exit

    def reply_to(self, line: bytes, running: bool) -> bytes:
        """Returns what to write to stdin in reply to a line; nothing is written once the process has ended."""

    def time_over(self) -> bytes:
        """Returns what to write to stdin, if anything, so that the process ends a turn whose time is over."""


class ConversingProcess(RunningProcess):
    """A process and its peer; output is read as soon as it comes."""

    exiting = False

    def __init__(
        self,
        supervisor: ProcessSupervisor,
        key: int,
        command: Command,
        timeout: float | None,
        max_output: int,
        peer: ProcessPeer,
    ) -> None:
        super().__init__(supervisor, key, command, timeout, max_output)
        self.peer, self.turn, self.keeps_stdin = peer, peer.turn, peer.interactive
        self.unfinished_line: list[bytes] = []
        self.unanswered: deque[bytes] = deque()  # lines that the peer has not been given yet

    def _handle(self, fd: int, event: int) -> None:
        is_stdin = self.stdin is not None and fd == self.stdin.fd
        super()._handle(fd, event)
        if is_stdin:
            self._answer_lines()

    def _has_ended(self) -> bool:
        if self.child is not None and self.kill_at is None:
            self._follow_peer()
        return super()._has_ended()

    def _outcome(self) -> Outcome:
        return replace(super()._outcome(), lingered=self.exiting and self.kill_at is not None)

    def _take_stdout(self, data: bytes) -> bytes:
        data = super()._take_stdout(data)
        first, *more = data.split(b"\n")
        self.unfinished_line.append(first)
        if more:
            self.unanswered.append(b"".join(self.unfinished_line))
            self.unfinished_line = [last] if (last := more.pop()) else []
            self.unanswered.extend(more)
        self._answer_lines()
        return data

    def _end_output(self, fd: int) -> None:
        super()._end_output(fd)
        if fd == self.stdout and self.peer.interactive and self.status is None:
            self._expect_exit()  # no reply can come any more

    def _finish_reading(self) -> None:
        if self.unfinished_line:
            self.unanswered.append(b"".join(self.unfinished_line))
        self._answer_lines()

    def _answer_lines(self) -> None:
        """Answers the lines read so far.

        Back-pressure: stops reading stdout while more than PIPE_SIZE bytes of replies are unread.
        """
        running = self.status is None
        while self.unanswered and self.kill_at is None and not (running and self._replies_unread()):
            if reply := self.peer.reply_to(self.unanswered.popleft(), running):
                self._write_stdin(reply)
        if running and self.stdout in self.outputs:
            if self.unanswered:
                self._unregister(self.stdout)
            else:
                self.poll.register(self.stdout, select.POLLIN)
        self._follow_peer()

    def _replies_unread(self) -> bool:
        return self.stdin is not None and len(self.stdin.unsent) > PIPE_SIZE

    def _follow_peer(self) -> None:
        """Starts the time limit anew with a new turn, and lets the process exit when the peer is done."""
        if self.exiting:
            return
        if self.peer.done:
            self._expect_exit()
        elif self.peer.turn != self.turn:
            self.turn = self.peer.turn
            self.deadline = time.monotonic() + self.timeout if self.timeout is not None else None

    def _expect_exit(self) -> None:
        """Closes stdin once all is sent; a process that does not exit soon is terminated."""
        self.exiting, self.keeps_stdin = True, False
        self.deadline = time.monotonic() + EXIT_GRACE
        self._write_stdin()

    def _miss_deadline(self) -> None:
        first = not (self.exiting or self.timed_out)
        self.timed_out = self.timed_out or first
        if first and (request := self.peer.time_over()):
            self.deadline = time.monotonic() + CANCEL_GRACE
            self._write_stdin(request)
        else:
            self._terminate()
