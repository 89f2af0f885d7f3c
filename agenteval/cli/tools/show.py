"""ae-show: show records as a readable timeline on the terminal."""

import os
import signal
from collections.abc import Iterator, Sequence
from itertools import chain, islice

import click

from agenteval.cli.options import count_option, input_argument, max_line_option, output_option, strict_option
from agenteval.cli.tool import tool
from agenteval.errors import FAILED, OK, UserError
from agenteval.reports.answers import ReportedAnswer
from agenteval.reports.forms import context_of
from agenteval.reports.reader import RowReader
from agenteval.reports.timeline import View, timeline_lines
from agenteval.streams.console import Console
from agenteval.streams.output import Output
from agenteval.streams.source import Source
from agenteval.streams.text import first_few
from agenteval.wire.row import ERROR, FAIL, GRADER_ERROR

NAME = "ae-show"
IDS_SHOWN = 5
DID_NOT_PASS = (FAIL, ERROR, GRADER_ERROR)


class Selection:
    """The answers to show: those with some ids, or all; only failures if `failed`."""

    def __init__(self, ids: Sequence[str], failed: bool) -> None:
        self.wanted, self.failed = set(ids), failed
        self.missing = dict.fromkeys(ids)
        self.seen: list[str] = []
        self.shown = 0

    def takes(self, answer: ReportedAnswer) -> bool:
        """Whether to show an answer; a prompt's id stands for all of its trials."""
        names = {answer.id, answer.row.id}
        if len(self.seen) <= IDS_SHOWN:
            self.seen.append(answer.id)
        for name in names:
            self.missing.pop(name, None)
        chosen = (not self.wanted or bool(names & self.wanted)) and (not self.failed or answer.status in DID_NOT_PASS)
        self.shown += chosen
        return chosen


def show(shown: Iterator[str], target: Output) -> None:
    """Writes the lines; on a terminal, through $PAGER if they do not fit on the screen."""
    if target.path is None and target.isatty() and os.isatty(0):
        rows = os.get_terminal_size(1).lines
        first = list(islice(shown, rows))
        shown = chain(first, shown)
        if len(first) == rows:
            os.environ.setdefault("LESS", "FRX")  # as git does: keeps colours, and the text on the screen
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pager
            click.echo_via_pager((f"{line}\n" for line in shown), color=True)
            return
    for line in shown:
        target.write_bytes(f"{line}\n".encode())


@tool(NAME, exit_status={1: "finished, but some lines were refused, or no record has the given ID"})
@input_argument("RESULTS")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option(
    "--failed", is_flag=True, help="Show only records that did not pass, whose agent failed or whose grader erred."
)
@click.option("--full", is_flag=True, help="Show long texts in full.")
@count_option("--step", least=1, help="Show only this step, in full.")
@max_line_option
@output_option
@strict_option
def main(
    path: str | None,
    ids: tuple[str, ...],
    failed: bool,
    full: bool,
    step: int | None,
    max_line: int,
    output: str | None,
    strict: bool,
    debug: bool,
) -> int:
    """Show records as a timeline: the prompt, every step with its time, the answer and the verdict.

    RESULTS is a file of results or of trials, graded or not; stdin if missing or -. Without an ID all
    records are shown, one after another. A trial is named ID#N; the ID of a prompt selects all of
    its trials.

    On a terminal the timeline is coloured and, if it does not fit on the screen, shown with $PAGER (less); elsewhere
    it is plain text. Long texts are cut in the middle; --full shows them whole. Control characters in an agent's
    output are shown as symbols and never reach the terminal.

    Examples:
      ae-show results.jsonl far-future
      ae-show results.jsonl --failed
      ae-show trials.jsonl sum-small#2 --full
      ae-show results.jsonl far-future --step 3
      jq -c 'select(.toolErrors)' results.jsonl | ae-show
    """
    console = Console(NAME, strict=strict, output=output)
    if path and ids and not os.path.exists(path) and os.path.isfile(ids[0]):
        raise UserError(f"{path}: No such file or directory; the file comes first: {NAME} {ids[0]} {path}")
    source = Source(path, max_line=max_line)
    target = Output(output, inputs=[source])
    selection = Selection(ids, failed)
    context = context_of(target)
    view = View(context.width, context.color, full, step)
    answers = filter(selection.takes, RowReader(source, console).answers())
    show((line for answer in answers for line in timeline_lines(answer, view)), target)
    target.close()
    if selection.missing:
        more = ", …" if len(selection.seen) > IDS_SHOWN else ""
        there = f"; it has {', '.join(selection.seen[:IDS_SHOWN])}{more}" if selection.seen else ""
        console.say(f"{source.name}: no record {first_few(list(selection.missing), IDS_SHOWN)}{there}")
    elif not selection.shown and selection.seen:
        console.say(
            f"{source.name}: nothing to show with --failed: all graded records passed, no agent failed, no grader erred"
        )
    return FAILED if console.refused or selection.missing else OK
