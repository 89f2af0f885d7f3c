"""Typed views of a result: the fields that later stages read; the rest of the line is skipped unread."""

from agenteval.wire.records import GraderResult, Id, Input, Record, Step, StepType, Wire
from agenteval.wire.richness import Richness as Richness
from agenteval.wire.richness import richness_of as richness_of

Number = int | float  # as it came: 1200 does not turn into 1200.0


class Measured(Wire):
    """What was measured of a run; other harnesses leave out what they do not know."""

    start: Number | None = None
    end: Number | None = None
    total: Number | None = None
    input_tokens: Number | None = None
    output_tokens: Number | None = None
    cached_tokens: Number | None = None
    cost_usd: Number | None = None


class ResultView(Wire):
    """The fields of a result that reports show; a trajectory is passed over unread."""

    id: Id
    output: str
    input: Input | None = None
    hint: str | None = None
    tool_errors: bool | None = None
    timing: Measured | None = None
    score: GraderResult | None = None
    scores: dict[str, GraderResult] | None = None
    grader_error: bool | None = None
    errors: list[str] | None = None
    error: str | None = None

    @property
    def grade(self) -> GraderResult | None:
        """The score that counts: none where nobody graded, nor where the grader itself failed."""
        return None if self.grader_error else self.score

    @property
    def failures(self) -> list[str]:
        """What went wrong with the agent."""
        return self.errors or ([self.error] if self.error else [])

    @property
    def duration(self) -> Number | None:
        """Milliseconds."""
        if self.timing is None:
            return None
        total, start, end = self.timing.total, self.timing.start, self.timing.end
        return end - start if total is None and start is not None and end is not None else total

    @property
    def tokens(self) -> Number | None:
        """Tokens in and out together."""
        counts = [self.timing.input_tokens, self.timing.output_tokens] if self.timing else []
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    def turns(self, separator: str) -> str:
        """The input as one text."""
        return self.input or "" if isinstance(self.input, str | None) else separator.join(self.input)


def is_grader_error(row: ResultView, grade: GraderResult) -> bool:
    """Whether, of a record's several graders, this is one that failed: only its reasoning says so."""
    return bool(row.grader_error) and (grade.reasoning or "").startswith("grader error")


class CalledTool(Wire):
    """What a summary tells of a step; what the tool was given and gave back is passed over unread."""

    type: StepType
    name: str | None = None


class ResultWithCalls(ResultView):
    """The fields that a summary is made of."""

    trajectory: list[CalledTool] | None = None


class ResultWithSteps(ResultView):
    """The fields that a section is made of."""

    trajectory: list[Step] | None = None
    metadata: Record | None = None
