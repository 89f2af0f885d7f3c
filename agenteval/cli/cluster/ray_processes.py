"""The processes of a Ray cluster that was started here: ended with it, though Ray would leave some for a minute.

Its agents (ray::DashboardAgent, ray::RuntimeEnvAgent) notice the end of their node only once they have started.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec

from agenteval.processes.tree import MARKED_LIMIT, can_mark, find_mark, mark_of, process_table

NO_TOOL = 1 << 22  # added to a pid it is that of no process: a guardian would also kill filters that have its mark
TITLE = b"ray::"  # how the names start that its programs give themselves
LONGEST = 10.0  # seconds until what cannot be killed is left alone


def package_folder() -> str:
    """Returns the directory of the package, which all programs of Ray are below."""
    found = find_spec("ray")
    return found.submodule_search_locations[0] if found and found.submodule_search_locations else os.devnull


def cluster_mark() -> int:
    """Returns the mark of the processes of a cluster that this tool starts.

    It is a limit: the environment of a process that has changed its name is overwritten, more or less of it.
    """
    return mark_of(NO_TOOL + os.getpid(), 0)


@contextmanager
def marked(mark: int) -> Iterator[None]:
    """Gives the processes that are started meanwhile the mark, unless they have that of an agent that started us."""
    if MARKED_LIMIT is None or not can_mark() or find_mark(os.getpid()) is not None:
        yield
        return
    before = resource.getrlimit(MARKED_LIMIT)
    resource.setrlimit(MARKED_LIMIT, (mark, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(MARKED_LIMIT, before)


def end_ray(mark: int, package: str) -> None:
    """Kills what is left of the cluster with that mark; not its filters, which end their agents themselves."""
    end = time.monotonic() + LONGEST
    while (left := _of_cluster(mark, package)) and time.monotonic() < end:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _of_cluster(mark: int, package: str) -> list[int]:
    """Returns the processes of Ray itself in a cluster."""
    place = os.path.join(os.fsencode(package), b"")
    return [pid for pid in process_table() if _is_ray(pid, place) and find_mark(pid) == mark]


def _is_ray(pid: int, place: bytes) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        program = file.read().split(b"\0")[:3]  # python -u FILE, until it changes its name
        return program[0].startswith(TITLE) or any(word.startswith(place) for word in program)
    return False
