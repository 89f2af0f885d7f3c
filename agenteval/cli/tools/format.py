"""ae-format: turn results into something to read."""

from __future__ import annotations

from agenteval.cli.options import input_argument, output_option, progress_option, strict_option
from agenteval.cli.report_options import form_option, write_results
from agenteval.cli.tool import tool
from agenteval.errors import FAILED, OK
from agenteval.reports.forms import ReportForms
from agenteval.streams.console import Console
from agenteval.streams.output import Output
from agenteval.streams.source import Source

NAME = "ae-format"
FORMS = ReportForms("results")


@tool(NAME)
@input_argument("RESULTS")
@form_option(FORMS, "jsonl", "--style")
@output_option
@progress_option
@strict_option
def main(
    path: str | None, form: str | None, output: str | None, progress: bool | None, strict: bool, debug: bool
) -> int:
    """Turn results into something to read.

    RESULTS is a file of results, graded or not; stdin when missing or -.

    Forms:
      {forms}

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
    console = Console(NAME, progress=progress, strict=strict, output=output)
    source = Source(path)
    target = Output(output, inputs=[source])
    write_results(FORMS, FORMS.choose(form, output, "jsonl"), source, target, console)
    return FAILED if console.refused else OK
