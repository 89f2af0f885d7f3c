"""ae-summarize: results → compact views."""

from __future__ import annotations

from agenteval.cli.options import input_argument, output_option, progress_option, strict_option
from agenteval.cli.report_options import write_results
from agenteval.cli.startup import click
from agenteval.cli.tool import tool
from agenteval.errors import FAILED, OK
from agenteval.reports.forms import ReportForms
from agenteval.streams.console import Console
from agenteval.streams.output import Output
from agenteval.streams.source import Source

NAME = "ae-summarize"


@tool(NAME)
@input_argument("RESULTS")
@click.option("-m", "--markdown", is_flag=True, help="Markdown with every step, for people and judges.")
@output_option
@strict_option
@progress_option
def main(path: str | None, markdown: bool, output: str | None, strict: bool, progress: bool | None, debug: bool) -> int:
    """Make compact views of results: a short record each, or a section of markdown.

    RESULTS is a file of results, graded or not; stdin when missing or -.

    A short record has id, input (turns joined by newlines), output, toolCalls (names in order) and
    duration (ms; left out where nobody measured it).

    Markdown shows each record with its steps and their ids. Thoughts and messages are cut after 100
    characters, the output after 200, a plan after 80; of code that a tool was given, longer than 12
    lines, the first 8 and the last 4 are shown. No text of an agent is markup in it.

    Examples:
      ae-summarize results.jsonl -o summary.jsonl
      ae-summarize results.jsonl | jq -r 'select(.duration > 10000) | .id'
      ae-summarize graded.jsonl --markdown -o results.md
    """
    console = Console(NAME, progress=progress, strict=strict, output=output)
    source = Source(path)
    target = Output(output, inputs=[source])
    write_results(ReportForms("summary"), "markdown" if markdown else "jsonl", source, target, console)
    return FAILED if console.refused else OK
