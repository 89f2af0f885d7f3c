"""The workers of a run on a cluster: places that records wait for, replaced when their worker dies.

A slot is a worker on some node; what a cluster is, a Slot hides (ray_cluster.py). Each slot has `window` places: so
many records are under way in it at a time. A node on which nothing works is excluded: its slots are opened elsewhere.
"""

import queue
import re
import signal
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol

from agenteval.cluster.worker import Node
from agenteval.errors import CannotGoOn, Stopped, UserError
from agenteval.streams.console import Console

ENDING = 60.0  # seconds that a worker has to end after its last record
PATIENCE = 60.0  # seconds without any worker, after which the tool reports that it waits
ELSEWHERE = 0.1  # seconds until a place on another node is looked for again
MOST_NOTICES = 1000  # different messages of nodes that are remembered, so that each is shown once


class Slot(Protocol):
    """A worker on a node of the cluster; a future that raises says that it is dead."""

    def prepare(self) -> Future[Any]:
        """Waits until it has a place, which is the node that the future gives."""

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Calls a method of the worker."""

    def kill(self) -> None:
        """Kills it, with what it runs."""


class Slots:
    """Hands out places; `open_slot` opens a slot on a node that is not among those given.

    `all_nodes` returns the ids of all nodes that could have one: those of slots are known only once they have started.
    """

    def __init__(
        self,
        open_slot: Callable[[Collection[str]], Slot],
        count: int,
        window: int,
        console: Console,
        records: int | None = None,
        patience: float = PATIENCE,
        all_nodes: Callable[[], set[str]] = set,
    ) -> None:
        self._open_slot, self.count, self.window, self._console = open_slot, count, window, console
        self.records = records or count * window  # at a time
        self._patience, self._all_nodes = patience, all_nodes
        self._ready: queue.SimpleQueue[tuple[Slot, Future[Any] | None]] = queue.SimpleQueue()  # and how it started
        self._calling = threading.Lock()  # what Ray calls back takes the other one, and a call may wait for it
        self._lock = threading.Lock()  # of what follows
        self._alive: dict[Slot, Node | None] = {}
        self._places: dict[Slot, Node] = {}  # of those that have started, also if they are gone: an answer may come
        self._excluded: set[str] = set()  # ids of nodes
        self._alike: dict[str, list[str]] = {}  # why → the nodes that were excluded for it after the first one
        self._failed_starts = 0
        self._began = 0.0
        self._has_started = self._stopped = False
        self._notices: set[str] = set()

    def start(self) -> None:
        """Opens all slots."""
        self._began = time.monotonic()
        for _ in range(self.count):
            self._start_slot()

    def finish(self) -> bool:
        """Lets what the workers run come to its end, and takes over its messages; returns whether all exited with 0."""
        good = True
        for future in [slot.call("finish") for slot in self.alive()]:
            try:
                code, messages = future.result(ENDING)
            except TimeoutError:
                self._console.say(f"a worker has not ended {ENDING:g} s after its last record, and was killed")
                good = False
                continue
            except Exception:
                continue  # its records are all written
            self.relay(messages)
            good = good and not code
        for names in filter(None, self._alike.values()):
            self._console.say(f"{', '.join(names)}: got no more records either, for the same reason as the first")
        self.stop()
        return good

    def stop(self) -> None:
        """Kills all workers, with their filters and agents; no other is opened for them."""
        with self._calling, self._lock:
            self._stopped = True
            for slot in self._alive:
                slot.kill()

    def take(self) -> Slot:
        """Waits for a slot with a free place and returns it; opens another slot for each that could not start."""
        while True:
            slot, start = self._next_ready()
            if self._stopped:
                raise Stopped(signal.SIGTERM)
            if start is None:
                if slot in self._alive:
                    return slot
                continue
            error = start.exception()
            with self._lock:
                self._has_started = self._has_started or error is None
                self._failed_starts = 0 if error is None else self._failed_starts + 1
                if self._failed_starts > 3 * self.count:
                    raise CannotGoOn(f"no worker can be started: {reason_of(error)}")
            if error is not None or (node := start.result()).id in self._excluded:
                self.replace(slot)
                continue
            with self._lock:
                self._alive[slot] = node
            for _ in range(self.window - 1):
                self._ready.put((slot, None))
            return slot

    def give_back(self, slot: Slot) -> None:
        """Makes a place free again."""
        self._ready.put((slot, None))

    def replace(self, slot: Slot) -> None:
        """Opens a slot for one whose worker has died; the scheduler decides where."""
        with self._lock:
            if slot not in self._alive:
                return  # another record has noticed it before
            if self._stopped:
                raise Stopped(signal.SIGTERM)
            del self._alive[slot]
        slot.kill()
        self._start_slot()

    def take_elsewhere(self, node: Node) -> Slot | None:
        """Waits for a slot on another node with a free place; None if there is none to wait for.

        It is one of those that are open: for another one, there may be no room as long as they are.
        """
        while self.has_others(node):
            slot = self.take()
            if self.node_of(slot).id != node.id:
                return slot
            self.give_back(slot)
            time.sleep(ELSEWHERE)
        return None

    def open_alone(self) -> Slot:
        """Returns a slot beside the others, for one record; close() ends it."""
        slot = self._open(set(self._excluded))
        try:
            node = slot.prepare().result()
        except Exception:
            self.close(slot)
            raise
        with self._lock:
            self._alive[slot] = self._places[slot] = node
        return slot

    def close(self, slot: Slot) -> None:
        """Ends a slot, and before it what its worker runs."""
        with suppress(Exception):  # it is dead already
            self.call(slot, "finish").result(ENDING)
        with self._lock:
            if self._stopped:
                return
            self._alive.pop(slot, None)
            self._places.pop(slot, None)
        slot.kill()

    def call(self, slot: Slot, method: str, *arguments: Any) -> Future[Any]:
        """Calls a method of a worker; raises Stopped after stop(): Ray, which then ends, would end this process."""
        with self._calling:
            if self._stopped:
                raise Stopped(signal.SIGTERM)
            return slot.call(method, *arguments)

    def alive(self) -> list[Slot]:
        """Returns the slots that have started."""
        with self._lock:
            return [slot for slot, node in self._alive.items() if node is not None]

    # --- nodes ---

    def node_of(self, slot: Slot) -> Node:
        """Returns where a slot is, or was."""
        return self._places[slot]

    def is_excluded(self, node: Node) -> bool:
        """Returns whether a node gets no more records, so that its workers were killed."""
        return node.id in self._excluded

    def nodes(self) -> set[str]:
        """Returns the nodes that have slots, also if these have had no record yet."""
        with self._lock:
            return {self._places[slot].id for slot in self._alive if slot in self._places}

    def has_others(self, node: Node) -> bool:
        """Returns whether another node has a slot, or may get one that has not started yet."""
        if self.nodes() - {node.id}:
            return True
        with self._lock:
            is_starting = any(slot not in self._places for slot in self._alive)
        is_early = time.monotonic() < self._began + self._patience  # later, the cluster may have no room for it
        return is_starting and is_early and bool(self._all_nodes() - self._excluded - {node.id})

    def name_of(self, node: Node) -> str:
        """Returns what to call a node: its host or, if several are on one, with the start of its id."""
        with self._lock:
            alike = {other.id for other in self._alive.values() if other is not None and other.host == node.host}
        return node.host if alike <= {node.id} else f"{node.host}/{node.id[:8]}"

    def exclude(self, node: Node, reason: str) -> None:
        """Opens the slots of a node elsewhere; reports each reason once. UserError if there is no other node."""
        name = self.name_of(node)
        others = self.nodes() | self._all_nodes()
        with self._lock:
            if node.id in self._excluded:
                return
            self._excluded.add(node.id)
            others -= self._excluded
            is_new = reason not in self._alike
            self._alike.setdefault(reason, []).extend([] if is_new else [name])
            self._has_started = bool(others & {at.id for at in self._alive.values() if at is not None})
            left = [slot for slot, at in self._alive.items() if at is not None and at.id == node.id]
            if is_new and others:  # before another thread finds that no node is left
                self._console.say(f"{name}: gets no more records: {reason}")
        if not others:
            raise UserError(f"{name}: {reason}; no other node is left" if is_new else "no other node is left")
        for slot in left:
            self.replace(slot)

    # --- starts and messages ---

    def _open(self, excluded: Collection[str]) -> Slot:
        """Opens a slot; raises Stopped after stop(), when records find that their workers are dead."""
        with self._lock:
            if self._stopped:
                raise Stopped(signal.SIGTERM)
            slot = self._open_slot(excluded)
            self._alive[slot] = None
        return slot

    def _start_slot(self) -> None:
        slot = self._open(set(self._excluded))

        def started(start: Future[Any]) -> None:
            if start.exception() is None:
                with self._lock:
                    self._places[slot] = start.result()
            self._ready.put((slot, start))

        slot.prepare().add_done_callback(started)

    def _next_ready(self) -> tuple[Slot, Future[Any] | None]:
        """Returns the next slot that is ready; reports once that there is none before a worker has started."""
        try:
            return self._ready.get(timeout=None if self._has_started else self._patience)
        except queue.Empty:
            with self._lock:
                is_first, self._has_started = not self._has_started, True
        if is_first:
            self._console.say(
                f"still waiting: no worker has started after {self._patience:g} s; the cluster has no room for "
                f"one, or its nodes cannot start any (`ray status` shows which)"
            )
        return self._ready.get()

    def relay(self, messages: Sequence[str], node: Node | None = None) -> None:
        """Passes messages of a node on, each once; `node` is named where it is known to matter."""
        name = f"{self.name_of(node)}: " if node else ""
        for message in messages:
            text = name + re.sub(r"\bstdin:\d+\b", "stdin", message)
            with self._lock:
                is_new = text not in self._notices and len(self._notices) < MOST_NOTICES
                if is_new:
                    self._notices.add(text)
            if is_new:
                self._console.say(text)


def reason_of(error: BaseException | None) -> str:
    """Returns the first line of an error."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
