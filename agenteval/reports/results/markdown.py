"""A markdown report: a summary, then a section per record; no text of an agent can break out of its place."""

from __future__ import annotations

from collections.abc import Iterator

from agenteval.comparison.statistics import wilson
from agenteval.reports import ReportContext
from agenteval.reports.markup import fenced, inline
from agenteval.reports.passes import Rows
from agenteval.reports.results.summary import Grades, RunSummary, grade_facts, run_facts
from agenteval.streams.text import preview
from agenteval.wire.records import GraderResult
from agenteval.wire.result_view import ResultView, is_grader_error

INPUT_PREVIEW = 100
OUTPUT_PREVIEW = 500


def render(rows: Rows, page: ReportContext) -> Iterator[bytes]:
    """The summary of all records, then each of them."""
    summary = RunSummary()
    for row in rows.first_pass():
        summary.add(row)
    yield head(summary, page.generated).encode()
    for row in rows.second_pass():
        yield section(row).encode()


# --- the top ------------------------------------------------------------------------------------


def head(summary: RunSummary, generated: str) -> str:
    """Title, summary, and the title of the list that follows."""
    total = "1 test case" if summary.records == 1 else f"{summary.records} test cases"
    lines = ["# Evaluation Results", "", f"Generated: {generated}", f"Total: {total}", "", "## Summary", ""]
    lines += [f"- **{name}**: {value}" for name, value in grade_facts(summary) + run_facts(summary)]
    if len(summary.graders) > 1:
        lines += ["", "| Grader | Passed | Pass rate | 95% interval | Average score |", "|---|---:|---:|---|---:|"]
        lines += [grader_line(name, grades) for name, grades in summary.graders.items()]
    lines += ["", "## Results", "", ""] if summary.records else ["", ""]
    return "\n".join(lines)


def grader_line(name: str, grades: Grades) -> str:
    """One grader's row of the summary table."""
    if not grades.count:
        return f"| {inline(name)} | 0/0 | | | |"
    low, high = wilson(grades.passed, grades.count)
    passed = f"{grades.passed:,}/{grades.count:,} | {grades.passed / grades.count:.1%}"
    return f"| {inline(name)} | {passed} | {low:.1%} to {high:.1%} | {grades.score.value:.3f} |"


# --- one record ---------------------------------------------------------------------------------


def section(row: ResultView) -> str:
    """One record: what was asked, what came back, and what the graders made of it."""
    parts = [f"### {inline(row.id)}"]
    if row.input is not None:
        parts.append(f"**Input**: {inline(preview(row.turns(' → '), INPUT_PREVIEW))}")
    if row.hint:
        parts.append(f"**Hint**: {inline(row.hint)}")
    parts.append(output_block(row.output))
    if row.score is not None:
        parts.append(score_block(row, row.score))
    if row.tool_errors:
        parts.append("⚠️ **Tool errors detected**")
    parts += [f"❌ **Error**: {inline(failure)}" for failure in row.failures]
    return "\n\n".join([*parts, "---"]) + "\n\n"


def output_block(output: str) -> str:
    """The beginning of the output, as it is."""
    if not output:
        return "**Output**: (empty)"
    cut = f" (first {OUTPUT_PREVIEW} of {len(output):,} characters)" if len(output) > OUTPUT_PREVIEW else ""
    return f"**Output**{cut}:\n\n{fenced(preview(output, OUTPUT_PREVIEW), 'text')}"


def score_block(row: ResultView, score: GraderResult) -> str:
    """The verdict and why; with several graders, each one's."""
    lines = [f"**Score**: {verdict(score, bool(row.grader_error))}"]
    if score.reasoning:
        lines += ["", f"**Reasoning**: {inline(score.reasoning)}"]
    if row.scores and len(row.scores) > 1:
        lines.append("")
        for name, grade in row.scores.items():
            why = f": {inline(grade.reasoning)}" if grade.reasoning else ""
            lines.append(f"- **{inline(name)}** {verdict(grade, is_grader_error(row, grade))}{why}")
    return "\n".join(lines)


def verdict(score: GraderResult, grader_error: bool) -> str:
    """PASS or FAIL and the score; a grader that failed gave neither."""
    if grader_error:
        return "⚠️ grader error"
    return f"✅ {score.score:.3f} (PASS)" if score.pass_ else f"❌ {score.score:.3f} (FAIL)"
