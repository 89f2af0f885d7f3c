"""ae-show: one record as lines for a terminal: what was asked, every step with its time, the answer and the verdict."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from agenteval.reports.answers import EPOCH, ReportedAnswer
from agenteval.reports.edits import edit_of
from agenteval.reports.figures import dollars, duration_text, whole
from agenteval.reports.terminal import BOLD, CYAN, DIM, GREEN, RED, YELLOW, paint, wrap
from agenteval.streams.text import counted, one_line, pretty_json, screen_lines
from agenteval.wire.records import Step
from agenteval.wire.row import ERROR, FAIL, GRADER_ERROR, PASS, UNGRADED, Attempt

FOLD_ABOVE, HEAD, TAIL = 12, 7, 4  # lines of a long text that are shown
NESTED = "│ "
DIFF_COLORS = {"+": GREEN, "-": RED, "@": CYAN, "*": CYAN}
TEXT_COLORS = {"thought": DIM, "message": "", "plan": CYAN}
ALONE = ("command", "cmd", "script", "code", "query", "pattern", "file_path", "path", "url")
OUTCOMES = {PASS: "pass", FAIL: "FAIL", ERROR: "error", GRADER_ERROR: "no grade", UNGRADED: "ungraded"}
MARKS = {"pass": GREEN, "FAIL": RED, "error": RED, "no grade": YELLOW, "ungraded": YELLOW}


class View(NamedTuple):
    """How records are shown."""

    width: int
    color: bool = False
    full: bool = False
    step: int | None = None  # only this one


def timeline_lines(answer: ReportedAnswer, view: View) -> Iterator[str]:
    """The lines of one answer."""
    yield from _head(answer, view)
    steps = list(enumerate(answer.steps, 1))
    if view.step is not None:
        chosen = [(number, step) for number, step in steps if number == view.step]
        if not chosen:
            yield f"  there is no step {view.step}: it has {counted(len(steps), 'step')}"
        steps, view = chosen, view._replace(full=True)
    else:
        yield from block("Input", answer.row.turns("\n\n"), view)
        yield from block("Hint", answer.row.hint or "", view)
    for number, step in steps:
        yield ""
        nested = NESTED if step.parent_id else ""  # a bar before each line of a sub-agent
        narrower = view._replace(width=view.width - len(nested))
        for line in _step_lines(number, step, narrower, answer.attempt.timing.start):
            yield paint(nested, DIM, view.color) + line
    if view.step is None:
        yield from _tail(answer.attempt, view)
    yield ""


def _head(answer: ReportedAnswer, view: View) -> Iterator[str]:
    attempt = answer.attempt
    word = OUTCOMES[attempt.status]
    facts = [
        f"{attempt.grade.score:.3f}" if attempt.grade is not None else "",
        "" if attempt.duration is None else duration_text(attempt.duration),
        "" if attempt.tokens is None else f"{whole(attempt.tokens)} tokens",
        "" if attempt.cost is None else dollars(attempt.cost),
        "" if attempt.trajectory is None else counted(len(attempt.trajectory), "step"),
    ]
    first, *more = wrap(f"== {one_line(answer.id, 200)}", view.width)
    yield paint(first, BOLD, view.color)
    yield from more
    text = f"{word}  " + ", ".join(filter(None, facts))
    first, *more = wrap(text.rstrip(), view.width)
    yield paint(word, MARKS[word], view.color) + first.removeprefix(word)
    yield from more


def _tail(attempt: Attempt, view: View) -> Iterator[str]:
    """The answer, the verdict of each grader, and the errors of the agent."""
    yield from block("Output", attempt.output or "(empty)", view)
    for failure in attempt.failures:
        yield from block("Agent failed", failure, view, RED)
    if attempt.why_not_graded is not None:
        yield from block("Grader error", attempt.why_not_graded, view, YELLOW)
    elif attempt.score is not None and attempt.score.reasoning and not attempt.agent_failed:
        yield from block("Reasoning", attempt.score.reasoning, view)
    for name, grade in (attempt.scores or {}).items() if len(attempt.scores or {}) > 1 else ():
        word = "pass" if grade.pass_ else "FAIL"
        title = f"{one_line(name, 60)} {word} {grade.score:.3f}"
        yield from block(title, grade.reasoning or "", view, MARKS[word], always=True)


def block(title: str, text: str, view: View, color: str = BOLD, *, always: bool = False) -> Iterator[str]:
    """A title and the text below it; nothing if there is no text."""
    if text or always:
        yield ""
        yield paint(title, color, view.color)
        yield from body(text, view) if text else ()


def body(text: str, view: View, color: str | Mapping[str, str] = "", indent: str = "  ") -> Iterator[str]:
    """The text, wrapped and indented; the middle of a long one is left out unless the view shows all.

    Instead of one colour there may be one for each first character of a line.
    """
    lines = [
        paint(part, color if isinstance(color, str) else color.get(line[:1], ""), view.color)
        for line in screen_lines(text.strip("\n"))
        for part in wrap(line, view.width - len(indent))
    ]
    if not view.full and len(lines) > FOLD_ABOVE:
        note = paint(f"… {counted(len(lines) - HEAD - TAIL, 'line')} more (--full shows all)", DIM, view.color)
        lines = [*lines[:HEAD], note, *lines[-TAIL:]]
    yield from (f"{indent}{line}".rstrip() for line in lines)


# --- steps --------------------------------------------------------------------------------------


def _step_lines(number: int, step: Step, view: View, start: float | None) -> Iterator[str]:
    """One step: its time, its kind and its content."""
    since = since_start(step.timestamp, start)
    when = f"  +{duration_text(since)}" if since is not None else ""
    if step.type == "tool_call":
        failed = step.status == "failed"
        took = f", {duration_text(step.duration)}" if step.duration is not None and step.duration >= 0 else ""
        status = one_line(step.status or "", 40)
        title = f"{number}  {one_line(step.name or 'tool', 80)}  {status}{took}{when}".rstrip()
        yield from (paint(line, RED if failed else CYAN, view.color) for line in wrap(title, view.width))
        if edit := edit_of(step.name or "", step.input):
            yield from body(value_text(edit.rest), view) if edit.rest else ()
            yield from body(edit.diff or "(no change)", view, DIFF_COLORS)
        elif step.input is not None:
            yield from body(value_text(step.input), view)
        if step.output not in (None, ""):
            yield paint("  →", DIM, view.color)
            yield from body(value_text(step.output), view, RED if failed else "", "    ")
        return
    yield paint(f"{number}  {step.type}{when}", BOLD, view.color)
    text = step.content or "" if step.type != "plan" else "\n".join(map(_entry, step.entries or ()))
    yield from body(text, view, TEXT_COLORS[step.type]) if text else ()


def since_start(timestamp: float | None, start: float | None) -> float | None:
    """Milliseconds from the start of the run; agent-eval-harness writes the time of day, which needs the start."""
    if timestamp is not None and timestamp > EPOCH:
        timestamp = None if start is None else timestamp - start
    return timestamp if timestamp is not None and timestamp >= 0 else None


def value_text(value: Any) -> str:
    """The input or output of a tool: a text as it is, a single field as its text, anything else as indented JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and len(value) == 1:
        [(key, only)] = value.items()
        if key in ALONE and isinstance(only, str):
            return only
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return "\n".join(_field(key, inner) for key, inner in value.items())
    return pretty_json(value).decode().rstrip("\n")


def _field(key: str, value: Any) -> str:
    text = value if isinstance(value, str) else pretty_json(value).decode().rstrip("\n")
    return f"{key}: {text}" if "\n" not in text else f"{key}:\n" + "\n".join(f"  {line}" for line in text.split("\n"))


def _entry(entry: Any) -> str:
    """One entry of a plan with a mark for its status."""
    if not isinstance(entry, dict) or "content" not in entry:
        return value_text(entry)
    done = entry.get("status") in ("completed", "done")
    return f"[{'x' if done else ' '}] {entry['content']}"
