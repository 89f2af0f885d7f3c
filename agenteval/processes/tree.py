"""Whose process is it: marks that every process inherits, and trees of processes.

Real agents start their tools in sessions of their own, orphan them and clear their environment, so neither the
process group nor the parent tells whose a process is. A mark does that every process inherits and none has a
reason to touch: the soft limit on real-time CPU, which does nothing to a process that is not real-time. Where it
cannot be set, and on macOS, a variable in the environment has to do.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Container, Iterable
from contextlib import suppress

VARIABLE = b"AGENTEVAL_AGENT"
MARKED_LIMIT = getattr(resource, "RLIMIT_RTTIME", None)
FIRST_MARK = 1 << 50  # microseconds of real-time CPU: 35 years
KEYS = 1 << 26
PR_SET_CHILD_SUBREAPER = 36

Table = dict[int, tuple[int, int]]


def mark_of(tool: int, key: int) -> int:
    """The number that everything agent `key` of the tool with that pid starts is marked with."""
    return FIRST_MARK + tool * KEYS + key


def is_of(tool: int, mark: int | None) -> bool:
    """Whether a mark is one of that tool's agents."""
    return mark is not None and mark_of(tool, 0) <= mark < mark_of(tool, KEYS)


def can_mark() -> bool:
    """Whether the limit that serves as the mark can be set that high."""
    if MARKED_LIMIT is None:
        return False
    hard = resource.getrlimit(MARKED_LIMIT)[1]
    return hard == resource.RLIM_INFINITY or hard >= mark_of(1 << 22, KEYS)


def find_mark(pid: int) -> int | None:
    """The mark that a process carries, by its limit or else by its environment."""
    with suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/limits", "rb") as file:
            mark = int(file.read().partition(b"Max realtime timeout")[2].split()[0])
        if mark >= FIRST_MARK:
            return mark
    with suppress(OSError, ValueError), open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            if entry.startswith(VARIABLE + b"="):
                return int(entry.partition(b"=")[2])
    return None


def adopt_orphans() -> None:
    """Become the parent of every orphan below this process, where the system can do that."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


# --- the process table --------------------------------------------------------------------------


def process_table() -> Table:
    """Living processes: pid → parent, session. Zombies are not alive."""
    if sys.platform != "linux":
        return _table_by_ps()
    table: Table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X"):
                    table[int(name)] = (int(fields[1]), int(fields[3]))
    return table


def _table_by_ps() -> Table:
    import subprocess

    shown = subprocess.run(["ps", "-axo", "pid=,ppid=,stat="], capture_output=True, text=True).stdout
    table: Table = {}
    for line in shown.splitlines():
        pid, parent, state = line.split(None, 2)
        if not state.startswith("Z"):
            with suppress(OSError):
                table[int(pid)] = (int(parent), os.getsid(int(pid)))
    return table


def below(roots: Iterable[int], table: Table) -> set[int]:
    """All living descendants of the roots."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _session) in table.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    todo = [child for root in roots for child in children.get(root, ())]
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(children.get(pid, ()))
    return found


def tree_of(key: int, roots: set[int], alone: bool, table: Table) -> set[int]:
    """The living processes of agent `key` of this tool, however they got away from its own processes, `roots`.

    `alone` says that no other agent is at work: then a process without a mark can only be this one's.
    """
    tool = os.getpid()
    mine = below([tool], table)
    found = roots & table.keys()
    for pid in mine - found:
        parent, session = table[pid]
        if session in roots:
            found.add(pid)
        elif parent == tool:  # an orphan that came to us
            mark = find_mark(pid)
            if mark == mark_of(tool, key) or (alone and not is_of(tool, mark)):
                found.add(pid)
    return found | below(found, table)


class Orphans:
    """The children that came to this process from its children, and that it did not start itself."""

    def __init__(self) -> None:
        try:  # kept open: it is read at every end of a process
            self._listing: int | None = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)
        except OSError:
            self._listing = None

    def living(self, known: Container[int]) -> list[int]:
        """Those that live; the dead ones are collected."""
        if self._listing is not None:
            children = [int(pid) for pid in os.pread(self._listing, 1 << 16, 0).split()]
        else:
            children = [pid for pid, (parent, _session) in process_table().items() if parent == os.getpid()]
        return [pid for pid in children if pid not in known and not _collect(pid)]


def _collect(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def send_signal(pids: Iterable[int], signum: int) -> None:
    """Signal all of them; one that is stopped is woken, so that it does not sleep through it."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signum)
            if signum == signal.SIGTERM:
                os.kill(pid, signal.SIGCONT)


def kill_marked(tool: int) -> None:
    """SIGKILL everything that a tool which is no more has ever started, until nothing is left."""
    while True:
        table = process_table()
        table.pop(os.getpid(), None)
        marked = {pid for pid in table if is_of(tool, find_mark(pid))}
        if not marked:
            return
        send_signal(marked | below(marked, table), signal.SIGKILL)
        time.sleep(0.01)
