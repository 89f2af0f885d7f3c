"""markdown: a report: summary, then a section per record that did not pass (--all: every one), or
a line per group (--group-by)
"""

from collections.abc import Iterator

from agenteval.comparison.run_summary import Grades, RunSummary
from agenteval.reports.answer_groups import AnswerGroup, AnswerGroups, Categories, ids_text
from agenteval.reports.answers import ReportedAnswer
from agenteval.reports.figures import group_name, number, percent, percent_span, verdict, whole
from agenteval.reports.forms import ReportContext
from agenteval.reports.markup import fenced, inline, table
from agenteval.reports.reader import RowReader
from agenteval.reports.run_summary import GROUP_TITLES, grade_facts, group_cells, group_titles, run_facts
from agenteval.streams.rows import CROSS, key_parts
from agenteval.streams.spool import Spool
from agenteval.streams.text import counted, preview
from agenteval.wire.records import GraderResult
from agenteval.wire.row import PASS, Attempt, Row

INPUT_PREVIEW = 100
OUTPUT_PREVIEW = 500


def render(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """Yields the summary of all records, then each of them; no text of an agent is markup in it."""
    categories, groups = Categories(context), AnswerGroups(context.group_by)
    sections = Spool()  # one pass: to read the file again would take longer
    key = _key_title(context.by).capitalize()
    passed = 0  # that are not listed because nothing else was asked for
    for row in results.rows(Row):
        categories.add(row)
        for attempt in row.attempts:
            status = attempt.status
            if not context.lists(status):
                continue
            if context.group_by:
                groups.add(ReportedAnswer(row, attempt))
            elif status == PASS and context.statuses is None and not context.every:
                passed += 1
            else:
                sections.keep(_section(row, attempt, context.by, key))
    summary = categories.whole
    yield "\n".join([*_head(summary, context.generated), *_category_table(categories.found(), context.by), ""]).encode()
    if context.group_by:
        yield "\n".join(["", *_group_table(groups.largest_first(), context.group_by), ""]).encode()
        return
    yield b"\n## Results\n\n" if summary.records else b"\n"
    if passed:
        verb = "is" if passed == 1 else "are"
        yield f"{counted(passed, 'record')} that passed {verb} not listed; `--all` lists every record.\n\n".encode()
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


def _key_title(by: str) -> str:
    return inline(CROSS.join(part.removeprefix("metadata.") for part in key_parts(by)))


def _category_table(categories: dict[str, RunSummary], by: str) -> list[str]:
    if not categories:
        return []
    key = _key_title(by)
    titles = group_titles(categories.values())
    rows = [[inline(name), *group_cells(found, titles)] for name, found in categories.items()]
    return ["", f"## By {key}", "", *table([key.capitalize(), *titles], rows)]


def _group_table(groups: list[AnswerGroup], by: str) -> list[str]:
    """A line per group: what its answers share, the first ids, and how many there are."""
    rows = [[inline(group.text), inline(ids_text(group)), whole(group.count)] for group in groups]
    return ["## Results", "", *table([_key_title(by).capitalize(), "Records", "Count"], rows, names=2)]


# --- one record ---------------------------------------------------------------------------------


def _section(row: Row, attempt: Attempt, by: str, key: str) -> bytes:
    """One answer: category, input, output, grades and errors."""
    parts = [f"### {inline(row.name_of(attempt))}"]
    if group := group_name(row.metadata, by):
        parts.append(f"**{key}**: {inline(group)}")
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
    return "\n\n".join(parts).encode()


def _output_block(output: str) -> str:
    if not output:
        return "**Output**: (empty)"
    cut = f" (first {OUTPUT_PREVIEW} of {len(output):,} characters)" if len(output) > OUTPUT_PREVIEW else ""
    return f"**Output**{cut}:\n\n{fenced(preview(output, OUTPUT_PREVIEW), 'text')}"


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
