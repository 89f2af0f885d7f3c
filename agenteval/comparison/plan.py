"""Pilot runs and a question → the plan of an evaluation: how many prompts and trials it needs, and advice in words."""

from collections.abc import Sequence

from agenteval.errors import BadRecord
from agenteval.statistics.intervals import LEVEL
from agenteval.statistics.power import (
    TRIALS,
    Passes,
    Pilot,
    Question,
    detectable,
    mean_rate,
    prompts_needed,
    variances,
)
from agenteval.statistics.sequential import passes_of
from agenteval.streams.source import Refusals, Source, read_checked
from agenteval.streams.text import counted
from agenteval.wire.plan import EvaluationPlan, PassVariance, PlanOption
from agenteval.wire.records import Record


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
