"""All processes of a tool: started in sessions of their own, marked, and terminated with all they started.

Data flow: a worker thread calls `run`, which starts a process and reads what it prints until it has ended
(process.py). When its tree has to be terminated, what it started is found in the process table (tree.py); the guardian
does that if this process is killed. On Linux this process is a child subreaper: orphaned helpers become its children.
"""

import ctypes
import errno
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from itertools import count

from agenteval.errors import CannotGoOn, describe_system_error
from agenteval.processes.guardian import Guardian
from agenteval.processes.process import TERM_GRACE, TREE_INTERVAL, Command, Outcome, RunningProcess
from agenteval.processes.scratch import Scratch
from agenteval.processes.tree import (
    MARKED_LIMIT,
    VARIABLE,
    Table,
    below,
    can_mark,
    command_name,
    find_mark,
    hopeless,
    is_of,
    is_stopped,
    mark_of,
    process_table,
    send_signal,
    tree_of,
)

OWN_LIMITS = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)  # of processes, memory, open files
PR_SET_CHILD_SUBREAPER = 36  # of prctl(2)
DESCRIPTORS_EACH = 8
DESCRIPTORS_BESIDE = 24
SUSPEND_LOOKS = 20  # at a tree that is being stopped: one that runs as another user may start processes for ever
SUSPEND_PAUSE = 0.001  # seconds
START_PATIENCE = 2.0  # seconds in which other programs of the user may end
START_INTERVAL = 0.05
TABLE_AGE = 0.01  # seconds for which a process table that shows something left may be used again
HAS_PIDFD = hasattr(os, "pidfd_open")


class Stopping(OSError):
    """The tool is stopping: nothing is started any more."""


class Child:
    """A process that was started, and `ended`, a descriptor that becomes readable when it has ended."""

    def __init__(self, started: subprocess.Popen[bytes]) -> None:
        self._process, self.pid = started, started.pid
        self.started = time.monotonic()
        if HAS_PIDFD:
            self.ended = os.pidfd_open(self.pid)
        else:
            self.ended, signal_end = os.pipe()
            threading.Thread(target=self._wait, args=(signal_end,), daemon=True).start()

    def status(self) -> int:
        """Returns its exit code, or the negative number of the signal that killed it; called once, after its end."""
        os.close(self.ended)
        return self._process.wait()

    def _wait(self, signal_end: int) -> None:
        self._process.wait()
        os.close(signal_end)


def orphans(started: Iterable[int]) -> set[int]:
    """Returns the children of this process that it did not start: orphans that were reparented to it."""
    try:  # an orphan goes to the first living thread of its new parent, and that is the main thread
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            children = set(map(int, file.read().split()))
    except OSError:
        children = {pid for pid, (parent, _) in process_table().items() if parent == os.getpid()}
    return children.difference(started)


def reap_orphans(started: Iterable[int]) -> set[int]:
    """Reaps the orphans that have exited; returns those that are alive. `started` are our own children."""
    while True:
        found = orphans(started)
        if not set(filter(reap, found)):  # else its children may have become ours after the list was read
            return found


def reap(pid: int) -> bool:
    """Reaps a child if it has exited; returns whether it has."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


class ProcessSupervisor:
    """Starts and terminates processes; one for the whole tool, used by many threads.

    At the end it terminates everything below the tool, unless it shares the tool with what starts other processes (a
    cluster): then only what it has started itself.
    """

    def __init__(self, concurrency: int = 1, *, shared: bool = False) -> None:
        self.guardian = Guardian()
        self.concurrency = _allow_descriptors(concurrency)
        self._own_mark, self._most = resource.getrlimit(MARKED_LIMIT) if MARKED_LIMIT is not None else (0, 0)
        self._marks = can_mark()
        self._shared = shared
        if not shared:
            adopt_orphans()
        self._pid = os.getpid()
        self._first_mark = mark_of(self._pid, 0)
        self.stopping = False  # whether everything is being terminated: how an agent ends now is not its result
        self._stopped = threading.Event()
        self._keys = count(1)
        # One process is started at a time, and none while orphans are looked for: a child would be taken for one until
        # its pid is noted. Code that needs both locks takes this one first; the other is held only briefly.
        self._starting = threading.Lock()
        self._lock = threading.Lock()  # of what follows
        # The pid of each process that was started and not yet reaped → its agent's key; 0 is the guardian's.
        self._running: dict[int, int] = {self.guardian.pid: 0}
        self._table: tuple[float, Table] = (0.0, {})  # when reading it began, and the table
        self.scratch = Scratch(self.guardian.remove_at_end)
        self._given_up: dict[int, tuple[int | None, str]] = {}  # pid of a process that cannot be ended → key and why

    def workers(self, wanted: int, each: int, say: Callable[[str], None]) -> int:
        """Returns how many workers with so many processes each there may be; says why if that is fewer than wanted."""
        allowed = max(1, self.concurrency // each)
        if allowed < wanted:
            files = enough_descriptors(wanted * each)
            say(
                f"-j {wanted}: {allowed:,} at a time, because {wanted:,} would need {files:,} open files, and the "
                f"system allows {resource.getrlimit(resource.RLIMIT_NOFILE)[1]:,} (ulimit -Hn)"
            )
        return allowed

    def new_agent_key(self) -> int:
        """Returns a number for one agent and everything it will ever start."""
        return next(self._keys)

    def run(
        self,
        key: int,
        command: Command,
        *,
        timeout: float | None,
        max_output: int,
        trace: Callable[[str], None] | None = None,
    ) -> Outcome:
        """Runs one process of agent `key` to its end, in the calling thread; `timeout` is in seconds.

        `trace` takes each line that it prints, as it comes.
        """
        process = RunningProcess(self, key, command, timeout, max_output)
        process.trace = trace
        return process.run()

    def pause(self, seconds: float) -> None:
        """Sleeps; wakes early when the tool is stopping."""
        self._stopped.wait(seconds)

    # --- start ---

    def start(self, key: int, command: Command, stdin: int | None, stdout: int, stderr: int) -> Child:
        """Starts a process on these descriptors; raises OSError or ValueError if it cannot be started.

        What our own limits refuse is not the program's failure: it is tried again while others run, or for a moment,
        then CannotGoOn is raised.
        """
        give_up_at = None
        while True:
            try:
                return self._spawn(key, command, stdin, stdout, stderr)
            except OSError as error:
                if error.errno not in OWN_LIMITS:
                    raise
                give_up_at = give_up_at or time.monotonic() + START_PATIENCE
                if len(self._running) == 1 and time.monotonic() >= give_up_at:  # none but the guardian
                    error.filename = command.program
                    raise CannotGoOn(f"cannot start {describe_system_error(error)}") from None
            self.pause(START_INTERVAL)

    def _spawn(self, key: int, command: Command, stdin: int | None, stdout: int, stderr: int) -> Child:
        mark = self._first_mark + key
        # A process inherits its mark from this one: to set it in the child alone would take a fork that runs Python.
        with self._starting:
            if self.stopping:
                raise Stopping
            try:
                self._set_mark(mark)
                started = subprocess.Popen(
                    command.argv,
                    executable=command.program,
                    cwd=command.cwd,
                    env=environment_of(command, mark),
                    stdin=subprocess.DEVNULL if stdin is None else stdin,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                    close_fds=False,  # an argument may name one that the user's shell opened: <(command)
                )
            finally:
                self._set_mark(self._own_mark)  # which may be another tool's
            with self._lock:
                self._running[started.pid] = key
                self._given_up.pop(started.pid, None)
        return Child(started)

    def _set_mark(self, mark: int) -> None:
        """Marks this process, for the one it starts next."""
        if self._marks and MARKED_LIMIT is not None:
            resource.setrlimit(MARKED_LIMIT, (mark, self._most))

    def collect(self, child: Child) -> tuple[int, bool]:
        """Reaps a process that has ended; returns its status, and whether helpers may be left behind."""
        with self._lock:  # from waitpid on, the next start may get the same pid
            status = child.status()
            key = self._running.pop(child.pid)
            # Inside the lock, because the kernel may leave a child out of its list if another is reaped meanwhile.
            if not orphans(self._running):  # as usual; no start under way has to be waited for
                return status, False
        with self._starting, self._lock:
            left = map(find_mark, reap_orphans(self._running) - self._given_up.keys())
            return status, any(mark == self._first_mark + key or not is_of(self._pid, mark) for mark in left)

    def reap_orphans(self) -> None:
        """Reaps the orphans that have exited: an agent may run for hours and leave thousands."""
        if not self._shared:
            with self._starting, self._lock:
                reap_orphans(self._running)

    # --- end ---

    def signal_tree(self, key: int | None, kill_at: float, signalled: set[int]) -> bool:
        """Signals what is left of an agent's tree (None: of all); returns whether anything is.

        The processes that exist at the first call get SIGTERM, once (`signalled` are those that got it); what one of
        them starts to clean up does not. From the time `kill_at` on, all get SIGKILL.
        """
        left = self._tree(key, fresh=not signalled)
        since_kill = time.monotonic() - kill_at
        if since_kill >= 0:
            denied = send_signal(sorted(left), signal.SIGKILL)  # parents first: one must not continue without its child
            left = self._give_up(key, left, denied, since_kill)
        elif not signalled:
            signalled |= self._suspend(key, left)
            send_signal(signalled, signal.SIGTERM)
        return bool(left)

    def _suspend(self, key: int | None, found: set[int]) -> set[int]:
        """Stops the processes of a tree (SIGSTOP) until no more are found, and returns them.

        One that runs could start another between our look at the table and the signal: that one would not get SIGTERM,
        and would be waited for until SIGKILL.
        """
        suspended: set[int] = set()
        stopped = not found
        for _look in range(SUSPEND_LOOKS):
            new = found - suspended
            if stopped and not new:
                break
            send_signal(new, signal.SIGSTOP)
            suspended |= new
            stopped = all(map(is_stopped, suspended))  # a fork that has begun ends before its process stops
            if not stopped:
                time.sleep(SUSPEND_PAUSE)
            found = self._tree(key, fresh=True)
        return suspended

    def terminate_tree(self, key: int | None, grace: float = TERM_GRACE) -> None:
        """Terminates an agent's whole tree (None: all of them); returns when nothing of it is left."""
        kill_at = time.monotonic() + grace
        signalled: set[int] = set()
        pause = TREE_INTERVAL / 16
        while self.signal_tree(key, kill_at, signalled):
            time.sleep(pause)
            pause = min(TREE_INTERVAL, 2 * pause)

    def gave_up(self, child: Child) -> bool:
        """Whether a process cannot be ended; it is then no longer waited for."""
        with self._lock:
            if child.pid not in self._given_up:
                return False
            if self._running.pop(child.pid, None) is not None:
                os.close(child.ended)
            return True

    def left_running(self, key: int | None = None) -> list[str]:
        """Returns what an agent (None: any) has left running because it cannot be ended, and why not."""
        if not self._given_up:
            return []
        with self._lock:
            return [why for owner, why in self._given_up.values() if key in (None, owner)]

    def stop(self) -> None:
        """Starts nothing more and terminates everything; returns when nothing is left."""
        with self._starting:
            self.stopping = True
            self._stopped.set()
        self.terminate_tree(None)

    def close(self) -> None:
        """Terminates what is left, then the guardian."""
        self.stop()
        self.scratch.remove()
        self.guardian.dismiss()

    def _give_up(self, key: int | None, left: set[int], denied: set[int], since_kill: float) -> set[int]:
        """Returns the processes that are left without those that cannot be ended, which are noted."""
        lost = hopeless(left, denied, since_kill)
        with self._lock:
            for pid in lost:
                why = "which runs as another user" if pid in denied else "which does not react to SIGKILL"
                owner = key if key is not None else self._running.get(pid)
                self._given_up[pid] = owner, f"could not be terminated: {command_name(pid)} (process {pid}), {why}"
        return left - lost

    def _tree(self, key: int | None, *, fresh: bool) -> set[int]:
        """Returns the living processes of an agent (None: of all), but for those that cannot be ended.

        Unless it has to be `fresh`, a very recent table will do: many trees may be terminated at once. Only a fresh
        one can show that nothing is left.
        """
        asked = time.monotonic()
        with self._starting, self._lock:
            if key is None and len(self._running) == 1 and (self._shared or not orphans(self._running)):
                return set()  # none but the guardian: the process table need not be read
            found = set() if fresh else self._find(key, self._table_since(asked - TABLE_AGE))
            return found or self._find(key, self._table_since(asked))

    def _find(self, key: int | None, table: Table) -> set[int]:
        if key is None and not self._shared:
            return below([self._pid], table) - self._given_up.keys()
        roots = {pid for pid, owner in self._running.items() if owner and key in (None, owner)}
        if key is None:
            return roots & table.keys() | below(list(roots), table)
        alone = all(owner in (0, key) for owner in self._running.values())
        return tree_of(key, roots, alone, table) - self._given_up.keys()

    def _table_since(self, moment: float) -> Table:
        """Returns a process table that was read, from its beginning, after that moment."""
        if self._table[0] < moment:
            began = time.monotonic()
            table = process_table()
            for orphan in reap_orphans(self._running):  # started by one that exited while the table was read
                table.setdefault(orphan, (self._pid, orphan))
            table.pop(self.guardian.pid, None)  # not ours to terminate
            for pid in self._given_up.keys() - table.keys():
                reap(pid)
                del self._given_up[pid]
            self._table = (began, table)
        return self._table[1]


def adopt_orphans() -> None:
    """Makes this process the parent of every orphan below it: a child subreaper, which only Linux has.

    By ctypes, because Python has no prctl: without it what an agent leaves behind would go to init, where only the
    guardian's search by marks finds it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def environment_of(command: Command, mark: int = 0) -> dict[str, str]:
    """Returns all variables that a process is started with."""
    own = {**command.env, "PWD": command.cwd, VARIABLE: str(mark)}  # some programs trust PWD more than getcwd()
    return own if command.alone else {**os.environ, **own}


def _allow_descriptors(concurrency: int) -> int:
    """Raises the limit on open files as far as that many processes at once need; returns how many it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = enough_descriptors(concurrency)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(1, min(concurrency, (soft - DESCRIPTORS_BESIDE) // DESCRIPTORS_EACH))
    return concurrency


def enough_descriptors(concurrency: int) -> int:
    """Returns the limit on open files that so many processes at once need."""
    return concurrency * DESCRIPTORS_EACH + DESCRIPTORS_BESIDE
