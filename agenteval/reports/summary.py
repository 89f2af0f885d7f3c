"""ae-summarize: a short record for each result, or a section of markdown with every step, for people and judges."""

import re
from collections.abc import Iterator
from typing import Any

from agenteval.reports.answers import ReportedAnswer
from agenteval.reports.forms import ReportContext, ReportForms
from agenteval.reports.markup import between_fences, inline, normal_line_ends
from agenteval.reports.reader import RowReader
from agenteval.streams.jsonl import encode
from agenteval.streams.text import plain_text, preview, visible, visible_bytes
from agenteval.wire.records import Step, Summary
from agenteval.wire.row import RowWithCalls, first_text

STEP_PREVIEW = 100
PLAN_PREVIEW = 80
OUTPUT_PREVIEW = 200
HEAD_LINES, TAIL_LINES = 8, 4
LINE_PREVIEW = 500  # a minified file is one line

PATH_KEYS = ("file_path", "path")
CONTENT_KEYS = ("content", "new_string")


def short_records(results: RowReader, _context: ReportContext) -> Iterator[bytes]:
    """jsonl: a short record each: id, input, output, toolCalls and duration"""
    for row, attempt in results.answers(RowWithCalls):
        summary = Summary(
            id=row.name_of(attempt),
            input=None if row.input is None else row.turns("\n"),
            output=attempt.output,
            tool_calls=[step.name or "" for step in attempt.trajectory or () if step.type == "tool_call"],
            duration=attempt.duration,
        )
        yield encode(summary) + b"\n"


# --- markdown -------------------------------------------------------------------------------------


def markdown(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """markdown: a section for each record with every step, for people and judges"""
    sections = Sections(escape=context.for_web)
    yield from map(sections.section, results.answers())


class Sections:
    """Writes a section per result; text of agents is escaped for a web page, or left as it is for a judge.

    Control characters stay in its parts: those of a whole section are replaced at once.
    """

    def __init__(self, *, escape: bool) -> None:
        self.escape = escape

    def line(self, text: str) -> str:
        """The text on one line."""
        return inline(text) if self.escape else text.replace("\n", " ")

    def text(self, text: str) -> tuple[str, str]:
        """The text behind a title: on the same line, or below it if it is not escaped and has several lines."""
        text = normal_line_ends(text)
        words = text.strip("\n")
        if self.escape or "\n" not in words:
            return self.line(words), ""
        return "", between_fences(text, "text")

    def section(self, answer: ReportedAnswer) -> bytes:
        """One answer: input, steps, output, and what else is known of it."""
        row, attempt = answer
        parts = [f"## Evaluation Record: {self.line(answer.id)}"]
        if row.input is not None:
            behind, below = self.text(row.turns("\n"))
            parts.append(f"**Input:** \n{below}" if below else f"**Input:** {behind}")
        steps = [line for number, step in enumerate(answer.steps, 1) for line in self.step_lines(number, step, answer)]
        parts.append("\n".join(["**Trajectory:**", *steps]) if steps else "**Trajectory:** (empty)")
        behind, below = self.text(preview(attempt.output, OUTPUT_PREVIEW))
        parts.append(f"**Output:** \n{below}" if below else f"**Output:** {behind or '(empty)'}")
        if facts := list(self.fact_lines(answer)):
            parts.append("  \n".join(facts))  # two spaces: a line break in markdown
        return visible_bytes("\n\n".join([*parts, "---"]) + "\n\n")

    def fact_lines(self, answer: ReportedAnswer) -> Iterator[str]:
        """Metadata, errors, duration and grade; what is not known has no line."""
        attempt = answer.attempt
        pairs = [
            f"{self.line(key)}={self.line(preview(plain_text(value), STEP_PREVIEW))}"
            for key, value in answer.metadata.items()
        ]
        if pairs:
            yield f"**Metadata:** {', '.join(pairs)}"
        if attempt.tool_errors is not None:
            yield f"**Tool Errors:** {'true' if attempt.tool_errors else 'false'}"
        if (duration := attempt.duration) is not None:
            yield f"**Duration:** {duration:.0f}ms"
        elif attempt.timing.clock_set_back:
            yield "**Duration:** unknown: the clock was set back"
        yield from (f"**Error:** {self.line(failure)}" for failure in attempt.failures)
        if (reason := attempt.why_not_graded) is not None:
            yield f"**Score:** none (grader error: {self.line(reason)})"
        elif (score := attempt.score) is not None:
            yield f"**Score:** {'PASS' if score.pass_ else 'FAIL'} ({score.score:g})"
            if score.reasoning:
                yield f"**Reasoning:** {self.line(score.reasoning)}"

    def step_lines(self, number: int, step: Step, answer: ReportedAnswer) -> Iterator[str]:
        """A step as an item of a numbered list, with its id; below it text of several lines."""
        if step.type == "tool_call":
            title, below = self.call(step)
        elif step.type == "plan":
            entries = preview(", ".join(map(_entry, step.entries or ())), PLAN_PREVIEW)
            title, below = f"[PLAN] {visible(self.line(entries))}".rstrip(), ""
        else:
            behind, below = self.text(preview(step.content or "", STEP_PREVIEW))
            title = f"[{step.type.upper()}] {visible(behind)}".rstrip()
        mark = self.line(f"{answer.id}-step-{number}" if step.step_id is None else step.step_id)
        yield f"{number}. {title} [→{mark}]"
        if below:
            indent = " " * len(f"{number}. ")
            yield indent + below.replace("\n", f"\n{indent}")

    def call(self, step: Step) -> tuple[str, str]:
        """A tool call: its title, and the file and the content that it was given."""
        status = f" -> {self.line(step.status)}" if step.status else ""
        duration = f" ({step.duration:.0f}ms)" if step.duration is not None else ""
        given = step.input if isinstance(step.input, dict) else {}
        path, content = first_text(given, PATH_KEYS), first_text(given, CONTENT_KEYS)
        lines = []
        if path:
            lines.append(f"File: {self.line(path)}" + (f" ({len(content)} chars)" if content else ""))
        if content:
            language = re.search(r"\.([A-Za-z0-9]{1,12})$", path or "")
            shown = normal_line_ends(_head_and_tail(content))
            lines.append(between_fences(shown, language[1] if language else "text"))
        return f"[TOOL:{self.line(step.name or '')}]{status}{duration}", "\n".join(lines)


def _entry(entry: Any) -> str:
    """One entry of a plan: its content and status; if it has no content, all of it."""
    if not isinstance(entry, dict) or "content" not in entry:
        return plain_text(entry)
    status = entry.get("status")
    return f"{entry['content']}: {status}" if status is not None else str(entry["content"])


def _head_and_tail(content: str) -> str:
    """The first and last lines of a long text, and how many are left out between them."""
    lines = content.replace("\r\n", "\n").split("\n")
    omitted = len(lines) - HEAD_LINES - TAIL_LINES
    if omitted > 0:
        lines = [*lines[:HEAD_LINES], "", f"... {omitted} lines omitted ...", "", *lines[-TAIL_LINES:]]
    return "\n".join(preview(line, LINE_PREVIEW) for line in lines)


FORMS = ReportForms(jsonl=short_records, markdown=markdown)
