"""Pilot runs: how often each prompt passed, and the variance between prompts and within a prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from agenteval.comparison.statistics import variance
from agenteval.errors import BadRecord
from agenteval.streams.source import Refusals, Source, read_checked
from agenteval.wire.records import Grade, GraderErrorText, Id, Record, Wire
from agenteval.wire.validation import check


class PilotEntry(Wire):
    """What counts of a result and of a trial."""

    errors: list[str] | None = None
    error: str | None = None
    grader_error: GraderErrorText = None
    graded_failed: bool | None = None

    def passed(self, verdict: bool | None) -> bool | None:
        """Whether it passed; None if it is not graded. An agent that failed did not pass."""
        if (self.errors or self.error) and not self.graded_failed:
            return False
        return None if self.grader_error else verdict


class PilotTrial(PilotEntry):
    """A trial; `pass` is at its top. In a result, a field of that name is the user's own."""

    pass_: bool | None = msgspec.field(name="pass", default=None)


class PilotRecord(PilotEntry, kw_only=True):
    """A result, or the trials of a prompt."""

    id: Id
    score: Grade | None = None
    trials: list[PilotTrial] | None = None

    def verdicts(self) -> list[bool]:
        """Whether each graded trial passed; a result is one trial."""
        if self.trials is None:
            found = [self.passed(self.score.pass_ if self.score else None)]
        else:
            found = [trial.passed(trial.pass_) for trial in self.trials]
        return [passed for passed in found if passed is not None]


class Passes(NamedTuple):
    """How many of a prompt's trials passed."""

    passed: int
    trials: int

    @property
    def rate(self) -> float:
        """The share that passed."""
        return self.passed / self.trials


Pilot = Mapping[str, Passes]
"""The graded prompts of a run, by id."""


def read_pilot(source: Source, refusals: Refusals, *, resumed: bool = False) -> Pilot:
    """Reads results or trials; a prompt without a grade is left out, a second record of one refused.

    Of a `resumed` file the last record of a prompt counts: its agent was run again.
    """
    found: dict[str, Passes] = {}

    def accept(record: Record) -> None:
        passes = passes_of(record)  # first: it checks the id
        if record["id"] in found and not resumed:
            raise BadRecord(f'"id" {record["id"]} is there twice; the first one counts')
        if passes is not None:
            found[record["id"]] = passes

    for _ in read_checked(source, accept, refusals):
        pass
    return found


def passes_of(record: Record) -> Passes | None:
    """How many trials of a record passed; None if none is graded, BadRecord if it is no result and no trials."""
    if "output" in record and not isinstance(record.get("trials"), list):
        record = {**record, "trials": None}  # of a result, it is a field of the user's own
    verdicts = check(record, PilotRecord).verdicts()
    return Passes(sum(verdicts), len(verdicts)) if verdicts else None


def mean_rate(pilot: Pilot) -> float:
    """The mean of the prompts' pass rates."""
    return math.fsum(prompt.rate for prompt in pilot.values()) / len(pilot)


def variance_within(pilot: Pilot) -> float | None:
    """The mean variance between trials of one prompt, unbiased; None unless two prompts have two trials or more."""
    known = [prompt for prompt in pilot.values() if prompt.trials > 1]
    if len(known) < 2:
        return None
    return math.fsum(p.trials / (p.trials - 1) * p.rate * (1 - p.rate) for p in known) / len(known)


def variance_between(pilot: Pilot) -> float | None:
    """The variance of the prompts' true pass rates: of what was seen, less the noise of few trials."""
    within = variance_within(pilot)
    if within is None:
        return None
    noise = within * math.fsum(1 / prompt.trials for prompt in pilot.values()) / len(pilot)
    return max(0.0, variance([prompt.rate for prompt in pilot.values()]) - noise)


def variance_of_differences(a: Pilot, b: Pilot) -> tuple[float, float] | None:
    """The variance of the differences of two runs' prompts as seen, and its mean noise factor 1/trials; None if few."""
    shared = [id for id in a if id in b]
    if len(shared) < 2:
        return None
    seen = variance([a[id].rate - b[id].rate for id in shared])
    return seen, math.fsum((1 / a[id].trials + 1 / b[id].trials) / 2 for id in shared) / len(shared)
