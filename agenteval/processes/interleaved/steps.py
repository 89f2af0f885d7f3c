"""Work that waits for processes, as a generator: it yields each process that is to run, and gets its outcome.

So whoever does the work decides how: `run_steps` and `driven` run one process after another in the calling thread, an
InterleavedPool (pool.py) attends to those of several items at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TypeVar

from agenteval.processes.outcome import Outcome
from agenteval.processes.process import RunningProcess

T = TypeVar("T")
R = TypeVar("R")
Item = TypeVar("Item")

Steps = Generator[RunningProcess, Outcome, T]
"""Yields processes to run, and returns a result."""
Work = Generator[R | RunningProcess, Outcome | None, None]
"""Yields processes to run, and results."""


def resume(work: Generator[R, Outcome | None, T], process: RunningProcess) -> R:
    """Runs a process and goes on with the work, in which an unexpected error of that is raised; returns what it yields.

    Raises StopIteration at the end of the work.
    """
    try:
        outcome = process.run()
    except Exception as error:
        return work.throw(error)
    return work.send(outcome)


def run_steps(steps: Steps[T]) -> T:
    """Runs the processes of the steps, and returns their result."""
    try:
        process = next(steps)
        while True:
            process = resume(steps, process)  # type: ignore[arg-type]
    except StopIteration as end:
        result: T = end.value
        return result


def driven(work: Iterable[R | RunningProcess]) -> Iterator[R]:
    """Yields the results of the work, and runs its processes."""
    for step in work:
        while isinstance(step, RunningProcess):
            assert isinstance(work, Generator)
            try:
                step = resume(work, step)
            except StopIteration:
                return
        yield step


def at_most_one(work: Callable[[Item], Steps[R | None]]) -> Callable[[Item], Work[R]]:
    """Returns work that yields its result, unless that is None."""

    def results(item: Item) -> Work[R]:
        result = yield from work(item)
        if result is not None:
            yield result

    return results
