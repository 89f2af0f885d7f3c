"""A network namespace with nothing but loopback, and the processes that are left in it."""

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
    """What to put before a command so that it has nothing but loopback; nothing where the machine does not allow it."""
    prefix = ["unshare", "-rn", "env", f"{INSIDE}=1"]
    allowed = shutil.which("unshare") and not subprocess.run([*prefix, "true"], capture_output=True).returncode
    return prefix if allowed else []


def inside() -> bool:
    """Whether this process was started in such a namespace."""
    return bool(os.environ.get(INSIDE))


def raise_loopback() -> None:
    """Make the loopback interface of the namespace usable."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def left_processes(mark: str, within: float) -> dict[int, str]:
    """Processes of the scenario that are still there after so many seconds, by their command lines."""
    end = time.monotonic() + within
    while (left := _find(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def end_processes(pids: dict[int, str]) -> None:
    """Kill what a scenario left."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _find(mark: str) -> dict[int, str]:
    """Who carries the mark in arguments or environment; in a namespace, everybody else who lives in it."""
    alone = inside()
    here = os.readlink("/proc/self/ns/net")
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                marked = mark.encode() in command + (entry / "environ").read_bytes()
                if command and (marked or (alone and os.readlink(entry / "ns/net") == here)):
                    found[int(entry.name)] = command.replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return found
