"""Process trees: the process table, the descendants of a process, orphans, and signals to all of them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress

from agenteval.processes.marks import find_mark, is_of, mark_of

SHORT_LIST = 2048  # bytes: a list of children that is longer may go on
DENIED_WAIT = 0.5  # seconds after SIGKILL for which a process that may not be signalled is waited for
STUCK_WAIT = 30.0  # the same for any other, which may be stuck in the kernel

Table = dict[int, tuple[int, int]]
"""The living processes: pid → parent, session."""


def process_table() -> Table:
    """Returns the living processes; a zombie is not alive."""
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
    """Returns all living descendants of the roots."""
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
    """Returns the living processes of agent `key` of this tool, also those that left its own processes, `roots`.

    `alone` means that no other agent is running: then an orphan without a mark can only belong to this one.
    """
    tool = os.getpid()
    mine = below([tool], table)
    found = roots & table.keys()
    for pid in mine - found:
        parent, session = table[pid]
        if session in roots:
            found.add(pid)
        elif parent == tool:  # an orphan, reparented to us
            mark = find_mark(pid)
            if mark == mark_of(tool, key) or (alone and not is_of(tool, mark)):
                found.add(pid)
    return found | below(found, table)


def command_name(pid: int) -> str:
    """Returns what ps shows as the command of a process, or "a program" if it is gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "a program"


class Orphans:
    """The children of this process that it did not start: orphans that were reparented to it."""

    def __init__(self, guardian: int) -> None:
        self._usual = b"%d " % guardian  # the list if there are none, for processes of other threads are not in it
        # An orphan goes to the first living thread of its new parent, and that is the main thread. The list is kept
        # open because it is read at every end of a process.
        try:
            self._children: int | None = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)
        except OSError:
            self._children = None

    def reap(self, started: Iterable[int]) -> set[int]:
        """Reaps the orphans that have exited; returns those that are alive. `started` are our own children."""
        while True:
            orphans = self.listed(started)
            exited = set(filter(reap, orphans))
            if not exited:  # else its children may have become ours after the list was read
                return orphans

    def listed(self, started: Iterable[int]) -> set[int]:
        """Returns the orphans, whether they are alive or not."""
        listed = self._read()
        return set() if listed == self._usual else set(map(int, listed.split())).difference(started)

    def _read(self) -> bytes:
        if self._children is None:
            return b"".join(b"%d " % pid for pid, (parent, _) in process_table().items() if parent == os.getpid())
        listed = more = os.pread(self._children, 1 << 16, 0)
        while len(more) > SHORT_LIST:  # the kernel gives one page at a time
            more = os.pread(self._children, 1 << 16, len(listed))
            listed += more
        return listed


def reap(pid: int) -> bool:
    """Reaps a child if it has exited; returns whether it has."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped or has ended; True where that cannot be looked up."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t", b"Z", b"X")
    except (OSError, IndexError):
        return True


def send_signal(pids: Iterable[int], signum: int) -> set[int]:
    """Signals all of them; returns those that may not be signalled, because they run as another user.

    A stopped process is continued, so that SIGTERM reaches it.
    """
    denied = set()
    for pid in pids:
        try:
            os.kill(pid, signum)
            if signum == signal.SIGTERM:
                os.kill(pid, signal.SIGCONT)
        except PermissionError:
            denied.add(pid)
        except OSError:
            pass  # it has exited
    return denied


def hopeless(left: set[int], denied: set[int], since_kill: float) -> set[int]:
    """Returns the processes to give up on, that many seconds after SIGKILL; `denied` may not be signalled."""
    if since_kill >= STUCK_WAIT:
        return left
    return denied if since_kill >= DENIED_WAIT else set()
