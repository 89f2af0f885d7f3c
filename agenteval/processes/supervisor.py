"""All processes of a tool: started in sessions of their own, marked, and ended for sure.

Data flow: a worker thread starts a process here and attends to it (process.py); whatever it started is found by
proctree.py when it has to be ended; the guardian does that when this process is killed. On Linux this process
is a child subreaper: helpers that are orphaned become its children and stay within reach.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from itertools import count

from agenteval.processes.guardian import Guardian
from agenteval.processes.outcome import Outcome
from agenteval.processes.poller import Poller
from agenteval.processes.process import GRACE, TICK, Command, ProcessPeer, RunningProcess
from agenteval.processes.tree import (
    MARKED_LIMIT,
    VARIABLE,
    Orphans,
    Table,
    adopt_orphans,
    below,
    can_mark,
    mark_of,
    process_table,
    send_signal,
    tree_of,
)

DESCRIPTORS_EACH = 8
DESCRIPTORS_BESIDE = 24
FRESH = 0.01  # seconds for which a process table is good enough for another look
# Signals that Python or the tool ignore or handle, and an agent must find untouched.
DEFAULTED = [
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGXFSZ,
]


class Stopping(OSError):
    """Nothing is started any more."""


class Child:
    """A process that was started, and a descriptor that becomes readable when it has ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.started = time.monotonic()
        self._status: int | None = None
        if hasattr(os, "pidfd_open"):
            self.ended = os.pidfd_open(pid)
        else:
            self.ended, signal_end = os.pipe()
            threading.Thread(target=self._wait, args=(signal_end,), daemon=True).start()

    def status(self) -> int:
        """Its exit code, or the number of the signal that killed it, negative; to be asked once, after its end."""
        os.close(self.ended)
        if self._status is None:
            self._status = os.waitpid(self.pid, 0)[1]
        return os.waitstatus_to_exitcode(self._status)

    def _wait(self, signal_end: int) -> None:
        self._status = os.waitpid(self.pid, 0)[1]
        os.close(signal_end)


class ProcessSupervisor:
    """Starts and ends processes; one for the whole tool, used from many threads."""

    def __init__(self, concurrency: int = 1) -> None:
        self.guardian = Guardian()
        self.concurrency = _allow_descriptors(concurrency)
        self._own_mark = resource.getrlimit(MARKED_LIMIT) if MARKED_LIMIT is not None and can_mark() else None
        adopt_orphans()
        self._pid = os.getpid()
        self.stopping = False
        self._keys = count(1)
        self._lock = threading.Lock()
        # The pid of each process started and not yet collected → its key; the guardian's is no agent's.
        self._running: dict[int, int] = {self.guardian.pid: 0}
        self._orphans = Orphans()
        self._environment = dict(os.environb)  # as bytes: os.environ would decode and encode it for each process
        self._nothing = os.open(os.devnull, os.O_RDONLY)
        self._table: tuple[float, Table] = (0.0, {})

    def new_agent_key(self) -> int:
        """A number for one agent and everything it will ever start."""
        return next(self._keys)

    def run(
        self, key: int, command: Command, *, timeout: float | None, max_output: int, peer: ProcessPeer | None = None
    ) -> Outcome:
        """Run one process of agent `key` to its end; seconds for the timeout, None for no limit."""
        board = Poller()
        attendance = RunningProcess(self, board, key, command, timeout, max_output, peer)
        attendance.begin()
        while not attendance.tick():
            until = attendance.next_tick()
            board.wait(None if until is None else until - time.monotonic())
        return attendance.outcome()

    # --- start ---

    def start(self, key: int, command: Command, stdin: int | None, stdout: int, stderr: int) -> Child:
        """Start a process on these descriptors; OSError or ValueError when it cannot be started."""
        mark = mark_of(self._pid, key)
        env = {} if command.alone else dict(self._environment)
        env.update((os.fsencode(name), os.fsencode(value)) for name, value in command.env.items())
        env[b"PWD"] = os.fsencode(command.cwd)  # some programs believe it more than the directory they are in
        env[VARIABLE] = b"%d" % mark
        with self._lock:  # the directory and the mark of this process are what the new one gets
            if self.stopping:
                raise Stopping
            os.chdir(command.cwd)  # even where we are there already: it may have been made anew since
            self._set_mark(mark)
            try:
                pid = os.posix_spawn(
                    command.program,
                    command.argv,
                    env,
                    file_actions=[
                        (os.POSIX_SPAWN_DUP2, self._nothing if stdin is None else stdin, 0),
                        (os.POSIX_SPAWN_DUP2, stdout, 1),
                        (os.POSIX_SPAWN_DUP2, stderr, 2),
                    ],
                    setsid=True,
                    setsigmask=[],
                    setsigdef=DEFAULTED,
                )
            finally:
                self._set_mark(None)
            self._running[pid] = key
        return Child(pid)

    def _set_mark(self, mark: int | None) -> None:
        """Mark this process, for the one it starts next; None: as it was, for it may be the agent of another tool."""
        if MARKED_LIMIT is not None and self._own_mark is not None:
            soft, hard = self._own_mark
            resource.setrlimit(MARKED_LIMIT, (soft if mark is None else mark, hard))

    def collect(self, child: Child) -> tuple[int, bool]:
        """The wait status of a process that has ended, and whether helpers of any agent are left behind."""
        status = child.status()
        with self._lock:
            del self._running[child.pid]
            return status, bool(self._orphans.living(self._running))

    def reap_orphans(self) -> None:
        """Collect orphans that came to this process and have ended: an agent may run for hours and leave thousands."""
        with self._lock:
            self._orphans.living(self._running)

    # --- end ---

    def signal_tree(self, key: int | None, deadline: float, told: set[int]) -> bool:
        """Whether anything of a tree (None: of all) that is being ended is left.

        Each of its processes gets SIGTERM once (`told` is who got it), and SIGKILL when the deadline is past.
        """
        left = self._tree(key)
        if time.monotonic() >= deadline:
            send_signal(left, signal.SIGKILL)
        else:
            send_signal(left - told, signal.SIGTERM)
            told |= left
        return bool(left)

    def terminate_tree(self, key: int | None, grace: float = GRACE) -> None:
        """End an agent's whole tree (None: all of them) and return when nothing of it is left."""
        deadline = time.monotonic() + grace
        told: set[int] = set()
        while self.signal_tree(key, deadline, told):
            time.sleep(TICK)

    def stop(self) -> None:
        """Start nothing more, end everything, and return when nothing is left."""
        with self._lock:
            self.stopping = True
            self._table = (0.0, {})  # something may have been started since it was taken
        self.terminate_tree(None)

    def close(self) -> None:
        """End what is left, and dismiss the guardian."""
        self.stop()
        self.guardian.dismiss()

    def _tree(self, key: int | None) -> set[int]:
        with self._lock:
            table = self._look()
            if key is None:
                return below([self._pid], table)
            roots = {pid for pid, owner in self._running.items() if owner == key}
            return tree_of(key, roots, all(owner in (0, key) for owner in self._running.values()), table)

    def _look(self) -> Table:
        """The process table, of this moment or very nearly: many agents may be ended at once."""
        if time.monotonic() - self._table[0] > FRESH:
            table = process_table()
            table.pop(self.guardian.pid, None)  # it is nobody's to end
            self._table = (time.monotonic(), table)
        return self._table[1]


def _allow_descriptors(concurrency: int) -> int:
    """Raise the limit on open files as far as so many processes at once need; returns how many it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = concurrency * DESCRIPTORS_EACH + DESCRIPTORS_BESIDE
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(1, min(concurrency, (soft - DESCRIPTORS_BESIDE) // DESCRIPTORS_EACH))
    return concurrency
