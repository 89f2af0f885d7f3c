"""Runs a tool of the suite as a real process, in a new directory, with a clean environment.

    from tests.support.tool import jsonl, run, script

    done = run("ae-run", "--simple", "echo {}", stdin=jsonl({"id": "a", "input": "hello"}))
    done.expect(0)                                  # a failure shows command, exit code, stdout and stderr
    assert done.records[0]["rawLines"] == ["hello"], done

`stdin` is text, bytes, a Path (opened as with `<`), or None (empty). `cwd` is the test's directory (`tmp_path`) if it
has files; otherwise the tool runs in a new directory that is removed afterwards. `env` adds to the clean environment:
PATH (bin/ first), HOME (the cwd), LANG. A tool that runs longer than `timeout` seconds is killed with its process group
and fails the test. `start` returns the running process, for signals and closed pipes; `on_terminal` puts a terminal on
stdin, stdout and stderr. They fork a process that has imported the tool (tests/support/forks.py); a tool that is given
by its path is started. Nothing here patches or imports the product.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from tests.support.forks import File, fork

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = ROOT / "bin"
TOOLS = sorted(path.name for path in BIN.glob("ae*"))
TIMEOUT = 30.0
SHOWN = 4000  # characters of stdout and stderr in a failure
PASSES = 'cat > /dev/null; echo \'{"pass": true, "score": 1.0}\''  # a grader, for script()


def meeting(number: int, folder: Path) -> str:
    """Returns a shell line that ends only when so many run it at a time; they wait for each other in the folder."""
    return f"touch {folder}/here-$$; while [ $(ls {folder} | grep -c here-) -lt {number} ]; do sleep 0.02; done"


Record = dict[str, Any]
Stdin = str | bytes | Path | None


class Done:
    """A finished process: its exit code (negative: a signal), stdout and stderr."""

    def __init__(self, command: list[str], cwd: Path, code: int, out: bytes, err: bytes, seconds: float) -> None:
        self.command, self.cwd, self.code, self.out, self.err, self.seconds = command, cwd, code, out, err, seconds

    @property
    def stdout(self) -> str:
        """Returns stdout as text."""
        return self.out.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Returns stderr as text."""
        return self.err.decode("utf-8", "replace")

    @property
    def messages(self) -> list[str]:
        """Returns the lines of stderr."""
        return self.stderr.splitlines()

    @cached_property
    def records(self) -> list[Record]:
        """Returns the JSON of each line of stdout."""
        return [json.loads(line) for line in self.out.split(b"\n") if line.strip()]

    @property
    def ids(self) -> list[str]:
        """Returns the ids of the records on stdout, in order."""
        return [record["id"] for record in self.records]

    def expect(self, code: int = 0, *, stderr: str | None = None) -> Done:
        """Asserts the exit code, stderr (if given) and that there is no traceback; returns itself."""
        if self.code != code:
            raise AssertionError(f"exit code {self.code}, expected {code}\n{self}")
        if stderr is not None and self.stderr != stderr:
            raise AssertionError(f"stderr is not {stderr!r}\n{self}")
        if b"Traceback" in self.err or b"Traceback" in self.out:
            raise AssertionError(f"a traceback\n{self}")
        return self

    def says(self, *parts: str) -> str:
        """Asserts that stderr is one line that starts with the tool's name and contains all parts; returns it."""
        name = Path(self.command[0]).name
        if len(self.messages) != 1 or not self.stderr.endswith("\n") or not self.stderr.startswith(f"{name}: "):
            raise AssertionError(f"expected one line on stderr that starts with '{name}: '\n{self}")
        for part in parts:
            if part not in self.stderr:
                raise AssertionError(f"stderr lacks {part!r}\n{self}")
        return self.messages[0]

    def page(self) -> Path:
        """Asserts that the last line of stdout is the link of an html page that is there; returns its path."""
        link = (self.stdout.splitlines() or [""])[-1]
        path = Path(unquote(link.removeprefix("file://")))
        if not link.startswith("file:///") or " " in link or not path.read_bytes().startswith(b"<!doctype html>"):
            raise AssertionError(f"the last line is not the link of a page\n{self}")
        return path

    def __repr__(self) -> str:
        return (
            f"\n--- command (in {self.cwd}, {self.seconds:.2f} s)\n{_shown(shlex.join(self.command))}"
            f"\n--- status {self.code}\n--- stdout\n{_shown(self.stdout)}\n--- stderr\n{_shown(self.stderr)}\n---"
        )


def run(
    tool: str,
    *args: object,
    stdin: Stdin = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    stdout: int | IO[bytes] | None = None,
) -> Done:
    """Runs the tool to completion; AssertionError if it does not exit in time."""
    with _directory(cwd) as here:
        began = time.monotonic()
        process = start(tool, *args, stdin=stdin, cwd=here, env=env, stdout=stdout)
        data = stdin.encode("utf-8", "surrogatepass") if isinstance(stdin, str) else stdin
        try:
            out, err = process.communicate(data if isinstance(data, bytes) else b"", timeout=timeout)
        except subprocess.TimeoutExpired:
            kill_all(process)
            out, err = process.communicate()
            late = _done(process, here, out, err, began)
            raise AssertionError(f"{tool} did not end within {timeout} s\n{late}") from None
        return _done(process, here, out, err, began)


def start(
    tool: str,
    *args: object,
    stdin: Stdin | IO[bytes] | int = b"",
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdout: int | IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Starts the tool in its own process group; stdin is a pipe unless it is a Path or a descriptor."""
    source: IO[bytes] | int = subprocess.PIPE
    with contextlib.ExitStack() as files:
        if isinstance(stdin, Path):
            source = files.enter_context(stdin.open("rb"))
        elif stdin is not None and not isinstance(stdin, (str, bytes)):
            source = stdin
        target = subprocess.PIPE if stdout is None else stdout
        return _start([tool, *map(str, args)], cwd, env or {}, source, target, subprocess.PIPE)


def peak_memory(*command: object, cwd: Path) -> int:
    """Returns the peak memory of a command in KiB, without its output.

    A small process starts it: the peak of a child is at least what its parent holds.
    """
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    words = [sys.executable, "-c", code, *map(str, command)]
    return int(subprocess.run(words, cwd=cwd, check=True, stdout=subprocess.PIPE).stdout)


def on_terminal(
    tool: str,
    *args: object,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    columns: int = 80,
    timeout: float = TIMEOUT,
) -> Done:
    """Runs the tool with a terminal on stdin, stdout and stderr; everything shown on it is in stdout."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    began = time.monotonic()
    command = [tool, *map(str, args)]
    with _start(command, cwd, {"TERM": "xterm", **(env or {})}, slave, slave, slave) as process:
        os.close(slave)
        shown = b""
        while select.select([master], [], [], max(0.0, began + timeout - time.monotonic()))[0]:
            try:
                piece = os.read(master, 1 << 16)
            except OSError:  # EIO: no process has the terminal open any more
                piece = b""
            if not piece:
                break
            shown += piece
        else:
            kill_all(process)
            raise AssertionError(f"{tool} hangs on a terminal\n{_done(process, cwd, shown, b'', began)}")
        process.wait(timeout)
    os.close(master)
    return _done(process, cwd, shown.replace(b"\r\n", b"\n"), b"", began)


def clean_env(cwd: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the same few variables on every machine."""
    path = os.pathsep.join([str(BIN), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {"PATH": path, "HOME": str(cwd), "LANG": "C.UTF-8", "TZ": "UTC", **(more or {})}


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# --- files ----------------------------------------------------------------------------------------


def jsonl(*records: object) -> str:
    """Returns records as lines of JSON; a str is taken as a line, valid or not."""
    lines = (record if isinstance(record, str) else json.dumps(record, ensure_ascii=False) for record in records)
    return "".join(f"{line}\n" for line in lines)


def write(path: Path, *records: object) -> Path:
    """Writes the records to the file; returns its path."""
    path.write_text(jsonl(*records), encoding="utf-8")
    return path


def read(path: Path) -> list[Record]:
    """Returns the records in a file."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]


def script(path: Path, text: str) -> Path:
    """Writes an executable script; without a #! line it is one for sh."""
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def python_script(path: Path, text: str) -> Path:
    """Writes an executable script for this Python."""
    return script(path, f"#!{sys.executable}\n{text}\n")


# --- helpers --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _directory(cwd: Path | None) -> Iterator[Path]:
    if cwd is not None:
        yield cwd
        return
    with tempfile.TemporaryDirectory(prefix="ae-test-") as fresh:
        yield Path(fresh)


def _start(
    command: list[str],
    cwd: Path,
    more: Mapping[str, str],
    stdin: File,
    stdout: File,
    stderr: File,
) -> subprocess.Popen[bytes]:
    """Starts the tool, in a fork if that makes no difference."""
    env = clean_env(cwd, more)
    forked = fork(command, cwd, env, clean_env(cwd), stdin=stdin, stdout=stdout, stderr=stderr)
    if forked is not None:
        return forked
    tool, *args = command
    return subprocess.Popen(
        [str(BIN / tool) if "/" not in tool else tool, *args],
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def _done(process: subprocess.Popen[bytes], cwd: Path, out: bytes | None, err: bytes | None, began: float) -> Done:
    command = [str(part) for part in process.args] if isinstance(process.args, list) else [str(process.args)]
    return Done(command, cwd, process.returncode, out or b"", err or b"", time.monotonic() - began)


def _shown(text: str) -> str:
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"
    return shown.encode("utf-8", "backslashreplace").decode()
