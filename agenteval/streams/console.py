"""A tool's stderr: messages, and progress in the last line of a terminal, which the tools of a pipeline share."""

import fcntl
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from enum import Enum

from agenteval.errors import BadRecord, StrictStop
from agenteval.streams.files import LARGEST, write_all

BAR_WIDTH = 24
LEAST_BAR = 8  # columns; a shorter bar shows nothing
FAULT_LENGTH = 300  # characters that are kept of an error's own message
REFUSED_SHOWN = 10  # refused lines that are reported one by one
REFUSALS_VARIABLE = "_AE_REFUSALS"  # set where another process, ae-ray, reads and counts them
REDRAW = 0.1  # seconds between two drawings of the bar
ERASE = "\r\x1b[K"


class Ending(Enum):
    """The ways in which a record can fail, which progress counts beside the finished records."""

    AGENT_FAILED = "agent failed", "agents failed"
    NOT_PASSED = "did not pass", "did not pass"
    GRADER_ERROR = "grader error", "grader errors"

    def __init__(self, one: str, many: str) -> None:
        self.one, self.many = one, many


class Console:
    """A tool's stderr: one line per message, a progress bar on a terminal, progress lines on request."""

    def __init__(
        self, tool: str, *, progress: bool | None = None, strict: bool = False, output: str | None = None
    ) -> None:
        self.tool = tool
        self.strict = strict
        self.max_line = LARGEST
        self.redact: Callable[[str], str] = str  # removes secrets from a message
        self.refused = 0
        self._refused_of: dict[str, int] = {}  # by what was refused, such as a line
        self.done = 0
        self._endings: dict[Ending, int] = {}
        shared = output in (None, "-") and is_terminal(1)  # records on the same terminal would break the bar
        self._bar = is_terminal(2) and progress is not False and not shared
        self.shows_each = bool(progress) and not self._bar  # a line for each record, with its name
        self.shows_progress = self._bar or self.shows_each
        self._lock = threading.Lock()
        self._counting = False  # whether the bar was begun and is not finished
        self.total: int | None = None
        self._noun = "records"
        self._start = self._drawn = 0.0

    # --- messages ---

    def say(self, message: str, *, alone: bool = False) -> None:
        """Writes one line that starts with the tool's name; `alone` removes what the terminal has put there (^C)."""
        PROGRESS.say(f"{self.tool}: {_printable(self.redact(message))}", alone=alone)

    def refuse(self, where: str, why: str, what: str = "refused line") -> None:
        """Reports a line that is refused and counts it for the exit code; with --strict, stops there.

        After the first few they are only counted, because a problem of all lines would hide everything else.
        """
        self.refused += 1
        self._refused_of[what] = self._refused_of.get(what, 0) + 1
        if REFUSALS_VARIABLE in os.environ:
            self.say(f"refused {where}: {why}")
        elif self._refused_of[what] <= REFUSED_SHOWN or "--debug" in sys.argv:
            self.say(f"{where}: {why}")
        elif self not in _WITH_UNSHOWN:
            _WITH_UNSHOWN.append(self)
        if self.strict:
            raise StrictStop(f"stopped at the first {what} (--strict)")

    def count_unshown(self) -> None:
        """Says how many refused lines were not reported one by one."""
        for what, count in self._refused_of.items():
            if count > REFUSED_SHOWN:
                more = count - REFUSED_SHOWN
                self.say(f"{more:,} more {what}{'s' * (more > 1)}, {count:,} in all (--debug shows each)")

    def fault(self, where: str, error: Exception) -> str:
        """Reports an unexpected error and counts it for the exit code; returns it as a line of text."""
        self.refused += 1
        reason = describe_fault(error)
        self.say(f"{where}: {reason} (rerun with --debug for a traceback)")
        if "--debug" in sys.argv:
            for line in traceback.format_exception(error):
                self.say(line.rstrip())
        return reason

    def show(self, draw: Callable[[int], Iterable[str]]) -> None:
        """Writes lines that are drawn for the width of the terminal; nothing if stderr is not a terminal."""
        if is_terminal(2):
            PROGRESS.say("\n".join(_printable(line) for line in draw(_columns())))

    # --- progress ---

    def begin(self, total: int | None, noun: str = "prompts", *, at_once: bool = False) -> None:
        """Starts to count; total is None while the input is a stream. `at_once` shows the bar before the first."""
        self.total, self._noun, self._start = total, noun, time.monotonic()
        if at_once and self._bar and total != 0:
            self._draw()

    def count(self) -> str:
        """Returns the number of finished records, such as `1 prompt`."""
        return f"{self.done} {self._noun.removesuffix('s') if self.done == 1 else self._noun}"

    def advance(self, label: str, ending: Ending | None = None) -> None:
        """Counts one more finished record, and the way in which it failed, if it did."""
        self.done += 1
        if ending:
            self._endings[ending] = self._endings.get(ending, 0) + 1
        if not self.shows_progress:
            return
        with self._lock:
            if self.shows_each:
                how = f": {ending.one}" if ending else ""
                PROGRESS.say(f"{self.tool}: [{self._of_total()}] {_printable(label)}{how}")
            elif time.monotonic() - self._drawn >= REDRAW or self.done == self.total:
                self._draw()

    def redraw(self) -> None:
        """Draws the bar again, with new counts and the time left."""
        with self._lock:
            if self._counting and time.monotonic() - self._drawn >= REDRAW:
                self._draw()

    def finish(self) -> None:
        """Replaces the bar by one line of summary; the bar of another tool stays below it."""
        with self._lock:
            if self._counting:
                self._counting = False
                took = _clock(time.monotonic() - self._start)
                PROGRESS.end(", ".join([f"{self.tool}: {self.count()} in {took}", *self._bad()]))

    def end_progress(self) -> None:
        """Removes the bar for good, because a report on stdout may share the terminal through a pager."""
        with self._lock:
            if self._counting:
                self._counting = False
                PROGRESS.end()
            self._bar, self.shows_progress = False, self.shows_each

    def _bad(self) -> list[str]:
        """Returns the number of failures of each kind."""
        counts = ((ending, self._endings.get(ending, 0)) for ending in Ending)
        return [f"{count} {ending.one if count == 1 else ending.many}" for ending, count in counts if count]

    def _of_total(self) -> str:
        return str(self.done) if self.total is None else f"{self.done}/{self.total}"

    def _draw(self) -> None:
        self._counting = True
        self._drawn = time.monotonic()
        elapsed = self._drawn - self._start
        rate = self.done / elapsed if elapsed > 0 else 0.0
        left = f"{_clock((self.total - self.done) / rate)} left" if self.total and rate else ""
        parts = [f"{self._of_total()} {self._noun}", f"{rate:.1f}/s" if rate else "", *self._bad(), left]
        share = min(1.0, self.done / self.total) if self.total else None
        PROGRESS.show(fit_progress(self.tool, share, parts, _columns() - 1))


_WITH_UNSHOWN: list[Console] = []


def count_unshown() -> None:
    """Says at a tool's end how many lines were refused beyond those that were reported."""
    while _WITH_UNSHOWN:
        _WITH_UNSHOWN.pop().count_unshown()


def fit_progress(tool: str, share: float | None, parts: list[str], width: int) -> str:
    """Returns the line of progress: the text, cut if it is too long, and a bar if there is room for one."""
    text = "  ".join(part for part in parts if part)
    bar = min(BAR_WIDTH, width - len(f"{tool}:   {text}"))
    if share is not None and bar >= LEAST_BAR:
        full = int(bar * share)
        text = f"{'█' * full}{'░' * (bar - full)}  {text}"
    line = f"{tool}: {text}"
    return line if len(line) <= width else line[: width - 1] + "…"


def describe_fault(error: Exception) -> str:
    """Returns one line about an unexpected error."""
    if isinstance(error, BadRecord):
        return str(error)
    if isinstance(error, MemoryError):
        return "not enough memory"
    return f"internal error: {type(error).__name__}: {' '.join(str(error).split())[:FAULT_LENGTH]}"


def _printable(text: str) -> str:
    """Returns one line without control characters: an agent's output must not control the terminal."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80


def supports_color() -> bool:
    """Returns whether stdout is a terminal, and NO_COLOR is not set."""
    return not os.environ.get("NO_COLOR") and is_terminal(1)


# --- the line of progress ----------------------------------------------------------------------


class ProgressLine:
    """The last line of stderr, if that is a terminal: text that is replaced in place, with messages above it.

    The tools of a pipeline share one stderr. The first that shows progress locks the terminal until it is done; the
    others draw no progress and erase that line before a message, after which its owner draws it again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = ""

    def show(self, text: str) -> None:
        """Replaces the text, unless another tool shows its own."""
        with self._lock:
            if self._text or _take(2):
                self._text = text
                self._write(f"{ERASE}{text}")

    def say(self, line: str, *, alone: bool = False) -> None:
        """Writes a line above it; `alone` also removes what the terminal itself may have put there, such as ^C."""
        with self._lock:
            self._write(f"{self._erase(always=alone)}{line}\n{self._text}")

    def end(self, line: str | None = None) -> None:
        """Removes it, or replaces it by a line that stays; another tool may show its own then."""
        with self._lock:
            if not self._text and line is None:
                return
            erase = self._erase()
            shown, self._text = self._text, ""
            self._write(erase if line is None else f"{erase}{line}\n")
            if shown:
                _release(2)

    def abandon(self) -> None:
        """Removes it in a signal handler that exits at once; without the lock, whose thread will not run again."""
        if self._text:
            self._write(ERASE)

    def _erase(self, *, always: bool = False) -> str:
        if self._text:
            return ERASE
        return ERASE if is_terminal(2) and (always or another_shows(2)) else ""

    def _write(self, text: str) -> None:
        try:
            write_all(2, [text.encode("utf-8", "replace")])
        except OSError:
            pass  # stderr is closed or full; the data on stdout still counts


def is_terminal(fd: int) -> bool:
    """Returns whether it is a terminal that understands escape sequences."""
    return os.environ.get("TERM") != "dumb" and os.isatty(fd)


def another_shows(fd: int) -> bool:
    """Returns whether another process shows its progress on this terminal; this one must not."""
    taken = _take(fd)
    if taken:
        _release(fd)
    return not taken


# A lock of fcntl belongs to the process, although all of a pipeline have inherited the same open terminal.


def _take(fd: int) -> bool:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # POSIX allows either
        return False
    except OSError:
        pass  # a terminal that cannot be locked, or is open for reading only
    return True


def _release(fd: int) -> None:
    try:
        fcntl.lockf(fd, fcntl.LOCK_UN)
    except OSError:
        pass


PROGRESS = ProgressLine()
