"""Time slices: short ones for a thread that attends to processes, the usual ones for what it starts."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import threading

import pytest

from agenteval.processes.linux import settings
from agenteval.processes.linux.settings import RESET_ON_FORK, SCHED_ATTR, SLICE, ask_for_short_slices
from tests.support.tool import ROOT

GETATTR = {"x86_64": 315, "aarch64": 275}

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in GETATTR, reason="asks Linux for the attributes of a thread"
)


def attributes() -> tuple[int, int, int]:
    """Returns flags, nice and time slice of the calling thread."""
    buffer = ctypes.create_string_buffer(struct.calcsize(SCHED_ATTR))
    assert ctypes.CDLL(None).syscall(GETATTR[os.uname().machine], 0, buffer, len(buffer), 0) == 0
    _size, _policy, flags, nice, _priority, time_slice, *_ = struct.unpack(SCHED_ATTR, buffer.raw)
    return flags, nice, time_slice


CHILD = "from tests.processes.test_linux_settings import attributes; print(*attributes())"


def in_a_thread() -> tuple[tuple[int, int, int], str]:
    """Returns the attributes of a thread that has asked, and of a process that it has started."""
    found: list[tuple[tuple[int, int, int], str]] = []

    def ask() -> None:
        ask_for_short_slices()
        child = subprocess.run([sys.executable, "-c", CHILD], cwd=ROOT, capture_output=True, text=True, check=True)
        found.append((attributes(), child.stdout))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    [one] = found
    return one


def test_a_thread_gets_short_slices_and_a_process_that_it_starts_does_not() -> None:
    before = attributes()
    (flags, nice, time_slice), child = in_a_thread()
    if time_slice == 0:
        pytest.skip("Linux has time slices of a chosen length since 6.12")
    assert (flags & RESET_ON_FORK, nice, time_slice) == (RESET_ON_FORK, before[1], SLICE)
    assert child == f"0 {before[1]} {before[2]}\n"
    assert attributes() == before


def test_what_the_user_has_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = attributes()
    monkeypatch.setattr(os, "getpriority", lambda *_: -5)
    assert in_a_thread()[0] == before
    monkeypatch.undo()
    monkeypatch.setattr(os, "sched_getscheduler", lambda _pid: os.SCHED_BATCH)
    assert in_a_thread()[0] == before


def test_a_system_that_refuses_it_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    before = attributes()
    for numbers in ({}, dict.fromkeys(GETATTR, 100_000)):
        monkeypatch.setattr(settings, "SCHED_SETATTR", numbers)
        assert in_a_thread()[0] == before
