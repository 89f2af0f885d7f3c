"""How a process ended: its output, its exit status and, if it failed, why.

`failure_of` says it in one line. From stderr it takes the line that a person would read out of it (`error_line`).
"""

from __future__ import annotations

import errno
import os
import re
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
    reason = error_line(outcome.stderr.decode("utf-8", "replace"))
    return f"{how}: {reason[:300]}" if reason else how


# --- the line of stderr that says why ------------------------------------------------------------

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
# Lines with another purpose: stack frames, code, marks under it, help, versions, progress.
_NOISE = re.compile(
    r"""at\ \S.*[:(]\d+|at\ (?:async\ )?[\w.$<>\[\] ]+\(.*\)$|at\ (?:native|<anonymous>|file:|node:|/)
      | File\ ".*",\ line\ \d+ | Traceback\ \(most\ recent | \d+:\ +0x | \d+:\ +[\w<>:$]+$ | \d+\ \|
      | (?:throw|raise|return|await|const|let|var|if|for|import|from)\b.*[;({:]$
      | Node\.js\ v\d | Bun\ v\d
      | (?:usage|options|arguments|commands|examples|positionals|global\ options|flags)\b\s*(?::|$)
      | -{1,2}[\w-]+(?:[,=\ ]|$) | (?:for\ more\ information|try|run|see|use)\b.*(?:--?help|-h\b)
      | .*\[(?:boolean|string|number|array|count|choices|default|required)\b.*\]$
      | note:\ | hint:\ | npm\ notice | reading\ .*\bfrom\ stdin
      | .*(?:\.\.\.|…)$
      | [^\w]*$""",
    re.VERBOSE | re.IGNORECASE,
)
_NAME = r"(?:[\w.$/@-]+(?:\(\d+\)|\[\d+\])?:\s+)?"  # of the program, before the message
_ERROR = re.compile(
    rf"""{_NAME}(?:uncaught\s+|unhandled\s+)?[\[(]?(?:[\w.$]*(?:error|exception)|fatal|panic|failure|critical)\b[\])]?\s*[:\[(]
      | {_NAME}(?:error|fatal|failed|cannot|could\ not|can't|unable)\b
      | [\w.]+(?:Error|Exception|Exit|Interrupt|Warning)\b(?:$|:)
      | .*\bpanicked\ at\b
      | .*(?:^|[\s\[|(=])(?:ERROR|FATAL|CRITICAL|ERR|SEVERE)(?=[\s\]|):]|$)
      | .*\blevel=(?:error|fatal)""",
    re.VERBOSE,
)
_ANY_CASE = re.compile(rf"{_NAME}[\[(]?(?:fatal|error|failed|cannot|could not|unable)\b(?! free)", re.IGNORECASE)
_SOUNDS_WRONG = re.compile(
    r"""(?<!no\ )(?<!0\ )(?<!without\ )\b(?:errors?|exceptions?|fail(?:ed|ure|s)?|fatal|cannot|can't|couldn't
      | could\ not|unable|denied|refused|rejected|forbidden|unauthorized|invalid|unknown|unrecogni[sz]ed|unexpected
      | unsupported|missing
      | not\ (?:found|allowed|supported|logged|set|installed|permitted|defined)|no\ such|timed?\ ?out|abort(?:ed)?
      | killed|out\ of\ memory|exceeded|expired|exhausted|must\ (?:be|have|set)|required|[45]\d\d\s)""",
    re.VERBOSE | re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"(?:^|[\s\[])(?:WARN(?:ING)?|INFO|DEBUG|TRACE|NOTICE)\b|^\(node:\d+\)|deprecat|^warning", re.IGNORECASE
)
_PYTHON_WARNING = re.compile(r"^\S.*:\d+: \w*Warning: .*\n?(?: .*\n?)?", re.MULTILINE)  # and the code that it is about


def error_line(stderr: str) -> str:
    """Returns what stderr says about a failure, in one line: its last error, else its last line, "" if it is empty.

    A line that ends in a colon is followed by the next one.
    """
    text = _PYTHON_WARNING.sub("", _CODES.sub("", stderr))
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    useful = [(n, line) for n, line in enumerate(lines) if not _NOISE.match(line)]
    quiet = [(n, line) for n, line in useful if not _HARMLESS.search(line)]
    for pattern in (_ERROR.match, _ANY_CASE.match, _SOUNDS_WRONG.search):
        if found := [n for n, line in quiet if pattern(line)]:
            return _with_next(lines, found[-1])
    if useful:
        return (quiet or useful)[-1][1]
    return lines[-1] if lines and not any(map(str.isalnum, "".join(lines))) else ""


def _with_next(lines: list[str], n: int) -> str:
    following = lines[n + 1 : n + 2] if lines[n].endswith(":") else []
    return " ".join([lines[n], *following])
