"""Runs tools in forks of a process that has imported them all: a few milliseconds each, with limits on time and memory.

As a program it is the server: a line of JSON per run on stdin, the outcome as a line on stdout. `ToolServer` is the
client. Each run is a real process with the tool's own main; only the start of the interpreter is saved.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from tests.support.tool import ROOT, Done, clean_env

PRELOADED = ("jsonpath_rfc9535", "numpy", "regex", "subprocess", "tempfile", "ctypes")
ADDRESS_SPACE = 4 << 30  # bytes: protects the machine; what a tool may take is checked by its peak
PIPE = 1 << 20
LONGEST = 60.0  # seconds; a run takes some milliseconds


class Run(Done):
    """A finished run, with its peak of resident memory in MiB."""

    peak: float = 0.0


class ToolServer:
    """The client: starts the server, and asks it for runs in a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )

    def run(self, tool: str, *args: object, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Run:
        """Runs the tool to its end, with its input in a pipe; AssertionError if it hangs."""
        (self.folder / "stdin").write_bytes(stdin)
        variables = clean_env(self.folder, {"TMPDIR": str(self.folder), "COLUMNS": "80", **(env or {})})
        request = {"tool": tool, "args": [str(arg) for arg in args], "cwd": str(self.folder), "env": variables}
        assert self._server.stdin and self._server.stdout
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self._server.stdin.flush()
        outcome = json.loads(self._server.stdout.readline())
        out, err = ((self.folder / name).read_bytes() for name in ("stdout", "stderr"))
        done = Run([tool, *request["args"]], self.folder, outcome["code"], out, err, outcome["seconds"])
        done.peak = outcome["peak"]
        assert not outcome["late"], f"{tool} hangs\n{stdin[:2000]!r}\n{done}"
        return done

    def close(self) -> None:
        """Ends the server."""
        assert self._server.stdin and self._server.stdout
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()


# --- the server -----------------------------------------------------------------------------------


def serve() -> None:
    """Answers requests until stdin ends."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for name in PRELOADED:
        importlib.import_module(name)
    mains = {}
    for tool, place in scripts.items():
        module, _, function = place.partition(":")
        mains[tool] = getattr(importlib.import_module(module), function)
    for line in sys.stdin:
        request = json.loads(line)
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            _become(mains[request["tool"]], request)
        late = _is_late(pid)
        _, status, usage = os.wait4(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        peak, seconds = usage.ru_maxrss / 1024, time.monotonic() - began
        print(json.dumps({"code": code, "peak": peak, "seconds": seconds, "late": late}), flush=True)


def _is_late(pid: int) -> bool:
    """Waits for the process; kills its group if it takes too long."""
    handle = os.pidfd_open(pid)
    try:
        if select.select([handle], [], [], LONGEST)[0]:
            return False
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        return True
    finally:
        os.close(handle)


def _become(main: Any, request: dict[str, Any]) -> NoReturn:
    """Turns this process into the tool."""
    try:
        os.setsid()
        os.chdir(request["cwd"])
        for fd, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), fd)
        os.dup2(_filled_pipe(Path("stdin").read_bytes()), 0)
        os.closerange(3, 64)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv = [request["tool"], *request["args"]]
        main() if request["tool"] == "ae" else main(request["args"])
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode("utf-8", "replace"))
    os._exit(70)


def _filled_pipe(content: bytes) -> int:
    """Returns the read end of a pipe with the content in it; what does not fit comes from a process of its own."""
    import fcntl

    ours, theirs = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, PIPE)
    if len(content) <= 65536 or len(content) <= fcntl.fcntl(theirs, fcntl.F_GETPIPE_SZ):
        os.write(theirs, content)
    elif os.fork() == 0:
        os.close(ours)
        with suppress(OSError), open(theirs, "wb") as file:
            file.write(content)
        os._exit(0)
    os.close(theirs)
    return ours


if __name__ == "__main__":
    serve()
