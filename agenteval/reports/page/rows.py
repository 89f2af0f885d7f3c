"""One row per record for the table of the page: what is sorted, filtered and searched, without the trajectory."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from agenteval.reports.answers import story
from agenteval.reports.figures import group_names
from agenteval.streams.text import one_line
from agenteval.wire.records import AGENT_FAILED
from agenteval.wire.row import ERROR, FAIL, FLAKY, GRADER_ERROR, PASS, UNGRADED, Attempt, Number, Row, RowWithCalls

STATUSES = (FAIL, ERROR, FLAKY, PASS, UNGRADED, GRADER_ERROR)
PREVIEW = 160
MOST_TOOLS = 40
TOOL_NAME = 120
SEARCHED = 1500  # characters of each text that the quick search looks at
MOST_NAMES = 60  # graders, and checks, that can have a column of their own
LONGEST_NAME = 120
MOST_TRIALS = 200  # of a prompt that are shown as marks
MARKS = {PASS: "p", FAIL: "f", ERROR: "e", UNGRADED: "u", GRADER_ERROR: "g"}
Tally = tuple[int, int, float | None]  # how many answers of a record pass, how many are graded, the mean score


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
    prompt: str
    graders: list[Tally | None]
    """By the place of the grader in CountedNames; those at the end that did not grade it are left out."""
    checks: list[Tally | None]
    passed: int | None = None
    graded: int | None = None
    marks: str = ""
    """A letter for each trial: how it ended."""


class CountedNames:
    """Gives each grader or check an index, in order of appearance, and counts its records."""

    def __init__(self) -> None:
        self.records: list[int] = []  # by place
        self._places: dict[str, int] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def counted(self) -> list[tuple[str, int]]:
        """Each name, and how many records have it."""
        return list(zip(self._places, self.records, strict=True))

    def tallies(self, grades: Iterable[tuple[str, bool, float | None]]) -> list[Tally | None]:
        """The grades of a record, summed up by name, each at the index of its name; further names are left out."""
        found: dict[int, list[tuple[bool, float | None]]] = {}
        for name, passes, score in grades:
            place = self._place(name[:LONGEST_NAME])
            if place is not None:
                found.setdefault(place, []).append((passes, score))
        for place in found:
            self.records[place] += 1
        return [_tally(found[place]) if place in found else None for place in range(max(found, default=-1) + 1)]

    def _place(self, name: str) -> int | None:
        if name not in self._places and len(self._places) < MOST_NAMES:
            self._places[name] = len(self._places)
            self.records.append(0)
        return self._places.get(name)


def _tally(grades: Sequence[tuple[bool, float | None]]) -> Tally:
    scores = [score for _, score in grades if score is not None]
    return sum(passes for passes, _ in grades), len(grades), round(sum(scores) / len(scores), 3) if scores else None


def page_row(
    row: RowWithCalls, by: str, graders: CountedNames | None = None, checks: CountedNames | None = None
) -> PageRow:
    """The row of a record; for trials, the score is the pass rate, the time a mean, tokens and cost are sums."""
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
        one_line(row.turns(" ")[: 4 * PREVIEW], PREVIEW)[:PREVIEW],
        graders.tallies(_grades(attempts)) if graders is not None else [],
        checks.tallies((one.name, one.passes, None) for attempt in attempts for one in attempt.checks)
        if checks is not None
        else [],
        *((row.passed, row.graded, _marks(attempts)) if row.is_trials else ()),
    )


def _grades(attempts: Iterable[Attempt]) -> Iterable[tuple[str, bool, float | None]]:
    """The verdict of each grader on each answer."""
    for attempt in attempts:
        for name, grade in (attempt.scores or {}).items():
            if not attempt.is_grader_error(grade):
                yield name, grade.pass_, grade.score


def _marks(attempts: Iterable[Attempt]) -> str:
    return "".join(MARKS[attempt.status] for attempt in islice(attempts, MOST_TRIALS))


def total(values: Iterable[Number | None]) -> Number | None:
    """The sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def search_text(row: Row) -> str:
    """The text of the quick search: the beginnings of prompt, answers, reasoning and errors."""
    texts = [row.turns("\n"), row.hint]
    for attempt in row.attempts:
        texts += [attempt.output, attempt.score.reasoning if attempt.score else None, attempt.why_not_graded]
        texts += [f"{name} {grade.reasoning or ''}" for name, grade in (attempt.scores or {}).items()]
        texts += attempt.failures
    return "\n".join(text[:SEARCHED].replace(AGENT_FAILED, "", 1) for text in texts if text)
