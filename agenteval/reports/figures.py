"""Figures as text: rates, scores, intervals, differences and durations; what is not known is a dash."""

import math
from functools import lru_cache

from agenteval.streams.rows import groups_at
from agenteval.streams.text import one_line
from agenteval.wire.records import GraderResult, Interval, Record

UNKNOWN = "–"
LONGEST_GROUP = 120
MOST_DECIMALS = 12


def number(value: float | None, digits: int = 3) -> str:
    """The number with `digits` decimals."""
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def significant(value: float, digits: int = 3) -> str:
    """The number rounded to `digits` significant digits, but not within its integer part; without trailing zeros."""
    decimals = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    text = f"{value:,.{min(max(decimals, 0), MOST_DECIMALS)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def whole(value: float | None) -> str:
    """A count with thousands separators."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def percent(rate: float | None) -> str:
    """A rate as a percentage."""
    return UNKNOWN if rate is None else f"{rate:.1%}"


def span(interval: Interval | None, digits: int = 3) -> str:
    """An interval, low to high."""
    return UNKNOWN if interval is None else f"{number(interval[0], digits)} to {number(interval[1], digits)}"


def percent_span(interval: Interval | None) -> str:
    """The interval of a rate, low to high."""
    return UNKNOWN if interval is None else f"{percent(interval[0])} to {percent(interval[1])}"


def breakdown(*parts: tuple[int, str]) -> str:
    """What a total is made of, to stand behind it: ` (1 passed, 2 did not pass)`; empty if all parts are 0."""
    shown = ", ".join(f"{count:,} {what}" for count, what in parts if count)
    return f" ({shown})" if shown else ""


def outcomes(passed: int = 0, not_passed: int = 0, failed: int = 0, ungraded: int = 0, grader_errors: int = 0) -> str:
    """How records ended, in the words of every report, to follow their number."""
    return breakdown(
        (passed, "passed"),
        (not_passed, "did not pass"),
        (failed, "agent failed" if failed == 1 else "agents failed"),
        (ungraded, "ungraded"),
        (grader_errors, "grader error" if grader_errors == 1 else "grader errors"),
    )


def dollars(value: float | None, digits: int = 4) -> str:
    """An amount in US dollars."""
    return UNKNOWN if value is None else f"${value:,.{digits}f}"


def duration_text(milliseconds: float | None) -> str:
    """A duration in a suitable unit: 340 ms, 1.25 s, 3m 20s, 2h 05m."""
    if milliseconds is None:
        return UNKNOWN
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 59_995:
        return f"{milliseconds / 1000:.2f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes}m {seconds:02}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02}m"


def verdict(grade: GraderResult) -> str:
    """PASS or FAIL, and the score."""
    return f"✅ {grade.score:.3f} (PASS)" if grade.pass_ else f"❌ {grade.score:.3f} (FAIL)"


def group_names(metadata: Record | None, by: str) -> list[str]:
    """The groups of a record by a key of its metadata, each on one line; empty if it has none."""
    return [_group_line(name) for name in groups_at(metadata, by)]


@lru_cache(1000)
def _group_line(name: str) -> str:
    return one_line(name, LONGEST_GROUP)[:LONGEST_GROUP]


def group_name(metadata: Record | None, by: str) -> str:
    """The same as one text, for forms in which a record has one group."""
    return ", ".join(group_names(metadata, by))[:LONGEST_GROUP]
