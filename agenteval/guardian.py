"""The guardian: a small process between the tool and everything the tool starts.

Data flow: the tool sends requests over a socket; the guardian starts each agent as *its own* child, in a
session of its own, and tells over the agent's status pipe how it ended. On Linux the guardian is a child
subreaper: a helper that left its agent's group and session, or whose parents are dead, becomes a child of
the guardian, so whatever the tool ever started can be found below it in /proc. When the socket closes,
because the tool is done or because it was killed with SIGKILL, the guardian kills all of it and goes. It
writes nothing anywhere but to status pipes.

Whose an orphan is tells a mark that every process inherits and none has a reason to touch: the soft limit on
real-time CPU, which does nothing to a process that is not real-time. Where it cannot be set, and on macOS, the
agent's key in the environment (AGENTEVAL_AGENT) has to do.
"""

from __future__ import annotations

import array
import errno
import marshal
import os
import resource
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

KEY_VARIABLE = b"AGENTEVAL_AGENT"
MARK = 1 << 50  # microseconds; the guardian's pid and the key are added to it
KEYS = 1 << 26
MARKED_LIMIT = getattr(resource, "RLIMIT_RTTIME", None)
GRACE = 2.0
HEADER = 8
MAX_FDS = 4
PR_SET_CHILD_SUBREAPER = 36
CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
# Signals that Python, the tool or the guardian ignore or handle, and an agent must find untouched.
DEFAULTED = [
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGCHLD,
    signal.SIGXFSZ,
    signal.SIGTSTP,
]


def send(control: socket.socket, request: tuple[Any, ...], fds: list[int]) -> None:
    """One request, with the file descriptors it hands over."""
    payload = marshal.dumps(request)
    data = len(payload).to_bytes(HEADER, "little") + payload
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sent = control.sendmsg([data], rights)
    if sent < len(data):
        control.sendall(data[sent:])


def receive(control: socket.socket) -> tuple[tuple[Any, ...], list[int]] | None:
    """The next request and its descriptors; None when the tool has gone."""
    fds = array.array("i")
    space = socket.CMSG_SPACE(MAX_FDS * fds.itemsize)
    header, ancillary, _flags, _address = control.recvmsg(HEADER, space, CLOEXEC)
    if not header:
        return None
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if not CLOEXEC:
        for fd in fds:  # an agent that inherited another's pipes would hold them open
            os.set_inheritable(fd, False)
    header += _exactly(control, HEADER - len(header))
    request = marshal.loads(_exactly(control, int.from_bytes(header, "little")))
    return request, list(fds)


def _exactly(control: socket.socket, size: int) -> bytes:
    pieces = []
    while size:
        piece = control.recv(min(size, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


class Guardian:
    """The state of the guardian process: which children are agents, which trees are being ended."""

    def __init__(self, control: socket.socket, descriptors: int) -> None:
        self.control = control
        ours, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.limits = [] if ours == descriptors else [(descriptors, hard), (ours, hard)]  # an agent's, and ours again
        self.agents: dict[int, tuple[int, int, float]] = {}  # pid → the agent's key, its status pipe, when it started
        self.nothing = os.open(os.devnull, os.O_RDONLY)
        self.cwd = ""
        self.environment = dict(os.environb)  # as bytes once: os.environ would decode and encode it for each agent
        self.ending: list[tuple[int | None, float, int]] = []  # key (None: all), when to SIGKILL, reply pipe

    def serve(self) -> None:
        """Handle requests until the tool has gone."""
        wakeup, waker = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(waker, False)
        signal.signal(signal.SIGCHLD, lambda _signum, _frame: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        poller = select.poll()
        poller.register(self.control, select.POLLIN)
        poller.register(wakeup, select.POLLIN)
        while True:
            for fd, _event in poller.poll(self._patience()):
                if fd == wakeup:
                    os.read(wakeup, 4096)
                    self.reap()
                elif not self._handle_request():
                    return
            self._press_on()

    # --- requests ---

    def _handle_request(self) -> bool:
        try:
            message = receive(self.control)
        except (OSError, EOFError):
            return False
        if message is None:
            return False
        request, fds = message
        if request[0] == "start":
            self._start(fds, *request[1:])
        else:
            self._end(fds[0], *request[1:])
        return True

    def _start(self, fds: list[int], key: int, argv: list[str], cwd: str, env: dict[str, str]) -> None:
        status, stdout, stderr, *rest = fds
        source = rest[0] if rest else self.nothing
        try:
            if cwd != self.cwd:
                os.chdir(cwd)
                self.cwd = cwd
            _mark(key)
            if self.limits:
                resource.setrlimit(resource.RLIMIT_NOFILE, self.limits[0])
            started = time.monotonic()
            pid = os.posix_spawn(
                argv[0],
                argv[1:],
                {**self.environment, **_as_bytes(env), KEY_VARIABLE: b"%d" % key},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, source, 0),
                    (os.POSIX_SPAWN_DUP2, stdout, 1),
                    (os.POSIX_SPAWN_DUP2, stderr, 2),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=DEFAULTED,
            )
        except (OSError, ValueError) as error:
            number = error.errno if isinstance(error, OSError) else errno.EINVAL
            _tell(status, f"failed {number}")
            os.close(status)
        else:
            self.agents[pid] = (key, status, started)
        finally:
            if self.limits:
                resource.setrlimit(resource.RLIMIT_NOFILE, self.limits[1])
            for fd in fds[1:]:
                os.close(fd)

    def _end(self, reply: int, key: int | None, grace: float) -> None:
        for pid in self._tree(key):
            with suppress(OSError):
                os.kill(pid, signal.SIGTERM if grace else signal.SIGKILL)
                os.kill(pid, signal.SIGCONT)  # a stopped process would sleep through SIGTERM
        self.ending.append((key, time.monotonic() + grace, reply))

    # --- ends ---

    def reap(self) -> None:
        """Collect the dead; tell each agent's status pipe how it ended and whether helpers are left behind."""
        ended = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in self.agents:
                ended.append((self.agents.pop(pid), status))
        if ended:
            left = any(child not in self.agents for child in _children(os.getpid()))
            for (_key, pipe, started), status in ended:
                _tell(pipe, f"ended {status} {int(left)} {started}")
                os.close(pipe)

    def _press_on(self) -> None:
        """SIGKILL the trees whose grace is over; close the reply pipe of those that are gone."""
        still = []
        for key, deadline, reply in self.ending:
            left = self._tree(key)
            if left and time.monotonic() >= deadline:
                for pid in left:
                    with suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
            if left:
                still.append((key, deadline, reply))
            else:
                os.close(reply)
        self.ending = still

    def _patience(self) -> float | None:
        return 20 if self.ending else None

    # --- whose is it ---

    def _tree(self, key: int | None) -> set[int]:
        """The living processes of one agent (None: of all agents), however they got away from it."""
        me = os.getpid()
        table = _process_table()
        children: dict[int, list[int]] = {}
        for pid, (parent, _session) in table.items():
            children.setdefault(parent, []).append(pid)
        if key is None:
            return _below(me, children)
        roots = {pid for pid, (owner, *_) in self.agents.items() if owner == key}
        found = set(roots)
        for pid, (parent, session) in table.items():
            if session in roots or (parent == me and pid not in self.agents and self._owns(key, pid)):
                found.add(pid)
        for pid in list(found):
            found |= _below(pid, children)
        return found & table.keys()

    def _owns(self, key: int, orphan: int) -> bool:
        owner = _marked_key(orphan)
        if owner is not None:
            return owner == key
        # It hid where it comes from. With no other agent at work there is only one it can be from.
        return all(agent == key for agent, *_ in self.agents.values())


def _mark(key: int) -> None:
    """Give the guardian, and so the agent it starts next, the mark of that key."""
    if MARKED_LIMIT is not None:
        with suppress(OSError, ValueError):
            resource.setrlimit(MARKED_LIMIT, (_base() + key, resource.getrlimit(MARKED_LIMIT)[1]))


def _base() -> int:
    return MARK + os.getpid() * KEYS  # an agent may itself be a tool with a guardian


def _as_bytes(env: dict[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in env.items()}


def _tell(pipe: int, text: str) -> None:
    with suppress(OSError):
        os.write(pipe, text.encode())


# --- the process table --------------------------------------------------------------------------


def _process_table() -> dict[int, tuple[int, int]]:
    """Living processes: pid → parent, session. Zombies are not alive."""
    if not os.path.isdir("/proc/self"):
        return _process_table_by_ps()
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X"):
                    table[int(name)] = (int(fields[1]), int(fields[3]))
    return table


def _process_table_by_ps() -> dict[int, tuple[int, int]]:
    import subprocess

    shown = subprocess.run(["ps", "-axo", "pid=,ppid=,sess=,stat="], capture_output=True, text=True).stdout
    table = {}
    for line in shown.splitlines():
        pid, parent, _session, state = line.split(None, 3)
        if not state.startswith("Z"):
            with suppress(OSError):
                table[int(pid)] = (int(parent), os.getsid(int(pid)))
    return table


def _below(root: int, children: dict[int, list[int]]) -> set[int]:
    found: set[int] = set()
    todo = list(children.get(root, ()))
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(children.get(pid, ()))
    return found


def _descendants(root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, (parent, _session) in _process_table().items():
        children.setdefault(parent, []).append(pid)
    return _below(root, children)


def kill_descendants() -> None:
    """SIGKILL everything below this process, until nothing is left."""
    while pids := _descendants(os.getpid()):
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return [child for child, (parent, _session) in _process_table().items() if parent == pid]


def _marked_key(pid: int) -> int | None:
    """The key of the agent that a process comes from, None where nothing tells."""
    with suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/limits", "rb") as file:
            limit = file.read().partition(b"Max realtime timeout")[2].split()[0]
        if 0 < (key := int(limit) - _base()) < KEYS:
            return key
    with suppress(OSError, ValueError), open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            if entry.startswith(KEY_VARIABLE + b"="):
                return int(entry.partition(b"=")[2])
    return None


# --- birth --------------------------------------------------------------------------------------


def become_guardian(control: socket.socket, descriptors: int) -> NoReturn:
    """Turn this freshly forked process into the guardian; `descriptors` is the limit its agents shall have."""
    try:
        os.setsid()  # the terminal's Ctrl-C and a kill of the tool's group are not for it
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTSTP):
            signal.signal(signum, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):  # holding the tool's stdout open would keep the next tool in the pipe waiting
            os.dup2(null, fd)
        adopt_orphans()
        Guardian(control, descriptors).serve()
    finally:
        kill_descendants()
        os._exit(0)


def adopt_orphans() -> None:
    """Become the parent of every orphan below this process, where the system can do that."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
