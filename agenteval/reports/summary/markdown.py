"""markdown: a section for each record with every step, for people and judges"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from agenteval.reports.forms import ReportContext
from agenteval.reports.markup import fenced, inline
from agenteval.reports.result_reader import ResultReader
from agenteval.streams.text import plain_text, preview, visible
from agenteval.wire.records import Step, StepType
from agenteval.wire.result_view import ResultWithSteps

STEP_PREVIEW = 100
PLAN_PREVIEW = 80
OUTPUT_PREVIEW = 200
HEAD_LINES, TAIL_LINES = 8, 4
LINE_PREVIEW = 500  # a minified file is one line

PATH_KEYS = ("file_path", "path")
CONTENT_KEYS = ("content", "new_string")
_LINE_END = re.compile(r"\r\n?")
_LANGUAGE = re.compile(r"\.([A-Za-z0-9]{1,12})$")


def render(results: ResultReader, context: ReportContext) -> Iterator[bytes]:
    """Yields a section per record, as it comes."""
    sections = Sections(escape=context.for_web)
    for result in results.views(ResultWithSteps):
        yield sections.section(result).encode()


class Sections:
    """Writes a section per result; text of agents is escaped for a web page, or left as it is for a judge."""

    def __init__(self, *, escape: bool) -> None:
        self.escape = escape
        self.word = lru_cache(256)(self.line)  # names recur in every record

    def line(self, text: str) -> str:
        """The text on one line."""
        if self.escape:
            return inline(text)
        return text if text.isprintable() else " ".join(visible(text).split("\n"))

    def block(self, text: str) -> str:
        """The text behind a title: on the same line, or between fences if it is not escaped and has several lines."""
        if not self.escape and text.isprintable():
            return text
        if "\r" in text:
            text = _LINE_END.sub("\n", text)
        if self.escape or "\n" not in text.strip("\n"):
            return self.line(text.strip("\n"))
        return f"\n{fenced(text, 'text')}"

    def section(self, result: ResultWithSteps) -> str:
        """One result: input, steps, output, and what else is known of it."""
        parts = [f"## Evaluation Record: {self.line(result.id)}"]
        if result.input is not None:
            parts.append(f"**Input:** {self.block(result.turns(chr(10)))}")
        steps = "\n".join(self.trajectory_lines(result))
        parts.append(f"**Trajectory:**\n{steps}" if steps else "**Trajectory:** (empty)")
        output = preview(result.output, OUTPUT_PREVIEW)
        parts.append(f"**Output:** {self.block(output) or '(empty)'}")
        if facts := list(self.fact_lines(result)):
            parts.append("  \n".join(facts))  # two spaces: a line break in markdown
        return "\n\n".join([*parts, "---"]) + "\n\n"

    def fact_lines(self, result: ResultWithSteps) -> Iterator[str]:
        """Metadata, errors, duration and grade; what is not known has no line."""
        if result.metadata:
            values = (
                (self.word(key), preview(plain_text(value), STEP_PREVIEW)) for key, value in result.metadata.items()
            )
            yield "**Metadata:** " + ", ".join(f"{key}={self.word(value)}" for key, value in values)
        if result.tool_errors is not None:
            yield f"**Tool Errors:** {'true' if result.tool_errors else 'false'}"
        if result.duration is not None:
            yield f"**Duration:** {result.duration:.0f}ms"
        elif result.clock_set_back:
            yield "**Duration:** not known: the clock was set back"
        for failure in result.failures:
            yield f"**Error:** {self.line(failure)}"
        if result.why_not_graded is not None:
            yield f"**Score:** none (grader error: {self.line(result.why_not_graded)})"
            return
        if result.score is None:
            return
        yield f"**Score:** {'PASS' if result.score.pass_ else 'FAIL'} ({result.score.score:g})"
        if result.score.reasoning:
            yield f"**Reasoning:** {self.line(result.score.reasoning)}"

    # --- steps ---

    def trajectory_lines(self, result: ResultWithSteps) -> Iterator[str]:
        """The steps as a numbered list, each with its id."""
        shown_id = self.line(result.id)
        for number, step in enumerate(result.trajectory or (), 1):
            usual = step.step_id is None or step.step_id == f"{result.id}-step-{number}"
            mark = f"{shown_id}-step-{number}" if usual else self.line(step.step_id or "")
            place = f"{number}. "
            first, more, lines = STEP_TEXTS[step.type](self, step).partition("\n")
            yield f"{place}{first} [→{mark}]"
            if more:
                indent = " " * len(place)
                yield indent + lines.replace("\n", f"\n{indent}")

    def text(self, step: Step) -> str:
        """A thought or a message."""
        shown = self.block(preview(step.content or "", STEP_PREVIEW))
        name = step.type.upper()
        return f"[{name}]{shown}" if shown.startswith("\n") else f"[{name}] {shown}".rstrip()

    def plan(self, step: Step) -> str:
        """The entries of a plan."""
        entries = ", ".join(map(_entry, step.entries or ()))
        return f"[PLAN] {self.line(preview(entries, PLAN_PREVIEW))}".rstrip()

    def call(self, step: Step) -> str:
        """A tool call, with the file and the content that it was given."""
        status = f" -> {self.word(step.status)}" if step.status else ""
        duration = f" ({step.duration:.0f}ms)" if step.duration is not None else ""
        lines = [f"[TOOL:{self.word(step.name or '')}]{status}{duration}"]
        path, content = text_at(step.input, PATH_KEYS), text_at(step.input, CONTENT_KEYS)
        if path:
            lines.append(f"File: {self.line(path)}" + (f" ({len(content)} chars)" if content else ""))
        if content:
            language = _LANGUAGE.search(path or "")
            lines.append(fenced(head_and_tail(content), language[1] if language else "text"))
        return "\n".join(lines)


def _entry(entry: Any) -> str:
    """One entry of a plan: its content and status; if it has no content, all of it."""
    if not isinstance(entry, dict) or "content" not in entry:
        return plain_text(entry)
    status = entry.get("status")
    return f"{entry['content']}: {status}" if status is not None else str(entry["content"])


STEP_TEXTS: dict[StepType, Callable[[Sections, Step], str]] = {
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
