"""One attempt: the tool is started with a fault, and what it printed and how it exited is kept."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import IO

from tests.chaos.faults import Fault, Target, limit_files
from tests.chaos.processes import VARIABLE
from tests.support.tool import BIN, clean_env

LONGEST, RAY_LONGEST = 90.0, 300.0  # seconds that an attempt may take on a busy machine
START, RAY_START = 0.9, 8.0  # seconds in which a fault comes
PIPE = 4096  # bytes: the smallest pipe, so that a slow reader is felt


@dataclass
class Attempt:
    """What an attempt has shown."""

    command: list[str]
    code: int
    stderr: str
    printed: bytes  # by a tool that writes to a pipe
    seconds: float
    removed_late: bool  # whether its output was removed when it did not have it open: before it did, or after
    forged: bool = False  # whether others wrote into its output while it had it open


def attempt(command: list[str], output: str, fault: Fault, mark: str, folder: Path, rng: Random) -> Attempt:
    """Runs the tool with the fault to its end; AssertionError if it does not come."""
    start, longest = (RAY_START, RAY_LONGEST) if command[0] == "ae-ray" else (START, LONGEST)
    began = time.monotonic()
    errors = folder / "stderr"
    with ExitStack() as files:
        out, read_all = files.enter_context(_stdout(fault.stdout, rng))
        env = {VARIABLE: mark, "TMPDIR": str(folder / "tmp"), "HOME": str(folder / "home")}
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        env = clean_env(folder, {**env, **fault.env(folder)})
        argv = [str(BIN / command[0]), *command[1:]]
        process = subprocess.Popen(
            argv,
            cwd=folder / "here",
            env=env,
            stdin=files.enter_context(_stdin(fault.stdin, folder / "input.jsonl", rng)),
            stdout=out,
            stderr=files.enter_context(errors.open("wb")),
            start_new_session=True,
            preexec_fn=limit_files(fault.limit),
        )
        if isinstance(out, int) and out >= 0:
            os.close(out)
        target = Target(process, mark, folder, rng, output, start, argv, env)
        fault.act(target)
        printed = read_all()
        try:
            process.wait(longest)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise AssertionError(f"{command[0]} hangs: it did not end within {longest:.0f} s") from None
    said, seconds = errors.read_text("utf-8", "replace"), time.monotonic() - began
    return Attempt(command, process.returncode, said, printed, seconds, target.removed_late, target.forged)


@contextmanager
def _stdout(kind: str, rng: Random) -> Iterator[tuple[int, Callable[[], bytes]]]:
    """Yields what the tool writes to, and a function that reads it: to its end, slowly, or a line or two."""
    if kind == "file":
        yield subprocess.DEVNULL, lambda: b""
        return
    ours, theirs = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, PIPE)
    with open(ours, "rb", buffering=0) as reader:
        lines = rng.choice([0, 1, 2]) if kind == "closed" else None
        yield theirs, lambda: _read(reader, lines)


def _read(reader: IO[bytes], lines: int | None) -> bytes:
    printed = b""
    while lines is None or printed.count(b"\n") < lines:
        piece = reader.read(1000)
        if not piece:
            break
        printed += piece
        if lines is None:
            time.sleep(0.002)
    reader.close()
    return printed


@contextmanager
def _stdin(kind: str, path: Path, rng: Random) -> Iterator[IO[bytes]]:
    """Yields the file, or a pipe into which it comes in pieces."""
    if kind == "file":
        with path.open("rb") as file:
            yield file
        return
    ours, theirs = os.pipe()
    thread = threading.Thread(target=_feed, args=(theirs, path.read_bytes(), rng.randint(7, 200)))
    thread.start()
    with open(ours, "rb", buffering=0) as reader:
        yield reader
    thread.join()


def _feed(target: int, content: bytes, size: int) -> None:
    with suppress(BrokenPipeError), open(target, "wb", buffering=0) as file:
        for start in range(0, len(content), size):
            file.write(content[start : start + size])
            time.sleep(0.005)
