"""The guardian: a small process that outlives the tool when the tool is killed with SIGKILL.

It holds the read end of a pipe whose write end only the tool has, and does nothing until that closes. A tool
that ends in order says so; else the guardian finds everything the tool ever started by its mark (proctree.py),
wherever it has got to, kills it and goes. It writes nothing.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from agenteval.processes.tree import kill_marked

NAME = b"agenteval guardian"
HIGHEST = 1 << 16


class Guardian:
    """The tool's end of the pipe."""

    def __init__(self) -> None:
        tool = os.getpid()
        watched, self._lifeline = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._lifeline)
            _watch(watched, tool)
        os.close(watched)

    def dismiss(self) -> None:
        """Let it go: everything has been ended."""
        try:
            os.write(self._lifeline, b".")
            os.waitpid(self.pid, 0)
        except OSError:
            pass  # it was killed; there is nothing left for it to do


def _watch(watched: int, tool: int) -> NoReturn:
    try:
        os.setsid()  # the terminal's Ctrl-C and a kill of the tool's group are not for it
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
            signal.signal(signum, signal.SIG_IGN)
        if watched != 3:
            os.dup2(watched, 3)
        os.closerange(4, HIGHEST)  # the lock of the output file must go with the tool, too
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):  # holding the tool's stdout open would keep the next tool in the pipe waiting
            os.dup2(null, fd)
        _rename()
        if not os.read(3, 1):
            kill_marked(tool)
    finally:
        os._exit(0)


def _rename() -> None:
    """Another command line than the tool's: `pkill -9 ae-run` is not meant for the guardian."""
    if sys.platform != "linux":
        return
    import ctypes

    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end of proc(5), counted from the state
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, NAME[: end - start - 1], min(len(NAME), end - start - 1))
    ctypes.CDLL(None).prctl(15, NAME[:15], 0, 0, 0)  # PR_SET_NAME
