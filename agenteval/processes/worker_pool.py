"""N at a time: workers take items, results go out as they come or in the order of the input."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

STACK = 1 << 20


class Pool(Generic[T, R]):
    """Worker threads that pull from one iterator; the main thread waits and stays open to signals."""

    def __init__(
        self, work: Callable[[int, T], Iterator[R]], emit: Callable[[R], None], *, workers: int, ordered: bool
    ) -> None:
        self.work, self.emit = work, emit
        self.workers, self.ordered = workers, ordered
        self.window = max(64, workers * 4)  # how far ordered work may run ahead of its slowest item
        self._take = threading.Lock()
        self._gate = threading.Condition()
        self._items: Iterator[T] = iter(())
        self._taken = self._next = self._running = self._started = 0
        self._waiting: dict[int, list[R]] = {}
        self._finished: set[int] = set()
        self._error: BaseException | None = None
        self._done, self._signal = os.pipe()

    def run(self, items: Iterator[T], watch: int | None = None) -> None:
        """Work through items; raises what a worker raised. `watch` is an output pipe: its closing ends the wait."""
        self._items = items
        threading.stack_size(STACK)
        with self._gate:
            self._add_worker()
        try:
            self._wait(watch)
        except BaseException as error:  # a signal: no worker takes another item
            self._fail(error)
            raise
        if self._error is not None:
            raise self._error

    def _wait(self, watch: int | None) -> None:
        poller = select.poll()
        poller.register(self._done, select.POLLIN)
        if watch is not None:
            poller.register(watch, 0)  # POLLERR comes unasked when the reader has gone
        while True:
            for fd, _event in poller.poll():
                if fd == self._done:
                    return
                self._fail(BrokenPipeError())

    # --- workers ---

    def _add_worker(self) -> None:
        """Called with the gate held: the next worker starts only when the last one has found something to do."""
        if self._started < self.workers and self._error is None:
            self._started += 1
            self._running += 1
            threading.Thread(target=self._serve, args=(self._started - 1,), daemon=True).start()

    def _serve(self, worker: int) -> None:
        try:
            grown = False
            while (taken := self._take_item()) is not None:
                if not grown:
                    with self._gate:
                        self._add_worker()
                    grown = True
                index, item = taken
                self._deliver(index, self.work(worker, item))
        except BaseException as error:
            self._fail(error)
        with self._gate:
            self._running -= 1
            if self._running == 0:
                os.write(self._signal, b".")

    def _take_item(self) -> tuple[int, T] | None:
        with self._take:
            with self._gate:
                if self.ordered:
                    self._gate.wait_for(lambda: self._taken - self._next < self.window or self._error is not None)
                if self._error is not None:
                    return None
            try:
                item = next(self._items)
            except StopIteration:
                return None
            self._taken += 1
            return self._taken - 1, item

    def _deliver(self, index: int, results: Iterator[R]) -> None:
        if not self.ordered:
            for result in results:
                if self._error is not None:
                    return  # what comes out after the end was called is cut short by it
                self.emit(result)
            return
        for result in results:
            with self._gate:
                if self._error is not None:
                    return
                if index == self._next:
                    self.emit(result)
                else:
                    self._waiting.setdefault(index, []).append(result)
        with self._gate:
            self._finished.add(index)
            while self._next in self._finished and self._error is None:
                self._finished.remove(self._next)
                self._next += 1
                for result in self._waiting.pop(self._next, []):
                    self.emit(result)
            self._gate.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._gate:
            if self._error is None:
                self._error = error
            self._gate.notify_all()
        os.write(self._signal, b".")
