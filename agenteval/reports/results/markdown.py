"""markdown: a report: summary, then a section per record (input, output, score, errors)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agenteval.reports.figures import number, percent, percent_span, verdict
from agenteval.reports.forms import ReportContext
from agenteval.reports.markup import between_fences, inline, inline_all, normal_line_ends, table
from agenteval.reports.result_reader import ResultReader
from agenteval.reports.run_summary import Grades, RunSummary, add_to_group, grade_facts, group_cells, run_facts
from agenteval.streams.files import Spool
from agenteval.streams.text import counted, preview, visible_bytes
from agenteval.wire.records import GraderResult
from agenteval.wire.result_view import GroupedResult, ResultView

INPUT_PREVIEW = 100
OUTPUT_PREVIEW = 500


def render(results: ResultReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the summary of all records, then each of them; no text of an agent is markup in it."""
    summary, groups = RunSummary(), dict[str, RunSummary]()
    sections = Spool()  # one pass: to read the file again would take longer
    for batch in results.view_batches(GroupedResult if context.grouped else ResultView):
        rows = list(batch)
        for row in rows:
            summary.add(row)
            if context.grouped:
                add_to_group(groups, row, context.by)
        sections.keep(sections_of(rows))
    yield head(summary, context.generated, group_table(groups, context.by)).encode()
    yield from sections.pieces()


# --- the top ------------------------------------------------------------------------------------


def head(summary: RunSummary, generated: str, groups: Sequence[str] = ()) -> str:
    """Title, summary, and the title of the list of records."""
    total = counted(summary.records, "test case")
    lines = ["# Evaluation Results", "", f"Generated: {generated}", f"Total: {total}", "", "## Summary", ""]
    lines += [f"- **{name}**: {value}" for name, value in grade_facts(summary) + run_facts(summary)]
    if len(summary.graders) > 1:
        rows = [grader_cells(name, grades) for name, grades in summary.graders.items()]
        lines += ["", *table(["Grader", "Passed", "Pass rate", "95% interval", "Average score"], rows)]
    lines += groups
    lines += ["", "## Results", "", ""] if summary.records else ["", ""]
    return "\n".join(lines)


def grader_cells(name: str, grades: Grades) -> list[str]:
    """One grader's row of the summary."""
    cells = [inline(name), f"{grades.passed:,}/{grades.count:,}"]
    if not grades.count:
        return [*cells, "", "", ""]
    return [*cells, percent(grades.rate), percent_span(grades.interval), number(grades.score.value)]


def group_table(groups: dict[str, RunSummary], by: str) -> list[str]:
    """A table with a row for each category; nothing if there is none."""
    if not groups:
        return []
    key = inline(by.removeprefix("metadata."))
    rows = [[inline(name), *group_cells(found)] for name, found in sorted(groups.items())]
    header = [key.capitalize(), "Passed", "Pass rate", "95% interval", "Average score", "Agents failed"]
    return ["", f"## By {key}", "", *table(header, rows)]


# --- one record ---------------------------------------------------------------------------------


def sections_of(rows: Sequence[ResultView]) -> bytes:
    """A section for each record; what all of them have is escaped at once."""
    texts: list[str] = []
    for row in rows:
        why = row.score.reasoning if row.score else None
        texts += (row.id, preview(row.turns(" → "), INPUT_PREVIEW), row.hint or "", why or "")
    shown = iter(inline_all(texts))
    return visible_bytes("".join(map(section, rows, shown, shown, shown, shown)))


def section(row: ResultView, shown_id: str, shown_input: str, shown_hint: str, shown_why: str) -> str:
    """One record: input, output, grades and errors; the output keeps its control characters."""
    parts = [f"### {shown_id}"]
    if row.input is not None:
        parts.append(f"**Input**: {shown_input}")
    if row.hint:
        parts.append(f"**Hint**: {shown_hint}")
    parts.append(output_block(row.output))
    if (reason := row.why_not_graded) is not None:
        parts.append(f"**Score**: ⚠️ grader error: {inline(reason)}")
    elif row.score is not None and not row.agent_failed:
        parts.append(score_block(row, row.score, shown_why))
    if row.tool_errors:
        parts.append("⚠️ **Tool errors detected**")
    if row.errors or row.error:  # few have one
        parts += [f"❌ **Agent failed**: {inline(failure)}" for failure in row.failures]
    parts.append("---\n\n")
    return "\n\n".join(parts)


def output_block(output: str) -> str:
    """The first characters of the output, unchanged."""
    if not output:
        return "**Output**: (empty)"
    cut = f" (first {OUTPUT_PREVIEW} of {len(output):,} characters)" if len(output) > OUTPUT_PREVIEW else ""
    shown = normal_line_ends(preview(output, OUTPUT_PREVIEW))
    return f"**Output**{cut}:\n\n{between_fences(shown, 'text')}"


def score_block(row: ResultView, score: GraderResult, reasoning: str) -> str:
    """The grade and its reasoning; with several graders, each one's too."""
    lines = [f"**Score**: {verdict(score)}"]
    if reasoning:
        lines += ["", f"**Reasoning**: {reasoning}"]
    if row.scores and len(row.scores) > 1:
        lines.append("")
        for name, grade in row.scores.items():
            why = f": {inline(grade.reasoning)}" if grade.reasoning else ""
            lines.append(f"- **{inline(name)}** {verdict(grade)}{why}")
    return "\n".join(lines)
