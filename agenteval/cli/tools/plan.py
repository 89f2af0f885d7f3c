"""ae-plan: pilot runs or assumed rates → how many prompts and trials it takes to detect a difference."""

import click

from agenteval.cli.options import CountRange, NumberRange, count_option, output_option, strict_option
from agenteval.cli.report_options import form_option
from agenteval.cli.tool import tool
from agenteval.comparison.plan import make_plan, read_pilot
from agenteval.errors import FAILED, OK, UserError
from agenteval.reports import plan as reports
from agenteval.reports.forms import ReportForms
from agenteval.statistics.power import Pilot, Question, mean_rate, other_rates
from agenteval.streams.console import Console
from agenteval.streams.output import Output
from agenteval.streams.source import Source
from agenteval.wire.plan import PilotRun

NAME = "ae-plan"
FORMS = ReportForms(json=reports.json, text=reports.text)
MOST_PILOTS = 2


def pilot_run(source: Source, pilot: Pilot) -> PilotRun:
    """Returns a pilot's entry in the plan; raises UserError if nothing in it is graded."""
    if not pilot:
        raise UserError(f"{source.name}: no record is graded; grade them with ae-grade, or give --pass-rate")
    trials = sum(prompt.trials for prompt in pilot.values())
    return PilotRun(name=source.name, prompts=len(pilot), trials=trials, pass_rate=mean_rate(pilot))


@tool(NAME)
@click.argument("paths", metavar="[PILOT [OTHER]]", nargs=-1)
@click.option(
    "--detect", type=NumberRange(0.001, 1), metavar="D", default=0.05, help="Difference in pass rate to detect."
)
@click.option("--power", type=NumberRange(0.5, 0.999), metavar="P", default=0.8, help="Probability of detecting it.")
@click.option(
    "--pass-rate", "rate", type=NumberRange(0, 1), metavar="RATE", help="Expected pass rate.  [default: the pilot's]"
)
@click.option("-k", "--trials", type=CountRange(1, 10_000), metavar="K", default=1, help="Trials per prompt.")
@count_option("-n", "--prompts", least=2, help="Number of prompts you have.  [default: the pilot's]")
@click.option(
    "--between", type=NumberRange(0, 1), metavar="SHARE", help="Share of the variance that is between prompts."
)
@click.option(
    "--correlation",
    type=NumberRange(-1, 1),
    metavar="R",
    help="Correlation of the prompts' difficulty for the two agents.",
)
@form_option(FORMS, "text")
@output_option
@strict_option
def main(
    paths: tuple[str, ...],
    detect: float,
    power: float,
    rate: float | None,
    trials: int,
    prompts: int | None,
    between: float | None,
    correlation: float | None,
    form: str | None,
    output: str | None,
    strict: bool,
    debug: bool,
) -> int:
    """Plan an evaluation: how many prompts and trials it takes to detect a difference between two agents.

    If the pass rates differ by --detect, a comparison detects it (its 95% interval, as ae-compare computes it,
    excludes 0) with probability --power. PILOT is a run of results or trials to plan from (stdin if missing or -),
    OTHER a run of the other agent on the same prompts; with --pass-rate neither is needed.

    Two things vary. Prompts differ in difficulty, and in how much better one agent is on them: only more prompts
    average that out. Trials of one prompt differ by chance: more trials average that out as well. What the pilots do
    not measure is assumed: half of the variance is between prompts (--between; a pilot with 2 or more trials measures
    it), and the difficulty of a prompt for one agent correlates with that for the other at 0.8 (--correlation; two
    such pilots measure it). A plan from pilots with one trial is for one trial. The column RANGE shows the plan at
    both ends of the pilots' 95% interval. For the same number of runs, more prompts reveal at least as much as more
    trials; trials help when you have no more prompts, and to measure pass^k.

    Formats (-f):
      {forms}

    Examples:
      ae-plan --pass-rate 0.8 --detect 0.05
      ae-plan trials.jsonl --detect 0.1 -k 3
      ae-plan old.jsonl new.jsonl --power 0.9 -f json | jq '.options[] | [.k, .prompts]'
    """
    form = FORMS.choose(form, output, "text")
    if len(paths) > MOST_PILOTS:
        raise UserError("give at most two pilot runs, one per agent")
    if len(paths) > 1 and paths.count("-") > 1:
        raise UserError("only one of the runs can be stdin")
    console = Console(NAME, strict=strict, output=output)
    sources = [Source(path) for path in paths or (() if rate is not None else ("-",))]
    target = Output(output, inputs=sources, lazy=True)
    pilots = [read_pilot(source, console) for source in sources]
    runs = [pilot_run(source, pilot) for source, pilot in zip(sources, pilots, strict=True)]
    question = Question(detect, power, rate, between, correlation)
    base = runs[0].pass_rate if rate is None else rate
    if not other_rates(base, detect):
        raise UserError(f"no pass rate can differ from {base:g} by {detect:g}: give a smaller --detect")
    available = prompts or (runs[0].prompts if runs else None)
    plan = make_plan(question, pilots, trials=trials, available=available)
    plan.pilots = runs
    target.open()
    FORMS.write(form, plan, target)
    return FAILED if console.refused else OK
