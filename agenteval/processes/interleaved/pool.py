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
from agenteval.processes.linux.settings import processors
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
        self._finishing = 0  # those whose last process has ended
        # Whether the next process is started before the result of one that has ended is made and written. While there
        # are processors for all, the result first is faster: a new process would share its processor with that work.
        self._starts_first = workers > processors()

    def _work_through(self) -> None:
        """Takes items while there is room for them, and attends to their processes until all are done."""
        more, error = True, None
        while more or self._is_busy():
            ended = self._attend(at_once=more and self._has_room()) if self._is_busy() else []
            if not self._starts_first:
                self._go_on_with(ended)
                ended = []
            reserved = sum(not task.process.is_last for task in ended)
            started = 0
            while more and started < STARTS and self._has_room(reserved):
                try:
                    more = self._begin_next()
                except BaseException as failure:
                    more, error = False, failure
                started += 1
            self._go_on_with(ended)
            if error is not None and not self._finishing:  # after the results that are there are written
                self._fail(error)
                error = None
            if self._error is not None and not self._is_busy():
                return

    def _is_busy(self) -> bool:
        """Whether there is work under way."""
        return bool(self._short or self._long or self._finishing)

    def _has_room(self, reserved: int = 0) -> bool:
        """Whether another item may be taken now, if so many places are kept for items that need another process."""
        running = len(self._short) + self._long + reserved
        return running < self.workers and self._finishing <= self.workers and not self._is_ahead()

    def _begin_next(self) -> bool:
        """Begins the work on the next item; returns whether there may be further ones."""
        if (taken := self._take_item()) is None:
            return False
        index, item = taken
        self._go_on(_Task(index, self._start_work(item)))
        return True

    def _attend(self, *, at_once: bool) -> list[_Task]:
        """Waits until something happens to a process, and handles it; `at_once`: only what has happened.

        Returns the tasks whose process has ended, to go on with.
        """
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
        concerned = [task for task in self._short if task in happened or task.due <= now]
        return [task for task in concerned if self._can_go_on(task, now)]

    def _can_go_on(self, task: _Task, now: float) -> bool:
        """Whether the process of a task has ended; one that takes longer, or whose result may, gets a thread."""
        process, ended = task.process, False
        try:
            ended = task.error is None and process.has_ended()
        except Exception as error:
            task.error = error
        if not ended and task.error is None and process.kill_at is None and now < task.long_at:
            task.schedule()
            return False
        del self._short[task]
        for fd in task.descriptors:
            if self._owners.get(fd) is task:
                del self._owners[fd]
        if task.error is None and (not ended or process.left_helpers or process.answer_file or process.size > MUCH):
            self._hand_over(task)
            return False
        return True

    def _go_on_with(self, ended: list[_Task]) -> None:
        """Goes on with tasks whose process has ended."""
        for task in ended:
            outcome = None
            try:
                if task.error is None:
                    outcome = task.process.outcome()
            except Exception as error:
                task.error = error
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
        runs = True
        while process is not None:
            outcome = None
            try:
                outcome = process.run()
            except Exception as error:
                task.error = error
            if process.is_last and runs and not process.left_helpers:
                runs = False
                self._count_long(-1, finishing=1)  # the next item need not wait until the result is written
            process = self._advance(task, outcome)
        if runs:
            self._count_long(-1)
        else:
            self._count_long(0, finishing=-1)

    def _count_long(self, change: int, *, finishing: int = 0) -> None:
        """Counts tasks that have a thread of their own, and wakes the thread that takes items."""
        with self._state:
            self._long += change
            self._finishing += finishing
        os.write(self._wake, b".")
