"""N at a time: worker threads take items; results go out as they come, or in the order of the items.

Data flow: a worker takes the next item → `work(item)` → each of its results is emitted at once or, in an ordered pool,
kept until the results of all earlier items are out. The main thread only waits, so that a signal reaches it at once.
`run_pool` ends a run: in order when all is done; on a signal, a closed pipe or an error with everything terminated.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import FrameType
from typing import Any, Generic, TypeVar

from agenteval.errors import CannotGoOn, Stopped
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.console import PROGRESS, Console
from agenteval.streams.output import Output

T = TypeVar("T")
R = TypeVar("R")

STACK = 1 << 20  # bytes of a thread: there may be hundreds
WINDOW = 64
TICK = 1.0
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FLUSH_TIME = 2.0  # seconds for the reader of our output to take the records that are ready


class Pool(Generic[T, R]):
    """Worker threads that take items from one iterator.

    `emit` is called with one result at a time. It may block: a worker that waits for the reader of our output takes
    no further item. In an `ordered` pool, `hold` is called with a result that has to wait for those of earlier items,
    and no more than `window` items are taken ahead of the slowest.
    """

    def __init__(
        self,
        work: Callable[[T], Iterable[R]],
        emit: Callable[[R], None],
        *,
        workers: int,
        ordered: bool,
        hold: Callable[[R], None] = lambda _result: None,
    ) -> None:
        self.work, self.emit, self.hold = work, emit, hold
        self.workers, self.ordered = workers, ordered
        self.window = max(WINDOW, workers * 4)
        self._items: Iterator[T] = iter(())
        self._taking = threading.Lock()
        self._emitting = threading.Lock()
        self._emitters: set[int] = set()  # threads that emit, or wait for their turn to
        self._emit_failed = False
        self._state = threading.Condition()  # of what follows; never held while something else is waited for
        self._error: BaseException | None = None
        self._taken = self._started = self._running = 0
        self._next = 0  # the first item of an ordered pool that is not finished
        self._waiting: dict[int, list[R]] = {}
        self._finished: set[int] = set()

    # --- the main thread ---

    def run(self, items: Iterator[T], watch: int | None = None, tick: Callable[[], None] | None = None) -> None:
        """Works through the items; raises what a worker raised.

        If `watch` is a pipe, the run ends when its reader closes it. `tick` is called about every second.
        """
        self._items = items
        threading.stack_size(STACK)
        self._done, self._signal_done = os.pipe()
        try:
            self._start_worker()
            self._wait(watch, tick)
        except BaseException as error:  # a signal: no worker takes another item
            self._fail(error)
            raise
        if self._error is not None:
            raise self._error

    def flush(self, seconds: float) -> None:
        """After an error, waits at most that long until the results that were ready before it are written."""
        deadline = time.monotonic() + seconds
        while self._emitters and time.monotonic() < deadline:
            time.sleep(0.01)

    def _wait(self, watch: int | None, tick: Callable[[], None] | None) -> None:
        """Waits until all workers have ended or one has failed; a signal raises here, whichever thread it reaches."""
        poll = select.poll()
        poll.register(self._done, select.POLLIN)
        if threading.current_thread() is threading.main_thread():
            poll.register(_wakeup_fd(), select.POLLIN)
        if watch is not None:
            poll.register(watch, 0)  # POLLERR comes unasked when the reader of a pipe has closed it
        while True:
            for fd, _event in poll.poll(TICK * 1000 if tick else None):
                if fd == self._done:
                    return
                if fd == watch:
                    raise BrokenPipeError
                os.read(fd, 64)  # a signal, but its handler has not raised
            if tick:
                tick()

    def _fail(self, error: BaseException) -> None:
        with self._state:
            self._error = self._error or error
            self._state.notify_all()
        os.write(self._signal_done, b".")

    # --- workers ---

    def _start_worker(self) -> None:
        """Starts another worker, unless all are at work; each starts the next one when it has taken its first item."""
        with self._state:
            if self._started == self.workers:
                return
            try:
                threading.Thread(target=self._serve, daemon=True).start()
            except RuntimeError:  # the system has no more threads for us
                if not self._running:
                    raise
                self.workers = self._started
                return
            self._started += 1
            self._running += 1

    def _serve(self) -> None:
        try:
            self._work_through()
        except BaseException as error:
            self._fail(error)
        with self._state:
            self._running -= 1
            if self._running == 0:
                os.write(self._signal_done, b".")

    def _work_through(self) -> None:
        """Works on items until there are no more."""
        is_new = True
        while (taken := self._take_item()) is not None:
            if is_new:
                self._start_worker()
                is_new = False
            index, item = taken
            if all(self._deliver(index, result) for result in self.work(item)) and self.ordered:
                self._finish(index)

    def _take_item(self) -> tuple[int, T] | None:
        """Returns the next item and its number; None if there are no more, or the run has failed."""
        with self._taking:
            if self.ordered:
                with self._state:
                    self._state.wait_for(lambda: self._taken - self._next < self.window or self._error is not None)
            if self._error is not None:
                return None
            try:
                item = next(self._items)
            except StopIteration:
                return None
            self._taken += 1
            return self._taken - 1, item

    # --- results ---

    def _deliver(self, index: int, result: R) -> bool:
        """Emits a result, or holds it until it is its turn; returns False if the run has failed."""
        worker = threading.get_ident()
        self._emitters.add(worker)  # first: `flush` looks for emitters after the error is set
        try:
            if self._error is not None:
                return False
            with self._emitting:
                if self.ordered and index != self._next:
                    self.hold(result)
                    self._waiting.setdefault(index, []).append(result)
                else:
                    self._emit(result)
            return True
        finally:
            self._emitters.discard(worker)

    def _emit(self, result: R) -> None:
        if self._emit_failed:
            return
        try:
            self.emit(result)
        except BaseException:
            self._emit_failed = True
            raise

    def _finish(self, index: int) -> None:
        """Marks an item as finished and emits the results that waited for it."""
        with self._emitting:
            if self._error is not None:
                return  # the item may have been cut short; nothing overtakes it
            self._finished.add(index)
            while self._next in self._finished:
                self._finished.remove(self._next)
                self._next += 1
                for result in self._waiting.pop(self._next, ()):
                    self._emit(result)
        with self._state:
            self._state.notify_all()


@cache
def _wakeup_fd() -> int:
    """Returns a descriptor that becomes readable when a signal has arrived in any thread."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read


# --- the end of a run ------------------------------------------------------------------------------


def run_pool(
    pool: Pool[T, Any],
    items: Iterator[T],
    processes: ProcessSupervisor,
    output: Output,
    console: Console,
    finish: Callable[[], None] = lambda: None,
) -> None:
    """Works through the items, then calls `finish`; the output is left open.

    On a signal, a closed output or an error, terminates all processes and raises it again.
    """

    def tick() -> None:
        processes.reap_orphans()
        console.redraw()

    raise_on_signals()
    try:
        pool.run(items, None if output.path else output.fd, tick)
        finish()
    except (Stopped, Exception) as reason:
        exit_at_once_on_signals()  # on a second signal; the guardian kills the rest
        processes.stop()
        pool.flush(FLUSH_TIME)
        console.finish()
        if isinstance(reason, Stopped):
            go_on = "; run it again with --resume to continue" if output.resumable else ""
            console.say(f"stopped by {signal.Signals(reason.signum).name} after {console.count()}{go_on}", alone=True)
        _close(processes, console)
        try:
            output.close(complete=False)
        except CannotGoOn as problem:
            console.say(str(problem))
        raise
    console.finish()
    _close(processes, console)


def raise_on_signals() -> None:
    """Makes the signals that end a tool raise Stopped in the main thread."""
    for signum in ENDING_SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:  # nohup and `&` ignore some: let them
            signal.signal(signum, _raise_stopped)


def _close(processes: ProcessSupervisor, console: Console) -> None:
    processes.close()
    for left in processes.left_running():
        console.say(left)


def exit_at_once_on_signals() -> None:
    """Makes the signals that end a tool end it at once."""
    for signum in ENDING_SIGNALS:
        signal.signal(signum, _exit_at_once)


def _raise_stopped(signum: int, _frame: FrameType | None) -> None:
    raise Stopped(signum)


def _exit_at_once(signum: int, _frame: FrameType | None) -> None:
    PROGRESS.abandon()
    os._exit(128 + signum)
