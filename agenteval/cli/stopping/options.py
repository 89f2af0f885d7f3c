"""The options of --stop-when-known, and the EarlyStop that they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agenteval.cli.options import Decorator, F, NumberRange
from agenteval.errors import UserError

if TYPE_CHECKING:
    from agenteval.cli.prompt_run import PromptRun
    from agenteval.statistics.sequential import EarlyStop

AHEAD = 4  # prompts of each worker that may be started before the slowest is done

OPTIONS: list[Decorator] = [
    click.option("--stop-when-known", is_flag=True, help="Stop once --against or --threshold is decided."),
    click.option("--against", metavar="FILE", help="Baseline: is this run better or worse?"),
    click.option("--threshold", type=NumberRange(0.01, 0.99), metavar="RATE", help="Is the pass rate above or below?"),
]


def stop_options(function: F) -> F:
    """Adds --stop-when-known, --against and --threshold."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def stop_early(run: PromptRun) -> None:
    """Makes the run stop when it is known, if the options ask for that."""
    settings = run.settings
    if not settings.stop_when_known:
        if settings.against is not None or settings.threshold is not None:
            option = "--threshold" if settings.against is None else "--against"
            raise UserError(f"{option} needs --stop-when-known (ae-compare compares whole runs)")
        return
    if (settings.against is None) == (settings.threshold is None):
        raise UserError("--stop-when-known needs one of --against FILE and --threshold RATE")
    if settings.against == "-":
        raise UserError("--against needs a file: stdin is for prompts")
    if not run.specs:
        raise UserError("--stop-when-known needs a grader: -g GRADER")
    if settings.shard is not None:
        raise UserError("--stop-when-known looks at all prompts: leave out --shard")
    run.stopping = early_stop(run)


def early_stop(run: PromptRun) -> EarlyStop:
    """Returns the test with all prompts in its order, those of an earlier run included."""
    from agenteval.comparison.plan import read_pilot
    from agenteval.statistics.sequential import EarlyStop
    from agenteval.streams.source import Source

    settings = run.settings
    baseline = read_pilot(Source(settings.against), run.console) if settings.against is not None else None
    ahead = None if settings.dry_run else AHEAD * settings.concurrency
    stop = EarlyStop(settings.against or "", baseline, settings.threshold or 0.5, ahead)
    written = run.output.written.ids
    done = read_pilot(Source(run.output.absolute), run.console, resumed=True) if written else {}
    run.prompts.total = stop.plan(run.prompts, done, written)
    if run.prompts.total and not stop.comparable:
        raise UserError(f"{settings.against}: has no graded record of any of these prompts")
    return stop
