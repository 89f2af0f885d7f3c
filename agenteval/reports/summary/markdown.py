"""markdown: a section for each record with every step, for people and judges"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from agenteval.reports.forms import ReportContext
from agenteval.reports.markup import fenced, inline
from agenteval.reports.result_reader import ResultReader
from agenteval.streams.text import plain_text, preview
from agenteval.wire.records import Step, StepType
from agenteval.wire.result_view import ResultWithSteps

STEP_PREVIEW = 100
PLAN_PREVIEW = 80
OUTPUT_PREVIEW = 200
HEAD_LINES, TAIL_LINES = 8, 4
LINE_PREVIEW = 500  # a minified file is one line

PATH_KEYS = ("file_path", "path")
CONTENT_KEYS = ("content", "new_string")
_LANGUAGE = re.compile(r"\.([A-Za-z0-9]{1,12})$")

_word = lru_cache(256)(inline)  # names recur in every record


def render(results: ResultReader, _context: ReportContext) -> Iterator[bytes]:
    """Yields a section per record, as it comes; no text of an agent is markup in it."""
    for result in results.views(ResultWithSteps):
        yield section(result).encode()


def section(result: ResultWithSteps) -> str:
    """One result: input, steps, output, and what else is known of it."""
    parts = [f"## Evaluation Record: {inline(result.id)}"]
    if result.input is not None:
        parts.append(f"**Input:** {inline(result.turns(chr(10)))}")
    steps = "\n".join(trajectory_lines(result))
    parts.append(f"**Trajectory:**\n{steps}" if steps else "**Trajectory:** (empty)")
    parts.append(f"**Output:** {inline(preview(result.output, OUTPUT_PREVIEW)) or '(empty)'}")
    if facts := list(fact_lines(result)):
        parts.append("  \n".join(facts))  # two spaces: a line break in markdown
    return "\n\n".join([*parts, "---"]) + "\n\n"


def fact_lines(result: ResultWithSteps) -> Iterator[str]:
    """Metadata, errors, duration and grade; what is not known has no line."""
    if result.metadata:
        yield "**Metadata:** " + ", ".join(f"{_word(key)}={_value(value)}" for key, value in result.metadata.items())
    if result.tool_errors is not None:
        yield f"**Tool Errors:** {'true' if result.tool_errors else 'false'}"
    if result.duration is not None:
        yield f"**Duration:** {result.duration:.0f}ms"
    for failure in result.failures:
        yield f"**Error:** {inline(failure)}"
    if result.why_not_graded is not None:
        yield f"**Score:** none (grader error: {inline(result.why_not_graded)})"
        return
    if result.score is None:
        return
    yield f"**Score:** {'PASS' if result.score.pass_ else 'FAIL'} ({result.score.score:g})"
    if result.score.reasoning:
        yield f"**Reasoning:** {inline(result.score.reasoning)}"


def _value(value: Any) -> str:
    return _word(preview(plain_text(value), STEP_PREVIEW))


# --- steps --------------------------------------------------------------------------------------


def trajectory_lines(result: ResultWithSteps) -> Iterator[str]:
    """The steps as a numbered list, each with its id."""
    shown_id = inline(result.id)
    for number, step in enumerate(result.trajectory or (), 1):
        usual = step.step_id in (None, f"{result.id}-step-{number}")
        mark = f"{shown_id}-step-{number}" if usual else inline(step.step_id or "")
        place = f"{number}. "
        first, *more = STEP_LINES[step.type](step)
        yield f"{place}{first} [→{mark}]"
        yield from (" " * len(place) + line for line in more)


def _text_lines(step: Step) -> list[str]:
    return [f"[{step.type.upper()}] {inline(preview(step.content or '', STEP_PREVIEW))}".rstrip()]


def _plan_lines(step: Step) -> list[str]:
    entries = ", ".join(map(_entry, step.entries or ()))
    return [f"[PLAN] {inline(preview(entries, PLAN_PREVIEW))}".rstrip()]


def _entry(entry: Any) -> str:
    """One entry of a plan: its content and status; if it has no content, all of it."""
    if not isinstance(entry, dict) or "content" not in entry:
        return plain_text(entry)
    status = entry.get("status")
    return f"{entry['content']}: {status}" if status is not None else str(entry["content"])


def _call_lines(step: Step) -> list[str]:
    status = f" -> {_word(step.status)}" if step.status else ""
    duration = f" ({step.duration:.0f}ms)" if step.duration is not None else ""
    lines = [f"[TOOL:{_word(step.name or '')}]{status}{duration}"]
    path, content = text_at(step.input, PATH_KEYS), text_at(step.input, CONTENT_KEYS)
    if path:
        lines.append(f"File: {inline(path)}" + (f" ({len(content)} chars)" if content else ""))
    if content:
        language = _LANGUAGE.search(path or "")
        lines += fenced(head_and_tail(content), language[1] if language else "text").split("\n")
    return lines


STEP_LINES: dict[StepType, Callable[[Step], list[str]]] = {
    "thought": _text_lines,
    "message": _text_lines,
    "tool_call": _call_lines,
    "plan": _plan_lines,
}


def text_at(given: Any, keys: tuple[str, ...]) -> str | None:
    """The first string in the input of a tool under one of these keys."""
    found = (given.get(key) for key in keys) if isinstance(given, dict) else ()
    return next((text for text in found if isinstance(text, str)), None)


def head_and_tail(content: str) -> str:
    """The first and last lines of a long text, and how many are left out between them."""
    lines = content.replace("\r\n", "\n").split("\n")
    omitted = len(lines) - HEAD_LINES - TAIL_LINES
    if omitted > 0:
        lines = [*lines[:HEAD_LINES], "", f"... {omitted} lines omitted ...", "", *lines[-TAIL_LINES:]]
    return "\n".join(preview(line, LINE_PREVIEW) for line in lines)
