"""Pass rates and variances → the number of prompts that show a difference with a given power.

The difference of two runs over n prompts with k trials each has the variance (difference + 2 * within / k) / n: trials
average out only the second part. Whether it is shown is decided by the paired t test, as in ae-compare. Pilot runs
measure the variances; what they do not measure is assumed.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agenteval.statistics.distributions import detectable_shift, normal_quantile
from agenteval.statistics.intervals import LEVEL
from agenteval.statistics.paired import TIE
from agenteval.statistics.samples import variance
from agenteval.wire.plan import Source

SHARE_BETWEEN = 0.5  # of prompts that differ in difficulty about as much as their trials differ by chance
CORRELATION = 0.8
TRIALS = (1, 2, 3, 5, 10)
FEWEST = 3
ASSUMED: Source = "assumed"
MEASURED: Source = "measured"
EXACT_BELOW = 200  # degrees of freedom; beyond, the normal distribution differs by less than one prompt in 100


# --- pilot runs ---------------------------------------------------------------------------------


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


# --- what is to be shown ------------------------------------------------------------------------


class Question(NamedTuple):
    """What is to be shown, and what is assumed where no pilot measures it; None is the default."""

    detect: float
    power: float
    rate: float | None = None
    share_between: float | None = None
    correlation: float | None = None


class Variances(NamedTuple):
    """The parts of the variance of one prompt's difference, and where they are from."""

    between: float
    within: float  # mean of the two runs
    difference: float
    correlation: float
    share_source: Source
    correlation_source: Source

    def of_prompt(self, k: int) -> float:
        """The variance of one prompt's difference with k trials in each run."""
        return self.difference + 2 * self.within / k


def variances(rate: float, question: Question, pilots: Sequence[Pilot]) -> Variances:
    """Returns the parts of the variance: measured where the pilots allow it, else assumed."""
    other = other_rate(rate, question.detect)
    total = (rate * (1 - rate) + other * (1 - other)) / 2
    measured = share_between(pilots) if question.share_between is None else None
    assumed = SHARE_BETWEEN if question.share_between is None else question.share_between
    share, share_source = (assumed, ASSUMED) if measured is None else (measured, MEASURED)
    between, within = share * total, (1 - share) * total
    correlation = CORRELATION if question.correlation is None else question.correlation
    pair = variance_of_differences(*pilots) if len(pilots) == 2 and question.correlation is None else None
    if pair is not None:
        seen, noise = pair
        difference = max(0.0, seen - 2 * within * noise)
        correlation = max(-1.0, 1 - difference / (2 * between)) if between else 1.0
        return Variances(between, within, difference, correlation, share_source, "measured")
    return Variances(between, within, 2 * between * (1 - correlation), correlation, share_source, "assumed")


def share_between(pilots: Sequence[Pilot]) -> float | None:
    """The share of the variance that is between prompts; None unless a pilot has several trials that differ."""
    found = [(between, mean_rate(pilot)) for pilot in pilots if (between := variance_between(pilot)) is not None]
    spread = math.fsum(rate * (1 - rate) for _, rate in found)
    return min(1.0, math.fsum(between for between, _ in found) / spread) if spread > 0 else None


def other_rate(rate: float, detect: float) -> float:
    """The pass rate of the other run: of the two possible, the one with the larger variance."""
    return min(max(0.0, min(other_rates(rate, detect), key=lambda other: abs(other - 0.5))), 1.0)


def other_rates(rate: float, detect: float) -> list[float]:
    """The pass rates that differ by that much."""
    return [other for other in (rate - detect, rate + detect) if -TIE <= other <= 1 + TIE]


def shift(prompts: int, power: float) -> float:
    """How many standard errors a true difference must have to be shown by so many prompts with that power."""
    if prompts - 1 < EXACT_BELOW:
        return detectable_shift(prompts - 1, LEVEL, power)
    return normal_quantile(0.5 + LEVEL / 2) + (normal_quantile(power) if power > 0.5 else 0.0)


def prompts_needed(variance: float, detect: float, power: float) -> int:
    """Returns how many prompts show the difference, given the variance of one prompt's difference."""
    at_least = variance * (shift(EXACT_BELOW + 1, power) / detect) ** 2
    prompts = max(FEWEST, math.ceil(at_least))
    while shift(prompts, power) * math.sqrt(variance / prompts) > detect:
        prompts += 1
    return prompts


def detectable(prompts: int, variance: float, power: float) -> float | None:
    """Returns the smallest difference that so many prompts show; None if it is beyond all rates."""
    if prompts < 2:
        return None
    found = shift(prompts, power) * math.sqrt(variance / prompts)
    return found if found < 1 else None
