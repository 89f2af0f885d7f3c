"""When the next agent may start: so many in a time, and none while a provider is overloaded."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "hour": 3600.0}
_RATE = re.compile(r"(\d+(?:\.\d+)?)/([a-z]+)")


def parse_rate(text: str) -> float:
    """Starts per second of `30/min`; ValueError for anything else."""
    found = _RATE.fullmatch(text.strip().lower())
    if found is None or found[2] not in UNITS or float(found[1]) <= 0:
        raise ValueError(f"{text!r} is not a rate such as 2/s, 30/min or 500/h")
    return float(found[1]) / UNITS[found[2]]


class RateLimiter:
    """Hands out the moments at which agents start, evenly spread; for many threads."""

    def __init__(self, per_second: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._gap = 1 / per_second if per_second else 0.0
        self._clock = clock
        self._held_until = 0.0
        self._next = 0.0
        self._lock = threading.Lock()
        self.holds = 0  # how often all were held; who waited then has to ask for another place

    def wait(self) -> float:
        """How many seconds the next start has to wait; its place is taken with that."""
        with self._lock:
            now = self._clock()
            start = max(now, self._next)
            self._next = start + self._gap
            return start - now

    def hold(self, seconds: float) -> None:
        """Delays all starts by that many seconds: a provider that limits one agent limits the others too."""
        with self._lock:
            self._held_until = max(self._held_until, self._clock() + seconds)
            self._next = self._held_until
            self.holds += 1
