"""Times in the logs of others → milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

SECONDS_BELOW = 1e11  # as seconds since 1970 that is the year 5138, as milliseconds 1973
MICROSECONDS_FROM = 1e14


def milliseconds(value: Any) -> int | None:
    """Returns ISO 8601, or seconds, milliseconds, micro- or nanoseconds since 1970, as milliseconds; else None."""
    if type(value) is str:
        if value.isdigit():
            value = int(value)
        else:
            return _iso(value)
    if type(value) not in (int, float) or not 0 < value < 1e20:
        return None
    number = float(value) * 1000 if value < SECONDS_BELOW else float(value)
    while number >= MICROSECONDS_FROM:
        number /= 1000
    return round(number)


def _iso(text: str) -> int | None:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return round(found.timestamp() * 1000)
