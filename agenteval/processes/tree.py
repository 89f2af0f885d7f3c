"""Process trees: which processes an agent has started, wherever they are now, and signals to all of them.

Agents start their tools in new sessions, orphan them and clear their environment, so neither the process group nor
the parent shows which agent a process belongs to. Every process of an agent therefore inherits a mark, which is looked
up when it has become an orphan. The mark is the soft limit on real-time CPU (RLIMIT_RTTIME): it has no effect on a
process that is not real-time, and programs have no reason to change it. Where the limit cannot be set, and on macOS,
an environment variable is the mark.
"""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress

VARIABLE = "AGENTEVAL_AGENT"
MARKED_LIMIT = getattr(resource, "RLIMIT_RTTIME", None)
FIRST_MARK = 1 << 50  # microseconds of real-time CPU: 35 years
KEYS = 1 << 26

DENIED_WAIT = 0.5  # seconds after SIGKILL for which a process that may not be signalled is waited for
STUCK_WAIT = 30.0  # the same for any other, which may be stuck in the kernel
PS_TIME = 10.0  # seconds for ps

Table = dict[int, tuple[int, int]]
"""The living processes: pid → parent, session."""


# --- marks ---------------------------------------------------------------------------------------


def mark_of(tool: int, key: int) -> int:
    """Returns the mark of agent `key` of the tool with that pid."""
    return FIRST_MARK + tool * KEYS + key


def is_of(tool: int, mark: int | None) -> bool:
    """Whether a mark belongs to an agent of that tool."""
    return mark is not None and mark_of(tool, 0) <= mark < mark_of(tool, KEYS)


def can_mark() -> bool:
    """Whether the limit that serves as the mark can be set that high."""
    if MARKED_LIMIT is None:
        return False
    hard = resource.getrlimit(MARKED_LIMIT)[1]
    return hard == resource.RLIM_INFINITY or hard >= mark_of(1 << 22, KEYS)


def find_mark(pid: int) -> int | None:
    """Returns the mark of a process, from its limit or else its environment; None if it has none."""
    with suppress(ValueError, IndexError):
        mark = int(_proc(pid, "limits").partition(b"Max realtime timeout")[2].split()[0])
        if mark >= FIRST_MARK:
            return mark
    with suppress(ValueError):
        for entry in _proc(pid, "environ").split(b"\0"):
            if entry.startswith(f"{VARIABLE}=".encode()):
                return int(entry.partition(b"=")[2])
    return None


# --- the process table ---------------------------------------------------------------------------


def process_table() -> Table:
    """Returns the living processes; a zombie is not alive."""
    if sys.platform != "linux":
        return _table_by_ps()
    table: Table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if fields and fields[0] not in (b"Z", b"X"):
                table[int(name)] = (int(fields[1]), int(fields[3]))
    return table


def _table_by_ps() -> Table:
    table: Table = {}
    try:
        shown = subprocess.run(
            ["ps", "-axo", "pid=,ppid=,stat="], capture_output=True, text=True, timeout=PS_TIME
        ).stdout
    except subprocess.TimeoutExpired:  # an agent has stopped it
        return table
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
    """Returns the living processes of agent `key` of this tool, including those that left its own processes, `roots`.

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


def start_time(pid: int) -> str:
    """Returns when a process was started, which tells it from a later one of the same pid; "" where it is not known."""
    return (_stat(pid)[19:20] or [b""])[0].decode()


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped or has ended; True where that cannot be looked up."""
    return (_stat(pid) or [b"X"])[0] in (b"T", b"t", b"Z", b"X")


def command_name(pid: int) -> str:
    """Returns what ps shows as the command of a process, or "a program" if it is gone."""
    return _proc(pid, "comm").decode("utf-8", "replace").strip() or "a program"


def command_line(pid: int) -> bytes:
    """Returns the arguments of a process; b"" if it is gone."""
    return _proc(pid, "cmdline")


def _stat(pid: int) -> list[bytes]:
    """Returns the fields of a process from its state on; none if it is gone."""
    return _proc(pid, "stat").rpartition(b")")[2].split()


def _proc(pid: int, name: str) -> bytes:
    with suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()
    return b""


# --- signals -------------------------------------------------------------------------------------


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
