"""Typed views of a result, each with the fields that some later stage reads; the rest of the line is not decoded."""

from agenteval.wire.records import (
    AGENT_FAILED,
    Grade,
    GraderErrorText,
    GraderResult,
    Id,
    Input,
    Record,
    Step,
    Wire,
)
from agenteval.wire.row import ERROR as ERROR
from agenteval.wire.row import FAIL as FAIL
from agenteval.wire.row import GRADER_ERROR as GRADER_ERROR
from agenteval.wire.row import PASS as PASS
from agenteval.wire.row import UNGRADED as UNGRADED
from agenteval.wire.row import Measured as Measured
from agenteval.wire.row import Number as Number
from agenteval.wire.row import StepOutline as StepOutline
from agenteval.wire.row import is_trials

is_trial = is_trials


def measured_time(milliseconds: Number | None) -> Number | None:
    """The time, or None if it is negative: a clock that was set back measured nothing."""
    return milliseconds if milliseconds is not None and milliseconds >= 0 else None


class ResultFacts(Wire, kw_only=True):
    """What every later stage reads of a result: what was measured, what failed and how it was graded."""

    id: Id
    output: str | None = None
    timing: Measured | None = None
    score: Grade | None = None
    grader_error: GraderErrorText = None
    tool_errors: bool | None = None
    errors: list[str] | None = None
    error: str | None = None
    graded_failed: bool | None = None

    def __post_init__(self) -> None:
        """A failed agent never passes, whichever tool graded it, unless the user wanted its answer graded."""
        if self.agent_failed:
            self.grader_error = None
            if self.score is not None:
                self.score = GraderResult(pass_=False, score=0.0, reasoning=f"{AGENT_FAILED}{self.failures[0]}")

    @property
    def agent_failed(self) -> bool:
        """Whether the agent failed and its answer does not count as graded (see ae-grade --grade-failed)."""
        return bool(self.errors or self.error) and not self.graded_failed

    @property
    def grade(self) -> Grade | None:
        """The score that counts; None if there is none, or if the grader erred."""
        return None if self.grader_error else self.score

    @property
    def failures(self) -> list[str]:
        """The errors of the agent."""
        return self.errors or ([self.error] if self.error else [])

    @property
    def duration(self) -> Number | None:
        """Milliseconds that the agent took; None if they are not known."""
        return self.timing.duration if self.timing else None

    @property
    def tokens(self) -> Number | None:
        """Input and output tokens together; None unless both are known."""
        return self.timing.tokens if self.timing else None

    @property
    def reports_tokens(self) -> bool:
        """Whether the agent reported any count of tokens."""
        timing = self.timing
        return timing is not None and not (timing.input_tokens is None and timing.output_tokens is None)

    @property
    def clock_set_back(self) -> bool:
        """Whether the measured duration is negative; it counts as unknown."""
        return self.timing is not None and self.timing.clock_set_back


class ResultView(ResultFacts, kw_only=True):
    """The fields of a result that reports show; its trajectory is not decoded."""

    output: str
    input: Input | None = None
    hint: str | None = None
    score: GraderResult | None = None
    scores: dict[str, GraderResult] | None = None

    def __post_init__(self) -> None:
        """Drops the verdicts of graders that older tools let see a failed agent."""
        if self.errors or self.error:  # few have one
            super().__post_init__()
            if self.agent_failed:
                self.scores = None

    @property
    def status(self) -> str:
        """How it ended: PASS, FAIL, ERROR (the agent failed), UNGRADED or GRADER_ERROR."""
        if self.grader_error:
            return GRADER_ERROR
        if self.agent_failed:
            return ERROR
        if self.score is None:
            return UNGRADED
        return PASS if self.score.pass_ else FAIL

    @property
    def why_not_graded(self) -> str | None:
        """Why the grader erred; None if it did not."""
        if not self.grader_error:
            return None
        older = (self.score.reasoning or "").removeprefix("grader error: ") if self.score else ""
        return self.grader_error if isinstance(self.grader_error, str) else older or "grader error"

    def turns(self, separator: str) -> str:
        """The input as one text."""
        return self.input or "" if isinstance(self.input, str | None) else separator.join(self.input)


def is_grader_error(row: ResultView, grade: GraderResult) -> bool:
    """Whether this is a stand-in of earlier versions for the grade of a grader that erred."""
    return bool(row.grader_error) and (grade.reasoning or "").startswith("grader error")


class ResultWithCalls(ResultView):
    """A result with the tools that were called."""

    trajectory: list[StepOutline] | None = None


class ResultWithSteps(ResultView):
    """A result with every step and its metadata."""

    trajectory: list[Step] | None = None
    metadata: Record | None = None


class GroupedResult(ResultView):
    """A result with its metadata, which has its category."""

    metadata: Record | None = None


class TrialView(ResultWithSteps, kw_only=True):
    """One trial of a prompt, seen as a result named `ID#N`; it is made of a record of trials, never read."""

    trial_of: str
    """The prompt's id."""
    k: int
    """How many trials the prompt has."""
    pass_rate: float | None = None
    """Share of the prompt's graded trials that passed."""


def combine(verdicts: list[Record]) -> Record:
    """Returns one score for several: pass if all pass, the weighted mean of the scores; a single one stays as it is."""
    if len(verdicts) == 1:
        return {field: value for field, value in verdicts[0].items() if field != "weight"}
    reasons = [one["reasoning"] for one in verdicts if not one["pass"] and one.get("reasoning")]
    weights = [one.get("weight") or 1 for one in verdicts]
    weighted = (one["score"] * weight for one, weight in zip(verdicts, weights, strict=True))
    combined: Record = {"pass": all(one["pass"] for one in verdicts), "score": sum(weighted) / sum(weights)}
    return combined | ({"reasoning": "; ".join(reasons)} if reasons else {})
