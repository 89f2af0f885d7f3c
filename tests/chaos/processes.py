"""Finds the processes of a round: by a variable of their environment, or its directory in their arguments or cwd."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

VARIABLE = "AE_CHAOS_ROUND"


def of_round(mark: str, folder: Path) -> dict[int, str]:
    """Returns the processes of a round, whoever's they are: pid → command line. Zombies are none."""
    variable, place = f"{VARIABLE}={mark}".encode(), os.fsencode(folder) + b"/"  # round 1 is not round 13
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            line = _read(name, "cmdline")
            if variable in _read(name, "environ").split(b"\0") or place in line or _works_in(name, place):
                found[int(name)] = line.replace(b"\0", b" ").decode("utf-8", "replace").strip()
    found.pop(os.getpid(), None)
    return {pid: line for pid, line in found.items() if _state(pid) not in ("Z", "")}


def left_over(mark: str, folder: Path, patience: float) -> dict[int, str]:
    """Waits until no process of the round is left; returns those that still are after that many seconds."""
    end = time.monotonic() + patience
    while (found := of_round(mark, folder)) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def handles(pid: int, signum: int) -> bool:
    """Returns whether a process catches a signal."""
    with suppress(OSError):
        caught = _read(str(pid), "status").partition(b"SigCgt:")[2].split()[0]
        return bool(int(caught, 16) >> (signum - 1) & 1)
    return False


def is_stopped(pid: int) -> bool:
    """Returns whether no thread of a process runs any more, because of SIGSTOP or because it has ended."""
    with suppress(OSError):
        return all(_state(f"{pid}/task/{thread}") in ("T", "Z", "X", "") for thread in os.listdir(f"/proc/{pid}/task"))
    return True


def is_guardian(pid: int) -> bool:
    """Returns whether a process is the guardian of a tool."""
    with suppress(OSError):
        return _read(str(pid), "comm").startswith(b"agenteval")
    return False


def has_open(pid: int, path: Path) -> bool:
    """Returns whether a process has a file open under this name."""
    place, name = f"/proc/{pid}/fd", os.path.realpath(path)
    with suppress(OSError):
        for fd in os.listdir(place):
            with suppress(OSError):
                if os.readlink(f"{place}/{fd}") == name:
                    return True
    return False


def _read(pid: str, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()


def _works_in(pid: str, place: bytes) -> bool:
    with suppress(OSError):
        cwd = os.fsencode(os.readlink(f"/proc/{pid}/cwd"))
        return (cwd + b"/").startswith(place)
    return False


def _state(pid: int | str) -> str:
    with suppress(OSError):
        return _read(str(pid), "stat").rpartition(b")")[2].split()[0].decode()
    return ""


def command_of(pid: int) -> str:
    """Returns the name of a process's program; "" if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
