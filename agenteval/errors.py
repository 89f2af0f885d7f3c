"""The few errors a user can meet, and the exit codes."""

from __future__ import annotations

from collections.abc import Iterable

OK = 0
FAILED = 1
USAGE = 2


class UserError(Exception):
    """A usage or configuration error: one line, exit code 2, nothing was run."""

    exit_code = USAGE


class CannotGoOn(UserError):
    """Something broke under the tool (a full disk, a killed guardian): one line, exit code 1."""

    exit_code = FAILED


class StrictStop(UserError):
    """--strict met its first refused record; the line that says why is already out."""

    exit_code = FAILED


class ClosedPipe(Exception):
    """Whoever read our stdout has gone (`| head -1`): end quietly with 0."""


class Stopped(BaseException):
    """SIGINT, SIGTERM or SIGHUP arrived; a BaseException so that no record's error handling eats it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum
        self.exit_code = 128 + signum


class BadRecord(Exception):
    """One input line that is refused; the others go on."""


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say to one who mistyped a name: the names that come close, or all there are."""
    from difflib import get_close_matches

    plain = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), plain, cutoff=0.5)
    close += [one for one in plain if name and name.lower() in one and one not in close]
    if close:
        return f"did you mean {', '.join(plain[one] for one in close)}?"
    return f"there are {', '.join(plain.values())}"
