"""The guardian: no agent can stop it for good, nor hide from it by taking off its mark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from agenteval.processes import scratch
from agenteval.processes.guardian import NAME, Guardian
from agenteval.processes.scratch import LOCK, PREFIX, Scratch
from tests.support.tool import jsonl, run, script, start
from tests.support.watching import named_guardian, until

# Started by an agent: takes off both marks, leaves its session, and is orphaned.
HELPER = """#!/usr/bin/env python3
import os, resource, sys, time
if os.fork():
    os._exit(0)
resource.setrlimit(resource.RLIMIT_RTTIME, (1, 1))
os.setsid()
if os.fork():
    os._exit(0)
if "bare" not in sys.argv:
    os.execve(sys.executable, [sys.executable, sys.argv[0], sys.argv[1], "bare"], {})
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(60)
"""
STOPS_THE_GUARDIAN = rf"""
until [ "$stopped" ]; do  # it may not have its name yet
    for process in /proc/[0-9]*; do
        [ "$(cat $process/comm)" = {NAME.decode()} ] && grep -q "PPid:.$PPID\$" $process/status || continue
        kill -STOP ${{process#/proc/}} && echo stopped && stopped=yes
    done
done
"""


def test_a_stopped_guardian_does_not_hold_up_the_tool() -> None:
    for stop in (signal.SIGSTOP, signal.SIGKILL):
        guardian = Guardian()
        os.kill(guardian.pid, stop)
        guardian.dismiss()
        with pytest.raises(ChildProcessError):
            os.waitpid(guardian.pid, os.WNOHANG)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_run_ends_although_an_agent_stops_the_guardian(tmp_path: Path) -> None:
    agent = script(tmp_path / "agent", STOPS_THE_GUARDIAN)
    done = run("ae-run", "--simple", f"{agent} {{}}", stdin=jsonl({"id": "a", "input": "i"}), cwd=tmp_path).expect(0)
    assert done.records[0]["rawLines"] == ["stopped"]


# As subprocess leaves it between fork and exec: the tool waits for it with every thread.
STUCK = """
import os, signal
from agenteval.processes.guardian import Guardian
guardian = Guardian()
child = os.fork()
if not child:
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
guardian.dismiss()
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_process_that_is_stopped_before_its_program_is_started_does_not_hold_up_the_tool() -> None:
    """An agent that stopped it hung the tool for ever; Ctrl-C was not heard (round 4 of seed 99)."""
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=30)
    assert done.stdout == "7\n"


def pauses_of(guardian: int) -> int:
    """Returns how often it has waited: between two looks it waits once."""
    status = Path(f"/proc/{guardian}/status").read_text()
    return int(status.partition("voluntary_ctxt_switches:")[2].split()[0])


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_helper_without_marks_does_not_outlive_a_killed_tool(tmp_path: Path) -> None:
    helper, told = script(tmp_path / "helper", HELPER), tmp_path / "pid"
    agent = script(tmp_path / "agent", f"{helper} {told}; sleep 60")
    with start("ae-run", "--simple", f"{agent} {{}}", cwd=tmp_path) as process:
        assert process.stdin
        process.stdin.write(jsonl({"id": "a", "input": "i"}).encode())
        process.stdin.close()
        until(lambda: told.exists() and told.read_text(), "the helper")
        pid = int(told.read_text())
        guardian = named_guardian(process.pid)
        before = pauses_of(guardian)
        until(lambda: pauses_of(guardian) > before + 2, "two looks of the guardian")
        process.kill()
    try:
        until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the helper")
    finally:
        if Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_guardians_of_one_tool_do_not_kill_each_other(tmp_path: Path) -> None:
    """Each has directories of its own to remove; with ae-ray there are two."""
    program = f"""
import os, signal, time
from agenteval.processes.guardian import LOOK_INTERVAL, NAME, Guardian
for number in range(4):
    os.mkdir(f"{tmp_path}/{{number}}")
    guardian = Guardian(lambda: time.sleep(0.5))
    guardian.remove_at_end(f"{tmp_path}/{{number}}")
    while open(f"/proc/{{guardian.pid}}/comm", "rb").read().strip() != NAME:
        time.sleep(0.01)
time.sleep(4 * LOOK_INTERVAL)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    until(lambda: not os.listdir(tmp_path), "the end of all directories")


def test_what_others_left_does_not_delay_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with 500,000 entries took minutes to remove, before the first agent was started."""
    abandoned = tmp_path / f"{PREFIX}left"
    abandoned.mkdir()
    (abandoned / LOCK).touch()
    begun, go_on = threading.Event(), threading.Event()

    def slow(path: str) -> None:
        assert path == str(abandoned)
        begun.set()
        go_on.wait(30)

    monkeypatch.setattr(scratch, "discard", slow)
    monkeypatch.setattr(scratch, "CLEANING", 0.01)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine = Scratch(lambda _name: None)
    assert os.path.isdir(mine.new_directory())
    assert begun.wait(30)
    go_on.set()
