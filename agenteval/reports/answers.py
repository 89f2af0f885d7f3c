"""The answers in a file of results or trials, one by one: what exports to other programs are made of."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from agenteval.reports.page.overview import FACTS, LATEST
from agenteval.reports.result_reader import ResultReader
from agenteval.reports.trial_views import trial_views
from agenteval.streams.jsonl import decode_record
from agenteval.streams.text import whole_number
from agenteval.wire.records import Record, Step
from agenteval.wire.result_view import Number, ResultWithSteps, is_trial
from agenteval.wire.validation import check

EPOCH = 1e11  # a larger timestamp counts from 1970, not from the start of the run


class ExportedResult(ResultWithSteps, kw_only=True):
    """The fields of a result that exports read."""

    model: Any = None


_decode = msgspec.json.Decoder(ExportedResult).decode


class ExportedAnswer(NamedTuple):
    """One answer to a prompt: a result, or one of several trials as if it were a result."""

    result: ResultWithSteps  # of a trial, its id is ID#N
    prompt_id: str
    trial: int | None = None
    pass_rate: float | None = None  # of all trials of the prompt

    @property
    def status(self) -> str:
        """The status of the result."""
        return self.result.status

    @property
    def why(self) -> str | None:
        """The error of the agent or the grader, else the reasoning of the grade."""
        result = self.result
        if result.agent_failed:
            return result.failures[0]
        return result.why_not_graded or (result.score.reasoning if result.score else None)

    @property
    def steps(self) -> list[Step]:
        """The steps of the agent."""
        return self.result.trajectory or []

    @property
    def metadata(self) -> Record:
        """The metadata of the prompt and the run."""
        return self.result.metadata or {}

    @property
    def agent(self) -> str:
        """The name of the agent; "agent" if it is not known."""
        return _text(self.metadata, FACTS["Agent"]) or "agent"

    @property
    def agent_version(self) -> str | None:
        """The version of the agent, if the record has one."""
        return _text(self.metadata, FACTS["Agent version"])

    @property
    def model(self) -> str | None:
        """The name of the model, if the record has one."""
        return _text({"model": getattr(self.result, "model", None)}, ("model",)) or _text(self.metadata, FACTS["Model"])

    @property
    def start(self) -> Number | None:
        """When the agent was started, in milliseconds since 1970; None if that is not known."""
        timing = self.result.timing
        start = timing.start if timing else None
        if start is None and self.steps and (self.steps[0].timestamp or 0) > EPOCH:
            start = self.steps[0].timestamp
        return start if start is not None and 0 < start < LATEST else None

    @property
    def end(self) -> Number | None:
        """When the agent ended, in milliseconds since 1970; None if that is not known."""
        start, duration = self.start, self.result.duration
        return None if start is None or duration is None or start + duration >= LATEST else start + duration

    def time_of(self, step: Step) -> Number | None:
        """When a step came, in milliseconds since 1970; None if that is not known."""
        stamp, start = step.timestamp, self.start
        if stamp is None or stamp < 0 or stamp >= LATEST:
            return None
        return stamp if stamp > EPOCH else None if start is None else start + stamp

    def usage(self, name: str) -> Number | None:
        """A count of tokens or the cost, as the agent reports it; None if it does not."""
        value: Number | None = getattr(self.result.timing, name) if self.result.timing else None
        return value if value is not None and value >= 0 else None

    def tokens(self, name: str) -> int | None:
        """A count of tokens as an integer; None if it is not known."""
        value = self.usage(name)
        return None if value is None else round(value)

    def verdict(self) -> Record:
        """The status, and what is known of pass, score, reasoning, each grader's verdict and a grader's error."""
        result = self.result
        fields: Record = {"status": self.status}
        if result.grade is not None:
            fields |= {"pass": result.grade.pass_, "score": result.grade.score}
        if result.score is not None and result.score.reasoning:
            fields["reasoning"] = result.score.reasoning
        if result.scores:
            fields["scores"] = msgspec.to_builtins(result.scores)
        if result.why_not_graded is not None:
            fields["grader_error"] = result.why_not_graded
        return fields


def _text(record: Record, keys: tuple[str, ...]) -> str | None:
    return next((value for key in keys if isinstance(value := record.get(key), str) and value), None)


def iso(milliseconds: Number) -> str:
    """A time as ISO 8601 in UTC, to the millisecond."""
    seconds, rest = divmod(int(milliseconds), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:03d}Z"


# --- reading ------------------------------------------------------------------------------------


def read_answers(results: ResultReader) -> Iterator[ExportedAnswer]:
    """Yields each answer of a file of results or trials, as it comes."""
    for answers in read_prompts(results):
        yield from answers


def read_prompts(results: ResultReader) -> Iterator[list[ExportedAnswer]]:
    """Yields the answers of each record, as it comes: one of a result, several of trials."""
    for prompt_id, answers in results.lines(parse_answers):
        yield answers
        results.seen(prompt_id)


def parse_answers(line: bytes) -> tuple[str, list[ExportedAnswer]]:
    """The id of a record and its answers; BadRecord if it is neither a result nor trials."""
    try:
        result = _decode(line)
    except (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError):
        record = decode_record(line)
        if is_trial(record.get("trials"), record.get("k")):
            answers = list(_trial_answers(record))  # first: it checks that there is an id
            return record["id"], answers
        result = check(record, ExportedResult)
    return result.id, [ExportedAnswer(result, result.id)]


def _trial_answers(record: Record) -> Iterator[ExportedAnswer]:
    for at, view in enumerate(trial_views(record), 1):
        number = whole_number(view.id.removeprefix(f"{view.trial_of}#"))
        yield ExportedAnswer(view, view.trial_of, at if number is None else number, view.pass_rate)
