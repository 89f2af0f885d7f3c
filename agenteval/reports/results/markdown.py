"""markdown: a report: summary, then a section per record (input, output, score, errors)"""

from collections.abc import Iterator

from agenteval.comparison.run_summary import NO_GROUP, Grades, RunSummary, add_to_groups
from agenteval.reports.figures import number, percent, percent_span, verdict
from agenteval.reports.forms import ReportContext
from agenteval.reports.markup import between_fences, inline, normal_line_ends, table
from agenteval.reports.reader import RowReader
from agenteval.reports.run_summary import GROUP_TITLES, grade_facts, group_cells, run_facts
from agenteval.streams.rows import groups_at
from agenteval.streams.spool import Spool
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
        for attempt in filter(lambda attempt: context.lists(attempt.status), row.attempts):
            sections.keep(_section(row, attempt))
    yield "\n".join([*_head(summary, context.generated), *_group_table(groups, context.by), ""]).encode()
    yield b"\n## Results\n\n" if summary.records else b"\n"
    yield from sections.pieces()


# --- the top ------------------------------------------------------------------------------------


def _head(summary: RunSummary, generated: str) -> list[str]:
    """The title and the figures of all records."""
    total = counted(summary.records, "test case")
    lines = ["# Evaluation Results", "", f"Generated: {generated}", f"Total: {total}", "", "## Summary", ""]
    lines += [f"- **{name}**: {value}" for name, value in grade_facts(summary) + run_facts(summary)]
    if len(summary.graders) > 1:
        rows = [_grader_cells(name, grades) for name, grades in summary.graders.items()]
        lines += ["", *table(["Grader", *list(GROUP_TITLES)[:4]], rows)]
    return lines


def _grader_cells(name: str, grades: Grades) -> list[str]:
    cells = [inline(name), f"{grades.passed:,}/{grades.count:,}"]
    if not grades.count:
        return [*cells, "", "", ""]
    return [*cells, percent(grades.rate), percent_span(grades.interval), number(grades.score.value)]


def _group_table(groups: dict[str, RunSummary], by: str) -> list[str]:
    if not groups:
        return []
    key = inline(by.removeprefix("metadata."))
    rows = [[inline(name), *group_cells(found)] for name, found in sorted(groups.items())]
    return ["", f"## By {key}", "", *table([key.capitalize(), *GROUP_TITLES], rows)]


# --- one record ---------------------------------------------------------------------------------


def _section(row: Row, attempt: Attempt) -> bytes:
    """One answer: input, output, grades and errors."""
    parts = [f"### {inline(row.name_of(attempt))}"]
    if row.input is not None:
        parts.append(f"**Input**: {inline(preview(row.turns(' → '), INPUT_PREVIEW))}")
    if row.hint:
        parts.append(f"**Hint**: {inline(row.hint)}")
    parts.append(_output_block(attempt.output))
    if (reason := attempt.why_not_graded) is not None:
        parts.append(f"**Score**: ⚠️ grader error: {inline(reason)}")
    elif attempt.score is not None and not attempt.agent_failed:
        parts.append(_score_block(attempt, attempt.score))
    if attempt.tool_errors:
        parts.append("⚠️ **Tool errors detected**")
    parts += [f"❌ **Agent failed**: {inline(failure)}" for failure in attempt.failures]
    parts.append("---\n\n")
    return visible_bytes("\n\n".join(parts))


def _output_block(output: str) -> str:
    if not output:
        return "**Output**: (empty)"
    cut = f" (first {OUTPUT_PREVIEW} of {len(output):,} characters)" if len(output) > OUTPUT_PREVIEW else ""
    shown = normal_line_ends(preview(output, OUTPUT_PREVIEW))
    return f"**Output**{cut}:\n\n{between_fences(shown, 'text')}"


def _score_block(attempt: Attempt, score: GraderResult) -> str:
    """The grade and its reasoning; with several graders, each one's too."""
    lines = [f"**Score**: {verdict(score)}"]
    if score.reasoning and (reasoning := inline(score.reasoning)):
        lines += ["", f"**Reasoning**: {reasoning}"]
    if checks := attempt.checks:
        lines += ["", *(f"- {'✅' if one.passes else '❌'} {inline(one.name)}: {inline(one.reason)}" for one in checks)]
    if attempt.scores and len(attempt.scores) > 1:
        lines.append("")
        for name, grade in attempt.scores.items():
            why = f": {inline(grade.reasoning)}" if grade.reasoning else ""
            lines.append(f"- **{inline(name)}** {verdict(grade)}{why}")
    return "\n".join(lines)
