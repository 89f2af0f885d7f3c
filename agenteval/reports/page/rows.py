"""One row per record for the table of the page: what is sorted, filtered and searched, without the trajectory."""

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from agenteval.reports.answers import story
from agenteval.reports.figures import group_names
from agenteval.streams.text import one_line
from agenteval.wire.records import AGENT_FAILED
from agenteval.wire.row import ERROR, FAIL, FLAKY, GRADER_ERROR, PASS, UNGRADED, Number, Row, RowWithCalls

STATUSES = (FAIL, ERROR, FLAKY, PASS, UNGRADED, GRADER_ERROR)
PREVIEW = 160
MOST_TOOLS = 40
TOOL_NAME = 120
SEARCHED = 1500  # characters of each text that the quick search looks at


class PageRow(NamedTuple):
    """The row of a result or of a prompt's trials, in the order in which the script of the page reads it."""

    id: str
    status: str
    groups: list[str]
    score: float | None
    duration: Number | None
    tokens: Number | None
    cost: Number | None
    steps: Number | None
    tools: list[str]
    preview: str
    passed: int | None = None
    graded: int | None = None


def page_row(row: RowWithCalls, by: str) -> PageRow:
    """The row of a record; of trials, the score is the pass rate, the time a mean, tokens and cost are sums."""
    attempts = row.attempts
    grade = attempts[0].grade if attempts else None
    steps = (step for attempt in attempts for step in attempt.trajectory or ())
    called = (step.name[:TOOL_NAME] for step in steps if step.type == "tool_call" and step.name)
    durations = [attempt.duration for attempt in attempts if attempt.duration is not None]
    return PageRow(
        row.id,
        row.status,
        group_names(row.metadata, by),
        row.pass_rate if row.is_trials else grade.score if grade else None,
        sum(durations) / len(durations) if len(durations) > 1 else total(durations),
        total(attempt.tokens for attempt in attempts),
        total(attempt.cost for attempt in attempts),
        total(None if attempt.trajectory is None else len(attempt.trajectory) for attempt in attempts),
        list(islice(dict.fromkeys(called), MOST_TOOLS)),
        one_line(story(attempts), PREVIEW)[:PREVIEW],
        *((row.passed, row.graded) if row.is_trials else ()),
    )


def total(values: Iterable[Number | None]) -> Number | None:
    """The sum of the values that are known; None if there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def search_text(row: Row) -> str:
    """What the quick search looks at: the beginnings of prompt, answers, reasoning and errors."""
    texts = [row.turns("\n"), row.hint]
    for attempt in row.attempts:
        texts += [attempt.output, attempt.score.reasoning if attempt.score else None, attempt.why_not_graded]
        texts += [f"{name} {grade.reasoning or ''}" for name, grade in (attempt.scores or {}).items()]
        texts += attempt.failures
    return "\n".join(text[:SEARCHED].replace(AGENT_FAILED, "", 1) for text in texts if text)
