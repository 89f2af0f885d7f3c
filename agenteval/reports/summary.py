"""ae-summarize: a short record for each result, or a section of markdown with every step, for people and judges."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from agenteval.reports.answers import ReportedAnswer
from agenteval.reports.forms import ReportContext, ReportForms
from agenteval.reports.markup import between_fences, inline, normal_line_ends
from agenteval.reports.reader import RowReader
from agenteval.streams.jsonl import encode
from agenteval.streams.text import plain_text, preview, visible, visible_bytes
from agenteval.wire.records import Record, Step, StepType, Summary
from agenteval.wire.row import Attempt, RowWithCalls

STEP_PREVIEW = 100
PLAN_PREVIEW = 80
OUTPUT_PREVIEW = 200
HEAD_LINES, TAIL_LINES = 8, 4
LINE_PREVIEW = 500  # a minified file is one line

PATH_KEYS = ("file_path", "path")
CONTENT_KEYS = ("content", "new_string")
SHOWN_KEYS = (*PATH_KEYS, *CONTENT_KEYS)
TITLES = {"thought": "[THOUGHT]", "message": "[MESSAGE]"}
NO_STEPS = "**Trajectory:** (empty)"
_LANGUAGE = re.compile(r"\.([A-Za-z0-9]{1,12})$")


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
        self.word = lru_cache(256)(self.line)  # names recur in every record

    def line(self, text: str) -> str:
        """The text on one line."""
        return inline(text) if self.escape else text.replace("\n", " ")

    def block(self, text: str) -> tuple[str, str]:
        """The text behind a title: on the same line, or below it if it is not escaped and has several lines."""
        text = normal_line_ends(text)
        if self.escape or "\n" not in text.strip("\n"):
            return self.line(text.strip("\n")), ""
        return "", between_fences(text, "text")

    def section(self, answer: ReportedAnswer) -> bytes:
        """One answer: input, steps, output, and what else is known of it."""
        row, attempt = answer
        parts = [f"## Evaluation Record: {self.line(answer.id)}"]
        if row.input is not None:
            behind, below = self.block(row.turns("\n"))
            parts.append(f"**Input:** \n{below}" if below else f"**Input:** {behind}")
        parts.append("\n".join(["**Trajectory:**", *self.step_lines(answer)]) if attempt.trajectory else NO_STEPS)
        behind, below = self.block(preview(attempt.output, OUTPUT_PREVIEW))
        parts.append(f"**Output:** \n{below}" if below else f"**Output:** {behind or '(empty)'}")
        if facts := [*self.metadata_line(answer.metadata), *self.fact_lines(attempt)]:
            parts.append("  \n".join(facts))  # two spaces: a line break in markdown
        return visible_bytes("\n\n".join([*parts, "---"]) + "\n\n")

    def metadata_line(self, metadata: Record) -> list[str]:
        """The metadata on one line; nothing if there is none."""
        pairs = [
            f"{self.word(key)}={self.word(preview(plain_text(value), STEP_PREVIEW))}" for key, value in metadata.items()
        ]
        return [f"**Metadata:** {', '.join(pairs)}"] if pairs else []

    def fact_lines(self, attempt: Attempt) -> list[str]:
        """Errors, duration and grade; what is not known has no line."""
        facts: list[str] = []
        if attempt.tool_errors is not None:
            facts.append(f"**Tool Errors:** {'true' if attempt.tool_errors else 'false'}")
        if (duration := attempt.duration) is not None:
            facts.append(f"**Duration:** {duration:.0f}ms")
        elif attempt.timing.clock_set_back:
            facts.append("**Duration:** not known: the clock was set back")
        facts += [f"**Error:** {self.line(failure)}" for failure in attempt.failures]
        if (reason := attempt.why_not_graded) is not None:
            facts.append(f"**Score:** none (grader error: {self.line(reason)})")
        elif (score := attempt.score) is not None:
            facts.append(f"**Score:** {'PASS' if score.pass_ else 'FAIL'} ({score.score:g})")
            if score.reasoning:
                facts.append(f"**Reasoning:** {self.line(score.reasoning)}")
        return facts

    # --- steps ---

    def step_lines(self, answer: ReportedAnswer) -> list[str]:
        """The steps as a numbered list, each with its id."""
        usual, shown_usual = f"{answer.id}-step-", f"{self.line(answer.id)}-step-"
        shown: list[str] = []
        for number, step in enumerate(answer.steps, 1):
            given = step.step_id
            mark = f"{shown_usual}{number}" if given is None or given == f"{usual}{number}" else self.line(given)
            title, more = STEP_TEXTS[step.type](self, step)
            shown.append(f"{number}. {title} [→{mark}]")
            if more:
                indent = " " * len(f"{number}. ")
                shown.append(indent + more.replace("\n", f"\n{indent}"))
        return shown

    def text(self, step: Step) -> tuple[str, str]:
        """A thought or a message: the title with text that has one line, and the lines of any other."""
        behind, below = self.block(preview(step.content or "", STEP_PREVIEW))
        return (TITLES[step.type], below) if below else (f"{TITLES[step.type]} {visible(behind)}".rstrip(), "")

    def plan(self, step: Step) -> tuple[str, str]:
        """The entries of a plan, on the line of its title."""
        entries = ", ".join(map(_entry, step.entries or ()))
        return f"[PLAN] {visible(self.line(preview(entries, PLAN_PREVIEW)))}".rstrip(), ""

    def call(self, step: Step) -> tuple[str, str]:
        """A tool call: its title, and the file and the content that it was given."""
        status = f" -> {self.word(step.status)}" if step.status else ""
        duration = f" ({step.duration:.0f}ms)" if step.duration is not None else ""
        title = f"[TOOL:{self.word(step.name or '')}]{status}{duration}"
        given = step.input
        if isinstance(given, dict) and given.keys().isdisjoint(SHOWN_KEYS):
            return title, ""
        path, content = text_at(given, PATH_KEYS), text_at(given, CONTENT_KEYS)
        lines = []
        if path:
            lines.append(f"File: {self.line(path)}" + (f" ({len(content)} chars)" if content else ""))
        if content:
            language = _LANGUAGE.search(path or "")
            shown = normal_line_ends(head_and_tail(content))
            lines.append(between_fences(shown, language[1] if language else "text"))
        return title, "\n".join(lines)


def _entry(entry: Any) -> str:
    """One entry of a plan: its content and status; if it has no content, all of it."""
    if not isinstance(entry, dict) or "content" not in entry:
        return plain_text(entry)
    status = entry.get("status")
    return f"{entry['content']}: {status}" if status is not None else str(entry["content"])


STEP_TEXTS: dict[StepType, Callable[[Sections, Step], tuple[str, str]]] = {
    "thought": Sections.text,
    "message": Sections.text,
    "tool_call": Sections.call,
    "plan": Sections.plan,
}


def text_at(given: Any, keys: tuple[str, ...]) -> str | None:
    """The first string in the input of a tool under one of these keys."""
    if isinstance(given, dict):
        for key in keys:
            if isinstance(text := given.get(key), str):
                return text
    return None


def head_and_tail(content: str) -> str:
    """The first and last lines of a long text, and how many are left out between them."""
    lines = content.replace("\r\n", "\n").split("\n")
    omitted = len(lines) - HEAD_LINES - TAIL_LINES
    if omitted > 0:
        lines = [*lines[:HEAD_LINES], "", f"... {omitted} lines omitted ...", "", *lines[-TAIL_LINES:]]
    return "\n".join(preview(line, LINE_PREVIEW) for line in lines)


FORMS = ReportForms(jsonl=short_records, markdown=markdown)
