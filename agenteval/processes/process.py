"""Runs one process in the calling thread and returns its outcome.

Data flow: a Command → the supervisor starts it on pipes of ours → `RunningProcess.run` feeds its stdin, reads what it
prints with arrival times and terminates its tree at a limit → Outcome. `agents/acp/` extends it for a process that
expects replies, line_process.py is for one that answers line by line.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from agenteval.errors import UserError, similar_files
from agenteval.processes.scratch import take_file
from agenteval.streams.files import open_regular

if TYPE_CHECKING:
    from agenteval.processes.supervisor import Child, ProcessSupervisor

TERM_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
TREE_INTERVAL = 0.02  # seconds between two looks at a tree that is being terminated

PIPE_SIZE = 1 << 20  # an agent that exits without flushing is cut off at the pipe's size, by default 64 KiB
LONGEST_POLL = 3600.0  # seconds; poll takes no more than 24 days
F_SETPIPE_SZ = getattr(fcntl, "F_SETPIPE_SZ", None)  # Linux only

ANSWER_FILE = f"{{answer file {os.urandom(8).hex()}}}"  # in an argument: the name of a file for the answer
ANSWER_WAIT = 1.0  # seconds: of several processes, one may write the answer when the first has been killed
READ_SIZE = 1 << 16
STDERR_TAIL = 8 << 10
SHORT_LINE = 16  # bytes: an agent may print as many lines as --max-output holds of this length
FEW_LINES = 10_000


class Command(msgspec.Struct, frozen=True):
    """What to start: the program's path, then its argument list."""

    program: str
    argv: list[str]
    cwd: str
    env: Mapping[str, str]
    stdin: bytes | None = None
    alone: bool = False  # the environment is `env` only, nothing is inherited
    answers: str | None = None  # a directory for its answer file, if it cannot write to any other


class Outcome(msgspec.Struct, frozen=True):
    """What a process printed and how it ended; `error` says why it could not be started."""

    stdout: bytes
    arrivals: list[tuple[int, float]]  # number of lines, and the time.monotonic() at which they were complete
    stderr: bytes
    exit_code: int | None
    signal: str | None
    timed_out: bool
    too_much: bool  # it printed more than it may, and was terminated
    started: float | None
    error: str | None
    left_helpers: bool
    lingered: bool = False  # it was done but did not exit by itself, and was terminated


def find_program(name: str) -> str:
    """Returns the absolute path of a command; raises UserError if it is not found or not executable."""
    if not name:
        raise UserError("the command to run is empty")
    if "/" in name:
        if not os.path.isfile(name):
            close = similar_files(name)
            meant = f"; did you mean {', '.join(close)}?" if close else ""
            raise UserError(f"{name}: {'is a directory' if os.path.isdir(name) else f'no such command{meant}'}")
        if not os.access(name, os.X_OK):
            raise UserError(f"{name}: not executable (chmod +x {name})")
        _check_interpreter(name)
        return os.path.abspath(name)
    beside = os.path.join(os.path.dirname(sys.executable), name)
    # A tool of the suite is the one installed with this one, whatever is on PATH.
    found = beside if name.startswith("ae-") and os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        meant = f"did you mean ./{name}?" if os.path.isfile(name) else "is it installed and on PATH?"
        raise UserError(f"{name}: command not found; {meant}")
    _check_interpreter(found)
    return os.path.abspath(found)


def _check_interpreter(path: str) -> None:
    """Raises UserError if a script cannot start because of its #! line.

    An interpreter with a relative path is looked up where the script will run, so it is not checked here.
    """
    try:
        with os.fdopen(open_regular(path, follow=True), "rb") as file:
            first = file.readline(256)
    except OSError:
        return  # it may be executable and not readable
    if not first.startswith(b"#!"):
        return
    interpreter, *rest = re.split("[ \t]+", os.fsdecode(first[2:]).strip(" \t\n"))
    # A \r becomes part of a program's name; after options, as in `perl -w` and `env -S`, it may do no harm.
    program = rest[0] if os.path.basename(interpreter) == "env" and len(rest) == 1 else interpreter
    if program.endswith("\r") and not program.startswith("-"):
        raise UserError(f"{path}: has Windows line endings, with which it cannot start (dos2unix {path})")
    if os.path.isabs(interpreter) and not os.path.exists(interpreter):
        raise UserError(f"{path}: the interpreter in its first line, {interpreter}, does not exist")


TRACED = 2000  # bytes of a line


class RunningProcess:
    """One process from its start to its end: `run` does it all, in the calling thread."""

    child: Child | None = None
    deadline: float | None = None  # of the process or, in a conversation, of a turn
    answer_file: str | None = None
    status: int | None = None
    error: str | None = None
    left_helpers = timed_out = too_much = False
    stdin: PipeWriter | None = None
    keeps_stdin = False  # whether there may be more to write
    stdout = -1
    size = line_count = 0
    kill_at: float | None = None  # when it gets SIGKILL, while its tree is being terminated
    trace: Callable[[str], None] | None = None  # takes each line that it prints, as it comes

    def __init__(
        self, supervisor: ProcessSupervisor, key: int, command: Command, timeout: float | None, max_output: int
    ) -> None:
        self.supervisor, self.key, self.command = supervisor, key, command
        self.max_output, self.timeout = max_output, timeout
        self.poll = select.poll()
        self.outputs: dict[int, Callable[[bytes], object]] = {}  # stdout and stderr while they are open
        # What it printed, as it came: a list of lines would take fifty times the memory of short ones.
        self.chunks: list[bytes] = []
        self.arrivals: list[tuple[int, float]] = []
        self.stderr_tail = bytearray()
        self.signalled: set[int] = set()  # processes that have been sent SIGTERM
        self._traced: dict[int, bytes] = {}  # the beginning of a line that has not ended yet, by descriptor

    def run(self) -> Outcome:
        """Starts the process, feeds and reads it until it has ended; returns its outcome."""
        if self._name_answer_file():
            self._start()
        while self.child is not None and not self._has_ended():
            for fd, event in self.poll.poll(poll_timeout(self._wait())):
                self._handle(fd, event)
        return self._outcome()

    # --- start ---

    def _name_answer_file(self) -> bool:
        """Puts the name of a new file into the arguments if they ask for one; returns whether it could."""
        if ANSWER_FILE in "\0".join(self.command.argv):
            try:
                self.answer_file = name = self.supervisor.scratch.new_name("answer-")
                if self.command.answers is not None:
                    self.answer_file = name = os.path.join(self.command.answers, os.path.basename(name))
            except OSError as error:
                self.error = f"cannot create a file for the agent's answer: {error.strerror} (set TMPDIR)"
                return False
            argv = [word.replace(ANSWER_FILE, name) for word in self.command.argv]
            self.command = replace(self.command, argv=argv)
        return True

    def _start(self) -> None:
        theirs: list[int] = []
        try:
            self.stdout, stdout = open_pipe(PIPE_SIZE)
            theirs.append(stdout)
            self.outputs[self.stdout] = self._take_stdout
            ours, stderr = open_pipe()
            theirs.append(stderr)
            self.outputs[ours] = self._take_stderr
            stdin = None
            if self.command.stdin is not None:
                stdin, feed = open_pipe(PIPE_SIZE)
                theirs.append(stdin)
                self.stdin = PipeWriter(feed)
                self._write_stdin(self.command.stdin)
            self.child = child = self.supervisor.start(self.key, self.command, stdin, stdout, stderr)
            self.deadline = child.started + self.timeout if self.timeout is not None else None
            for fd in (child.ended, *self.outputs):
                self.poll.register(fd, select.POLLIN)
        except (OSError, ValueError) as error:
            self.error = describe_start_failure(error, self.command.argv[0], self.command.cwd)
        finally:
            for fd in theirs:
                os.close(fd)

    # --- until it has ended ---

    def _wait(self) -> float | None:
        """Returns how many seconds to wait for an event; None for no limit."""
        if self.kill_at is not None:
            return TREE_INTERVAL
        return None if self.deadline is None else self.deadline - time.monotonic()

    def _handle(self, fd: int, event: int) -> None:
        """Handles an event of one of its descriptors."""
        if fd in self.outputs:
            self._read(fd, event)
        elif self.child is not None and fd == self.child.ended:
            self.poll.unregister(fd)
            self.status, self.left_helpers = self.supervisor.collect(self.child)
        else:
            self._write_stdin()

    def _has_ended(self) -> bool:
        """Whether the process has ended and, if its tree is being terminated, all of that has ended, too."""
        late = self.deadline is not None and time.monotonic() >= self.deadline
        if late and self.kill_at is None and self.status is None:
            self._miss_deadline()
        if self.kill_at is None:
            return self.status is not None
        if self.supervisor.signal_tree(self.key, self.kill_at, self.signalled):
            return False
        return self.status is not None or (self.child is not None and self.supervisor.gave_up(self.child))

    def _miss_deadline(self) -> None:
        self.timed_out = True
        self._terminate()

    def _terminate(self) -> None:
        if self.kill_at is None:
            self.kill_at = time.monotonic() + TERM_GRACE

    def _outcome(self) -> Outcome:
        """Returns what the process printed and how it ended."""
        self._drain()
        if self.answer_file is not None:
            self._take_answer(self.answer_file)
        self._finish_reading()
        self._close_stdin()
        if self.chunks and not self.chunks[-1].endswith(b"\n"):
            self.arrivals.append((1, time.monotonic()))  # a last line without a line break is a line too
        code, signal_name = read_status(self.status)
        return Outcome(
            stdout=b"".join(self.chunks),
            arrivals=self.arrivals,
            stderr=bytes(self.stderr_tail),
            exit_code=code,
            signal=signal_name,
            timed_out=self.timed_out,
            too_much=self.too_much,
            started=self.child.started if self.child else None,
            error=self.error,
            left_helpers=self.left_helpers,
        )

    # --- stdout and stderr ---

    def _finish_reading(self) -> None:
        """Called when all output is taken; for a process that is given replies."""

    def _read(self, fd: int, event: int) -> None:
        """Takes what a pipe has."""
        data = os.read(fd, READ_SIZE) if event & select.POLLIN else b""  # POLLHUP alone: the end, and all is read
        if self.trace is not None:
            self._trace_lines(self.trace, fd, data)
        if data:
            self.outputs[fd](data)
        else:
            self._end_output(fd)

    def _trace_lines(self, trace: Callable[[str], None], fd: int, data: bytes) -> None:
        """Passes on the lines that have ended; at the end of the output, when there is no data, the rest."""
        *lines, rest = (self._traced.get(fd, b"") + data).split(b"\n")
        self._traced[fd] = rest if data else b""
        for line in lines if data or not rest else [*lines, rest]:
            trace(f"{'stdout' if fd == self.stdout else 'stderr'}: {line[:TRACED].decode('utf-8', 'replace')}")

    def _drain(self) -> None:
        """Takes what the process left in its pipes; a helper that holds one open is not waited for."""
        poll = select.poll()
        for fd in self.outputs:
            poll.register(fd, select.POLLIN)
        while self.outputs and self.size <= self.max_output and (events := poll.poll(0)):
            for fd, event in events:
                self._read(fd, event)
                if fd not in self.outputs:
                    poll.unregister(fd)
        for fd in [*self.outputs]:
            self._end_output(fd)

    def _end_output(self, fd: int) -> None:
        del self.outputs[fd]
        self._unregister(fd)
        os.close(fd)

    def _take_stdout(self, data: bytes) -> bytes:
        """Takes what was printed; returns what is kept of it."""
        self.size += len(data)
        if self.size > self.max_output:
            data = data[: max(0, len(data) - (self.size - self.max_output))]
            self.too_much = True
            self._terminate()
        if data:
            self.chunks.append(data)
        if ended := data.count(b"\n"):
            self.arrivals.append((ended, time.monotonic()))
            self.line_count += ended
            if self.line_count > max(FEW_LINES, self.max_output // SHORT_LINE):
                self.too_much = True  # `yes`: each line takes far more memory than its two bytes
                self._terminate()
        return data

    def _take_answer(self, path: str) -> None:
        """Adds what the process wrote to its answer file, as one line, and removes the file.

        The answer is JSON, which has line breaks only between its values.
        """
        killed = self.kill_at is None and self.status is not None and not 0 <= self.status <= 128
        room = max(0, self.max_output - self.size)
        if answer := take_file(path, room + 1, wait=ANSWER_WAIT if killed else 0.0):
            before = b"\n" if self.chunks and not self.chunks[-1].endswith(b"\n") else b""
            self._take_stdout(before + answer.replace(b"\r", b"").replace(b"\n", b"") + b"\n")

    def _take_stderr(self, data: bytes) -> None:
        self.stderr_tail += data
        del self.stderr_tail[:-STDERR_TAIL]

    # --- stdin ---

    def _write_stdin(self, data: bytes = b"") -> None:
        """Writes as much as fits; closes stdin after the last part, unless there may be more to write."""
        if self.stdin is None:
            return
        self.stdin.write(data)
        if self.stdin.unsent:
            self.poll.register(self.stdin.fd, select.POLLOUT)
        elif self.keeps_stdin:
            self._unregister(self.stdin.fd)
        else:
            self._close_stdin()

    def _close_stdin(self) -> None:
        if self.stdin is not None:
            self._unregister(self.stdin.fd)
            os.close(self.stdin.fd)
            self.stdin = None

    def _unregister(self, fd: int) -> None:
        try:
            self.poll.unregister(fd)
        except KeyError:
            pass  # it is not watched


# --- how it ended --------------------------------------------------------------------------------


def printed_lines(outcome: Outcome) -> list[str]:
    """Returns what a process printed as lines of text; invalid UTF-8 is replaced."""
    lines = outcome.stdout.decode("utf-8", "replace").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def read_status(status: int | None) -> tuple[int | None, str | None]:
    """Returns the exit code and the signal of a status; None for what does not apply."""
    if status is not None and status < 0:
        return None, _signal_name(-status)
    return status, None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def describe_start_failure(error: OSError | ValueError, program: str, cwd: str) -> str:
    """Returns why a process could not be started in a directory, and what to do."""
    if not os.path.isdir(cwd):
        return f"cannot start {program}: its working directory was removed: {cwd}"
    number = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
    advice = {
        errno.ENOENT: "not found (or the interpreter its #! line names is not)",
        errno.EACCES: "not executable: chmod +x it",
        errno.ENOEXEC: "not a program: a script needs a #! line",
        errno.E2BIG: "the prompt is too long for an argument; use a schema with prompt.stdin",
        errno.EINVAL: "an argument or the environment contains a NUL character, which cannot be passed to a process",
    }
    return f"cannot start {program}: {advice.get(number, os.strerror(number))}"


def failure_of(outcome: Outcome, timeout: float) -> str | None:
    """Returns why a process counts as failed, in one line; None if it does not."""
    if outcome.error is not None:
        return outcome.error
    if outcome.too_much:
        return "printed too much"
    if outcome.timed_out:
        return f"timeout: not done after {timeout:g} ms"
    if outcome.signal is None and not outcome.exit_code:
        return None
    how = f"killed by {outcome.signal}" if outcome.signal else f"exited with code {outcome.exit_code}"
    reason = error_line(outcome.stderr.decode("utf-8", "replace"))
    return f"{how}: {reason[:300]}" if reason else how


# --- the line of stderr that a person would read out of it -----------------------------------------

_CODES = r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
# Lines with another purpose: stack frames, code, marks under it, help, versions, progress.
_NOISE = r"""(?xi)
        at\ \S.*[:(]\d+|at\ (?:async\ )?[\w.$<>\[\] ]+\(.*\)$|at\ (?:native|<anonymous>|file:|node:|/)
      | File\ ".*",\ line\ \d+ | Traceback\ \(most\ recent | \d+:\ +0x | \d+:\ +[\w<>:$]+$ | \d+\ \|
      | (?:throw|raise|return|await|const|let|var|if|for|import|from)\b.*[;({:]$
      | Node\.js\ v\d | Bun\ v\d
      | (?:usage|options|arguments|commands|examples|positionals|global\ options|flags)\b\s*(?::|$)
      | -{1,2}[\w-]+(?:[,=\ ]|$) | (?:for\ more\ information|try|run|see|use)\b.*(?:--?help|-h\b)
      | .*\[(?:boolean|string|number|array|count|choices|default|required)\b.*\]$
      | note:\ | hint:\ | npm\ notice | reading\ .*\bfrom\ stdin
      | .*(?:\.\.\.|…)$
      | [^\w]*$"""
_NAME = r"(?:[\w.$/@-]+(?:\(\d+\)|\[\d+\])?:\s+)?"  # of the program, before the message
_ERROR = rf"""(?x)
        {_NAME}(?:uncaught\s+|unhandled\s+)?[\[(]?(?:[\w.$]*(?:error|exception)|fatal|panic|failure|critical)\b[\])]?\s*[:\[(]
      | {_NAME}(?:error|fatal|failed|cannot|could\ not|can't|unable)\b
      | [\w.]+(?:Error|Exception|Exit|Interrupt|Warning)\b(?:$|:)
      | .*\bpanicked\ at\b
      | .*(?:^|[\s\[|(=])(?:ERROR|FATAL|CRITICAL|ERR|SEVERE)(?=[\s\]|):]|$)
      | .*\blevel=(?:error|fatal)"""
_ANY_CASE = rf"(?i){_NAME}[\[(]?(?:fatal|error|failed|cannot|could not|unable)\b(?! free)"
_SOUNDS_WRONG = r"""(?xi)
        (?<!no\ )(?<!0\ )(?<!without\ )\b(?:errors?|exceptions?|fail(?:ed|ure|s)?|fatal|cannot|can't|couldn't
      | could\ not|unable|denied|refused|rejected|forbidden|unauthorized|invalid|unknown|unrecogni[sz]ed|unexpected
      | unsupported|missing
      | not\ (?:found|allowed|supported|logged|set|installed|permitted|defined)|no\ such|timed?\ ?out|abort(?:ed)?
      | killed|out\ of\ memory|exceeded|expired|exhausted|must\ (?:be|have|set)|required|[45]\d\d\s)"""
_HARMLESS = r"(?i)(?:^|[\s\[])(?:WARN(?:ING)?|INFO|DEBUG|TRACE|NOTICE)\b|^\(node:\d+\)|deprecat|^warning"
_PYTHON_WARNING = r"(?m)^\S.*:\d+: \w*Warning: .*\n?(?: .*\n?)?"  # and the code that it is about


def error_line(stderr: str) -> str:
    """Returns what stderr says about a failure, in one line: its last error, else its last line, "" if it is empty.

    A line that ends in a colon is followed by the next one.
    """
    text = re.sub(_PYTHON_WARNING, "", re.sub(_CODES, "", stderr))
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    useful = [(n, line) for n, line in enumerate(lines) if not re.match(_NOISE, line)]
    quiet = [(n, line) for n, line in useful if not re.search(_HARMLESS, line)]
    for find, pattern in ((re.match, _ERROR), (re.match, _ANY_CASE), (re.search, _SOUNDS_WRONG)):
        if found := [n for n, line in quiet if find(pattern, line)]:
            return _with_next(lines, found[-1])
    if useful:
        return (quiet or useful)[-1][1]
    return lines[-1] if lines and not any(map(str.isalnum, "".join(lines))) else ""


def _with_next(lines: list[str], n: int) -> str:
    following = lines[n + 1 : n + 2] if lines[n].endswith(":") else []
    return " ".join([lines[n], *following])


# --- pipes ---------------------------------------------------------------------------------------


def open_pipe(size: int | None = None) -> tuple[int, int]:
    """Returns the read end and the write end of a pipe, as large as asked for where the system allows it."""
    read, write = os.pipe()
    if size is not None and F_SETPIPE_SZ is not None:
        try:
            fcntl.fcntl(read, F_SETPIPE_SZ, size)
        except OSError:
            pass  # the user's share of pipe memory is used up; 64 KiB will do
    return read, write


def poll_timeout(seconds: float | None) -> float | None:
    """Returns the argument of poll() for a wait of so many seconds; None means no limit."""
    return None if seconds is None else min(max(0.0, seconds), LONGEST_POLL) * 1000


class PipeWriter:
    """The write end of a pipe, never blocking: what does not fit is `unsent` until there is room."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.unsent = bytearray()

    def write(self, data: bytes = b"") -> None:
        """Writes as much of what is unsent, and then of `data`, as there is room for."""
        self.unsent += data
        try:
            while self.unsent:
                del self.unsent[: os.write(self.fd, self.unsent[:PIPE_SIZE])]
        except BlockingIOError:
            pass
        except OSError:  # the process has closed its stdin, as it is free to do
            self.unsent.clear()
