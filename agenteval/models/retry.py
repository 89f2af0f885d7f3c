"""When to send a request again: after the time that the server asks for, else with exponential backoff."""

import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from urllib.parse import urlsplit

LONGEST_WAIT = 60.0  # seconds; if a server asks for more, the request fails
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0  # seconds, if the server asks for no time


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds that a Retry-After header asks for (a number or a date); None if it is missing or invalid.

    Header names must be case-insensitive, as in the mappings of requests and httpx.
    """
    value = headers.get("Retry-After", "")
    try:
        seconds = float(value)
        return seconds if 0 <= seconds < float("inf") else None
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def backoff(attempts: int) -> float:
    """Returns the seconds to wait after that many attempts: doubled each time, with jitter."""
    return float(min(FIRST_PAUSE * 2 ** (attempts - 1), LONGEST_PAUSE) * (1 - random.random() / 4))


def on_this_machine(url: str) -> bool:
    """Whether the URL is that of a server on this machine, which no proxy can reach."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback  # 127.0.0.1, but not the name 127.example.org
    except ValueError:
        return False
