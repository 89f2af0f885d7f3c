"""Compact views of a result: a short record, and a section of markdown for a person or a judge."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from agenteval.reports.markup import fenced, inline
from agenteval.streams.jsonl import encode
from agenteval.streams.text import preview
from agenteval.wire.records import Step, StepType, Summary
from agenteval.wire.result_view import ResultView, ResultWithCalls, ResultWithSteps

STEP_PREVIEW = 100
PLAN_PREVIEW = 80
OUTPUT_PREVIEW = 200
HEAD_LINES, TAIL_LINES = 8, 4
LINE_PREVIEW = 500  # a minified file is one line

PATH_KEYS = ("file_path", "path")
CONTENT_KEYS = ("content", "new_string")
_LANGUAGE = re.compile(r"\.([A-Za-z0-9]{1,12})$")

_word = lru_cache(256)(inline)  # names and the like: the same few in every record


# --- a short record -----------------------------------------------------------------------------


def summary_of(result: ResultWithCalls) -> Summary:
    """The result in short."""
    calls = result.trajectory or ()
    return Summary(
        id=result.id,
        input=None if result.input is None else result.turns("\n"),
        output=result.output,
        tool_calls=[call.name or "" for call in calls if call.type == "tool_call"],
        duration=_duration(result),
    )


def _duration(result: ResultView) -> float | None:
    """Milliseconds; a clock that was set back measured nothing."""
    return result.duration if result.duration is not None and result.duration >= 0 else None


# --- markdown -----------------------------------------------------------------------------------


def section(result: ResultWithSteps) -> str:
    """One result: what was asked, each step, the output and what became of it; nothing in it is markup."""
    parts = [f"## Evaluation Record: {inline(result.id)}"]
    if result.input is not None:
        parts.append(f"**Input:** {inline(result.turns(chr(10)))}")
    steps = "\n".join(trajectory_lines(result))
    parts.append(f"**Trajectory:**\n{steps}" if steps else "**Trajectory:** (empty)")
    parts.append(f"**Output:** {inline(preview(result.output, OUTPUT_PREVIEW)) or '(empty)'}")
    if facts := list(fact_lines(result)):
        parts.append("  \n".join(facts))  # two blanks: each on a line of its own
    return "\n\n".join([*parts, "---"]) + "\n\n"


def fact_lines(result: ResultWithSteps) -> Iterator[str]:
    """What else is known of the run; what is not known has no line."""
    if result.metadata:
        yield "**Metadata:** " + ", ".join(f"{_word(key)}={_value(value)}" for key, value in result.metadata.items())
    if result.tool_errors is not None:
        yield f"**Tool Errors:** {'true' if result.tool_errors else 'false'}"
    if (duration := _duration(result)) is not None:
        yield f"**Duration:** {duration:.0f}ms"
    for failure in result.failures:
        yield f"**Error:** {inline(failure)}"
    if result.score is None:
        return
    verdict = "PASS" if result.score.pass_ else "FAIL"
    yield "**Score:** " + ("none (grader error)" if result.grader_error else f"{verdict} ({result.score.score:g})")
    if result.score.reasoning:
        yield f"**Reasoning:** {inline(result.score.reasoning)}"


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else encode(value).decode()
    return _word(preview(text, STEP_PREVIEW))


# --- steps --------------------------------------------------------------------------------------


def trajectory_lines(result: ResultWithSteps) -> Iterator[str]:
    """The steps as a numbered list, each with its id."""
    shown_id = inline(result.id)
    for number, step in enumerate(result.trajectory or (), 1):
        usual = step.step_id in (None, f"{result.id}-step-{number}")
        mark = f"{shown_id}-step-{number}" if usual else inline(step.step_id or "")
        place = f"{number}. "
        first, *more = TOLD[step.type](step)
        yield f"{place}{first} [→{mark}]"
        yield from (" " * len(place) + line for line in more)


def _told_text(step: Step) -> list[str]:
    return [f"[{step.type.upper()}] {inline(preview(step.content or '', STEP_PREVIEW))}".rstrip()]


def _told_plan(step: Step) -> list[str]:
    entries = ", ".join(map(_entry, step.entries or ()))
    return [f"[PLAN] {inline(preview(entries, PLAN_PREVIEW))}".rstrip()]


def _entry(entry: Any) -> str:
    """One entry of a plan: what and how far, or whatever it is."""
    if not isinstance(entry, dict) or "content" not in entry:
        return entry if isinstance(entry, str) else encode(entry).decode()
    status = entry.get("status")
    return f"{entry['content']}: {status}" if status is not None else str(entry["content"])


def _told_call(step: Step) -> list[str]:
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


TOLD: dict[StepType, Callable[[Step], list[str]]] = {
    "thought": _told_text,
    "message": _told_text,
    "tool_call": _told_call,
    "plan": _told_plan,
}


def text_at(given: Any, keys: tuple[str, ...]) -> str | None:
    """The first text that a tool was given under one of these names."""
    found = (given.get(key) for key in keys) if isinstance(given, dict) else ()
    return next((text for text in found if isinstance(text, str)), None)


def head_and_tail(content: str) -> str:
    """The first and last lines of a long text, and how many are left out between them."""
    lines = content.replace("\r\n", "\n").split("\n")
    omitted = len(lines) - HEAD_LINES - TAIL_LINES
    if omitted > 0:
        lines = [*lines[:HEAD_LINES], "", f"... {omitted} lines omitted ...", "", *lines[-TAIL_LINES:]]
    return "\n".join(preview(line, LINE_PREVIEW) for line in lines)
