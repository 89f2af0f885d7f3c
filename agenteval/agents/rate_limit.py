"""Limits the rate at which agents start, and stops starts while a provider is overloaded."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "hour": 3600.0}
_RATE = r"(\d+(?:\.\d+)?)/([a-z]+)"


def parse_rate(text: str) -> float:
    """Returns the starts per second of a text such as `30/min`; ValueError if it is not a rate."""
    match = re.fullmatch(_RATE, text.strip().lower())
    if match is None or match[2] not in UNITS or float(match[1]) <= 0:
        raise ValueError(f"{text!r} is not a rate such as 2/s, 30/min or 500/h")
    return float(match[1]) / UNITS[match[2]]


class RateLimiter:
    """Assigns a slot to each start, evenly spaced; used by many threads."""

    def __init__(self, per_second: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = 1 / per_second if per_second else 0.0
        self._clock = clock
        self._held_until = 0.0
        self._next = 0.0
        self._lock = threading.Lock()
        self.holds = 0  # calls of hold(): a slot assigned before the last one is void

    def wait(self) -> float:
        """Takes the next slot and returns how many seconds to wait for it."""
        if not self._next and not self._interval:
            return 0.0  # there is no limit, and no start was ever delayed
        with self._lock:
            now = self._clock()
            start = max(now, self._next)
            self._next = start + self._interval
            return start - now

    def hold(self, seconds: float) -> None:
        """Delays all starts by that many seconds: a provider that limits one agent limits the others too."""
        with self._lock:
            self._held_until = max(self._held_until, self._clock() + seconds)
            self._next = self._held_until
            self.holds += 1
