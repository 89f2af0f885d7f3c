"""When to ask a server again: as long after as it says, else a little later each time."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

LONGEST_WAIT = 60.0  # seconds; whoever asks for more is not waited for
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0  # where the server does not say how long


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a Retry-After header asks for, also when it is a date; None where it is not there or nonsense.

    Names of headers must be found in any case, as those of requests and httpx are.
    """
    value = headers.get("Retry-After", "")
    try:
        seconds = float(value)
        return seconds if 0 <= seconds < float("inf") else None
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def backoff(tries: int) -> float:
    """Seconds to wait after so many tries: twice as long each time, and not all programs at the same moment."""
    return float(min(FIRST_PAUSE * 2 ** (tries - 1), LONGEST_PAUSE) * (1 - random.random() / 4))


def on_this_machine(url: str) -> bool:
    """Whether an address leads to a server on this machine, which no proxy can reach."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
