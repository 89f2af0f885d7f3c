"""The errors that a user can meet, and the exit codes."""

import errno
import os
import shlex
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec

OK = 0
FAILED = 1
USAGE = 2


class UserError(Exception):
    """A usage or configuration error: one line, exit code 2, nothing was run."""

    exit_code = USAGE


class MissingExtra(UserError):
    """A package of an optional extra is missing; the message ends with the command that installs it."""

    def __init__(self, problem: str, extra: str) -> None:
        super().__init__(f"{problem}: {install_command(extra)}")


class CannotGoOn(UserError):
    """The tool cannot continue (a full disk, a killed guardian): one line, exit code 1."""

    exit_code = FAILED


class WorkspaceError(Exception):
    """A workspace cannot be made, which is not the agent's failure; `full` if the reason is a full disk."""

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message)
        self.full = full


class StrictStop(UserError):
    """--strict: the first refused line or error, which is already reported."""

    exit_code = FAILED


class ClosedPipe(Exception):
    """The reader of stdout has closed it (`| head -1`): exit quietly with 0."""


class Stopped(BaseException):
    """SIGINT, SIGTERM or SIGHUP arrived; a BaseException, so that `except Exception` around a record lets it pass."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum
        self.exit_code = 128 + signum


class BadRecord(Exception):
    """A line or record that is refused; the others are processed."""


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Returns the known names that are spelled like this one or contain it, the most similar first."""
    plain = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), plain)
    close += [one for one in plain if len(name) > 1 and name.lower() in one and one not in close]
    return [plain[one] for one in close]


def similar_files(path: str) -> list[str]:
    """Returns the files beside a path that does not exist whose names are spelled like it."""
    folder, name = os.path.split(path)
    try:
        names = [found for found in os.listdir(folder or os.curdir) if os.path.isfile(os.path.join(folder, found))]
    except (OSError, ValueError):
        return []
    return [os.path.join(folder, found) for found in get_close_matches(name, sorted(names), n=2, cutoff=0.8)]


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns advice for a mistyped name: the similar names, or all there are."""
    known = list(known)
    close = similar(name, known)
    return f"did you mean {', '.join(close)}?" if close else f"choose from {', '.join(known)}"


def install_command(extra: str) -> str:
    """Returns what to type to install an extra into the environment that this program runs in."""
    python = shlex.quote(sys.executable)
    pip = f"{python} -m pip" if find_spec("pip") else f"uv pip --python {python}"  # uv makes environments without pip
    return f"{pip} install 'agenteval[{extra}]'"


_ADVICE = {
    errno.EMFILE: "raise the limit on open files (ulimit -n), or lower -j",
    errno.ENFILE: "the whole system has too many open files",
    errno.EAGAIN: "raise the limit on processes (ulimit -u), or lower -j",
    errno.ENOMEM: "there is not enough memory: lower -j",
}


def describe_system_error(error: BaseException) -> str | None:
    """Returns an error of the operating system in one line, with the limit to raise; None for any other error."""
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return f"cannot start a thread: {os.strerror(errno.EAGAIN)}; {_ADVICE[errno.EAGAIN]}"
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENOENT and not error.filename and not _has_directory():
        return "the current directory was removed: change to one that exists"
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    advice = _ADVICE.get(error.errno or 0)
    return f"{f'{name}: ' if name else ''}{error.strerror or error}{f'; {advice}' if advice else ''}"


def _has_directory() -> bool:
    try:
        return bool(os.getcwd())
    except OSError:
        return False
