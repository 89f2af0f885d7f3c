"""Marks: which agent a process belongs to, in a form that its descendants inherit.

Agents start their tools in new sessions, orphan them and clear their environment, so neither the process group nor
the parent shows whose process it is. The mark is the soft limit on real-time CPU (RLIMIT_RTTIME): every process
inherits it, it has no effect on a process that is not real-time, and no program has a reason to change it. Where the
limit cannot be set, and on macOS, an environment variable is the mark.
"""

from __future__ import annotations

import resource
from contextlib import suppress

VARIABLE = "AGENTEVAL_AGENT"
MARKED_LIMIT = getattr(resource, "RLIMIT_RTTIME", None)
FIRST_MARK = 1 << 50  # microseconds of real-time CPU: 35 years
KEYS = 1 << 26


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
    with suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/limits", "rb") as file:
            mark = int(file.read().partition(b"Max realtime timeout")[2].split()[0])
        if mark >= FIRST_MARK:
            return mark
    with suppress(OSError, ValueError), open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            if entry.startswith(f"{VARIABLE}=".encode()):
                return int(entry.partition(b"=")[2])
    return None
