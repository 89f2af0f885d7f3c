"""ae-summarize: results → compact views."""

import click

from agenteval.cli.options import input_argument, output_option, progress_option, strict_option
from agenteval.cli.report_options import write_results
from agenteval.cli.tool import tool
from agenteval.errors import UserError
from agenteval.reports.summary import FORMS

NAME = "ae-summarize"


def choose_form(markdown: bool, output: str | None) -> str:
    """Returns markdown if an option or the output's extension asks for it; raises UserError for another extension."""
    try:
        return FORMS.choose("markdown" if markdown else None, output, "jsonl")
    except UserError:
        raise UserError(f"-o {output}: this tool writes FILE.jsonl, or FILE.md with --markdown") from None


@tool(NAME)
@input_argument("RESULTS")
@click.option(
    "-m",
    "--markdown",
    is_flag=True,
    help="Write markdown with every step, for people and judges; implied by -o FILE.md.",
)
@click.option("--for-web", is_flag=True, help="Write markdown for a web page, with all text from agents escaped.")
@output_option
@strict_option
@progress_option
def main(
    path: str | None,
    markdown: bool,
    for_web: bool,
    output: str | None,
    strict: bool,
    progress: bool | None,
    debug: bool,
) -> int:
    """Make compact views of results: a short record or a section of markdown for each.

    RESULTS is a file of results or of trials, graded or not; stdin if missing or -. Each trial is
    shown as a result named ID#N.

    A short record has id, input (turns joined by newlines), output, toolCalls (names in order) and
    duration (ms; missing if unknown).

    Markdown shows each record with its steps and their ids. Thoughts and messages are cut after 100 characters, the
    output after 200, a plan after 80. In a tool's input, code of more than 12 lines is cut to the first 8 and the
    last 4. Text is as the agent wrote it, for a judge to read; with --for-web it is escaped, so that a web page
    displays it and executes none of it.

    Examples:
      ae-summarize results.jsonl -o summary.jsonl
      ae-summarize results.jsonl | jq -r 'select(.duration > 10000) | .id'
      ae-summarize graded.jsonl --markdown -o results.md
    """
    form = choose_form(markdown or for_web, output)
    return write_results(NAME, FORMS, form, path, output, progress=progress, strict=strict, for_web=for_web)
