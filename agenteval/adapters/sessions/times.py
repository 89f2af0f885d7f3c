"""Times in the logs of others → milliseconds since 1970."""

from __future__ import annotations

from typing import Any

from agenteval.adapters.words import iso_milliseconds
from agenteval.streams.text import whole_number

SECONDS_BELOW = 1e11  # as seconds since 1970 that is the year 5138, as milliseconds 1973
MICROSECONDS_FROM = 1e14


def milliseconds(value: Any) -> int | None:
    """Returns ISO 8601, or seconds, milliseconds, micro- or nanoseconds since 1970, as milliseconds; else None."""
    if type(value) is str:
        number = whole_number(value)
        if number is None:
            moment = iso_milliseconds(value.strip())
            return None if moment is None else round(moment)
        value = number
    if type(value) not in (int, float) or not 0 < value < 1e20:
        return None
    found = float(value) * 1000 if value < SECONDS_BELOW else float(value)
    while found >= MICROSECONDS_FROM:
        found /= 1000
    return round(found)
