"""Pilot runs and a question → the plan of an evaluation: how many prompts and trials it needs, and advice in words."""

from collections.abc import Sequence

from agenteval.errors import BadRecord
from agenteval.statistics.intervals import LEVEL
from agenteval.statistics.power import (
    MOST,
    TRIALS,
    Goal,
    Passes,
    Pilot,
    Question,
    Variances,
    detectable,
    mean_rate,
    measured_range,
    prompts_needed,
    variances,
)
from agenteval.statistics.sequential import passes_of
from agenteval.streams.digests import prompt_digest
from agenteval.streams.source import Refusals, Source, read_checked
from agenteval.streams.text import counted
from agenteval.wire.plan import EvaluationPlan, PassVariance, PlanOption
from agenteval.wire.records import Record


def read_pilot(
    source: Source, refusals: Refusals, *, resumed: bool = False, asked: dict[str, str] | None = None
) -> dict[str, Passes]:
    """Reads results or trials; a prompt without a grade is left out, a second record of one refused.

    Of a `resumed` file the last record of a prompt counts: its agent was run again. `asked` gets the digest of what
    each prompt asked.
    """
    found: dict[str, Passes] = {}

    def accept(record: Record) -> None:
        passes = passes_of(record)  # first: it checks the id
        if record["id"] in found and not resumed:
            raise BadRecord(f'duplicate "id" {record["id"]}; the first one counts')
        if passes is not None:
            found[record["id"]] = passes
        if asked is not None and "input" in record:
            asked[record["id"]] = prompt_digest(record)

    for _ in read_checked(source, accept, refusals):
        pass
    return found


def make_plan(
    question: Question, pilots: Sequence[Pilot] = (), *, trials: int | None = None, available: int | None = None
) -> EvaluationPlan:
    """Returns what is needed for several numbers of trials; `trials` is one more of them.

    Pilots of one trial per prompt tell nothing about more of them, so that then only what is asked for is planned.
    """
    rate = question.rate if question.rate is not None else mean_rate(pilots[0])
    found = variances(rate, question, pilots)
    once = bool(pilots) and question.share_between is None and found.share_source == "assumed"
    scales = measured_range(rate, found, pilots)
    options = [
        plan_option(k, question, found, scales, available)
        for k in sorted({*((1,) if once else TRIALS), *([trials] if trials else [])})
    ]
    least = prompts_needed(question.detect, found.difference + question.detect**2, Goal(question.power))
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
            seen=found.seen.mean_square if found.seen else None,
        ),
        options=options,
        least_prompts=least or MOST,
        available=available,
        advice=[],
    )
    plan.advice = advice(plan, trials or 1, once=once)
    return plan


def plan_option(
    k: int, question: Question, found: Variances, scales: tuple[float, float] | None, available: int | None
) -> PlanOption:
    """What is needed with k trials; `scales` are how many times smaller and larger the variance may be."""
    x, goal = question.detect, Goal(question.power, flip=float(k == 1))
    needed, *ends = (prompts_needed(x, found.square(k, x, scale), goal) or MOST for scale in (1.0, *(scales or ())))
    return PlanOption(
        k=k,
        prompts=needed,
        runs=needed * k,
        prompts_range=(min(needed, ends[0]), max(needed, ends[1])) if ends else None,
        detectable=detectable(available, lambda x: found.square(k, x), goal) if available else None,
    )


def advice(plan: EvaluationPlan, k: int, *, once: bool) -> list[str]:
    """The plan in words: what is needed, why more prompts and not more trials, and what the prompts there are show."""
    by_k = {option.k: option for option in plan.options}
    asked, single, most = by_k[k], by_k[1], plan.options[-1]
    goal = f"To detect a difference of {plan.detect * 100:g} points in pass rate with {plan.power:.0%} power"
    line = f"{goal}, run {asked.prompts:,} prompts with {counted(k, 'trial')} each: {asked.runs:,} runs of each agent."
    if asked.prompts_range and asked.prompts_range[0] < asked.prompts_range[1]:
        low, high = asked.prompts_range
        line += f" As far as the pilot can tell, it could be anything from {low:,} to {high:,} prompts."
    lines = [line]
    if once:
        lines.append(
            "Pilots with one trial per prompt reveal nothing about more trials"
            + (f": the share of the variance that {counted(k, 'trial')} average out is assumed" if k > 1 else "")
            + ". To plan trials, run the pilot with ae-trials -k 3, or give --between."
        )
    elif most.runs > single.runs:
        costs = f"{single.prompts:,} prompts with 1 trial take {single.runs:,} runs"
        costs += f", {most.prompts:,} prompts with {most.k} trials take {most.runs:,}"
        limit = f"fewer than {plan.least_prompts:,} prompts are not enough, however many trials each has"
        lines.append(f"More prompts, not more trials: {costs}; {limit}.")
    if plan.available and asked.detectable:
        line = f"With the {plan.available:,} prompts you have, {counted(k, 'trial')} each can detect a difference"
        line += f" of {asked.detectable * 100:.1f} points or more"
        if most.detectable and most.k > k:
            line += f"; {most.k} trials each, one of {most.detectable * 100:.1f}"
        lines.append(f"{line}.")
    return lines
