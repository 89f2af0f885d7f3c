"""What a tool does with little to work with: closed or non-blocking descriptors, small limits, a removed directory."""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from tests.support.tool import BIN, ROOT, Done, Record, clean_env, jsonl, run, write
from tests.support.watching import until

RECORD: Record = {"id": "a", "input": "x", "output": "y", "hint": "y", "reference": "y"}
RECORD |= {"rawLines": ["y"], "timing": {"start": 0, "end": 1}}
INSTALLED = Path(sys.executable).parent  # bin/ae is a script for sh, which needs more files and a directory
PAD = "p" * 3000
COMMANDS: dict[str, list[str]] = {
    "ae-run": ["--simple", "echo {}"],
    "ae-extract": ["-s", "text"],
    "ae-grade": ["-g", "ae-grader-hint"],
    "ae-grader-hint": [],
    "ae-format": ["-f", "csv"],
    "ae-validate-refs": ["-g", "ae-grader-hint"],
}


def finish(command: list[str | Path], cwd: Path, stdin: str = "") -> Done:
    done = subprocess.run(command, cwd=cwd, env=clean_env(cwd), input=stdin.encode(), capture_output=True, timeout=60)
    return Done(list(map(str, command)), cwd, done.returncode, done.stdout, done.stderr, 0.0)


# --- descriptors in non-blocking mode -------------------------------------------------------------


def open_slow_pipe(text: bytes) -> int:
    """The read end, in non-blocking mode, of a pipe into which the text comes in pieces; the tool finds it empty."""
    read, write_end = os.pipe()
    os.set_blocking(read, False)

    def feed() -> None:
        with suppress(BrokenPipeError), open(write_end, "wb", buffering=0) as file:
            for number, start in enumerate(range(0, len(text), 50_000)):
                if number in (1, 2):
                    until(lambda: not waiting_bytes(write_end), "the tool has read the piece")
                    time.sleep(0.1)  # and looks for the next one
                file.write(text[start : start + 50_000])

    threading.Thread(target=feed).start()
    return read


def waiting_bytes(pipe: int) -> int:
    """Returns how many bytes are in a pipe that nobody has read."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.parametrize("tool", COMMANDS)
def test_non_blocking_stdin_and_stdout_lose_nothing(tool: str, tmp_path: Path) -> None:
    records = [{**RECORD, "id": f"r{number}", "pad": PAD} for number in range(60)]
    stdin, (stdout, theirs) = open_slow_pipe(jsonl(*records).encode()), os.pipe()
    os.set_blocking(theirs, False)
    with subprocess.Popen(
        [str(BIN / tool), *COMMANDS[tool]],
        cwd=tmp_path,
        env=clean_env(tmp_path),
        stdin=stdin,
        stdout=theirs,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(stdin)
        os.close(theirs)
        with open(stdout, "rb") as file:
            printed = file.read()
        assert process.stderr is not None
        assert (process.wait(60), process.stderr.read()) == (0, b"")
    expected = run(tool, *COMMANDS[tool], stdin=jsonl(*records), cwd=tmp_path).expect(0)
    assert printed.count(b"\n") == expected.out.count(b"\n") >= 60


def test_help_and_messages_into_full_non_blocking_pipes(tmp_path: Path) -> None:
    for arguments, code in ((["--help"], 0), (["-", "--simple", "echo {}", "--debug"], 1)):
        ours, theirs = os.pipe()
        os.set_blocking(theirs, False)
        fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
        filled = os.write(theirs, b"x" * 4096)
        bad = open_slow_pipe(b"no JSON\n" * 200)
        out, err = (theirs, subprocess.DEVNULL) if code == 0 else (subprocess.DEVNULL, theirs)
        command = [str(BIN / "ae-run"), *arguments]
        env = clean_env(tmp_path)
        with subprocess.Popen(command, cwd=tmp_path, env=env, stdin=bad, stdout=out, stderr=err) as process:
            os.close(bad)
            os.close(theirs)
            with open(ours, "rb") as file:
                shown = file.read()[filled:]
            assert process.wait(60) == code
        assert shown == run("ae-run", "--help").out if code == 0 else shown.count(b"ae-run: stdin:") == 200


def test_a_terminal_in_non_blocking_mode(tmp_path: Path) -> None:
    records = write(tmp_path / "r.jsonl", *({**RECORD, "id": f"r{number}", "pad": PAD} for number in range(60)))
    ours, theirs = pty.openpty()
    os.set_blocking(theirs, False)
    command = [str(BIN / "ae-grader-hint"), str(records)]
    with subprocess.Popen(command, cwd=tmp_path, env=clean_env(tmp_path), stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 1 << 12):
                shown += piece
        except OSError:  # EIO: nobody has the terminal open any more
            pass
        assert process.wait(60) == 0
    os.close(ours)
    assert shown.count(b'{"pass":true') == 60, shown[-500:]


# --- closed stdout, removed directory, early signals, removed docstrings --------------------------


@pytest.mark.parametrize("command", ["ae", "ae --help", "ae help completion", "ae-run --help", "ae-grade --version"])
def test_a_closed_stdout_is_an_error(command: str, tmp_path: Path) -> None:
    tool, *args = command.split()
    done = finish(["sh", "-c", 'exec "$@" >&-', "sh", BIN / tool, *args], tmp_path)
    assert done.expect(1).stderr.endswith(": cannot write to stdout: Bad file descriptor\n"), done


def test_a_directory_that_was_removed(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    for tool, code in (("ae-run", 1), ("ae-grade", 1), ("ae-extract", 0)):
        gone.mkdir()
        command: list[str | Path] = ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", INSTALLED / tool, *COMMANDS[tool]]
        said = f"{tool}: the current directory was removed: change to one that exists\n" if code else ""
        finish(command, gone, jsonl(RECORD)).expect(code, stderr=said)


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_signal_while_the_tool_is_still_being_imported(signum: int, code: int, tmp_path: Path) -> None:
    """Nothing is started yet, so SIGTERM may do what it does by default: a shell shows it as 143, too."""
    (tmp_path / "click.py").write_text(f"import os, time; os.kill(os.getpid(), {int(signum)}); time.sleep(60)")
    done = run("ae-run", "--version", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    done.expect(code, stderr="")


SIGNAL_IN_A_DESTRUCTOR = """
import os, sys, time
from agenteval.cli.tool import tool

class Left:
    def __del__(self):
        os.kill(os.getpid(), int(sys.argv[1]))
        sorted("x")

@tool("ae-x")
def main(debug):
    Left()
    time.sleep(60)

main([])
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_a_destructor_ends_the_tool(signum: int) -> None:
    """Python drops the exception that is raised there; also in callbacks of the import system."""
    run(sys.executable, "-c", SIGNAL_IN_A_DESTRUCTOR, str(int(signum)), cwd=ROOT).expect(128 + signum, stderr="")


# --- small limits ---------------------------------------------------------------------------------


UNUSED_USERS = count(100_000 + 100 * os.getpid())  # the guardian of the last one may be still there


def as_a_user_with(processes: int, *command: str | Path) -> list[str | Path]:
    """The command as a user without other processes, who may have that many."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None or shutil.which("prlimit") is None:
        pytest.skip("only root can start a tool as a user without other processes, with setpriv")
    rights = "+dac_read_search,+dac_override"
    user = [f"--reuid={next(UNUSED_USERS)}", "--clear-groups", f"--inh-caps={rights}", f"--ambient-caps={rights}"]
    return [setpriv, *user, "prlimit", f"--nproc={processes}", *command]


@pytest.mark.parametrize("processes", [1, 2])
def test_few_processes_are_one_line(processes: int, tmp_path: Path) -> None:
    (tmp_path / "grader.py").write_text("def grade(record): return {'pass': True, 'score': 1.0}\n")
    schema = '{"version": 1, "name": "cat", "command": ["cat"], "prompt": {"stdin": true}, "sessionMode": "iterative"}'
    (tmp_path / "cat.json").write_text(schema)
    for tool, *args in (["ae-grade", "-g", "grader.py"], ["ae-headless", "-s", "cat.json"]):
        done = finish(as_a_user_with(processes, BIN / tool, *args), tmp_path, jsonl(RECORD)).expect(1)
        assert len(done.messages) == 1 and "Resource temporarily unavailable" in done.stderr, done
        assert "internal" not in done.stderr, done


@pytest.mark.parametrize(
    "tool, args, room", [("ae-run", ["--simple", "echo {}"], 2), ("ae-grade", ["-g", "sh -c 'echo {}'"], 3)]
)
def test_a_start_that_our_limit_refuses_is_no_failure_of_the_program(
    tool: str, args: list[str], room: int, tmp_path: Path
) -> None:
    """The tool, its guardian and a worker's thread leave no room for the agent or grader."""
    done = finish(as_a_user_with(room, BIN / tool, *args), tmp_path, jsonl(RECORD)).expect(1)
    assert not done.out
    advice = "Resource temporarily unavailable; raise the limit on processes (ulimit -u), or lower -j"
    assert done.stderr.startswith(f"{tool}: cannot start ") and done.stderr.endswith(f": {advice}\n"), done


def test_a_start_waits_for_the_others_where_a_limit_allows_few(tmp_path: Path) -> None:
    """Eight workers and their guardian leave room for one agent at a time."""
    prompts = [{"id": f"p{number}", "input": "0.05"} for number in range(8)]
    command = as_a_user_with(11, BIN / "ae-run", "--simple", "sleep {}", "-j", "8", "-t", "20s")
    done = finish(command, tmp_path, jsonl(*prompts)).expect(0, stderr="")
    assert sorted(record["id"] for record in done.records) == [prompt["id"] for prompt in prompts]
    assert not any("errors" in record for record in done.records)
