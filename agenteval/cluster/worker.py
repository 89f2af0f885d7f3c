"""The end of ae-ray on a node: a filter of the suite as a long-lived process, one record at a time."""

import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, NamedTuple

from agenteval.errors import USAGE, BadRecord
from agenteval.streams.jsonl import decode_record

NOT_FOUND = 127
MOST_MESSAGES = 100  # lines of stderr that are kept per record
# Runs a command that gets SIGTERM when its parent is killed: a filter that gets it ends its agents.
BOUND = """\
import ctypes, os, signal, sys
parent = int(sys.argv[1])
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
signal.pthread_sigmask(signal.SIG_SETMASK, [])
if os.getppid() == parent:
    os.execv(sys.argv[2], sys.argv[2:])
"""


class FilterAnswer(NamedTuple):
    """What a filter made of a record: its line; or `refused`; or, if it ended without an answer, its exit code."""

    line: bytes | None
    messages: list[str]
    refused: bool = False
    code: int | None = None  # negative: the signal that ended it


class FilterWorker:
    """Runs the filter, and starts it again after it has ended."""

    def __init__(self, command: Sequence[str], cwd: str | None) -> None:
        self._command, self._cwd = list(command), cwd
        self._environment: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        self._open = 0  # how many of stdout and stderr have not ended
        self._sent = 0

    def prepare(self, environment: Mapping[str, str]) -> str:
        """Takes variables for the filter: Ray would store them if they were arguments of the worker."""
        self._environment = dict(environment)
        return os.uname().nodename

    def process(self, record_id: str, line: bytes) -> FilterAnswer:
        """Returns the filter's answer to a record."""
        process = self._process or self._start()
        if process is None:
            return FilterAnswer(
                None, [f"{self._command[0]}: command not found on {os.uname().nodename}"], code=NOT_FOUND
            )
        self._sent += 1
        assert process.stdin is not None
        with suppress(OSError):  # it has ended: its last words are read below
            process.stdin.write(line + b"\n")
            process.stdin.flush()
        return self._read_answer(process, record_id)

    def finish(self) -> FilterAnswer:
        """Closes the filter's stdin; returns its exit code and what it still had to report."""
        if self._process is None:
            return FilterAnswer(None, [], code=0)
        self._close_stdin(self._process)
        return self._read_answer(self._process, None)

    def _start(self) -> subprocess.Popen[bytes] | None:
        environment = {**os.environ, **self._environment}
        path = os.pathsep.join([os.path.dirname(sys.executable), environment.get("PATH", os.defpath)])
        program = shutil.which(self._command[0], path=path)
        if program is None:
            return None
        bound = [sys.executable, "-S", "-c", BOUND, str(os.getpid()), os.path.abspath(program), *self._command[1:]]
        environment["PATH"] = path
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            bound, stdin=pipe, stdout=pipe, stderr=pipe, cwd=self._cwd, env=environment, start_new_session=True
        )
        self._lines, self._open, self._sent = queue.SimpleQueue(), 2, 0
        for name, stream in (("out", self._process.stdout), ("err", self._process.stderr)):
            threading.Thread(target=_forward, args=(name, stream, self._lines), daemon=True).start()
        return self._process

    def _read_answer(self, process: subprocess.Popen[bytes], record_id: str | None) -> FilterAnswer:
        """Waits for the record of that id, or for the end."""
        messages: list[str] = []
        line: bytes | None = None
        refused = re.compile(rf"\bstdin:{self._sent}: ")
        closed = record_id is None
        while self._open:
            kind, data = self._lines.get()
            if kind == "end":
                self._open -= 1
            elif kind == "err":
                text = data.decode("utf-8", "replace").rstrip()
                messages[MOST_MESSAGES - 1 :] = [text]
                if not closed and refused.search(text):  # with or without an answer: its end shows which
                    closed = True
                    self._close_stdin(process)
            elif _id_of(data) == record_id:
                line = data
                if not closed:
                    return FilterAnswer(line, messages)
        self._close_stdin(process)
        code = process.wait()
        self._process = None
        return FilterAnswer(line, messages, refused=closed and code >= 0 and code != USAGE, code=code)

    @staticmethod
    def _close_stdin(process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()


def _forward(name: str, stream: IO[bytes], lines: queue.SimpleQueue[tuple[str, bytes]]) -> None:
    with stream:
        for line in stream:
            if line.endswith(b"\n") or name == "err":  # half a record is not passed on
                lines.put((name, line.rstrip(b"\n")))
    lines.put(("end", b""))


def _id_of(line: bytes) -> object:
    try:
        return decode_record(line).get("id")
    except BadRecord:
        return None
