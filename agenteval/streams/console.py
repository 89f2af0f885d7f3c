"""A tool's stderr: messages and progress."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable

from agenteval.errors import BadRecord, StrictStop
from agenteval.streams import descriptors

BAR_WIDTH = 24
FAULT_LENGTH = 300  # characters that are kept of an error's own message
REDRAW = 0.1  # seconds between two drawings of the bar


class Console:
    """A tool's stderr: one line per message, a progress bar on a terminal, progress lines on request."""

    def __init__(
        self, tool: str, *, progress: bool | None = None, strict: bool = False, output: str | None = None
    ) -> None:
        self.tool = tool
        self.strict = strict
        self.redact: Callable[[str], str] = str  # removes secrets from a message
        self.refused = 0
        self.done = self._failed = self._not_passed = 0
        shared = output in (None, "-") and _is_terminal(1)  # records on the same terminal would break the bar
        self._bar = _is_terminal(2) and progress is not False and not shared
        self._lines = bool(progress) and not self._bar
        self.shows_progress = self._bar or self._lines
        self._lock = threading.Lock()
        self._shown = ""
        self.total: int | None = None
        self._noun = "records"
        self._start = self._drawn = 0.0

    # --- messages ---

    def say(self, message: str) -> None:
        """Writes one line that starts with the tool's name."""
        text = f"{self.tool}: {_printable(self.redact(message))}"
        with self._lock:
            self._write(self._erase() + text + "\n" + self._shown)

    def refuse(self, where: str, why: str, what: str = "refused line") -> None:
        """Reports a line that is refused and counts it for the exit code; with --strict, stops there."""
        self.refused += 1
        self.say(f"{where}: {why}")
        if self.strict:
            raise StrictStop(f"stopped at the first {what} (--strict)")

    def fault(self, where: str, error: Exception) -> str:
        """Reports an error that nothing foresaw and counts it for the exit code; returns it as a line of text."""
        self.refused += 1
        reason = describe_fault(error)
        self.say(f"{where}: {reason} (--debug shows where)")
        if "--debug" in sys.argv:
            import traceback

            for line in traceback.format_exception(error):
                self.say(line.rstrip())
        return reason

    def show(self, draw: Callable[[int], Iterable[str]]) -> None:
        """Writes lines that are drawn for the width of the terminal; nothing if stderr is no terminal."""
        if _is_terminal(2):
            self._write("".join(f"{_printable(line)}\n" for line in draw(_columns())))

    # --- progress ---

    def begin(self, total: int | None, noun: str = "prompts") -> None:
        """Starts to count; total is None while the input is a stream."""
        self.total, self._noun, self._start = total, noun, time.monotonic()

    def count(self) -> str:
        """Returns how many are done, such as `1 prompt`."""
        return f"{self.done} {self._noun.removesuffix('s') if self.done == 1 else self._noun}"

    def advance(self, *, failed: bool = False, passed: bool = True, label: str = "") -> None:
        """Counts one more as done; `failed` if its agent has, else whether it `passed`."""
        self.done += 1
        self._failed += failed
        self._not_passed += not (failed or passed)
        if not self.shows_progress:
            return
        with self._lock:
            if self._lines:
                ending = " failed" if failed else "" if passed else " did not pass"
                self._write(f"{self.tool}: [{self._of_total()}] {_printable(label)}{ending}\n")
            elif time.monotonic() - self._drawn >= REDRAW or self.done == self.total:
                self._draw()

    def finish(self) -> None:
        """Replaces the bar by one line of summary."""
        with self._lock:
            if self._shown:
                took = _clock(time.monotonic() - self._start)
                parts = [f"{self.tool}: {self.count()} in {took}", *self._bad()]
                self._write(f"{self._erase()}{', '.join(parts)}\n")
                self._shown = ""

    def _bad(self) -> list[str]:
        """Returns how many failed, and how many did not pass."""
        counts = ((self._failed, "failed"), (self._not_passed, "did not pass"))
        return [f"{count} {what}" for count, what in counts if count]

    def _of_total(self) -> str:
        return str(self.done) if self.total is None else f"{self.done}/{self.total}"

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        elapsed = self._drawn - self._start
        rate = self.done / elapsed if elapsed > 0 else 0.0
        parts = [f"{self._of_total()} {self._noun}", f"{rate:.1f}/s"]
        if self.total:
            full = int(BAR_WIDTH * min(1.0, self.done / self.total))
            parts.insert(0, "█" * full + "░" * (BAR_WIDTH - full))
        parts += self._bad()
        if self.total and rate:
            parts.append(f"{_clock((self.total - self.done) / rate)} left")
        erase = self._erase()
        self._shown = f"{self.tool}: {'  '.join(parts)}"[: _columns() - 1]
        self._write(erase + self._shown)

    def _erase(self) -> str:
        return "\r\x1b[K" if self._shown else ""

    def _write(self, text: str) -> None:
        try:
            descriptors.write(2, [text.encode("utf-8", "replace")])
        except OSError:
            pass  # stderr is closed or full; the data on stdout still counts


def describe_fault(error: Exception) -> str:
    """Returns one line about an error that nothing foresaw."""
    if isinstance(error, BadRecord):
        return str(error)
    return f"internal error: {type(error).__name__}: {' '.join(str(error).split())[:FAULT_LENGTH]}"


def _printable(text: str) -> str:
    """Returns one line without control characters: an agent's output must not control the terminal."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _is_terminal(fd: int) -> bool:
    return os.environ.get("TERM") != "dumb" and os.isatty(fd)


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80


def supports_color() -> bool:
    """Returns whether stdout is a terminal, and NO_COLOR is not set."""
    return not os.environ.get("NO_COLOR") and _is_terminal(1)
