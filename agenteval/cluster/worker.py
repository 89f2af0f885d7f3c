"""The end of ae-ray on a node: a long-lived process of the suite, and what it answers.

A FilterWorker runs a filter, which reads records and writes records; it is given a batch of them at a time. A
NodeWorker runs cli/node.py, which answers requests in any order; many of its calls are under way at once, each in a
thread of its own. Both start their process again after it has ended.
"""

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, NamedTuple

import msgspec

from agenteval.errors import USAGE
from agenteval.streams.console import REFUSALS_VARIABLE
from agenteval.streams.files import read_regular
from agenteval.streams.jsonl import decode_record, encode
from agenteval.wire.records import Record

NOT_FOUND = 127
MOST_MESSAGES = 100  # lines of stderr that are kept until the next answer
RUNS_VARIABLE = "_AE_RUNS"  # where a node has a directory for each user, and there one for each run
PACK_VARIABLE = "_AE_PACK"  # set if workspaces are to be brought home
LAST_WORDS = 10.0  # seconds until stderr of a process that has ended is no longer read
GATHERING = 0.05  # seconds that an answer waits for others: a call of Ray for each would take longer
MOST_PACKED = 1 << 30  # bytes of a workspace that is brought home
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


class Node(NamedTuple):
    """Where a worker is."""

    id: str
    host: str


class FilterAnswer(NamedTuple):
    """What a filter made of a record: its line; or, if it ended without an answer, its exit code."""

    line: bytes | None
    refused: str = ""  # why
    code: int | None = None  # negative: the signal that ended it


class Answers(NamedTuple):
    """Answers of a filter by the numbers of their records in the batch, and what it had to report."""

    found: dict[int, FilterAnswer]
    messages: list[str]


class NodeAnswer(NamedTuple):
    """The answer to a request: a line; or, if the process ended without it, its exit code."""

    line: bytes | None
    messages: list[str]
    code: int | None = None
    packed: bytes | None = None  # the workspace


def describe_end(code: int | None) -> str:
    """Returns how a process has ended, in words."""
    return f"was killed by {signal.Signals(-code).name}" if code and code < 0 else f"exited with code {code}"


def _start_bound(command: Sequence[str], cwd: str | None, more: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
    """Starts a command that ends with this process; None if there is no such program."""
    environment = {**os.environ, **more}
    path = os.pathsep.join([os.path.dirname(sys.executable), environment.get("PATH", os.defpath)])
    program = shutil.which(command[0], path=path)
    if program is None:
        return None
    bound = [sys.executable, "-S", "-c", BOUND, str(os.getpid()), os.path.abspath(program), *command[1:]]
    environment["PATH"] = path
    pipe = subprocess.PIPE
    return subprocess.Popen(
        bound, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=environment, start_new_session=True
    )


def _send(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    with suppress(OSError):  # it has ended: that is noticed where its answers are read
        process.stdin.write(data)
        process.stdin.flush()


def _close_stdin(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()


class Worker:
    """What both kinds have: a command, its variables, and the node it is on."""

    def __init__(self, command: Sequence[str], cwd: str | None) -> None:
        self._command, self._cwd = list(command), cwd
        self._environment: dict[str, str] = {}

    def prepare(self, environment: Mapping[str, str], node: str) -> Node:
        """Takes variables for the command: Ray would store them if they were arguments of the worker."""
        self._environment = dict(environment)
        return Node(node, os.uname().nodename)


# --- filters ------------------------------------------------------------------------------------


class FilterWorker(Worker):
    """Runs a filter."""

    def __init__(self, command: Sequence[str], cwd: str | None, _window: int = 1) -> None:
        super().__init__(command, cwd)
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        self._open = 0  # how many of stdout and stderr have not ended
        self._sent = 0  # lines, to this process
        self._waiting: dict[str, int] = {}  # id → number in the batch, of records without an answer
        self._ids: dict[int, str] = {}  # number of the line → id, of the records of this batch
        self._named: dict[str, str] = {}  # id → the message that names it, of records without an answer
        self._writer = threading.Thread()

    def send(self, batch: Sequence[tuple[str, bytes]]) -> Answers:
        """Gives the filter a batch of records, by id and line; returns the first of its answers, as collect() does."""
        process = self._process or self._start()
        if process is None:
            message = f"{self._command[0]}: command not found"
            return Answers(dict.fromkeys(range(len(batch)), FilterAnswer(None, code=NOT_FOUND)), [message])
        for number, (record_id, _line) in enumerate(batch):
            self._sent += 1
            self._waiting[record_id], self._ids[self._sent] = number, record_id
        # In a thread of its own: the filter may be busy with the first records.
        data = b"".join(line + b"\n" for _id, line in batch)
        self._writer = threading.Thread(target=_send, args=(process, data), daemon=True)
        self._writer.start()
        return self.collect()

    def collect(self) -> Answers:
        """Waits for an answer; returns it with those that soon follow."""
        found: dict[int, FilterAnswer] = {}
        messages: list[str] = []
        end: float | None = None
        while self._waiting:
            if len(self._named) == len(self._waiting):  # refused, or answered later: the filter's end shows which
                self._end_input()
            if found and end is None:
                end = time.monotonic() + GATHERING
            try:
                kind, data = self._lines.get(timeout=None if end is None else max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            if kind == "end":
                self._open -= 1
                if self._open == 0:
                    found |= self._ended(messages)
            elif kind == "err":
                found |= self._note(data.decode("utf-8", "replace").rstrip(), messages)
            elif (number := self._waiting.pop(record_id := _id_of(data), None)) is not None:
                found[number] = FilterAnswer(data)
                messages += [self._named.pop(record_id)] if record_id in self._named else []
        if not self._waiting:
            self._ids.clear()
        return Answers(found, messages)

    def finish(self) -> tuple[int, list[str]]:
        """Closes the filter's stdin; returns its exit code and what it still had to report."""
        messages: list[str] = []
        process = self._process
        if process is None:
            return 0, messages
        _close_stdin(process)
        while self._open:
            kind, data = self._lines.get()
            self._open -= kind == "end"
            if kind == "err":
                self._note(data.decode("utf-8", "replace").rstrip(), messages)
        self._process = None
        return process.wait(), messages

    def _note(self, text: str, messages: list[str]) -> dict[int, FilterAnswer]:
        """Keeps a message; one that names a record until that is answered or the filter has ended.

        Returns the answer if it is that the record is refused, as the tools of the suite say it.
        """
        named = re.search(r"\b(refused )?stdin:(\d+): ", text)
        record_id = self._ids.get(int(named[2])) if named else None
        if named and record_id is not None:
            text = text.replace(named[0], f"{record_id}: ", 1)
            if named[1] and record_id in self._waiting:
                return {self._waiting.pop(record_id): FilterAnswer(None, refused=text)}
            if record_id in self._waiting and record_id not in self._named:
                self._named[record_id] = text
                return {}
        messages[MOST_MESSAGES - 1 :] = [text]
        return {}

    def _end_input(self) -> None:
        """Closes the filter's stdin when all of the batch is written."""
        self._writer.join()
        if self._process is not None:
            _close_stdin(self._process)

    def _ended(self, messages: list[str]) -> dict[int, FilterAnswer]:
        """Returns what is to be said of the records without an answer, now that the filter has ended."""
        assert self._process is not None
        _close_stdin(self._process)
        code = self._process.wait()
        self._process = None
        if code < 0 or code == USAGE:  # it could not refuse them
            messages += self._named.values()
            self._named.clear()
        found = {
            number: FilterAnswer(None, refused=self._named.get(record_id, ""), code=code)
            for record_id, number in self._waiting.items()
        }
        self._waiting.clear()
        self._named.clear()
        return found

    def _start(self) -> subprocess.Popen[bytes] | None:
        environment = {**self._environment, REFUSALS_VARIABLE: "1"}
        self._process = process = _start_bound(self._command, self._cwd, environment)
        if process is not None:
            self._lines, self._open, self._sent = queue.SimpleQueue(), 2, 0
            for name, stream in (("out", process.stdout), ("err", process.stderr)):
                threading.Thread(target=_forward, args=(name, stream, self._lines), daemon=True).start()
        return process


def _forward(name: str, stream: IO[bytes], lines: queue.SimpleQueue[tuple[str, bytes]]) -> None:
    with stream:
        for line in stream:
            if line.endswith(b"\n") or name == "err":  # half a record is not passed on
                lines.put((name, line.rstrip(b"\n")))
    lines.put(("end", b""))


class _Identified(msgspec.Struct):
    id: str


_decode_id = msgspec.json.Decoder(_Identified).decode


def _id_of(line: bytes) -> str:
    """Returns the id of a record, "" if it has none, which no record is given with."""
    try:
        return _decode_id(line).id
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""


# --- agents -------------------------------------------------------------------------------------


class NodeWorker(Worker):
    """Runs a process that answers requests (cli/node.py)."""

    def __init__(self, command: Sequence[str], cwd: str | None, window: int = 1) -> None:
        words = [command[0], "-j", str(window), *command[1:]]
        super().__init__([sys.executable, "-m", "agenteval.cli.node", *words], cwd)
        self._lock = threading.Lock()  # of what follows
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: dict[str, queue.SimpleQueue[NodeAnswer]] = {}
        self._messages: list[str] = []

    def run(self, key: str, request: bytes) -> NodeAnswer:
        """Returns the answer to a request."""
        answer: queue.SimpleQueue[NodeAnswer] = queue.SimpleQueue()
        with self._lock:
            process = self._process or self._start()
            self._waiting[key] = answer
            _send(process, request + b"\n")
        return answer.get()

    def finish(self) -> tuple[int, list[str]]:
        """Closes the stdin of the process and waits for its end; what it has to report came with its answers."""
        with self._lock:
            process = self._process
        if process is not None:
            _close_stdin(process)
            process.wait()
        return 0, []

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = process = _start_bound(self._command, self._cwd, self._environment)
        assert process is not None, "it is this Python"
        messages = threading.Thread(target=self._read_messages, args=(process,), daemon=True)
        messages.start()
        threading.Thread(target=self._read_answers, args=(process, messages), daemon=True).start()
        return process

    def _read_messages(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                with self._lock:
                    self._messages[MOST_MESSAGES - 1 :] = [line.decode("utf-8", "replace").rstrip()]

    def _read_answers(self, process: subprocess.Popen[bytes], messages_reader: threading.Thread) -> None:
        """Hands each answer to the call that waits for it; at the end of the process, its exit code to all of them."""
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                found = decode_record(line) if line.endswith(b"\n") else {}
                packed = _take_packed(found)
                with self._lock:
                    waiting = self._waiting.pop(found.get("key", ""), None)
                    messages = self._take_messages()
                if waiting is not None:
                    waiting.put(NodeAnswer(encode(found), messages, packed=packed))
        code = process.wait()
        messages_reader.join(LAST_WORDS)
        with self._lock:
            if self._process is process:
                self._process = None
            _close_stdin(process)
            left, self._waiting = list(self._waiting.values()), {}
            messages = self._take_messages()
        for one in left:
            one.put(NodeAnswer(None, messages, code=code))

    def _take_messages(self) -> list[str]:
        messages, self._messages = self._messages, []
        return messages


def _take_packed(answer: Record) -> bytes | None:
    """Returns the workspace that the process has packed, and removes its file."""
    path = answer.pop("packed", None)
    if path is None:
        return None
    try:
        return read_regular(path, MOST_PACKED)
    except OSError as error:
        answer["notPacked"] = f"{path}: {error.strerror}"
        return None
    finally:
        with suppress(OSError):  # something has cleaned the directory for temporary files
            os.unlink(path)
