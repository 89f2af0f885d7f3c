"""What a whole stream of results comes to: counts, pass rate, scores, latency, tokens and cost.

It grows by eight bytes a record, the durations, which percentiles need. Every mean stands beside the
number of records it is over; what was not graded, or not measured, counts in none.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from agenteval.comparison.statistics import wilson
from agenteval.wire.records import GraderResult
from agenteval.wire.result_view import Number, ResultView, is_grader_error

PERCENTILES = (50, 90, 99)


@dataclass
class Mean:
    """A sum and how many it is over."""

    total: float = 0.0
    count: int = 0

    def add(self, value: Number | None) -> None:
        """One more, unless it is unknown."""
        if value is not None:
            self.total += value
            self.count += 1

    @property
    def value(self) -> float:
        """The mean; only where there is one."""
        return self.total / self.count


@dataclass
class Grades:
    """How often something passed, and how well it scored."""

    passed: int = 0
    score: Mean = field(default_factory=Mean)

    def add(self, grade: GraderResult) -> None:
        """One more verdict."""
        self.passed += grade.pass_
        self.score.add(grade.score)

    @property
    def count(self) -> int:
        """How many verdicts."""
        return self.score.count

    @property
    def failed(self) -> int:
        """How many did not pass."""
        return self.count - self.passed


@dataclass
class RunSummary:
    """The sums over all results seen so far."""

    records: int = 0
    grades: Grades = field(default_factory=Grades)
    graders: dict[str, Grades] = field(default_factory=dict)
    ungraded: int = 0
    grader_errors: int = 0
    agent_failures: int = 0
    tool_errors: int = 0
    durations: array[float] = field(default_factory=lambda: array("d"))
    input_tokens: Mean = field(default_factory=Mean)
    output_tokens: Mean = field(default_factory=Mean)
    cached_tokens: Mean = field(default_factory=Mean)
    cost: Mean = field(default_factory=Mean)

    def add(self, row: ResultView) -> None:
        """One more result."""
        self.records += 1
        self.agent_failures += bool(row.failures)
        self.tool_errors += bool(row.tool_errors)
        self._add_grades(row)
        if row.duration is not None:
            self.durations.append(row.duration)
        if row.timing is not None:
            self.input_tokens.add(row.timing.input_tokens)
            self.output_tokens.add(row.timing.output_tokens)
            self.cached_tokens.add(row.timing.cached_tokens)
            self.cost.add(row.timing.cost_usd)

    def _add_grades(self, row: ResultView) -> None:
        if row.grader_error:
            self.grader_errors += 1
        elif row.score is None:
            self.ungraded += 1
        else:
            self.grades.add(row.score)
        for name, grade in (row.scores or {}).items():
            grades = self.graders.setdefault(name, Grades())
            if not is_grader_error(row, grade):
                grades.add(grade)


# --- statistics ---------------------------------------------------------------------------------


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Nearest rank as in the seed's harness: element floor(n*p) of the sorted list, clamped."""
    return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]


# --- words --------------------------------------------------------------------------------------


def grade_facts(summary: RunSummary) -> list[tuple[str, str]]:
    """What the graders found, as lines of (what, how much); without a grade there is no rate."""
    lines = [("Records", records_line(summary))]
    if summary.grades.count:
        lines.append(("Pass rate", pass_rate(summary.grades)))
        lines.append(("Average score", f"{summary.grades.score.value:.3f} over {summary.grades.count:,}"))
    return lines


def run_facts(summary: RunSummary) -> list[tuple[str, str]]:
    """How the runs went, as lines of (what, how much); what nobody measured is left out."""
    lines = []
    if summary.agent_failures:
        lines.append(("Agent failures", f"{summary.agent_failures:,} of {summary.records:,} records"))
    if summary.tool_errors:
        lines.append(("Tool errors", f"in {summary.tool_errors:,} of {summary.records:,} records"))
    if summary.durations:
        lines.append(("Duration", duration_line(summary.durations)))
    counts = (("Input tokens", summary.input_tokens), ("Output tokens", summary.output_tokens))
    for name, mean in (*counts, ("Cached tokens", summary.cached_tokens)):
        if mean.count:
            lines.append((name, f"{mean.total:,.0f}, mean {mean.value:,.0f} over {mean.count:,}"))
    if summary.cost.count:
        cost = summary.cost
        lines.append(("Cost", f"${cost.total:,.4f}, mean ${cost.value:,.4f} over {cost.count:,}"))
    return lines


def records_line(summary: RunSummary) -> str:
    """How many records, and what became of them."""
    parts = [
        (summary.grades.passed, "passed"),
        (summary.grades.failed, "failed"),
        (summary.ungraded, "ungraded"),
        (summary.grader_errors, "grader errors" if summary.grader_errors != 1 else "grader error"),
    ]
    told = ", ".join(f"{count:,} {what}" for count, what in parts if count)
    return f"{summary.records:,}" + (f" ({told})" if told else "")


def pass_rate(grades: Grades) -> str:
    """Passed of how many, as a percentage, with its 95 % interval."""
    low, high = wilson(grades.passed, grades.count)
    rate = grades.passed / grades.count
    return f"{grades.passed:,}/{grades.count:,} ({rate:.1%}), 95% interval {low:.1%} to {high:.1%}"


def duration_line(durations: array[float]) -> str:
    """The percentiles of the durations."""
    ordered = sorted(durations)
    told = ", ".join(f"p{percent} {seconds(percentile(ordered, percent))}" for percent in PERCENTILES)
    return f"{told}, over {len(ordered):,}"


def seconds(milliseconds: float) -> str:
    """A duration as people say it: 340 ms, 1.25 s, 3m 20s, 2h 05m."""
    if abs(milliseconds) < 999.5:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 59_995:
        return f"{milliseconds / 1000:.2f} s"
    minutes, rest = divmod(round(milliseconds / 1000), 60)
    return f"{minutes}m {rest:02}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02}m"
