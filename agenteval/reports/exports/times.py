"""Times as other formats write them."""

from __future__ import annotations

import time

from agenteval.wire.result_view import Number


def iso(milliseconds: Number) -> str:
    """A time as ISO 8601 in UTC, to the millisecond."""
    seconds, rest = divmod(int(milliseconds), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:03d}Z"
