"""The guardian: a small process that outlives the tool when the tool is killed with SIGKILL.

It holds the read end of a pipe to the tool and sleeps until the tool closes the other end. A tool that ends in order
writes a byte first. Otherwise the guardian finds everything the tool started by its marks (tree.py), kills it
and exits. It writes nothing.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from agenteval.processes.scratch import discard
from agenteval.processes.tree import below, find_mark, hopeless, is_of, process_table, send_signal

NAME = b"agenteval-guard"  # Linux keeps 15 bytes
HIGHEST_FD = 1 << 16
LONGEST_PAUSE = 0.5  # seconds between two looks for what is left


class Guardian:
    """The tool's end of the pipe; `end_more` is called, in the guardian, when the tool was killed."""

    def __init__(self, end_more: Callable[[], None] | None = None) -> None:
        tool = os.getpid()
        watched, self._lifeline = os.pipe()
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
        try:
            os.write(self._lifeline, b".")
            os.waitpid(self.pid, 0)
        except OSError:
            pass  # the guardian was killed; it has nothing left to do


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
        paths = _read_paths()
        if paths is not None:
            _kill_marked(tool)
            if end_more is not None:
                end_more()
            for path in paths:
                discard(os.fsdecode(path))
    finally:
        os._exit(0)


def _read_paths() -> list[bytes] | None:
    """Waits for the end of the tool; returns the paths to remove, None if it ended in order."""
    paths: list[bytes] = []
    begun = b""
    while piece := os.read(3, 4096):
        *whole, begun = (begun + piece).split(b"\0")
        paths += whole
        if begun == b".":  # a path begins with a slash
            return None
    return paths


def _kill_marked(tool: int) -> None:
    """Kills everything that the tool ever started, until nothing of it is left but what cannot be killed."""
    began, pause = time.monotonic(), 0.01
    while True:
        table = process_table()
        table.pop(os.getpid(), None)
        marked = {pid for pid in table if is_of(tool, find_mark(pid))}
        left = marked | below(marked, table)
        denied = send_signal(left, signal.SIGKILL)
        if not left - hopeless(left, denied, time.monotonic() - began):
            return
        time.sleep(pause)
        pause = min(LONGEST_PAUSE, 1.2 * pause)
