"""The row: one prompt and its attempts, decoded from a line of results or of trials.

A result is a prompt with one attempt, a record of trials one with k. Every report, comparison and gate reads rows, so
"results or trials?" is answered here, and so is the rule that a failed agent never passes. `streams/rows.py` reads
them from files. Files of agent-eval-harness and of earlier versions of this suite are valid input: what they leave out
is not known, and their stand-ins for grader errors are recognised.

Decoding a trajectory costs more than all the rest, so there are three depths: `Row` skips it, `RowWithCalls` has the
type, name and status of each step, `RowWithSteps` has whole steps.
"""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from agenteval.wire.records import (
    AGENT_FAILED,
    LARGEST,
    RUN_FIELDS,
    TRIALS_FIELDS,
    GraderErrorText,
    GraderResult,
    HumanVerdict,
    Id,
    Input,
    Rate,
    Record,
    Step,
    Wire,
)

PASS, FAIL, ERROR, UNGRADED, GRADER_ERROR = "pass", "fail", "error", "ungraded", "grader-error"  # status of an attempt
FLAKY = "flaky"  # status of a row: some attempts pass, some do not
MOST_TRIALS = 1_000_000  # of a prompt

_LIMITS = Meta(ge=-LARGEST, le=LARGEST)  # sums of larger ones may not fit a float
Number = Annotated[int, _LIMITS] | Annotated[float, _LIMITS]  # as it came: 1200 does not turn into 1200.0


# --- results or trials --------------------------------------------------------------------------


def is_trials(trials: Any, k: Any) -> bool:
    """Whether a record with these fields holds trials; agent-eval-harness decides by the same two."""
    return isinstance(trials, list) and isinstance(k, int | float)


def holds_trials(record: Mapping[str, Any]) -> bool:
    """Whether a decoded record holds trials."""
    return is_trials(record.get("trials"), record.get("k"))


def fields_of_kind(record: Record) -> Record:
    """The record without the fields of the other kind: in a result, `trials` may be a field of the user's own."""
    others = RUN_FIELDS if holds_trials(record) else TRIALS_FIELDS
    return {name: value for name, value in record.items() if name not in others}


# --- what was measured --------------------------------------------------------------------------


class Measured(Wire):
    """What was measured of an attempt; other harnesses leave out what they do not know."""

    start: Number | None = None
    end: Number | None = None
    total: Number | None = None
    first_response: Number | None = None
    input_tokens: Number | None = None
    output_tokens: Number | None = None
    cached_tokens: Number | None = None
    cost_usd: Number | None = None

    @property
    def duration(self) -> Number | None:
        """Milliseconds from start to end; None if they are not known."""
        took = self.elapsed
        return None if took is None or took < 0 else took

    @property
    def clock_set_back(self) -> bool:
        """Whether the measured duration is negative; it counts as unknown."""
        took = self.elapsed
        return took is not None and took < 0

    @property
    def elapsed(self) -> Number | None:
        """Milliseconds from start to end as they were recorded: negative if the clock was set back."""
        if self.total is not None or self.start is None or self.end is None:
            return self.total
        return self.end - self.start

    @property
    def tokens(self) -> Number | None:
        """Input and output tokens together; None unless both are known."""
        sent, received = self.input_tokens, self.output_tokens
        return None if sent is None or received is None else sent + received

    @property
    def reports_tokens(self) -> bool:
        """Whether the agent reported any count of tokens."""
        return self.input_tokens is not None or self.output_tokens is not None


NOT_MEASURED = Measured()


class StepOutline(Wire):
    """A step without its content."""

    type: str | None = None
    name: str | None = None
    status: str | None = None


# --- one attempt --------------------------------------------------------------------------------


class CheckResult(NamedTuple):
    """What became of one of the checks that a prompt carries."""

    name: str
    passes: bool
    reason: str


class Attempt(msgspec.Struct, kw_only=True):
    """One answer of the agent to a prompt: a result, or one of several trials."""

    number: int
    """From 1; that of a result is 1."""
    output: str
    timing: Measured
    outcome: Record | None
    tool_errors: bool | None
    cwd: str | None
    trajectory: list[Step] | None
    """The steps; in a `RowWithCalls` each has only type, name and status, in a `Row` there are none."""
    failures: list[str]
    """What went wrong with the agent; empty if nothing did."""
    agent_failed: bool
    """Whether the agent failed and its answer does not count as graded (see ae-grade --grade-failed)."""
    verdict: GraderResult | None
    """As it is recorded; `score` is what counts."""
    given_score: float | None
    """The score as it is recorded: None where a trial only has `pass`, of which `score` makes 1.0 or 0.0."""
    recorded_scores: dict[str, GraderResult] | None
    """Each grader's verdict as it is recorded; `scores` are those that count."""
    score: GraderResult | None
    """The verdict; a failed agent never passes, whichever tool graded it."""
    scores: dict[str, GraderResult] | None
    """The verdict of each grader, by its name; None for a failed agent."""
    grader_error: GraderErrorText
    """Why a grader could not grade it; None for a failed agent, which is not graded."""
    human_verdict: HumanVerdict | None
    """A person's verdict, which `score` has, too; None for a failed agent."""

    @property
    def grade(self) -> GraderResult | None:
        """The verdict that counts; None if it was not graded, or if the grader erred."""
        return None if self.grader_error else self.score

    @property
    def passed(self) -> bool:
        """Whether it was graded and passed."""
        grade = self.grade
        return grade is not None and grade.pass_

    @property
    def status(self) -> str:
        """How it ended: PASS, FAIL, ERROR (the agent failed), UNGRADED or GRADER_ERROR."""
        if self.agent_failed:
            return ERROR
        if self.grader_error:
            return GRADER_ERROR
        if self.score is None:
            return UNGRADED
        return PASS if self.score.pass_ else FAIL

    @property
    def checks(self) -> list[CheckResult]:
        """What ae-grader-checks found, check by check; empty if it did not grade the answer."""
        for verdict in (self.grade, *(self.scores or {}).values()):
            found = ((verdict and verdict.outcome) or {}).get("checks")
            if isinstance(found, list) and all(isinstance(one, dict) for one in found):
                return [
                    CheckResult(str(one.get("name")), one.get("pass") is True, str(one.get("reason"))) for one in found
                ]
        return []

    @property
    def why_not_graded(self) -> str | None:
        """Why the grader erred; None if it did not."""
        error = self.grader_error
        if not error or isinstance(error, str):
            return error or None
        older = (self.verdict.reasoning or "").removeprefix("grader error: ") if self.verdict else ""
        return older or "grader error"

    def is_grader_error(self, verdict: GraderResult) -> bool:
        """Whether this is a stand-in of earlier versions for the verdict of a grader that erred."""
        return bool(self.grader_error) and (verdict.reasoning or "").startswith("grader error")

    @property
    def duration(self) -> Number | None:
        return self.timing.duration

    @property
    def tokens(self) -> Number | None:
        return self.timing.tokens

    @property
    def cost(self) -> Number | None:
        """US dollars as the agent reports them; None if it does not."""
        return self.timing.cost_usd


# --- as it is on the wire -----------------------------------------------------------------------


class AnswerFields(Wire):
    """The fields that a result and a trial have both."""

    output: str | None = None
    timing: Measured | None = None
    outcome: Record | None = None
    scores: dict[str, GraderResult] | None = None
    grader_error: GraderErrorText = None
    human_verdict: HumanVerdict | None = None
    tool_errors: bool | None = None
    errors: list[str] | None = None
    error: str | None = None
    graded_failed: bool | None = None
    cwd: str | None = None

    def as_attempt(self, number: int, timing: Measured, verdict: GraderResult | None, score: float | None) -> Attempt:
        """The answer as an attempt; `score` is the one that is recorded."""
        failures = self.errors or ([self.error] if self.error else [])
        failed = bool(failures) and not self.graded_failed
        no_pass = GraderResult(pass_=False, score=0.0, reasoning=f"{AGENT_FAILED}{failures[0]}") if failed else None
        return Attempt(
            number=number,
            output=self.output or "",
            timing=timing,
            outcome=self.outcome,
            tool_errors=self.tool_errors,
            cwd=self.cwd,
            trajectory=getattr(self, "trajectory", None),
            failures=failures,
            agent_failed=failed,
            verdict=verdict,
            given_score=score,
            recorded_scores=self.scores,
            score=no_pass if failed and verdict else verdict,
            scores=None if failed else self.scores,
            grader_error=None if failed else self.grader_error,
            human_verdict=None if failed else self.human_verdict,
        )


class TrialLine(AnswerFields):
    """The fields of one trial that are read."""

    trial_num: Any = None
    duration: Number | None = None
    pass_: bool | None = msgspec.field(name="pass", default=None)
    score: Rate | None = None
    reasoning: str | None = None

    def attempt(self, at: int) -> Attempt:
        """The trial as an attempt; `at` is its number if it has none."""
        timing, verdict = self.timing or NOT_MEASURED, None
        if self.duration is not None:
            timing = msgspec.structs.replace(timing, total=self.duration)
        if self.pass_ is not None:
            score = float(self.pass_) if self.score is None else self.score
            verdict = GraderResult(pass_=self.pass_, score=score, reasoning=self.reasoning, outcome=self.outcome)
        number = self.trial_num if type(self.trial_num) is int else at
        return self.as_attempt(number, timing, verdict, self.score)


class TrialWithCalls(TrialLine):
    """The same with the outline of each step."""

    trajectory: list[StepOutline] | None = None


class TrialWithSteps(TrialLine):
    """The same with whole steps."""

    trajectory: list[Step] | None = None


# --- the row ------------------------------------------------------------------------------------


class Row(AnswerFields, dict=True, kw_only=True):
    """A prompt and its attempts, without trajectories."""

    id: Id
    input: Input | None = None
    hint: str | None = None
    metadata: Record | None = None
    model: Any = None
    score: GraderResult | None = None
    given_k: Annotated[int, Meta(ge=1, le=MOST_TRIALS)] | None = msgspec.field(name="k", default=None)
    trials: list[TrialLine] | None = None
    given_pass_rate: Rate | None = msgspec.field(name="passRate", default=None)
    given_pass_at_k: Rate | None = msgspec.field(name="passAtK", default=None)
    given_pass_exp_k: Rate | None = msgspec.field(name="passExpK", default=None)

    @property
    def is_trials(self) -> bool:
        """Whether it is a record of trials; then it has k attempts, named `ID#N`."""
        return is_trials(self.trials, self.given_k)

    @property
    def k(self) -> int:
        """How many attempts the prompt was to have; 1 for a result."""
        return self.given_k if self.is_trials and self.given_k is not None else 1

    @cached_property
    def attempts(self) -> list[Attempt]:
        """The result as the only attempt, or the trials in order."""
        if self.is_trials:
            return [trial.attempt(at) for at, trial in enumerate(self.trials or (), 1)]
        score = self.score.score if self.score else None
        return [self.as_attempt(1, self.timing or NOT_MEASURED, self.score, score)]

    def name_of(self, attempt: Attempt) -> str:
        """The name of an attempt in reports: the prompt's id, of a trial `ID#N`."""
        return f"{self.id}#{attempt.number}" if self.is_trials else self.id

    def turns(self, separator: str) -> str:
        """The input as one text."""
        return separator.join(self.input) if isinstance(self.input, list) else self.input or ""

    @cached_property
    def passes(self) -> tuple[int, int]:
        """How many attempts passed, and how many are graded: with a verdict, or failed beside one that has.

        Where no attempt has a verdict, the recorded `passRate` counts. A prompt whose attempts all failed is not
        graded: its run says whether a grader was there at all.
        """
        if self.has_only_rate:
            known = len(self.attempts) - self.grader_errors
            return round((self.given_pass_rate or 0.0) * known), known
        found = self.verdicts if self._has_verdict else []
        return sum(found), len(found)

    @property
    def _has_verdict(self) -> bool:
        return any(attempt.verdict and not attempt.grader_error for attempt in self.attempts)

    @property
    def has_only_rate(self) -> bool:
        """Whether the record says how many trials passed, but not which."""
        return self.given_pass_rate is not None and self.is_trials and not self._has_verdict

    @property
    def verdicts(self) -> list[bool]:
        """Whether each graded attempt passed; an agent that failed did not, with a grader or without."""
        return [
            attempt.passed
            for attempt in self.attempts
            if not attempt.grader_error and (attempt.agent_failed or attempt.verdict is not None)
        ]

    @property
    def passed(self) -> int:
        """How many attempts passed."""
        return self.passes[0]

    @property
    def graded(self) -> int:
        """How many attempts are graded."""
        return self.passes[1]

    @property
    def pass_rate(self) -> float | None:
        """The share of the graded attempts that passed; None if none is graded."""
        return self.passed / self.graded if self.graded else None

    @property
    def pass_at_k(self) -> float | None:
        """passAtK as it is recorded; None if that counts a failed agent as passed."""
        return None if self.given_pass_at_k is None or self._overruled else self.given_pass_at_k

    @property
    def pass_exp_k(self) -> float | None:
        """passExpK as it is recorded; None if that counts a failed agent as passed."""
        return None if self.given_pass_exp_k is None or self._overruled else self.given_pass_exp_k

    @property
    def _overruled(self) -> bool:
        return any(one.agent_failed and one.verdict is not None and one.verdict.pass_ for one in self.attempts)

    @property
    def failed(self) -> int:
        """How many agents failed, without those whose answers were graded nevertheless."""
        return sum(attempt.agent_failed for attempt in self.attempts)

    @property
    def grader_errors(self) -> int:
        """How many attempts have no verdict because the grader erred."""
        return sum(bool(attempt.grader_error) for attempt in self.attempts)

    @property
    def status(self) -> str:
        """The status of the only attempt; of several FLAKY if some pass and some do not."""
        attempts = self.attempts
        if not self.is_trials:
            return attempts[0].status
        if self.passed:
            return PASS if self.passed == self.graded else FLAKY
        if attempts and self.failed == len(attempts):
            return ERROR
        if self.graded:
            return FAIL
        return GRADER_ERROR if self.grader_errors else UNGRADED


class RowWithCalls(Row):
    """A row with the outline of each step: its type and, of a tool call, name and status."""

    trajectory: list[StepOutline] | None = None
    trials: list[TrialWithCalls] | None = None  # type: ignore[assignment]


class RowWithSteps(Row):
    """A row with whole steps."""

    trajectory: list[Step] | None = None
    trials: list[TrialWithSteps] | None = None  # type: ignore[assignment]


def combine(verdicts: list[Record]) -> Record:
    """Returns one score for several: pass if all pass, the weighted mean of the scores; a single one stays as it is."""
    if len(verdicts) == 1:
        return {field: value for field, value in verdicts[0].items() if field != "weight"}
    reasons = [one["reasoning"] for one in verdicts if not one["pass"] and one.get("reasoning")]
    weights = [one.get("weight") or 1 for one in verdicts]
    weighted = (one["score"] * weight for one, weight in zip(verdicts, weights, strict=True))
    combined: Record = {"pass": all(one["pass"] for one in verdicts), "score": sum(weighted) / sum(weights)}
    return combined | ({"reasoning": "; ".join(reasons)} if reasons else {})


# --- what metadata calls the agent, its version, the model and the run ------------------------------

AGENT, MODEL = ("agent",), ("model", "modelName", "model_name")  # what metadata calls them
LABEL, UNNAMED = ("label",), ("text", "acp")  # of --label; what an agent is called that has no adapter of its own
AGENT_VERSION = ("agentVersion", "agent_version", "version")


def agent_name(metadata: Record) -> str | None:
    """Returns what a title calls the agent: its name or, if it has no adapter of its own, that of its program."""
    name = first_text(metadata, AGENT)
    if name not in UNNAMED:
        return name
    command = first_text(metadata, ("agentCommand",)) or ""
    program, _, rest = command.partition(" ")
    if program == "sh" and rest.startswith("-c "):  # of --shell, as a whole
        return rest.removeprefix("-c ").strip("'")
    return os.path.basename(program) or None


def first_text(record: Record, keys: tuple[str, ...]) -> str | None:
    """The first of these fields that has a text; None if none has."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value:
            return value
    return None
