"""markdown: a report: summary, then a section per record (input, output, score, errors)"""

from collections.abc import Iterator, Sequence

from agenteval.comparison.run_summary import NO_GROUP, Grades, RunSummary, add_to_groups
from agenteval.reports.figures import number, percent, percent_span, verdict
from agenteval.reports.forms import ReportContext
from agenteval.reports.markup import between_fences, inline, inline_all, normal_line_ends, table
from agenteval.reports.reader import RowReader
from agenteval.reports.run_summary import grade_facts, group_cells, run_facts
from agenteval.streams.files import Spool
from agenteval.streams.rows import groups_at
from agenteval.streams.text import counted, preview, visible_bytes
from agenteval.wire.records import GraderResult
from agenteval.wire.row import Attempt, Row

INPUT_PREVIEW = 100
OUTPUT_PREVIEW = 500


def render(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the summary of all records, then each of them; no text of an agent is markup in it."""
    summary, groups = RunSummary(), dict[str, RunSummary]()
    sections = Spool()  # one pass: to read the file again would take longer
    for row in results.rows(Row):
        summary.add(row)
        if context.grouped:
            add_to_groups(groups, groups_at(row.metadata, context.by) or [NO_GROUP], row)
        for attempt in row.attempts:
            sections.keep(section(row, attempt))
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


def section(row: Row, attempt: Attempt) -> bytes:
    """One answer: input, output, grades and errors."""
    score = attempt.score
    texts = (row.name_of(attempt), row.turns(" → "), row.hint or "", (score and score.reasoning) or "")
    shown_id, shown_input, hint, why = inline_all([texts[0], preview(texts[1], INPUT_PREVIEW), *texts[2:]])
    parts = [f"### {shown_id}"]
    if row.input is not None:
        parts.append(f"**Input**: {shown_input}")
    if row.hint:
        parts.append(f"**Hint**: {hint}")
    parts.append(output_block(attempt.output))
    if (reason := attempt.why_not_graded) is not None:
        parts.append(f"**Score**: ⚠️ grader error: {inline(reason)}")
    elif score is not None and not attempt.agent_failed:
        parts.append(score_block(attempt, score, why))
    if attempt.tool_errors:
        parts.append("⚠️ **Tool errors detected**")
    parts += [f"❌ **Agent failed**: {inline(failure)}" for failure in attempt.failures]
    parts.append("---\n\n")
    return visible_bytes("\n\n".join(parts))


def output_block(output: str) -> str:
    """The first characters of the output, unchanged."""
    if not output:
        return "**Output**: (empty)"
    cut = f" (first {OUTPUT_PREVIEW} of {len(output):,} characters)" if len(output) > OUTPUT_PREVIEW else ""
    shown = normal_line_ends(preview(output, OUTPUT_PREVIEW))
    return f"**Output**{cut}:\n\n{between_fences(shown, 'text')}"


def score_block(attempt: Attempt, score: GraderResult, reasoning: str) -> str:
    """The grade and its reasoning; with several graders, each one's too."""
    lines = [f"**Score**: {verdict(score)}"]
    if reasoning:
        lines += ["", f"**Reasoning**: {reasoning}"]
    if attempt.scores and len(attempt.scores) > 1:
        lines.append("")
        for name, grade in attempt.scores.items():
            why = f": {inline(grade.reasoning)}" if grade.reasoning else ""
            lines.append(f"- **{inline(name)}** {verdict(grade)}{why}")
    return "\n".join(lines)
