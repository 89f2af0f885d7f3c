"""Sums up a stream of results: counts, pass rate, scores, latency, tokens and cost.

It keeps eight bytes per record: the durations, for percentiles. Every mean comes with the number of records it is
over; what was not graded or not measured counts in none.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from agenteval.comparison.statistics import percentile, wilson
from agenteval.reports.figures import breakdown, duration_text, percent, percent_span, whole
from agenteval.streams.text import counted
from agenteval.wire.records import GraderResult
from agenteval.wire.result_view import Number, ResultView, is_grader_error

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
TOKENS = {"input_tokens": "Input tokens", "output_tokens": "Output tokens", "cached_tokens": "Cached tokens"}
COST = "cost_usd"


@dataclass
class Mean:
    """A sum and how many it is over."""

    total: float = 0.0
    count: int = 0

    def add(self, value: Number | None) -> None:
        """Adds a value, unless it is not known."""
        if value is not None:
            self.total += value
            self.count += 1

    @property
    def value(self) -> float:
        """The mean; there must be a value."""
        return self.total / self.count


@dataclass
class Grades:
    """How many grades pass, and their mean score."""

    passed: int = 0
    score: Mean = field(default_factory=Mean)

    def add(self, grade: GraderResult) -> None:
        """Adds a grade."""
        self.passed += grade.pass_
        self.score.add(grade.score)

    @property
    def count(self) -> int:
        """How many grades there are."""
        return self.score.count

    @property
    def failed(self) -> int:
        """How many do not pass."""
        return self.count - self.passed


@dataclass
class RunSummary:
    """The sums over all results added so far."""

    records: int = 0
    grades: Grades = field(default_factory=Grades)
    graders: dict[str, Grades] = field(default_factory=dict)
    ungraded: int = 0
    grader_errors: int = 0
    agent_failures: int = 0
    graded_failures: int = 0  # of these, the ones with a score
    ungraded_failures: int = 0  # of these, the ones without a score, which count as 0 if anything is graded
    tool_errors: int = 0
    durations: array[float] = field(default_factory=lambda: array("d"))
    measured: dict[str, Mean] = field(default_factory=lambda: {name: Mean() for name in (*TOKENS, COST)})

    def add(self, row: ResultView) -> None:
        """Adds a result."""
        self.records += 1
        self.agent_failures += row.agent_failed
        self.tool_errors += bool(row.tool_errors)
        self._add_grades(row)
        if row.duration is not None:
            self.durations.append(row.duration)
        if row.timing is not None:
            for name, mean in self.measured.items():
                mean.add(getattr(row.timing, name))

    def _add_grades(self, row: ResultView) -> None:
        if row.grader_error:
            self.grader_errors += 1
        elif row.score is not None:
            self.grades.add(row.score)
            self.graded_failures += row.agent_failed
        elif row.agent_failed:
            self.ungraded_failures += 1
        else:
            self.ungraded += 1
        for name, grade in (row.scores or {}).items():
            grades = self.graders.setdefault(name, Grades())
            if not is_grader_error(row, grade):
                grades.add(grade)

    def overall(self) -> Grades:
        """The grades of all records; an agent that failed has not passed, with score 0, if anything is graded."""
        if not self.grades.count:
            return self.grades
        scores = self.grades.score
        return Grades(self.grades.passed, Mean(scores.total, scores.count + self.ungraded_failures))


# --- as text ------------------------------------------------------------------------------------


def grade_facts(summary: RunSummary) -> list[tuple[str, str]]:
    """Names and values of what the graders found; without a grade there is no rate."""
    grades, failed = summary.overall(), counted(summary.agent_failures, "agent") + " failed"
    records = breakdown(
        (grades.passed, "passed"),
        (summary.grades.failed - summary.graded_failures, "did not pass"),
        (summary.agent_failures, failed.partition(" ")[2]),
        (summary.ungraded, "ungraded"),
        (summary.grader_errors, "grader error" if summary.grader_errors == 1 else "grader errors"),
    )
    facts = [("Records", f"{summary.records:,}{records}")]
    if grades.count:
        facts.append(("Pass rate", pass_rate(grades)))
        facts.append(("Average score", f"{grades.score.value:.3f} over {grades.count:,}"))
    return facts


def run_facts(summary: RunSummary) -> list[tuple[str, str]]:
    """Names and values of how the agent did; what was not measured is left out."""
    facts = []
    if summary.tool_errors:
        facts.append(("Tool errors", f"in {summary.tool_errors:,} of {summary.records:,} records"))
    if summary.durations:
        facts.append(("Duration", duration_line(summary.durations)))
    for name, title in TOKENS.items():
        if (mean := summary.measured[name]).count:
            facts.append((title, f"{whole(mean.total)}, mean {whole(mean.value)} over {mean.count:,}"))
    if (cost := summary.measured[COST]).count:
        facts.append(("Cost", f"${cost.total:,.4f}, mean ${cost.value:,.4f} over {cost.count:,}"))
    return facts


def pass_rate(grades: Grades) -> str:
    """How many pass of how many, as a percentage, with its 95 % interval."""
    interval = percent_span(wilson(grades.passed, grades.count))
    return f"{grades.passed:,}/{grades.count:,} ({percent(grades.passed / grades.count)}), 95% interval {interval}"


def duration_line(durations: array[float]) -> str:
    """The percentiles of the durations."""
    ordered = sorted(durations)
    shown = (f"{name} {duration_text(percentile(ordered, p) or 0)}" for name, p in PERCENTILES.items())
    return f"{', '.join(shown)}, over {len(ordered):,}"
