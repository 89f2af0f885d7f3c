"""A reader that has stopped reading does not make the graders' tools deaf: the first signal ends them."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from tests.support.tool import BIN, PASSES, clean_env, kill_all, script, write
from tests.support.watching import until

PAGE = 4096
LOOPS = """while read -r line; do echo '{"pass": true, "score": 1.0}'; done"""
GRADERS = {
    "exec": ["-g", "./passes"],
    "python": ["-g", "grader.py"],
    "stream": ["--stream", "-g", "./loops"],
    "bundled": ["-g", "ae-grader-hint"],
    "several": ["-j", "4", "-g", "a=./passes", "-g", "b=grader.py"],
}


def waiting(descriptor: int) -> int:
    """Returns how many bytes are in a pipe."""
    (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))
    return int(count)


@pytest.mark.parametrize(
    "tool, grader, signum",
    [
        ("ae-grade", "exec", signal.SIGINT),
        ("ae-grade", "python", signal.SIGTERM),
        ("ae-grade", "stream", signal.SIGINT),
        ("ae-grade", "several", signal.SIGTERM),
        ("ae-validate-refs", "exec", signal.SIGTERM),
        ("ae-validate-refs", "python", signal.SIGINT),
        ("ae-validate-refs", "bundled", signal.SIGINT),
    ],
)
def test_the_first_signal_ends_it(tool: str, grader: str, signum: signal.Signals, tmp_path: Path) -> None:
    script(tmp_path / "passes", PASSES)
    script(tmp_path / "loops", LOOPS)
    (tmp_path / "grader.py").write_text("def grade(record):\n    return {'pass': True, 'score': 1.0}\n")
    record = {"input": "x", "output": "y", "hint": "y", "reference": "y" * 3000, "pad": "p" * 3000}
    write(tmp_path / "in.jsonl", *({"id": f"r{number}", **record} for number in range(60)))
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, PAGE)
    command = [str(BIN / tool), "in.jsonl", *GRADERS[grader]]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=clean_env(tmp_path), stdout=theirs, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        os.close(theirs)
        until(lambda: waiting(ours) == PAGE, "the pipe is full")
        process.send_signal(signum)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 128 + signum, said
        assert said.decode().startswith(f"{tool}: stopped by {signum.name} after "), said
    finally:
        kill_all(process)
        os.close(ours)
