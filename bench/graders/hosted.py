"""The same grader as a function: ae-grade loads it into one long-lived Python process."""

from __future__ import annotations

from typing import Any


def grade(record: dict[str, Any]) -> dict[str, Any]:
    """Passes outputs that contain "the"."""
    passed = "the" in record["output"]
    return {"pass": passed, "score": 1.0 if passed else 0.0}
