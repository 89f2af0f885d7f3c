"""From pass rate and variances to the number of prompts that show a difference with a given power.

The difference of two runs over n prompts with k trials each has the variance (difference + 2 * within / k) / n: trials
average out only the second part. Whether it is shown is decided by the paired t test, as in ae-compare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from agenteval.comparison.inference.distributions import detectable_shift, normal_quantile
from agenteval.comparison.inference.intervals import LEVEL
from agenteval.comparison.inference.paired import TIE
from agenteval.comparison.planning.pilot import (
    Pilot,
    mean_rate,
    variance_between,
    variance_of_differences,
)
from agenteval.streams.text import counted
from agenteval.wire.plan import EvaluationPlan, PassVariance, PlanOption, Source

SHARE_BETWEEN = 0.5  # of prompts that differ in difficulty about as much as their trials differ by chance
CORRELATION = 0.8
TRIALS = (1, 2, 3, 5, 10)
FEWEST = 3
ASSUMED: Source = "assumed"
MEASURED: Source = "measured"
EXACT_BELOW = 200  # degrees of freedom; beyond, the normal distribution differs by less than one prompt in 100


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


def make_plan(
    question: Question, pilots: Sequence[Pilot] = (), *, trials: int | None = None, available: int | None = None
) -> EvaluationPlan:
    """Returns what is needed for several numbers of trials; `trials` is one more of them."""
    rate = question.rate if question.rate is not None else mean_rate(pilots[0])
    found = variances(rate, question, pilots)
    options = []
    for k in sorted({*TRIALS, *([trials] if trials else [])}):
        spread = found.of_prompt(k)
        prompts = prompts_needed(spread, question.detect, question.power)
        shown = detectable(available, spread, question.power) if available else None
        options.append(PlanOption(k=k, prompts=prompts, runs=prompts * k, detectable=shown))
    least = prompts_needed(found.difference, question.detect, question.power)
    plan = EvaluationPlan(
        detect=question.detect,
        power=question.power,
        level=LEVEL,
        rate=rate,
        rate_source="assumed" if question.rate is not None else "measured",
        variance=PassVariance(
            between=found.between,
            within=found.within,
            share_between=found.between / (found.between + found.within) if found.between else 0.0,
            share_source=found.share_source,
            difference=found.difference,
            correlation=found.correlation,
            correlation_source=found.correlation_source,
        ),
        options=options,
        least_prompts=least,
        available=available,
        advice=[],
    )
    plan.advice = advice(plan, trials or 1)
    return plan


def advice(plan: EvaluationPlan, k: int) -> list[str]:
    """The plan in words: what is needed, why more prompts and not more trials, and what the prompts there are show."""
    by_k = {option.k: option for option in plan.options}
    asked, once, most = by_k[k], by_k[1], plan.options[-1]
    goal = f"To show a difference of {plan.detect:g} in pass rate {plan.power:.0%} of the time"
    lines = [
        f"{goal}, run {asked.prompts:,} prompts with {counted(k, 'trial')} each: {asked.runs:,} runs of each agent."
    ]
    if most.runs > once.runs:
        costs = f"{once.prompts:,} prompts with 1 trial are {once.runs:,} runs"
        costs += f", {most.prompts:,} prompts with {most.k} trials are {most.runs:,}"
        limit = f"fewer than {plan.least_prompts:,} prompts are not enough, however many trials each has"
        lines.append(f"More prompts, not more trials: {costs}; {limit}.")
    if plan.available and asked.detectable:
        line = f"With the {plan.available:,} prompts there are, {counted(k, 'trial')} each show a difference"
        line += f" of {asked.detectable:.3f} or more"
        if most.detectable and most.k > k:
            line += f", {most.k} trials one of {most.detectable:.3f}"
        lines.append(f"{line}.")
    return lines
