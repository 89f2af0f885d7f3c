"""N at a time in one thread: it starts the processes of all items, and attends to those that run.

Threads that each wait for a process keep waking each other up: one has the lock of the interpreter, or starts a
process, and the others wait for it. With short processes that takes a tenth of all CPU time.

An item gets a thread of its own when it could keep the others waiting: its process has run for a while, has to be
terminated or has left something to terminate, or has printed much. Nothing else may block: neither the iterator of
items nor `emit`, as those of files do not, nor the work on an item between its processes.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from agenteval.processes.interleaved.steps import Work
from agenteval.processes.outcome import Outcome
from agenteval.processes.pipes import poll_timeout
from agenteval.processes.process import RunningProcess
from agenteval.processes.worker_pool import Pool

T = TypeVar("T")
R = TypeVar("R")

SHORT = 0.05  # seconds after which a process gets a thread of its own
MUCH = 1 << 20  # bytes that a process has printed: to go on with the work on them may take a while
STARTS = 4  # processes that are started before those that run are looked at


class _Task:
    """The work on one item, and the process that it waits for."""

    def __init__(self, index: int, work: Work[Any]) -> None:
        self.index, self.work = index, work
        self.descriptors: list[int] = []
        self.long_at = 0.0  # when its process is no longer short
        self.due = 0.0  # when to look at it even if nothing happens
        self.error: Exception | None = None  # to be raised in the work
        self.process: RunningProcess

    def schedule(self) -> None:
        """Sets when to look at it next."""
        due = self.process.due
        self.due = self.long_at if due is None else min(due, self.long_at)


class InterleavedPool(Pool[T, R]):
    """A pool with one worker for all items whose processes are short; `work` returns generators."""

    def __init__(
        self,
        work: Callable[[T], Work[R]],
        emit: Callable[[R], None],
        *,
        workers: int,
        ordered: bool,
        hold: Callable[[R], None] | None = None,
    ) -> None:
        super().__init__(work, emit, workers=workers, ordered=ordered, hold=hold)
        self._start_work = work
        self._poll = select.poll()
        self._woken, self._wake = os.pipe()
        self._poll.register(self._woken, select.POLLIN)
        self._short: dict[_Task, None] = {}
        self._owners: dict[int, _Task] = {}  # descriptor → the task of its process
        self._long = 0  # tasks that have a thread of their own

    def _work_through(self) -> None:
        """Takes items while there is room for them, and attends to their processes until all are done."""
        more = True
        while more or self._short or self._long:
            started = 0
            while more and started < STARTS and self._has_room():
                more = self._begin_next()
                started += 1
            if self._short or self._long:
                self._attend(at_once=more and self._has_room())
            elif self._error is not None:
                return

    def _has_room(self) -> bool:
        """Whether another item may be taken now."""
        return len(self._short) + self._long < self.workers and not self._is_ahead()

    def _begin_next(self) -> bool:
        """Begins the work on the next item; returns whether there may be further ones."""
        try:
            taken = self._take_item()
        except BaseException as error:
            self._fail(error)
            return False  # but those that run are attended to until they have ended
        if taken is None:
            return False
        index, item = taken
        self._go_on(_Task(index, self._start_work(item)))
        return True

    def _attend(self, *, at_once: bool) -> None:
        """Waits until something happens to a process, and handles it; `at_once`: only what has happened."""
        now = time.monotonic()
        due = now if at_once else min((task.due for task in self._short), default=None)
        happened = set()
        for fd, event in self._poll.poll(None if due is None else poll_timeout(due - now)):
            if fd == self._woken:
                os.read(fd, 1 << 12)
                continue
            happened.add(task := self._owners[fd])
            try:
                task.process.handle(fd, event)
            except Exception as error:
                task.error = error
        now = time.monotonic()
        for task in [task for task in self._short if task in happened or task.due <= now]:
            self._look_at(task, now)

    def _look_at(self, task: _Task, now: float) -> None:
        """Goes on with a task whose process has ended; one that may take a while gets a thread."""
        process, outcome = task.process, None
        try:
            ended = task.error is None and process.has_ended()
            if not ended and task.error is None and process.kill_at is None and now < task.long_at:
                task.schedule()
                return
            if ended and not (process.left_helpers or process.answer_file or process.size > MUCH):
                outcome = process.outcome()
        except Exception as error:
            task.error = error
        del self._short[task]
        for fd in task.descriptors:
            if self._owners.get(fd) is task:
                del self._owners[fd]
        if outcome is None and task.error is None:
            self._hand_over(task)
        else:
            self._go_on(task, outcome)

    def _go_on(self, task: _Task, outcome: Outcome | None = None) -> None:
        """Goes on with a task until a process of its runs, or to its end."""
        while (process := self._advance(task, outcome)) is not None:
            outcome = None
            try:
                if not process.start(self._poll, patient=False):
                    self._hand_over(task)
                    return
                if not process.has_ended():
                    break
                outcome = process.outcome()  # it could not be started
            except Exception as error:
                task.error = error
        else:
            return
        task.long_at = time.monotonic() + SHORT
        task.schedule()
        self._short[task] = None
        task.descriptors = process.descriptors()
        self._owners.update(dict.fromkeys(task.descriptors, task))

    def _advance(self, task: _Task, outcome: Outcome | None) -> RunningProcess | None:
        """Emits the results of a task until it waits for a process, which is returned; None at its end."""
        error, task.error = task.error, None
        if error is not None:
            task.process.move(select.poll())  # what is left of it concerns nobody any more
        try:
            step = task.work.send(outcome) if error is None else task.work.throw(error)
            while not isinstance(step, RunningProcess):
                if not self._deliver_one(task.index, step):
                    return None
                step = next(task.work)
            task.process = step
            return step
        except StopIteration:
            self._end(task)
        except BaseException as failure:
            self._fail(failure)
        return None

    def _end(self, task: _Task) -> None:
        try:
            if self.ordered:
                self._finish(task.index)
        except BaseException as failure:
            self._fail(failure)

    # --- a thread for one task ---

    def _hand_over(self, task: _Task) -> None:
        """Has a thread of its own go on with a task."""
        if task.process.child is not None:
            task.process.move(select.poll())
        with self._state:
            self._long += 1
        try:
            threading.Thread(target=self._finish_alone, args=(task,), daemon=True).start()
        except RuntimeError:  # the system has no more threads or memory for us: the others have to wait
            self._finish_alone(task)

    def _finish_alone(self, task: _Task) -> None:
        process: RunningProcess | None = task.process
        while process is not None:
            outcome = None
            try:
                outcome = process.run()
            except Exception as error:
                task.error = error
            process = self._advance(task, outcome)
        with self._state:
            self._long -= 1
        os.write(self._wake, b".")
