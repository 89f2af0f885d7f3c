"""Terminating a tree: every process that exists gets SIGTERM, and none has to be waited for until SIGKILL."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tool import ROOT
from tests.support.watching import expect_gone

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")

# Terminates a shell that starts a helper every few milliseconds, with a time until SIGKILL that no test waits for.
PROGRAM = """
import os, sys, time
from agenteval.processes.process import Command
from agenteval.processes.supervisor import ProcessSupervisor

mark, rounds = sys.argv[1], int(sys.argv[2])
processes = ProcessSupervisor(1)
null = os.open(os.devnull, os.O_RDWR)
for _ in range(rounds):
    key = processes.new_agent_key()
    line = f"while :; do setsid sleep {mark} & sleep 0.001; done"
    child = processes.start(key, Command("/bin/sh", ["sh", "-c", line], os.getcwd(), {}, None), None, null, null)
    time.sleep(0.02)
    processes.terminate_tree(key, grace=600)
    processes.collect(child)
processes.close()
print("done")
"""


def test_a_process_that_is_started_meanwhile_gets_the_signal_too(mark: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, mark, "12"]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60)
    assert done.stdout == b"done\n", done.stderr.decode()
    expect_gone(mark)
