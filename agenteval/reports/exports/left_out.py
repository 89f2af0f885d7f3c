"""Says what an export of training data has left out, and why."""

from __future__ import annotations

from collections import Counter

from agenteval.reports.forms import ReportContext
from agenteval.wire.result_view import ERROR, FAIL, GRADER_ERROR, UNGRADED

REASONS = {
    FAIL: "did not pass",
    ERROR: "agent failed",
    GRADER_ERROR: "grader erred",
    UNGRADED: "ungraded",
}
NO_REPLY = "no answer in words"


def say_left_out(written: str, left_out: Counter[str], context: ReportContext) -> None:
    """Says in one line how many were written and why the others were not; nothing if all were."""
    if left_out:
        context.say(f"{written}; left out: " + ", ".join(f"{count:,} {why}" for why, count in left_out.items()))
