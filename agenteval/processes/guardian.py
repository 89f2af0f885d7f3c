"""The guardian: a small process that outlives the tool when the tool is killed with SIGKILL.

It holds the read end of a pipe to the tool and waits until the tool closes the other end. A tool that ends in order
writes a byte first. Otherwise the guardian finds everything the tool started, kills it and exits: by its marks
(tree.py) and, since an agent can take those off, by what it saw below the tool at its last look. It writes nothing.
Other guardians, of the tool or of tools below it, have directories of their own to remove, so they are killed last.
While the tool runs, it continues a process that was stopped before it became another program: until then it holds up
the whole tool (vfork).
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from agenteval.processes.scratch import discard
from agenteval.processes.tree import (
    below,
    command_line,
    command_name,
    find_mark,
    hopeless,
    is_of,
    is_stopped,
    process_table,
    send_signal,
    start_time,
)

NAME = b"agenteval-guard"  # Linux keeps 15 bytes
HIGHEST_FD = 1 << 16
LONGEST_PAUSE = 0.5  # seconds between two looks for what is left
LOOK_INTERVAL = 0.25 if sys.platform == "linux" else None  # seconds between two looks at what the tool has started
LOOK_SHARE = 50  # one part in so many of the time is what they may take
OTHERS = 20.0  # seconds in which other guardians end by themselves; what only has their name is killed then
DISMISSAL = 1.0  # seconds in which the guardian exits when it is told to


class Guardian:
    """The tool's end of the pipe; `end_more` is called, in the guardian, when the tool was killed."""

    def __init__(self, end_more: Callable[[], None] | None = None) -> None:
        tool = os.getpid()
        watched, self._lifeline = os.pipe()
        os.set_blocking(self._lifeline, False)  # a guardian that is stopped does not read
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._lifeline)
            _watch(watched, tool, end_more)
        os.close(watched)

    def remove_at_end(self, path: str) -> None:
        """Makes the guardian remove a directory or a file if the tool is killed."""
        with suppress(OSError):  # if the guardian was killed, the tool still removes it
            os.write(self._lifeline, os.fsencode(path) + b"\0")

    def dismiss(self) -> None:
        """Makes the guardian exit: everything has been terminated."""
        with suppress(OSError):  # the guardian was killed; it has nothing left to do
            os.write(self._lifeline, b".")
            os.kill(self.pid, signal.SIGCONT)  # an agent may have stopped it
            for last in (signal.SIGKILL, None):
                deadline = time.monotonic() + DISMISSAL
                while time.monotonic() < deadline:
                    if os.waitpid(self.pid, os.WNOHANG)[0]:
                        return
                    time.sleep(0.001)
                if last is not None:
                    os.kill(self.pid, last)


def _watch(watched: int, tool: int, end_more: Callable[[], None] | None) -> NoReturn:
    try:
        os.setsid()  # out of reach of the terminal's Ctrl-C and of a kill of the tool's process group
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
            signal.signal(signum, signal.SIG_IGN)
        if watched != 3:
            os.dup2(watched, 3)
        os.closerange(4, HIGHEST_FD)  # among them the output file: its lock must end with the tool
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):  # holding the tool's stdout open would keep the next tool in the pipe waiting
            os.dup2(null, fd)
        with suppress(OSError), open("/proc/self/comm", "wb") as file:
            file.write(NAME)  # so that `pkill -9 ae-run` does not match the guardian
        paths, seen = _await_end(tool)
        if paths is not None:
            _kill_all(tool, seen)
            if end_more is not None:
                end_more()
            for path in paths:
                discard(os.fsdecode(path))
            _await_guardians(seen)
    finally:
        os._exit(0)


def _await_end(tool: int) -> tuple[list[bytes] | None, dict[int, str]]:
    """Waits for the end of the tool; returns the paths to remove, None if it ended in order.

    Also returns the processes below it, with their start times, as they were shortly before.
    """
    paths, begun, seen, interval = list[bytes](), b"", dict[int, str](), LOOK_INTERVAL
    poll = select.poll()
    poll.register(3, select.POLLIN)
    while True:
        if not poll.poll(interval and interval * 1000):
            began = time.process_time()  # not the clock, which other programs' load makes run longer
            table = process_table()
            table.pop(os.getpid(), None)
            seen = {pid: start_time(pid) for pid in below([tool], table)}
            send_signal((pid for pid in seen if table[pid][0] == tool and _is_stuck(pid, tool)), signal.SIGCONT)
            interval = max(LOOK_INTERVAL or 0.0, LOOK_SHARE * (time.process_time() - began))
        elif piece := os.read(3, 4096):
            *whole, begun = (begun + piece).split(b"\0")
            paths += whole
            if begun == b".":  # a path begins with a slash
                return None, seen
        else:
            return paths, seen


def _is_stuck(pid: int, tool: int) -> bool:
    """Whether a child of the tool is stopped and does not run a program of its own yet."""
    return is_stopped(pid) and command_line(pid) == command_line(tool)


def _kill_all(tool: int, seen: dict[int, str]) -> None:
    """Kills what the tool ever started but other guardians, until nothing is left but what cannot be killed.

    Adds what it kills, and those guardians, to `seen`.
    """
    began, pause = time.monotonic(), 0.01
    while True:
        table = process_table()
        table.pop(os.getpid(), None)
        left = {pid for pid in table if is_of(tool, find_mark(pid))}
        left |= {pid for pid, started in seen.items() if pid in table and start_time(pid) == started}
        left |= below(left, table)
        seen |= {pid: start_time(pid) for pid in left}
        left = {pid for pid in left if not _is_guardian(pid) or is_of(tool, find_mark(pid))}
        denied = send_signal(left, signal.SIGKILL)
        if not left - hopeless(left, denied, time.monotonic() - began):
            return
        time.sleep(pause)
        pause = min(LONGEST_PAUSE, 1.2 * pause)


def _is_guardian(pid: int) -> bool:
    return command_name(pid) == NAME.decode()


def _await_guardians(seen: dict[int, str]) -> None:
    """Waits for the end of the guardians among these that are younger, as those wait for none that is older."""
    deadline, own = time.monotonic() + OTHERS, os.getpid()
    while left := [
        pid for pid in process_table() if pid > own and seen.get(pid) == start_time(pid) and _is_guardian(pid)
    ]:
        if time.monotonic() > deadline:
            send_signal(left, signal.SIGKILL)
            return
        time.sleep(LONGEST_PAUSE)
