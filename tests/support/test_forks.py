"""A tool that was forked does what one that was started does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fork_server import Imported
from tests.support.forks import Fork, fork
from tests.support.tool import BIN, clean_env, jsonl, run, start, write
from tests.support.watching import Running

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
            lines.append(
                [line for line in shown if not line.startswith(("_", "AGENTEVAL_AGENT", "TMPDIR", "TMUX_TMPDIR"))]
            )
    assert lines[0] == lines[1] == lines[2] == lines[3]
    with (tmp_path / "out").open("wb") as file:
        assert run("ae-adapters", stdout=file).expect(0, stderr="").out == b""
    assert (tmp_path / "out").read_text() == run(str(BIN / "ae-adapters")).stdout


def test_a_fork_can_be_waited_for_and_killed(tmp_path: Path) -> None:
    with start("ae-format", "-", cwd=tmp_path) as process:
        assert isinstance(process, Fork) and process.poll() is None and os.getsid(process.pid) == process.pid
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.communicate() == (b"", b"") and process.returncode == process.poll() == -signal.SIGKILL


@pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="looks for processes in /proc")
def test_the_command_line_is_that_of_a_start(tmp_path: Path) -> None:
    shown = []
    for tool in ("ae-run", str(BIN / "ae-run")):
        with Running(tool, "--simple", "echo {}", cwd=tmp_path) as running:
            running.feed({"id": "a", "input": "x é"})
            running.record()
            command = Path(f"/proc/{running.pid}/cmdline").read_text().rstrip("\0").split("\0")
            shown.append([command[0], *(Path(word).name for word in command[1:])])
            shown[-1].append(Path(f"/proc/{running.pid}/comm").read_text())
    assert shown[0] == shown[1] and shown[0][1:] == ["ae-run", "--simple", "echo {}", "ae-run\n"]


def test_what_a_fork_imports_the_server_imports_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only the fork can import, because it is a module of the test, is left out."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    imported = Imported()
    pid = os.fork()
    if pid == 0:
        for name in ("no_such_module", "colorsys"):
            imported.find_spec(name)
        os._exit(0)
    os.waitpid(pid, 0)
    imported.import_all()
    assert "colorsys" in sys.modules


def test_what_python_reads_before_main_needs_a_start(tmp_path: Path) -> None:
    env = clean_env(tmp_path)
    for name in ("PYTHONPATH", "LC_ALL", "TZ"):
        assert fork(["ae-format"], tmp_path, {**env, name: "x"}, env) is None
    assert fork(["ae-nothing"], tmp_path, env, env) is None
    assert fork(["ae-format", "x" * 100_000], tmp_path, env, env) is None
