"""The answers in a file of results or trials, one by one: most forms and all exports are made of them."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from agenteval.wire.records import Record, Step
from agenteval.wire.row import AGENT, AGENT_VERSION, MODEL, Attempt, Number, Row, first_text

EPOCH = 1e11  # a larger timestamp counts from 1970, not from the start of the run
LATEST = 253_402_300_799_000  # the end of the year 9999, in milliseconds: the last that can be written as a date


class ReportedAnswer(NamedTuple):
    """One answer to a prompt: a result, or one of its trials."""

    row: Row
    attempt: Attempt

    @property
    def id(self) -> str:
        """The name of the answer: the prompt's id, ID#N for a trial."""
        return self.row.name_of(self.attempt)

    @property
    def trial(self) -> int | None:
        """The number of the trial; None for a result."""
        return self.attempt.number if self.row.is_trials else None

    @property
    def status(self) -> str:
        return self.attempt.status

    @property
    def why(self) -> str | None:
        """The error of the agent or the grader, else the reasoning of the grade."""
        if self.attempt.agent_failed:
            return self.attempt.failures[0]
        score = self.attempt.score
        return self.attempt.why_not_graded or (score.reasoning if score else None)

    @property
    def steps(self) -> list[Step]:
        return self.attempt.trajectory or []

    @property
    def metadata(self) -> Record:
        """The metadata of the prompt and the run."""
        return self.row.metadata or {}

    @property
    def agent(self) -> str:
        """The name of the agent; "agent" if it is not known."""
        return first_text(self.metadata, AGENT) or "agent"

    @property
    def agent_version(self) -> str | None:
        return first_text(self.metadata, AGENT_VERSION)

    @property
    def model(self) -> str | None:
        """The name of the model, if the record has one."""
        given = self.row.model
        return given if isinstance(given, str) and given else first_text(self.metadata, MODEL)

    @property
    def start(self) -> Number | None:
        """When the agent was started, in milliseconds since 1970; None if that is not known."""
        start = self.attempt.timing.start
        if start is None and self.steps and (self.steps[0].timestamp or 0) > EPOCH:
            start = self.steps[0].timestamp
        return start if start is not None and 0 < start < LATEST else None

    @property
    def end(self) -> Number | None:
        """When the agent ended, in milliseconds since 1970; None if that is not known."""
        start, duration = self.start, self.attempt.duration
        return None if start is None or duration is None or start + duration >= LATEST else start + duration

    def time_of(self, step: Step) -> Number | None:
        """When a step arrived, in milliseconds since 1970; None if that is not known."""
        stamp, start = step.timestamp, self.start
        if stamp is None or stamp < 0 or stamp >= LATEST:
            return None
        return stamp if stamp > EPOCH else None if start is None else start + stamp

    def usage(self, name: str) -> Number | None:
        """A count of tokens or the cost, as the agent reports it; None if it does not."""
        value: Number | None = getattr(self.attempt.timing, name)
        return value if value is not None and value >= 0 else None

    def tokens(self, name: str) -> int | None:
        """A count of tokens as an integer; None if it is not known."""
        value = self.usage(name)
        return None if value is None else round(value)

    def verdict(self) -> Record:
        """The status, and what is known of pass, score, reasoning, each grader's verdict and a grader's error."""
        attempt = self.attempt
        fields: Record = {"status": attempt.status}
        if attempt.grade is not None:
            fields |= {"pass": attempt.grade.pass_, "score": attempt.grade.score}
        if attempt.score is not None and attempt.score.reasoning:
            fields["reasoning"] = attempt.score.reasoning
        if attempt.scores:
            fields["scores"] = msgspec.to_builtins(attempt.scores)
        if attempt.why_not_graded is not None:
            fields["grader_error"] = attempt.why_not_graded
        return fields


def answers_in(row: Row) -> list[ReportedAnswer]:
    """The answers of a row."""
    return [ReportedAnswer(row, attempt) for attempt in row.attempts]


def story(attempts: Sequence[Attempt]) -> str:
    """The error or reasoning of the first answer that did not pass; if all passed, the first output."""
    for attempt in attempts:
        if attempt.failures:
            return attempt.failures[0]
        if (why := attempt.why_not_graded) is not None:
            return why
        if attempt.score is not None and attempt.score.reasoning and not attempt.score.pass_:
            return attempt.score.reasoning
    return attempts[0].output if attempts else ""


def iso(milliseconds: Number) -> str:
    """A time as ISO 8601 in UTC, to the millisecond."""
    seconds, rest = divmod(int(milliseconds), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:03d}Z"
