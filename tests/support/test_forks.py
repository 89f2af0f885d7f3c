"""A tool that was forked does what one that was started does."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.forks import fork
from tests.support.tool import BIN, clean_env, jsonl, run, write
from tests.support.watching import until

RECORDS = jsonl({"id": "a", "input": "x", "output": "y"}, "{broken")
SHOW = 'echo "$PROMPT $MINE $HOME $(pwd) $(cat)"; env | sort; ps -o sid= -p $PPID | grep -cw $PPID'


def test_forked_and_started_give_the_same(tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", {"id": "a", "input": "x"})
    for name, *args in (
        ["ae-format", "-f", "csv"],
        ["ae-format", "--no-such-option"],
        ["ae-format", "missing.jsonl"],
        ["ae-grade", "-g", "ae-grader-hint"],
    ):
        forked = run(name, *args, stdin=RECORDS, cwd=tmp_path)
        started = run(str(BIN / name), *args, stdin=RECORDS, cwd=tmp_path)
        assert (forked.code, forked.out, forked.err) == (started.code, started.out, started.err)
    lines = []
    for tool in ("ae-run", str(BIN / "ae-run")):
        for stdin in (tmp_path / "in.jsonl", (tmp_path / "in.jsonl").read_bytes()):
            done = run(tool, "--shell", SHOW, stdin=stdin, cwd=tmp_path, env={"MINE": "é 1"}).expect(0, stderr="")
            shown = done.records[0]["rawLines"]
            assert shown[0] == f"x é 1 {tmp_path} {tmp_path} " and shown[-1] == "1", "in a session of its own"
            lines.append([line for line in shown if not line.startswith(("_", "AGENTEVAL_AGENT", "TMPDIR"))])
    assert lines[0] == lines[1] == lines[2] == lines[3]
    with (tmp_path / "out").open("wb") as file:
        assert run("ae-adapters", stdout=file).expect(0, stderr="").out == b""
    assert (tmp_path / "out").read_text() == run(str(BIN / "ae-adapters")).stdout


def test_a_fork_can_be_waited_for_and_killed(tmp_path: Path) -> None:
    env = clean_env(tmp_path)
    process = fork(["ae-format", "-"], tmp_path, env, env)
    assert process is not None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0)
    until(lambda: os.getpgid(process.pid) == process.pid, "it has a session of its own")
    os.killpg(process.pid, signal.SIGKILL)
    assert process.communicate() == (b"", b"") and process.returncode == -signal.SIGKILL


def test_what_python_reads_before_main_needs_a_start(tmp_path: Path) -> None:
    env = clean_env(tmp_path)
    for name in ("PYTHONPATH", "LC_ALL", "TZ"):
        assert fork(["ae-format"], tmp_path, {**env, name: "x"}, env) is None
    assert fork(["ae-nothing"], tmp_path, env, env) is None
    assert fork(["ae-format", "x" * 100_000], tmp_path, env, env) is None
