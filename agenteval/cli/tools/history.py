"""ae-history: results or trials of many runs → how an evaluation has developed, and when it changed."""

import os
import time

import click

from agenteval.cli.options import output_option, strict_option
from agenteval.cli.report_options import form_option
from agenteval.cli.tool import tool
from agenteval.comparison.history import find_run, history_of, read_history, worse_than
from agenteval.errors import FAILED, OK, UserError
from agenteval.reports import history as reports
from agenteval.reports.forms import ReportForms
from agenteval.streams.console import Console
from agenteval.streams.output import Output

NAME = "ae-history"
EXIT_1 = "finished, but some lines were refused, or the last run is worse (--fail-if-worse)"
FORMS = ReportForms(html=reports.html, json=reports.json, markdown=reports.markdown, table=reports.table)


@tool(NAME, exit_status={1: EXIT_1})
@click.argument("paths", metavar="[FILE|DIR]...", nargs=-1)
@form_option(FORMS, "json")
@output_option
@click.option("--fail-if-worse", is_flag=True, help="Exit 1 if the last run is worse than the one before it.")
@click.option("--baseline", metavar="FILE|RUN", help="With --fail-if-worse: compare with this file or run instead.")
@strict_option
def main(
    paths: tuple[str, ...],
    form: str | None,
    output: str | None,
    fail_if_worse: bool,
    baseline: str | None,
    strict: bool,
    debug: bool,
) -> int:
    """Show how an evaluation has developed over many runs, and when it changed.

    Each FILE holds results or trials; a DIR means all files below it that end in .jsonl or .ndjson, and stdin is
    read if nothing is given. Runs are told apart by `metadata.runId`, so a file may hold several runs and a run may
    span several files; records without a runId form one run per file. Runs are ordered by when they started, else by
    the order of their files.

    Each run is shown with its label, agent, model, version, number of prompts, pass rate with its 95% interval,
    change since the previous run (over prompts that both have with the same input), median time, tokens and cost.

    A change is reported where chance does not explain it. After every run, each split of the runs since the last
    change is tested, with a level of 5% for all looks together: of 20 histories in which nothing changes, about one
    shows a change, however many runs they have. Once reported, a change stays. It comes with the prompts that
    flipped: those that passed more than half of the time on only one side of it.

    --fail-if-worse compares the last run with the one before it, or with --baseline, as ae-compare --fail-if-worse
    does: one test at 5%, in which a missing prompt counts as not passed. RUN is a number, a name, a label (the
    latest run that has it) or a runId.

    Formats:
      {forms}

    Examples:
      ae-history runs/
      ae-history runs/*.jsonl -o history.html
      ae-history runs/ --fail-if-worse --baseline main.jsonl
      ae-history runs/ | jq -r '.changes[] | [.number, .difference, .sentence] | @tsv'
    """
    form = FORMS.choose(form, output, "json")
    if baseline is not None and not fail_if_worse:
        raise UserError("--baseline has no effect without --fail-if-worse: leave it out, or add --fail-if-worse")
    if len(set(paths)) < len(paths):
        raise UserError(f"{max(paths, key=paths.count)}: is given twice; name each file and folder once")
    console = Console(NAME, strict=strict, output=output)
    target = Output(output, lazy=True)
    runs, trials = read_history(paths or ("-",), console, output)
    report = history_of(runs, time.time())
    if fail_if_worse:
        first = None
        if baseline is not None and os.path.isfile(baseline):
            others, of_trials = read_history([baseline], console)
            if others and runs and of_trials != trials:
                raise UserError(f"--baseline {baseline}: results and trials cannot be compared")
            first = others[-1] if others else None
        elif baseline is not None:
            first = find_run(runs, baseline)
        elif len(runs) > 1:
            first = runs[-2]
        if first is not None and first is runs[-1]:
            raise UserError(f"--baseline {baseline}: is the last run itself; name an earlier one")
        if first is None or not runs:
            report.reasons = ["there is no earlier run to compare with: give two runs or more, or --baseline"]
        else:
            first.name += " (baseline)" * (first.name == runs[-1].name)
            report.baseline, report.reasons = first.name, worse_than(first, runs[-1], trials=trials)
    target.open()
    FORMS.write(form, report, target)
    for reason in report.reasons or ():
        console.say(reason)
    return FAILED if console.refused or report.reasons else OK
