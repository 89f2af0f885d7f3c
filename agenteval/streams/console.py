"""What a tool says on stderr: messages, and how far it is."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable

BAR = 24


class Console:
    """A tool's stderr: one line per message, a progress bar on a terminal, plain lines on request."""

    def __init__(
        self, tool: str, *, progress: bool | None = None, strict: bool = False, output: str | None = None
    ) -> None:
        self.tool = tool
        self.strict = strict
        self.redact: Callable[[str], str] = str  # what may not be shown is taken out
        self.refused = 0
        terminal = _is_terminal(2)
        # A bar would run through records that go to the same terminal.
        shared = output in (None, "-") and _is_terminal(1)
        self._bar = terminal and progress is not False and not shared
        self._lines = bool(progress) and not self._bar
        self._lock = threading.Lock()
        self._shown = ""
        self._total: int | None = None
        self._noun = "records"
        self.done = self._failed = 0
        self._start = self._drawn = 0.0

    # --- messages ---

    def say(self, message: str) -> None:
        """One line that starts with the tool's name."""
        text = f"{self.tool}: {_harmless(self.redact(message))}"
        with self._lock:
            self._write(self._erase() + text + "\n" + self._shown)

    def refuse(self, where: str, why: str) -> None:
        """A record that is passed over: said now, counted for the exit code."""
        self.refused += 1
        self.say(f"{where}: {why}")

    def show(self, picture: Callable[[int], Iterable[str]]) -> None:
        """Lines for a person, drawn for so many columns; nothing where nobody looks."""
        if _is_terminal(2):
            self._write("".join(f"{_harmless(line)}\n" for line in picture(_columns())))

    # --- progress ---

    def begin(self, total: int | None, noun: str = "prompts") -> None:
        """Start to count; total is None while the input is a stream."""
        self._total, self._noun, self._start = total, noun, time.monotonic()

    def count(self) -> str:
        """How many are done, in words: `1 prompt`."""
        return f"{self.done} {self._noun.removesuffix('s') if self.done == 1 else self._noun}"

    def advance(self, *, failed: bool = False, label: str = "") -> None:
        """One more done."""
        self.done += 1
        self._failed += failed
        if not (self._bar or self._lines):
            return
        with self._lock:
            if self._lines:
                of = f"/{self._total}" if self._total is not None else ""
                self._write(f"{self.tool}: [{self.done}{of}] {_harmless(label)}{' failed' if failed else ''}\n")
            elif time.monotonic() - self._drawn >= 0.1 or self.done == self._total:
                self._draw()

    def finish(self) -> None:
        """Put one line of summary in the place of the bar."""
        with self._lock:
            if self._shown:
                failed = f", {self._failed} failed" if self._failed else ""
                took = _clock(time.monotonic() - self._start)
                self._write(f"{self._erase()}{self.tool}: {self.done} {self._noun} in {took}{failed}\n")
                self._shown = ""

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        elapsed = self._drawn - self._start
        rate = self.done / elapsed if elapsed > 0 else 0.0
        parts = [f"{self.done}{f'/{self._total}' if self._total is not None else ''} {self._noun}"]
        if self._total:
            full = int(BAR * min(1.0, self.done / self._total))
            parts.insert(0, "█" * full + "░" * (BAR - full))
        parts.append(f"{rate:.1f}/s")
        if self._failed:
            parts.append(f"{self._failed} failed")
        if self._total and rate:
            parts.append(f"{_clock((self._total - self.done) / rate)} left")
        line = " ".join([f"{self.tool}:", "  ".join(parts)])
        erase = self._erase()
        self._shown = line[: _columns() - 1]
        self._write(erase + self._shown)

    def _erase(self) -> str:
        return "\r\x1b[K" if self._shown else ""

    def _write(self, text: str) -> None:
        try:
            os.write(2, text.encode("utf-8", "replace"))
        except OSError:
            pass  # nobody listens on stderr; the data on stdout still counts


def _harmless(text: str) -> str:
    """One line without control characters: an agent's words must not drive the terminal."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text)


def _is_terminal(fd: int) -> bool:
    return os.environ.get("TERM") != "dumb" and os.isatty(fd)


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def supports_color() -> bool:
    """Colour only for a person: stdout is a terminal and NO_COLOR is not set."""
    return not os.environ.get("NO_COLOR") and _is_terminal(1)
