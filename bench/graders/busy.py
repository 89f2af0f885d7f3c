"""A grader that takes some milliseconds of CPU time per record."""

from __future__ import annotations

from typing import Any


def grade(record: dict[str, Any]) -> dict[str, Any]:
    """Passes every output, after some work."""
    total = sum(number * number % 7 for number in range(60_000))
    return {"pass": total > 0, "score": 1.0}
