"""How a process ended: its output, exit status and, if it failed, why."""

from __future__ import annotations

import errno
import os
import signal

import msgspec


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
        errno.EINVAL: "an argument or the environment has a NUL character, which no process can be given",
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
    from agenteval.processes.error_lines import error_line  # whose patterns only a failure needs

    reason = error_line(outcome.stderr.decode("utf-8", "replace"))
    return f"{how}: {reason[:300]}" if reason else how
