"""Settings of this process and its threads that only Linux has; elsewhere, nothing is changed."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

PR_SET_CHILD_SUBREAPER = 36  # of prctl(2)
M_ARENA_MAX = -8  # of mallopt(3)

SLICE = 100_000  # nanoseconds: the shortest time slice that there is
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}  # the number of the system call, which few C libraries have by its name
RESET_ON_FORK = 1  # a flag of sched_setattr(2): what the thread starts has time slices of the usual length
SCHED_ATTR = "=IIQiIQQQ"  # size, policy, flags, nice, priority, the time slice, and two for other policies


def processors() -> int:
    """Returns how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def adopt_orphans() -> bool:
    """Makes this process the parent of every orphan below it (a child subreaper); returns whether it is."""
    if sys.platform != "linux":
        return False
    import ctypes

    return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def use_one_heap() -> None:
    """Makes all threads allocate from one heap: by default glibc gives each its own, and none returns what is freed."""
    if sys.platform == "linux":
        import ctypes

        with suppress(AttributeError):  # a C library without mallopt
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def ask_for_short_slices() -> None:
    """Has the calling thread run soon after it was woken, for a thread that works for moments and then waits.

    Since Linux 6.6, a thread that was woken waits for the end of the time slice of what runs, 3 ms, unless its own is
    shorter: one that attends to short processes finds several of them ended, and a processor was idle meanwhile.
    """
    number = SCHED_SETATTR.get(os.uname().machine)
    if sys.platform != "linux" or number is None:
        return
    with suppress(OSError):
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        if nice < 0 or os.sched_getscheduler(0) != os.SCHED_OTHER:
            return  # chosen by the user, and processes would no longer inherit it
        import ctypes
        import struct

        size = struct.calcsize(SCHED_ATTR)
        attributes = struct.pack(SCHED_ATTR, size, os.SCHED_OTHER, RESET_ON_FORK, nice, 0, SLICE, 0, 0)
        ctypes.CDLL(None).syscall(number, 0, attributes, 0)
