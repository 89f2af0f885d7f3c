"""ae-ray with simulated nodes: `python -m tests.support.simulated_cluster NODES ARGS…`.

Only Ray is replaced: the workers are threads of this process, and what they run are real processes. NODES is a list of
names with commas; a node `name:PATH` has that PATH, `name!` is one whose workers die with their second record, and
those of `name+` start when there is a file of that name.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread
from typing import Any

from agenteval.cli.tools import ray as tool
from agenteval.cluster.worker import FilterWorker, Node, Worker

NODES = sys.argv[1].split(",")


def name_of(node: str) -> str:
    return node.partition(":")[0].rstrip("!+")


class SimulatedSlot:
    """A worker in threads of this process."""

    def __init__(self, worker: Any, node: str, environment: Mapping[str, str], window: int) -> None:
        name, _, path = node.partition(":")
        self._worker, self._name = worker, name_of(node)
        self._is_late = name.endswith("+")
        self._deaths = 1 if name.endswith("!") else None  # calls until it dies
        self._environment = {**environment, **({"PATH": path} if path else {})}
        self._threads = ThreadPoolExecutor(window + 2)
        self._dead: Future[Any] = Future()

    def prepare(self) -> Future[Any]:
        self._worker.prepare(self._environment, self._name)
        ready: Future[Any] = Future()
        if self._is_late:
            Thread(target=self._start_late, args=[ready], daemon=True).start()
        else:
            ready.set_result(Node(self._name, self._name))
        return ready

    def _start_late(self, ready: Future[Any]) -> None:
        while not os.path.exists(self._name):
            time.sleep(0.02)
        ready.set_result(Node(self._name, self._name))

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        if method in ("run", "send") and self._deaths is not None:
            self._deaths -= 1
            if self._deaths < 0:
                self.kill()
        return self._threads.submit(self._survive, getattr(self._worker, method), *arguments)

    def _survive(self, method: Any, *arguments: Any) -> Any:
        if self._dead.done():
            raise RuntimeError("The actor died")
        answer = method(*arguments)
        if self._dead.done():
            raise RuntimeError("The actor died")
        return answer

    def kill(self) -> None:
        if not self._dead.done():
            self._dead.set_result(None)
            if (process := self._worker._process) is not None:
                process.terminate()


class SimulatedCluster:
    """In place of RayCluster."""

    def __init__(
        self,
        _address: str,
        command: Sequence[str],
        _files: Sequence[str],
        environment: Mapping[str, str],
        worker: type[Worker] = FilterWorker,
    ) -> None:
        self._command, self._environment, self._worker = command, environment, worker
        self._opened = 0

    def cpus(self) -> int:
        return 2 * len(NODES)

    def nodes(self, _request: object) -> set[str]:
        return set(map(name_of, NODES))

    def open_slot(self, _request: object, window: int, excluded: Collection[str]) -> SimulatedSlot:
        usable = [node for node in NODES if name_of(node) not in excluded]
        self._opened += 1
        node = usable[self._opened % len(usable)]
        made: Any = self._worker
        return SimulatedSlot(made(self._command, os.getcwd(), window), node, self._environment, window)

    def close(self) -> None:
        pass


if __name__ == "__main__":
    setattr(tool, "RayCluster", SimulatedCluster)  # noqa: B010  # all else is real
    tool.main(sys.argv[2:])
