"""The processes of a Ray cluster that was started here: ended with it, though Ray would leave some for a minute.

Its agents (ray::DashboardAgent, ray::RuntimeEnvAgent) notice the end of their node only once they have started.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from importlib.util import find_spec

from agenteval.processes.tree import process_table

VARIABLE = "AGENTEVAL_RAY"  # the temporary directory of the cluster, in the environment of all its processes
TITLE = b"ray::"  # how the names start that its programs give themselves
LONGEST = 10.0  # seconds until what cannot be killed is left alone


def package_folder() -> str:
    """Returns the directory of the package, which all programs of Ray are below."""
    found = find_spec("ray")
    return found.submodule_search_locations[0] if found and found.submodule_search_locations else os.devnull


def end_ray(folder: str, package: str) -> None:
    """Kills what is left of the cluster with that directory; not its filters, which end their agents themselves."""
    end = time.monotonic() + LONGEST
    while (left := _of_cluster(folder, package)) and time.monotonic() < end:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _of_cluster(folder: str, package: str) -> list[int]:
    """Returns the processes of Ray itself in a cluster."""
    mark, place = os.fsencode(f"{VARIABLE}={folder}"), os.path.join(os.fsencode(package), b"")
    return [pid for pid in process_table() if _is_ray(pid, place) and mark in _read(pid, "environ").split(b"\0")]


def _is_ray(pid: int, place: bytes) -> bool:
    program = _read(pid, "cmdline").split(b"\0")[:3]  # python -u FILE, until it changes its name
    return program[0].startswith(TITLE) or any(word.startswith(place) for word in program)


def _read(pid: int, name: str) -> bytes:
    with suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()
    return b""
