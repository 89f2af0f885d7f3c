"""The same grader as a function: ae-grade holds it in one long-lived Python."""

from __future__ import annotations

from typing import Any


def grade(record: dict[str, Any]) -> dict[str, Any]:
    """Pass when the output has a "the"."""
    passed = "the" in record["output"]
    return {"pass": passed, "score": 1.0 if passed else 0.0}
