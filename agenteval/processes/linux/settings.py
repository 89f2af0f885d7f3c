"""Settings of this process and its threads that only Linux has; elsewhere, nothing is changed."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

PR_SET_CHILD_SUBREAPER = 36  # of prctl(2)
M_ARENA_MAX = -8  # of mallopt(3)


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
