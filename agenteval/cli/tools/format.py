"""ae-format: turn results into something to read."""

from __future__ import annotations

import time

from agenteval.cli.options import input_argument, output_option, progress_option, strict_option
from agenteval.cli.startup import click
from agenteval.cli.tool import tool
from agenteval.errors import FAILED, OK
from agenteval.reports import FORMS, ReportContext, form
from agenteval.reports.passes import Rows
from agenteval.streams.console import Console, supports_color
from agenteval.streams.output import Output
from agenteval.streams.source import Source
from agenteval.streams.text import visible


def page_for(style: str, output: Output) -> ReportContext:
    """The page that a form is written to: as wide as the terminal, 100 columns where there is none."""
    generated = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if style != "table" or output.path is not None:
        return ReportContext(generated=generated)
    import shutil  # its compression modules cost 5 ms, and only a table asks for the width

    return ReportContext(shutil.get_terminal_size((100, 24)).columns, output.isatty() and supports_color(), generated)


@tool("ae-format")
@input_argument("RESULTS")
@click.option(
    "-f",
    "--style",
    "--format",
    "style",
    type=click.Choice(list(FORMS)),
    default="jsonl",
    show_default=True,
    help="The form to write.",
)
@output_option
@progress_option
@strict_option
def main(path: str | None, style: str, output: str | None, progress: bool | None, strict: bool, debug: bool) -> int:
    """Turn results into something to read.

    RESULTS is a file of results, graded or not; stdin when missing or -.

    Forms:
      jsonl     the records again, one compact line each, unknown fields kept (the default)
      markdown  a report: summary, then a section per record (input, output, score, errors)
      csv       for spreadsheets (RFC 4180): id, input, hint, output, tool_errors, duration_ms,
                and graded: pass, score, reasoning
      table     for a terminal: summary, then a line per record

    jsonl and csv come out record by record; markdown and table begin with a summary and so
    wait for the last record. What is missing stays empty. Where a grader failed there is no
    score: summaries count it apart, in csv only the reasoning is filled.

    csv has the graded columns when a record of the file has a score, and always when it reads
    from a pipe. A text that a spreadsheet would run as a formula (=, +, -, @) gets a leading
    apostrophe; control characters become pictures (NUL is ␀).

    Examples:
      ae-format graded.jsonl -f table | less -S
      ae-format graded.jsonl -f markdown -o report.md
      ae-extract -s claude raw.jsonl | ae-grade -g ./grader.py | ae-format -f csv > scores.csv
    """
    source = Source(path)
    target = Output(output, inputs=[source])
    console = Console("ae-format", progress=progress, strict=strict, output=output)
    write(style, source, target, console)
    return FAILED if console.refused else OK


def write(style: str, source: Source, target: Output, console: Console) -> None:
    """Write every record in that form."""
    console.begin(None, "records")
    try:
        rows = Rows(source, console, lambda name: console.advance(label=visible(name)))
        for piece in form(style)(rows, page_for(style, target)):
            target.write_bytes(piece)
        target.close()
    finally:
        console.finish()
