"""Many jobs at a time in one thread: as xargs does it, without a thread to wake for each thing that happens.

A job is a generator. It yields what it waits for (a process, the end of a tree, a pause, a call that may take
long), is sent the answer, and returns its result. Results go out as they come or in the order of the jobs.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from agenteval.processes.poller import Poller
from agenteval.processes.process import GRACE, TICK, Command, ProcessPeer, RunningProcess
from agenteval.processes.supervisor import ProcessSupervisor

R = TypeVar("R")

MANY = 64  # jobs at a time from which on the switchboard is for many
REAP_INTERVAL = 1.0  # seconds between two looks for orphans of agents at work that have ended
WINDOW = 64  # how far ordered work may run ahead of its slowest job


class RunProcess(NamedTuple):
    """Run a process to its end, with a peer who hears what it prints; answered with its Outcome."""

    key: int
    command: Command
    timeout: float | None
    max_output: int
    peer: ProcessPeer | None = None


class EndTree(NamedTuple):
    """End all that an agent has left running; answered when it is gone."""

    key: int


class Pause(NamedTuple):
    """Wait; answered after so many seconds."""

    seconds: float


class Call(NamedTuple):
    """Call a function that may take long, in a thread; answered with what it returns, or raises."""

    function: Callable[[], Any]


Request = RunProcess | EndTree | Pause | Call
Job = Generator[Request, Any, R]


class Loop(Generic[R]):
    """Runs jobs, N at a time, and emits their results; None is no result.

    Where they are ordered, `hold` is told of a result that has to wait for those of earlier jobs.
    """

    def __init__(
        self,
        processes: ProcessSupervisor,
        emit: Callable[[R], None],
        *,
        workers: int,
        ordered: bool,
        room: Callable[[], bool],
        hold: Callable[[R], None] = lambda _result: None,
    ) -> None:
        self.processes, self.emit, self.hold, self.room = processes, emit, hold, room
        self.workers, self.ordered = workers, ordered
        self.board = Poller(many=workers > MANY)
        self._active: dict[int, _Active[R]] = {}
        self._started = self._next = 0
        self._reap_at = time.monotonic() + REAP_INTERVAL
        self._waiting: dict[int, R | None] = {}
        self._error: BaseException | None = None
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        self.board.register(self._woken, select.POLLIN, self)

    def wake(self, error: BaseException | None = None) -> None:
        """From another thread: there is something to do, or an error to raise."""
        self._error = self._error or error
        os.write(self._waker, b".")

    def handle(self, fd: int) -> None:
        """Somebody woke us, or the reader of our output has gone."""
        if fd == self._woken:
            os.read(fd, 4096)
        else:
            raise BrokenPipeError

    def run(self, jobs: Jobs[R], watch: int | None = None) -> None:
        """Work through the jobs; `watch` is the output: where it is a pipe, its closing ends the wait."""
        if watch is not None:
            with suppress(PermissionError):  # epoll takes no files, and nobody closes their other end
                self.board.register(watch, 0, self)  # POLLERR comes unasked when the reader has gone
        jobs.begin(self.wake)
        while True:
            if self._error is not None:
                raise self._error
            while self._has_room() and (job := jobs.take()) is not None:
                self._start(job)
            if not self._active and jobs.exhausted:
                return
            self.board.wait(self._patience())
            for number in [number for number, active in self._active.items() if active.tick()]:
                self._resume(self._active[number])
            self._reap_orphans()

    def _reap_orphans(self) -> None:
        if time.monotonic() >= self._reap_at:
            self.processes.reap_orphans()
            self._reap_at = time.monotonic() + REAP_INTERVAL

    def _has_room(self) -> bool:
        ahead = self._started - self._next if self.ordered else 0
        return len(self._active) < self.workers and ahead < max(WINDOW, 4 * self.workers) and self.room()

    def _patience(self) -> float | None:
        if not self._active:
            return None
        times = [at for active in self._active.values() if (at := active.next_tick()) is not None]
        return max(0.0, min([self._reap_at, *times]) - time.monotonic())

    def _start(self, job: Job[R]) -> None:
        active = _Active(self, job, self._started)
        self._active[self._started] = active
        self._started += 1
        self._resume(active)

    def _resume(self, active: _Active[R]) -> None:
        while active.advance():
            if not active.tick():
                return
        del self._active[active.number]
        self._deliver(active.number, active.result)

    def _deliver(self, number: int, result: R | None) -> None:
        if not self.ordered:
            if result is not None:
                self.emit(result)
            return
        self._waiting[number] = result
        if number != self._next and result is not None:
            self.hold(result)
        while self._next in self._waiting:
            ready = self._waiting.pop(self._next)
            self._next += 1
            if ready is not None:
                self.emit(ready)


class _Active(Generic[R]):
    """A job that has begun, and what it waits for."""

    def __init__(self, loop: Loop[R], job: Job[R], number: int) -> None:
        self.loop, self.job, self.number = loop, job, number
        self.result: R | None = None
        self._wait: _Wait | None = None

    def advance(self) -> bool:
        """Give the job what it waited for; False when it has returned."""
        try:
            if self._wait is None:
                request = next(self.job)
            else:
                failure, answer = self._wait.answer()
                request = self.job.throw(failure) if failure is not None else self.job.send(answer)
        except StopIteration as returned:
            self.result = returned.value
            return False
        self._wait = _wait_for(request, self.loop)
        return True

    def tick(self) -> bool:
        """Whether what it waits for has come."""
        return self._wait is not None and self._wait.tick()

    def next_tick(self) -> float | None:
        """When to look again even if nothing happens."""
        return self._wait.next_tick() if self._wait is not None else None


# --- what a job can wait for --------------------------------------------------------------------


class _Wait(Protocol):
    """Something to wait for: ready when `tick` says so, then it has an answer."""

    def tick(self) -> bool: ...

    def next_tick(self) -> float | None: ...

    def answer(self) -> tuple[BaseException | None, Any]: ...


class _ForProcess:
    def __init__(self, request: RunProcess, loop: Loop[Any]) -> None:
        self.attendance = RunningProcess(loop.processes, loop.board, *request)
        self.attendance.begin()
        self.tick, self.next_tick = self.attendance.tick, self.attendance.next_tick

    def answer(self) -> tuple[BaseException | None, Any]:
        return None, self.attendance.outcome()


class _ForTree:
    def __init__(self, request: EndTree, loop: Loop[Any]) -> None:
        self.key, self.processes = request.key, loop.processes
        self.deadline = time.monotonic() + GRACE
        self.told: set[int] = set()

    def tick(self) -> bool:
        return not self.processes.signal_tree(self.key, self.deadline, self.told)

    def next_tick(self) -> float:
        return time.monotonic() + TICK

    def answer(self) -> tuple[None, None]:
        return None, None


class _ForTime:
    def __init__(self, request: Pause) -> None:
        self.until = time.monotonic() + request.seconds

    def tick(self) -> bool:
        return time.monotonic() >= self.until

    def next_tick(self) -> float:
        return self.until

    def answer(self) -> tuple[None, None]:
        return None, None


class _ForCall:
    def __init__(self, request: Call, loop: Loop[Any]) -> None:
        self.function, self.loop = request.function, loop
        self.outcome: tuple[BaseException | None, Any] | None = None
        threading.Thread(target=self._call, daemon=True).start()

    def tick(self) -> bool:
        return self.outcome is not None

    def next_tick(self) -> None:
        return None

    def answer(self) -> tuple[BaseException | None, Any]:
        return self.outcome or (None, None)

    def _call(self) -> None:
        try:
            self.outcome = (None, self.function())
        except BaseException as error:
            self.outcome = (error, None)
        self.loop.wake()


def _wait_for(request: Request, loop: Loop[Any]) -> _Wait:
    if isinstance(request, RunProcess):
        return _ForProcess(request, loop)
    if isinstance(request, EndTree):
        return _ForTree(request, loop)
    if isinstance(request, Pause):
        return _ForTime(request)
    return _ForCall(request, loop)


# --- where jobs come from, where results go -----------------------------------------------------


class Jobs(Generic[R]):
    """Jobs from an iterator; one that may block (a pipe) is read by a thread of its own, never ahead of need."""

    def __init__(self, jobs: Iterator[Job[R]], *, blocks: bool) -> None:
        self._jobs, self._blocks = jobs, blocks
        self._ready: Job[R] | None = None
        self._wanted = threading.Semaphore(0)
        self._asked = self._ended = False
        self.exhausted = False

    def begin(self, wake: Callable[[BaseException | None], None]) -> None:
        """Begin to read, if a thread is needed for it."""
        if self._blocks:
            threading.Thread(target=self._read, args=(wake,), daemon=True).start()

    def take(self) -> Job[R] | None:
        """The next job; None when there is none yet, or (`exhausted`) none any more."""
        if not self._blocks:
            job = next(self._jobs, None)
            self.exhausted = job is None
            return job
        job, self._ready = self._ready, None
        if job is not None:
            self._asked = False
        elif self._ended:
            self.exhausted = True
        elif not self._asked:
            self._asked = True
            self._wanted.release()
        return job

    def _read(self, wake: Callable[[BaseException | None], None]) -> None:
        error: BaseException | None = None
        try:
            self._wanted.acquire()
            for job in self._jobs:
                self._ready = job
                wake(None)
                self._wanted.acquire()
        except BaseException as caught:
            error = caught
        self._ended = True
        wake(error)


class Outbox:
    """Writes to an output that may block (a pipe) from a thread of its own, so that agents are attended meanwhile."""

    FULL = 64

    def __init__(self, write: Callable[[Any], None], *, blocks: bool) -> None:
        self._write, self._blocks = write, blocks
        self._queue: deque[Any] = deque()
        self._filled = threading.Semaphore(0)
        self._wake: Callable[[BaseException | None], None] = lambda _error: None
        self._thread: threading.Thread | None = None

    def begin(self, wake: Callable[[BaseException | None], None]) -> None:
        """`wake` is told of errors, and when there is room again."""
        self._wake = wake

    def has_room(self) -> bool:
        """Whether more may be started: what is done has to go out, too."""
        return len(self._queue) < self.FULL

    def put(self, record: Any) -> None:
        """Write a record, now or as soon as the reader lets us."""
        if not self._blocks:
            self._write(record)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._send, daemon=True)
            self._thread.start()
        self._queue.append(record)
        self._filled.release()

    def finish(self, seconds: float | None = None) -> None:
        """Wait until all is written, at most so long."""
        if self._thread is not None:
            self._queue.append(None)
            self._filled.release()
            self._thread.join(seconds)

    def _send(self) -> None:
        while True:
            self._filled.acquire()
            record = self._queue[0]
            if record is None:
                return
            try:
                self._write(record)
            except BaseException as error:
                self._wake(error)
                return
            self._queue.popleft()
            if len(self._queue) == self.FULL - 1:
                self._wake(None)
