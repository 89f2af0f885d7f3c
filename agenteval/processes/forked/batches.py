"""Copies of this process (fork) that work on some of the batches of a large file, which it puts in order.

A worker gets lines and returns what is to be written for them. It does only what needs no message: of a batch in which
anything is unusual it returns nothing, and the caller works on it. So all that is said, and the order of it, is as
without workers, and if one is killed, nothing is lost.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from agenteval.processes.pipes import PIPE_SIZE, open_pipe, pipe_size

HEADER = 8  # bytes: the length of what follows
NOTHING = (1 << 64) - 1  # as a length: the worker leaves the batch to its parent
AHEAD = 2  # batches of each worker, and of the caller, that are read ahead

Batch = list[tuple[int, bytes]]
"""Lines and their numbers."""
Work = Callable[[list[bytes]], bytes]
"""Returns what is to be written for lines; raises if anything is unusual."""


def fork_workers(count: int, work: Work, unused: Iterable[int]) -> list[ForkedWorker]:
    """Returns workers, fewer if the system allows no more; they close the descriptors that are of no use to them."""
    workers: list[ForkedWorker] = []
    with suppress(OSError):
        while len(workers) < count:
            ours = [fd for worker in workers for fd in worker.descriptors]  # a copy of one would keep a pipe open
            workers.append(ForkedWorker(work, [*unused, *ours]))
    return workers


class ForkedWorker:
    """A copy of this process; raises OSError if there can be none."""

    def __init__(self, work: Work, unused: list[int]) -> None:
        theirs, self._to = open_pipe(PIPE_SIZE)
        self._from, back = open_pipe(PIPE_SIZE)
        self._room = pipe_size(self._to) * 7 // 8  # each write may leave part of a page unused
        self._unanswered: deque[int] = deque()  # bytes of each batch
        try:
            self._pid = os.fork()
        except OSError:
            for fd in (theirs, self._to, self._from, back):
                os.close(fd)
            raise
        if self._pid == 0:
            with suppress(BaseException):
                _serve(work, theirs, back, [*self.descriptors, *unused])
            os._exit(0)
        os.close(theirs)
        os.close(back)

    @property
    def descriptors(self) -> tuple[int, int]:
        """The parent's ends of its pipes."""
        return self._to, self._from

    def has_room(self, size: int) -> bool:
        """Whether a batch can be sent although others are unanswered: the worker may be waiting for us to read."""
        return not self._unanswered or sum(self._unanswered) + HEADER + size <= self._room

    def send(self, lines: bytes) -> bool:
        """Sends a batch of lines; returns False if the worker has ended."""
        try:
            _write(self._to, lines)
        except OSError:
            return False
        self._unanswered.append(HEADER + len(lines))
        return True

    def receive(self) -> bytes | None:
        """Returns what is to be written for the oldest batch that was sent; None if the worker leaves it."""
        self._unanswered.popleft()
        return _read(self._from)

    def close(self) -> None:
        """Lets the worker end, and waits for that."""
        os.close(self._to)
        os.close(self._from)
        with suppress(OSError):
            os.waitpid(self._pid, 0)


def share(batches: Iterator[Batch], workers: list[ForkedWorker]) -> Iterator[tuple[Batch, bytes | None]]:
    """Yields all batches in order, each with what a worker returns for it; None for those that the caller works on."""
    read_ahead: deque[tuple[Batch, ForkedWorker | None]] = deque()
    most = AHEAD * (len(workers) + 1)
    for number, batch in enumerate(batches):
        turn = number % (len(workers) + 1)
        read_ahead.append((batch, _sent_to(workers[turn - 1], batch) if turn else None))
        if len(read_ahead) > most:
            yield _done(*read_ahead.popleft())
    while read_ahead:
        yield _done(*read_ahead.popleft())


def _sent_to(worker: ForkedWorker, batch: Batch) -> ForkedWorker | None:
    """Sends a batch to a worker and returns it; None if it has no room, or has ended."""
    size = sum(len(line) + 1 for _, line in batch)
    sent = worker.has_room(size) and worker.send(b"\n".join([line for _, line in batch]))
    return worker if sent else None


def _done(batch: Batch, worker: ForkedWorker | None) -> tuple[Batch, bytes | None]:
    return batch, worker.receive() if worker else None


# --- the worker's side ---------------------------------------------------------------------------


def _serve(work: Work, source: int, target: int, unused: list[int]) -> None:
    """Answers batches until there are no more, or this process has no parent any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent ends it
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for fd in unused:
        if fd > 2:
            os.close(fd)
    while (lines := _read(source)) is not None:
        try:
            answer = work(lines.split(b"\n"))
        except Exception:
            os.write(target, NOTHING.to_bytes(HEADER))
        else:
            _write(target, answer)


def _write(fd: int, data: bytes) -> None:
    """Writes data and its length."""
    rest = memoryview(len(data).to_bytes(HEADER) + data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _read(fd: int) -> bytes | None:
    """Returns what was written; None for nothing, or if the writer has ended."""
    size = int.from_bytes(_exactly(fd, HEADER) or NOTHING.to_bytes(HEADER))
    return None if size == NOTHING else _exactly(fd, size)


def _exactly(fd: int, size: int) -> bytes | None:
    pieces: list[bytes] = []
    while size and (piece := os.read(fd, min(size, PIPE_SIZE))):
        pieces.append(piece)
        size -= len(piece)
    return None if size else b"".join(pieces)
