"""Copies of a process that share its work: order, sizes, refusals and deaths."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tool import ROOT

# Doubles numbers with three workers; what is said of a batch: who worked on it.
PROGRAM = """
import os, signal, sys, time
from agenteval.processes.forked.batches import fork_workers, share

case, count, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
parent = os.getpid()

def work(lines):
    numbers = [int(line.split()[0]) for line in lines]
    if os.getpid() != parent:
        if case == "unusual" and 7 in [number % 10 for number in numbers]:
            raise ValueError
        if case == "killed" and numbers[0] > 20:
            os.kill(os.getpid(), signal.SIGKILL)
        if case == "long answers":
            return b"x" * 3_000_000
    return b"".join(b"%d " % (2 * number) for number in numbers)

batches = ([(n, b"%d %s" % (n, b"y" * width))] * 2 for n in range(count))
workers = fork_workers(3, work, [])
assert len(workers) == 3
for batch, written in share(batches, workers):
    who = "self" if written is None else "worker"
    written = work([line for _, line in batch]) if written is None else written
    print(batch[0][0], who, len(written), written[:9])
for worker in workers:
    worker.close()
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child is left")
"""


def run_program(case: str, count: int = 60, width: int = 10) -> list[list[str]]:
    command = [sys.executable, "-c", PROGRAM, case, str(count), str(width)]
    done = subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60, text=True)
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    assert last == "no child is left"
    found = [line.split(maxsplit=3) for line in lines]
    assert [int(number) for number, *_ in found] == list(range(count))
    return found


def expect_doubled(found: list[list[str]]) -> None:
    assert all(answer.startswith(f"b'{2 * number} {2 * number} ") for number, (*_, answer) in enumerate(found))


@pytest.mark.parametrize("width", [10, 100_000, 600_000, 3_000_000])
def test_batches_of_any_size_are_shared_in_order(width: int) -> None:
    """Also those that are larger than a pipe, or so large that only one at a time fits."""
    count = 60 if width < 1_000_000 else 12
    found = run_program("plain", count, width)
    expect_doubled(found)
    assert {who for _, who, *_ in found} == {"self", "worker"}


def test_answers_that_are_longer_than_a_pipe_do_not_block() -> None:
    found = run_program("long answers")
    assert {size for _, who, size, _ in found if who == "worker"} == {"3000000"}


def test_what_a_worker_leaves_is_done_by_the_caller() -> None:
    found = run_program("unusual")
    assert all(who == "self" for number, who, *_ in found if int(number) % 10 == 7)
    assert sum(who == "worker" for _, who, *_ in found) > 20
    expect_doubled(found)


def test_nothing_is_lost_if_workers_are_killed() -> None:
    found = run_program("killed")
    assert all(who == "self" for number, who, *_ in found if int(number) > 30)
    expect_doubled(found)


def test_without_room_for_a_copy_there_is_none(tmp_path: Path) -> None:
    program = (
        "import os, errno\n"
        "from agenteval.processes.forked.batches import fork_workers\n"
        "def refuse(): raise OSError(errno.EAGAIN, 'no')\n"
        "os.fork = refuse\n"
        "before = len(os.listdir('/proc/self/fd'))\n"
        "print(fork_workers(2, bytes, []), len(os.listdir('/proc/self/fd')) - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True
    )
    assert done.stdout == b"[] 0\n", done.stderr.decode()
