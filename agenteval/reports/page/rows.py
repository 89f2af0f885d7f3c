"""One row per record for the table of the page: what is sorted, filtered and searched, without the trajectory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from agenteval.comparison.row_facts import metadata_path, metadata_text
from agenteval.comparison.trial_rows import ComparedTrial, ComparedTrials, TrialRow
from agenteval.reports.results.table import story
from agenteval.streams.text import one_line
from agenteval.wire.records import AGENT_FAILED, Input, Record
from agenteval.wire.result_view import ERROR, FAIL, GRADER_ERROR, PASS, UNGRADED, Number, ResultView, StepOutline

FLAKY = "flaky"
STATUSES = (FAIL, ERROR, FLAKY, PASS, UNGRADED, GRADER_ERROR)
PREVIEW = 160
MOST_TOOLS = 40
TOOL_NAME = 120
SEARCHED = 1500  # characters of each text that the quick search looks at
NO_GROUP = ""


class PageRow(NamedTuple):
    """The row of a result or of a prompt's trials, in the order in which the script of the page reads it."""

    id: str
    status: str
    group: str
    score: float | None
    duration: Number | None
    tokens: Number | None
    cost: Number | None
    steps: int | None
    tools: list[str]
    preview: str
    passed: int | None = None
    graded: int | None = None


class PageStep(StepOutline):
    """A step without its content, and whether its tool failed."""

    status: str | None = None


class PageResult(ResultView, kw_only=True):
    """The fields of a result that its row and the overview need."""

    trajectory: list[PageStep] | None = None
    metadata: Record | None = None


class PageTrialEntry(ComparedTrial, kw_only=True):
    """The fields of one trial that its prompt's row needs."""

    output: str = ""
    reasoning: str | None = None
    trajectory: list[PageStep] | None = None


class PageTrial(ComparedTrials, kw_only=True):
    """The fields of a prompt's trials that its row and the overview need."""

    input: Input | None = None
    hint: str | None = None
    trials: list[PageTrialEntry] | None = None  # type: ignore[assignment]
    metadata: Record | None = None


# --- results ------------------------------------------------------------------------------------


def result_row(row: PageResult, group: str) -> PageRow:
    """The row of a result."""
    grade, steps = row.grade, row.trajectory
    return PageRow(
        row.id,
        row.status,
        group,
        grade.score if grade else None,
        row.duration,
        row.tokens,
        row.timing.cost_usd if row.timing else None,
        None if steps is None else len(steps),
        tools_of([steps]),
        one_line(story(row), PREVIEW)[:PREVIEW],
    )


def result_text(row: PageResult) -> str:
    """What the quick search looks at: prompt, answer, reasoning and errors."""
    reasoning = row.score.reasoning if row.score else None
    texts = [row.turns("\n"), row.hint, row.output, reasoning, row.why_not_graded]
    texts += [f"{name} {grade.reasoning or ''}" for name, grade in (row.scores or {}).items()]
    return search_text([*texts, *row.failures])


# --- trials -------------------------------------------------------------------------------------


def trials_status(row: TrialRow) -> str:
    """The status of a prompt: flaky if some trials pass and some do not."""
    if row.graded and row.passed == row.graded:
        return PASS
    if row.passed:
        return FLAKY
    if row.failed and row.failed == row.trials:
        return ERROR
    if row.graded:
        return FAIL
    return GRADER_ERROR if row.grader_errors else UNGRADED


def trials_row(record: PageTrial, row: TrialRow, group: str) -> PageRow:
    """The row of a prompt's trials; the time is the mean, tokens and cost are sums."""
    trials = record.trials or []
    timings = [trial.timing for trial in trials if trial.timing]
    return PageRow(
        record.id,
        trials_status(row),
        group,
        row.pass_rate,
        sum(row.durations) / len(row.durations) if row.durations else None,
        total(timing.tokens for timing in timings),
        total(timing.cost_usd for timing in timings),
        sum(len(trial.trajectory or ()) for trial in trials),
        tools_of(trial.trajectory for trial in trials),
        one_line(trials_story(trials), PREVIEW)[:PREVIEW],
        row.passed,
        row.graded,
    )


def trials_story(trials: list[PageTrialEntry]) -> str:
    """Why the first trial that does not pass failed, else its output; the first output if all pass."""
    for trial in trials:
        if trial.errors:
            return trial.errors[0]
        if trial.pass_ is False and trial.reasoning:
            return trial.reasoning
    return trials[0].output if trials else ""


def trials_text(record: PageTrial) -> str:
    """What the quick search looks at: prompt, and answer, reasoning and errors of each trial."""
    prompt = record.input if isinstance(record.input, str | None) else "\n".join(record.input)
    texts = [prompt, record.hint]
    for trial in record.trials or ():
        texts += [trial.output, trial.reasoning, *(trial.errors or ())]
    return search_text(texts)


# --- both ---------------------------------------------------------------------------------------


def tools_of(trajectories: Iterable[list[PageStep] | None]) -> list[str]:
    """The names of the tools that were called, each once."""
    names: dict[str, None] = {}
    for steps in trajectories:
        for step in steps or ():
            if step.type == "tool_call" and step.name and len(names) < MOST_TOOLS:
                names[step.name[:TOOL_NAME]] = None
    return list(names)


def search_text(texts: Iterable[str | None]) -> str:
    """The beginnings of the texts, as one."""
    return "\n".join(text[:SEARCHED].replace(AGENT_FAILED, "", 1) for text in texts if text)


def group_of(metadata: Record | None, key: str) -> str:
    """The value at a dotted path below metadata, as ae-compare --by reads it; "" if there is none."""
    return one_line(metadata_text(metadata, metadata_path(key)) or NO_GROUP, TOOL_NAME)[:TOOL_NAME]


def total(values: Iterable[Number | None]) -> Number | None:
    """The sum of the values that are known; None if there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
