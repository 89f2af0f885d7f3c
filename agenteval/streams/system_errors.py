"""Errors and limits of the operating system: what was attempted, why it failed, and which limit to raise."""

from __future__ import annotations

import errno
import os

ATTEMPTS = {
    "fork": "starting a process",
    "posix_spawn": "starting a process",
    "pipe": "opening a pipe",
    "getcwd": "looking up the current directory",
    "socket": "opening a connection",
}
ADVICE = {
    errno.EMFILE: "raise the limit on open files (ulimit -n), or lower -j",
    errno.ENFILE: "the whole system has too many open files",
    errno.EAGAIN: "raise the limit on processes (ulimit -u), or lower -j",
    errno.ENOMEM: "raise the limit on memory (ulimit -v), or lower -j",
}
NOT_LOADED = "failed to map segment"  # of dlopen's message
NO_THREAD = "can't start new thread"  # the text of Python's RuntimeError


def describe(error: BaseException) -> str | None:
    """Returns an error of the system, or of its limits, in one line; None for any other error."""
    if isinstance(error, OSError):
        return _describe_os_error(error)
    if _is_of_memory(error):
        return f"not enough memory: {ADVICE[errno.ENOMEM]}"
    if isinstance(error, RuntimeError) and NO_THREAD in str(error):
        return f"starting a thread: {os.strerror(errno.EAGAIN)}; {ADVICE[errno.EAGAIN]}"
    return None


def _is_of_memory(error: BaseException) -> bool:
    """Whether memory was refused: packages in C also lose the error, or cannot be loaded."""
    if isinstance(error, SystemError):
        return "without exception set" in str(error)
    return isinstance(error, MemoryError) or (isinstance(error, ImportError) and NOT_LOADED in str(error))


def _describe_os_error(error: OSError) -> str:
    what = error.filename or attempted(error)
    if isinstance(what, bytes):
        what = os.fsdecode(what)
    if error.errno == errno.ENOENT and not error.filename and not _in_a_directory():
        return "the current directory was removed: change to one that exists"
    advice = ADVICE.get(error.errno or 0)
    return f"{what}: {error.strerror or error}{f'; {advice}' if advice else ''}"


def _in_a_directory() -> bool:
    try:
        return bool(os.getcwd())
    except OSError:
        return False


def attempted(error: BaseException) -> str:
    """Returns what was being done when an error was raised, from the call in the source."""
    import linecache

    trace = error.__traceback__
    if trace is None:
        return "a system call"
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    first, last, start, end = list(code.co_positions())[trace.tb_lasti // 2]
    call = ""
    if first is not None and first == last:
        line = linecache.getline(code.co_filename, first).encode()
        call = line[start:end].decode("utf-8", "replace").partition("(")[0].rpartition(".")[2].strip()
    return ATTEMPTS.get(call, call or code.co_name)
