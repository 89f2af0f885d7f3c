"""Trials in a comparison: what is kept of each prompt, and the figures of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from agenteval.comparison.rows import expense, input_digest
from agenteval.errors import BadRecord
from agenteval.statistics import samples as stats
from agenteval.statistics.samples import plug_in_pass_at_k, plug_in_pass_exp_k
from agenteval.wire.records import GraderErrorText, Id, Input, Rate, Wire
from agenteval.wire.result_view import Measured, Number, measured_time

MOST_FLAKY = 10
MOST_TRIALS = 1_000_000  # of a prompt
STEPS = (1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500)  # numbers of trials that get an interval, besides k
NOISE = 1e-9  # rounding: 1-(1-p) is not p to the last digit, and that does not make a prompt flaky


# --- what a comparison reads of a prompt's trials -----------------------------------------------


class ComparedTrial(Wire):
    """The fields of one trial that a comparison reads."""

    pass_: bool | None = msgspec.field(name="pass", default=None)
    score: Rate | None = None
    grader_error: GraderErrorText = None
    errors: list[str] | None = None
    graded_failed: bool | None = None
    duration: Number | None = None
    timing: Measured | None = None

    @property
    def milliseconds(self) -> float | None:
        """How long it took; None if that is not known."""
        given = self.timing.duration if self.duration is None and self.timing else self.duration
        return measured_time(given)

    @property
    def clock_set_back(self) -> bool:
        """Whether the measured duration is negative; it counts as unknown."""
        return self.duration < 0 if self.duration is not None else bool(self.timing and self.timing.clock_set_back)

    @property
    def agent_failed(self) -> bool:
        """Whether the agent failed and its answer does not count as graded (see ae-trials --grade-failed)."""
        return bool(self.errors) and not self.graded_failed

    @property
    def has_verdict(self) -> bool:
        """Whether it passed or not is known: an agent that failed has not passed."""
        return self.agent_failed or self.pass_ is not None

    @property
    def has_grader_error(self) -> bool:
        """Whether it has no verdict because the grader erred."""
        return bool(self.grader_error) and not self.agent_failed


class ComparedTrials(Wire):
    """The fields of a prompt's trials that a comparison reads."""

    id: Id
    input: Input | None = None
    model: Any = None
    metadata: dict[str, Any] | None = None
    k: Annotated[int, Meta(ge=1, le=MOST_TRIALS)] | None = None
    trials: list[ComparedTrial] | None = None
    pass_rate: Rate | None = None
    pass_at_k: Rate | None = None
    pass_exp_k: Rate | None = None


class TrialRow(msgspec.Struct, frozen=True, gc=False):
    """What is kept of the trials of one prompt: counts, pass rates (None: not graded), scores and times."""

    line: int = 0
    input_digest: int = 0
    category: str | None = None
    cluster: str | None = None
    cost_estimated: bool = False
    clock_set_back: bool = False
    k: int = 1
    trials: int = 0
    graded: int = 0
    passed: int = 0
    failed: int = 0
    grader_errors: int = 0
    pass_rate: float | None = None
    pass_at_k: float | None = None
    pass_exp_k: float | None = None
    scores: tuple[float, ...] = ()
    durations: tuple[float, ...] = ()
    token_values: tuple[float, ...] = ()
    cost_values: tuple[float, ...] = ()

    @property
    def mean_score(self) -> float | None:
        """The mean over the trials that have a score."""
        return stats.mean(self.scores)

    @property
    def mean_duration(self) -> float | None:
        """The mean over the trials whose duration is known."""
        return stats.mean(self.durations)

    @property
    def tokens(self) -> float | None:
        """The mean over the trials whose tokens are known."""
        return stats.mean(self.token_values)

    @property
    def cost(self) -> float | None:
        """The mean over the trials whose cost is known."""
        return stats.mean(self.cost_values)

    @property
    def flakiness(self) -> float | None:
        """passAtK - passExpK, 0 if that is only noise; None if it is not graded."""
        if self.pass_at_k is None or self.pass_exp_k is None:
            return None
        return gap if (gap := self.pass_at_k - self.pass_exp_k) > NOISE else 0.0

    def at_k(self, k: int) -> TrialRow:
        """The row with the rates for k trials."""
        if self.k == k:
            return self
        rate = self.pass_rate
        at, exp = (None, None) if rate is None else (plug_in_pass_at_k(rate, k), plug_in_pass_exp_k(rate, k))
        return msgspec.structs.replace(self, k=k, pass_at_k=at, pass_exp_k=exp)


def trial_row(record: ComparedTrials, line: int = 0) -> TrialRow:
    """What is kept of a prompt's trials; BadRecord if it is not a record of trials."""
    k, trials = record.k, record.trials
    if k is None or trials is None:
        raise BadRecord(f'"{"k" if k is None else "trials"}" is missing: trials are expected here')
    graded, passed = _passes(record, trials)
    rate = passed / graded if graded else None
    overruled = any(trial.agent_failed and trial.pass_ for trial in trials)  # then the record's rates are wrong, too
    at, exp = (None, None) if overruled else (record.pass_at_k, record.pass_exp_k)
    notes = record.metadata or {}
    spent = [expense(trial.timing or Measured(), record.model or notes.get("model")) for trial in trials]
    return TrialRow(
        line=line,
        input_digest=input_digest(record.input),
        cost_estimated=any(found.estimated for found in spent),
        token_values=tuple([found.tokens for found in spent if found.tokens is not None]),
        cost_values=tuple([found.cost for found in spent if found.cost is not None]),
        k=k,
        trials=len(trials),
        graded=graded,
        passed=passed,
        failed=sum(trial.agent_failed for trial in trials),
        grader_errors=sum(trial.has_grader_error for trial in trials),
        pass_rate=rate,
        pass_at_k=plug_in_pass_at_k(rate, k) if rate is not None and at is None else at,
        pass_exp_k=plug_in_pass_exp_k(rate, k) if rate is not None and exp is None else exp,
        scores=_scores(trials) if graded else (),
        clock_set_back=any(trial.clock_set_back for trial in trials),
        durations=tuple([float(took) for trial in trials if (took := trial.milliseconds) is not None]),
    )


def with_failures_graded(rows: dict[str, TrialRow]) -> dict[str, TrialRow]:
    """The rows of a run; if any is graded, a prompt whose trials all failed has not passed, with score 0."""
    if not any(row.graded for row in rows.values()):
        return rows
    scored = any(row.scores for row in rows.values())
    zero = {"pass_rate": 0.0, "pass_at_k": 0.0, "pass_exp_k": 0.0}
    return {
        id: msgspec.structs.replace(row, graded=row.failed, scores=(0.0,) * row.failed if scored else (), **zero)
        if row.failed and not row.graded
        else row
        for id, row in rows.items()
    }


def _scores(trials: Sequence[ComparedTrial]) -> tuple[float, ...]:
    """The scores of the trials that have one; that of an agent that failed is 0."""
    known = [0.0 if trial.agent_failed else None if trial.grader_error else trial.score for trial in trials]
    scored = any(trial.score is not None for trial in trials)
    return tuple([score for score in known if score is not None]) if scored else ()


def _passes(record: ComparedTrials, trials: Sequence[ComparedTrial]) -> tuple[int, int]:
    """How many trials are graded and how many of them pass; by the record's passRate if no trial has a verdict."""
    known = [trial for trial in trials if not trial.has_grader_error]
    if any(trial.pass_ is not None for trial in known):
        graded = [bool(trial.pass_) and not trial.agent_failed for trial in known if trial.has_verdict]
        return len(graded), sum(graded)
    if record.pass_rate is not None:
        return len(known), round(record.pass_rate * len(known))
    return 0, 0
