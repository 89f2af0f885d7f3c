"""Watches a tool while it runs: feeds it, takes its records one by one, and finds the processes it started.

A mark is a number that no other process on the machine sleeps for. It is in the arguments of the agents and so, if the
agent is given on the command line, in those of the tool and its guardian too: `alive` finds them all.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tests.support.tool import Done, jsonl, start

T = TypeVar("T")
Record = dict[str, Any]
PATIENCE = 30.0  # for a hang, however busy the machine is
TRIES = 5
_numbers = itertools.count(1000)


@contextmanager
def marked() -> Iterator[str]:
    """Yields a new mark and kills what still has it afterwards, so that a failed test leaves no process."""
    mark = f"{next(_numbers)}{os.getpid():07}.5"
    try:
        yield mark
    finally:
        for pid in alive(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def alive(mark: str) -> dict[int, list[str]]:
    """Returns the processes with the mark in their arguments: pid → arguments. Zombies have none."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/cmdline", "rb", buffering=0) as file:
            arguments = file.read()
            if mark.encode() in arguments:
                found[int(name)] = arguments.decode("utf-8", "replace").split("\0")
    return found


def sleepers(mark: str) -> set[int]:
    """Returns the pids of the processes that are `sleep MARK`."""
    return {pid for pid, argv in alive(mark).items() if argv[0].endswith("sleep") and argv[1:2] == [mark]}


def until(condition: Callable[[], T], what: str, within: float = PATIENCE) -> T:
    """Waits for a true value of the condition and returns it; AssertionError after `within` seconds."""
    end = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {within} s: {what}"
        time.sleep(0.005)
    return value


def expect_soon(attempt: Callable[[], float], within: float) -> None:
    """Asserts that one of some attempts takes less than so many seconds.

    A busy machine is late now and then; a pause that the product makes is there every time.
    """
    taken: list[float] = []
    while not taken or taken[-1] >= within:
        assert len(taken) < TRIES, f"never within {within} s: {taken}"
        taken.append(attempt())


def in_time(attempt: Callable[[int], T | None], limit: int) -> T:
    """Returns what the first attempt gives that is not None; each has twice the limit (in ms) of the one before.

    For an agent that has to get somewhere before its time is up: on a busy machine no fixed time is enough.
    """
    limits = [limit << number for number in range(TRIES)]
    for limit in limits:
        if (value := attempt(limit)) is not None:
            return value
    raise AssertionError(f"never in time: {limits} ms")


def with_time_enough(attempt: Callable[[int], None], milliseconds: int) -> None:
    """Makes an attempt with that time limit; if it fails, with three times as much, then with nine times.

    For what is to happen before a limit that another process is to exceed: on a busy machine, the start of a process
    alone may take longer; what the product does wrong, it does with any limit. `in_time` is for an attempt that can
    tell by itself that it was late.
    """
    for limit in (milliseconds, 3 * milliseconds):
        with suppress(Exception):  # also a field that is missing
            attempt(limit)
            return
    attempt(9 * milliseconds)


def written(path: Path) -> list[Record]:
    """Returns the whole records in a file that a tool is writing; none if it is not there yet."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines if line.strip()]


def named_guardian(tool: int) -> int:
    """Waits until the guardian of a tool has its name, with which it has left the tool's streams; returns its pid."""

    def find() -> list[int]:
        found = []
        for child in Path(f"/proc/{tool}/task/{tool}/children").read_text().split():
            with suppress(OSError):  # it has ended meanwhile
                if Path(f"/proc/{child}/comm").read_text() == "agenteval-guard\n":
                    found.append(int(child))
        return found

    return until(find, "the guardian has its name")[0]


def expect_gone(mark: str, within: float = PATIENCE) -> None:
    """Asserts that within that time no process with the mark is left."""
    end = time.monotonic() + within
    while left := alive(mark):
        assert time.monotonic() < end, f"still alive after {within} s: {left}"
        time.sleep(0.005)


class Running:
    """A running tool; it is killed when the `with` block ends."""

    def __init__(self, tool: str, *args: object, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        self.cwd = cwd
        self.began = time.monotonic()
        self.process = start(tool, *args, cwd=cwd, env=env)
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr
        self._read = b""

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        for stream in (self.stdin, self.stdout, self.stderr):
            with suppress(OSError):
                stream.close()
        self.process.wait()

    @property
    def pid(self) -> int:
        """Returns the process id, which is also that of its group."""
        return self.process.pid

    def feed(self, *records: object) -> None:
        """Writes records to the tool's stdin, which stays open."""
        self.stdin.write(jsonl(*records).encode())
        self.stdin.flush()

    def record(self, within: float = PATIENCE) -> Record:
        """Returns the next record from stdout."""
        end = time.monotonic() + within
        pieces = [self._read]
        while b"\n" not in pieces[-1]:
            ready = select.select([self.stdout], [], [], max(0.0, end - time.monotonic()))[0]
            assert ready, f"no record within {within} s; read so far: {b''.join(pieces)[:1000]!r}"
            piece = os.read(self.stdout.fileno(), 1 << 20)
            assert piece, f"the tool ended before its next record: {self.end(within)}"
            pieces.append(piece)
        line, _, self._read = b"".join(pieces).partition(b"\n")
        record: Record = json.loads(line)
        return record

    def silent(self, seconds: float) -> bool:
        """Returns whether the tool prints nothing for that long."""
        return not self._read and not select.select([self.stdout], [], [], seconds)[0]

    def signal(self, signum: int) -> None:
        """Sends the tool a signal."""
        self.process.send_signal(signum)

    def end(self, within: float = PATIENCE) -> Done:
        """Closes stdin and waits for the exit; stdout has what came after the last record taken."""
        try:
            out, err = self.process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"the tool did not end within {within} s") from None
        seconds = time.monotonic() - self.began
        return Done(list(map(str, self._args())), self.cwd, self.process.returncode, self._read + out, err, seconds)

    def _args(self) -> list[str]:
        return [str(part) for part in self.process.args] if isinstance(self.process.args, list) else []
