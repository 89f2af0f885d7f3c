"""Runs commands in a network namespace with nothing but loopback, and finds processes left over in it."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from contextlib import suppress
from pathlib import Path

MARK = "AGENTS_TEST_MARK"
INSIDE = "AGENTS_TEST_INSIDE"
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def namespace_command() -> list[str]:
    """Returns the words to put before a command to isolate it; empty if the machine does not allow that."""
    prefix = ["unshare", "-rn", "env", f"{INSIDE}=1"]
    allowed = shutil.which("unshare") and not subprocess.run([*prefix, "true"], capture_output=True).returncode
    return prefix if allowed else []


def inside() -> bool:
    """Returns whether this process was started in such a namespace."""
    return bool(os.environ.get(INSIDE))


def raise_loopback() -> None:
    """Brings the loopback interface of the namespace up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def left_processes(mark: str, within: float) -> dict[int, str]:
    """Returns the scenario's processes that still run after `within` seconds: pid → command line."""
    end = time.monotonic() + within
    while (left := _find(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def end_processes(pids: dict[int, str]) -> None:
    """Kills processes that a scenario left running."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _find(mark: str) -> dict[int, str]:
    """Finds processes with the mark in their arguments or environment and, if isolated, all in this namespace."""
    isolated = inside()
    here = os.readlink("/proc/self/ns/net")
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                marked = mark.encode() in command + (entry / "environ").read_bytes()
                if command and (marked or (isolated and os.readlink(entry / "ns/net") == here)):
                    found[int(entry.name)] = command.replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return found
