"""The plan of an evaluation, as ae-plan writes it."""

from collections.abc import Iterator
from textwrap import wrap

from agenteval.reports.figures import UNKNOWN, number, percent, whole
from agenteval.reports.forms import ReportContext
from agenteval.streams.text import aligned, as_lines, counted, one_line, pretty_json
from agenteval.wire.plan import EvaluationPlan

WIDEST = 100


def json(plan: EvaluationPlan, _context: ReportContext) -> Iterator[bytes]:
    """json: the plan as `ae-schemas EvaluationPlan` describes it"""
    yield pretty_json(plan)


def text(plan: EvaluationPlan, context: ReportContext) -> Iterator[bytes]:
    """text: the plan in words, then what is needed for each number of trials"""
    columns = min(WIDEST, context.width)
    for paragraph in plan.advice:
        yield as_lines([*wrap(paragraph, columns), ""])
    yield as_lines([*table(plan), "", *aligned(basis(plan))])


def table(plan: EvaluationPlan) -> list[str]:
    """A line per number of trials."""
    shown = [f"SHOWN BY {whole(plan.available)}"] if plan.available else []
    rows = [["TRIALS", "PROMPTS", "RANGE", "RUNS", *shown]]
    for option in plan.options:
        span = " to ".join(map(whole, option.prompts_range)) if option.prompts_range else UNKNOWN
        cells = [whole(option.k), whole(option.prompts), span, whole(option.runs)]
        rows.append([*cells, *([number(option.detectable)] if plan.available else [])])
    return aligned(rows, range(5))


def basis(plan: EvaluationPlan) -> list[tuple[str, str]]:
    """The rate and the variances, and whether they were measured or assumed."""
    found = plan.variance
    share = f"{percent(found.share_between)} of the variance"
    rows = [
        (
            f"Pilot {one_line(pilot.name, 200)}",
            f"{percent(pilot.pass_rate)} of {counted(pilot.prompts, 'prompt')}, {counted(pilot.trials, 'trial')}",
        )
        for pilot in plan.pilots
    ]
    rows.append(("Pass rate", f"{number(plan.rate)} ({plan.rate_source})"))
    if found.seen is not None:
        rows.append(("Square of a difference", f"{number(found.seen, 4)}, mean over both pilots (measured)"))
        if len(plan.options) == 1:  # of one trial: the pilots tell no more
            return rows
    return [
        *rows,
        ("Variance between prompts", f"{number(found.between, 4)}, {share} ({found.share_source})"),
        ("Variance within a prompt", f"{number(found.within, 4)}, averaged out by trials"),
        ("Variance of differences", f"{number(found.difference, 4)}, averaged out by prompts only"),
        ("Correlation of the runs", f"{number(found.correlation, 2)} ({found.correlation_source})"),
    ]
