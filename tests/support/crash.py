"""Kills a tool with SIGKILL at random moments and resumes it until it is done."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.tool import BIN, Record, run, start
from tests.support.watching import expect_gone

ROUNDS = 6  # make chaos does hundreds
BUDGET = 20.0  # seconds after which half of the rounds of one tool are enough, on a busy machine


def kill_and_resume(command: list[object], out: Path, mark: str, check: Callable[[list[Record]], None]) -> None:
    """Kills the tool repeatedly, each time continuing with --resume, and checks each finished file."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    print(f"seed {seed}")  # pytest shows it when the test fails
    began = time.monotonic()
    kills = finished = 0
    while kills < ROUNDS and (kills < ROUNDS // 2 or time.monotonic() - began < BUDGET):
        if killed(command, out, rng):
            kills += 1
            expect_gone(mark)
        else:
            finished += 1
            assert finished < 100, "it is too quick to be killed"
            check(whole(out))
            out.unlink()
    print(f"{kills} kills, {finished} finished")
    done = run(str(command[0]), *command[1:], "-o", out, "--resume", cwd=out.parent).expect(0)
    assert only_resumption(done.stderr), done
    check(whole(out))


def killed(command: list[object], out: Path, rng: random.Random) -> bool:
    """Kills the tool at a random moment; returns False if it finished before."""
    with start(str(BIN / str(command[0])), *command[1:], "-o", out, "--resume", stdin=None, cwd=out.parent) as process:
        try:
            _, err = process.communicate(timeout=rng.uniform(0.02, 0.45))
        except subprocess.TimeoutExpired:
            (os.killpg if rng.random() < 0.3 else os.kill)(process.pid, signal.SIGKILL)
            process.communicate()
            return True
        assert process.returncode == 0 and only_resumption(err.decode()), err
        return False


def only_resumption(messages: str) -> bool:
    """Returns whether the tool has said nothing but how much was done before, and how often trials passed."""
    return all(re.search(r": \d+ (kept|new)|: pass@1 ", line) for line in messages.splitlines())


def whole(out: Path) -> list[Record]:
    """Returns the records of a file; fails if a line is not whole."""
    content = out.read_bytes()
    assert content.endswith(b"\n")
    return [json.loads(line) for line in content.splitlines()]
