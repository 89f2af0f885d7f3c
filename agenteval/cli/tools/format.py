"""ae-format: turn results into something to read, or into what other programs read."""

from typing import Any

import click

from agenteval.cli.options import (
    Parsed,
    count_option,
    input_argument,
    max_line_option,
    output_option,
    progress_option,
    strict_option,
)
from agenteval.cli.report_options import form_option, refuse_ignored, write_results
from agenteval.cli.tool import tool
from agenteval.errors import UserError
from agenteval.reports.forms import ReportForms
from agenteval.streams.rows import KeyUse
from agenteval.wire.row import ERROR, FAIL, FLAKY, GRADER_ERROR, PASS, UNGRADED

NAME = "ae-format"
FORMS = ReportForms("results")
GROUPED = ("html", "junit", "parquet")  # with --by or without
LISTED = ("table", "markdown", "csv", "jsonl", "html")
STATUSES = (PASS, FAIL, ERROR, FLAKY, UNGRADED, GRADER_ERROR)
FAILED_STATUSES = frozenset((FAIL, ERROR, FLAKY))
READ_BY = {
    "--failed": LISTED,
    "--status": LISTED,
    "--by": ("table", "markdown", *GROUPED),
    "--raw-csv": ("csv",),
    "--limit": ("html",),
    "--no-trajectories": ("html",),
    "--all": ("sft", "dpo"),
    "--against": ("dpo",),
    "--for": ("sft", "dpo"),
}


def parse_statuses(text: str) -> frozenset[str]:
    """The statuses that --status names; ValueError says which there are."""
    names = frozenset(text.split(","))
    if unknown := sorted(names - {*STATUSES}):
        raise ValueError(f"{unknown[0]!r} is not a status: {', '.join(STATUSES)}")
    return names


@tool(NAME)
@input_argument("RESULTS")
@form_option(FORMS, "jsonl", "--style")
@max_line_option
@output_option
@click.option(
    "--by",
    metavar="KEY",
    help="table, markdown: also by this key of metadata; html, junit, parquet: by it.  [default: category]",
)
@click.option("--failed", is_flag=True, help="List only what did not pass: --status fail,error,flaky.")
@click.option(
    "--status",
    "statuses",
    metavar="STATUS,...",
    type=Parsed("statuses", parse_statuses),
    help="List only records that ended so: pass, fail, error, flaky, ungraded, grader-error.",
)
@click.option("--raw-csv", is_flag=True, help="csv: values as they are, lines end in LF; for programs.")
@count_option("--limit", least=1, help="html: list only the first N records; the figures are over all.")
@click.option("--no-trajectories", is_flag=True, help="html: leave out the steps of the agents.")
@click.option("--all", "every", is_flag=True, help="sft: every answer; dpo: with what agents that failed have left.")
@click.option("--against", metavar="FILE", help="dpo: pair with the answers of this other run.")
@click.option(
    "--for",
    "reader",
    type=click.Choice(["trl", "openai"]),
    help="sft, dpo: whose training reads it. trl: arguments of tools are objects; openai: its form of dpo.",
)
@progress_option
@strict_option
def main(
    path: str | None,
    form: str | None,
    max_line: int,
    output: str | None,
    by: str | None,
    failed: bool,
    statuses: frozenset[str] | None,
    raw_csv: bool,
    limit: int | None,
    no_trajectories: bool,
    every: bool,
    against: str | None,
    reader: str | None,
    progress: bool | None,
    strict: bool,
    debug: bool,
) -> int:
    """Turn results into something to read, or into what other programs read.

    RESULTS is a file of results or of trials, graded or not; stdin if missing or -. Each trial is shown
    as a result named ID#N; summaries have pass@k and pass^k, and intervals that rest on the prompts.

    Forms:
      {forms}

    jsonl and csv write each record as it comes; markdown and table begin with a summary and so
    wait for the last record. What is not known stays empty. A record whose grader erred has no
    score: summaries count it apart, and csv has only its reasoning.

    csv has the graded columns if a record of the file has a score, and always if the input is a
    pipe. Text that a spreadsheet would run as a formula (=, +, -, @) gets a leading apostrophe;
    control characters become pictures (NUL is ␀). --raw-csv does neither and ends lines with LF: for
    programs, not for spreadsheets.

    html is one file that opens from disk and loads nothing: figures, a table to search and filter,
    and the trajectory of each record. The address has the view: report.html#status=fail&category=ui
    or report.html#id=ID can be sent as a link. --by takes a dotted path below metadata; a key that no
    record has is reported, with exit 1. An option that the form does not read is refused.

    --failed and --status choose what table, markdown, csv, jsonl and html list; of trials a trial is chosen in
    the first three, a prompt in the others (flaky: some of its trials pass). Summaries are over all records.

    sft and dpo say on stderr what they leave out, and why. dpo pairs every answer that passed with
    every one that did not. Tool arguments are JSON text, as OpenAI's API takes them; --for trl writes
    objects, which most chat templates need. -o FILE.xml is junit. docs/exports.md has more on each form.

    Examples:
      ae-format graded.jsonl -f table --failed | less -S
      ae-format graded.jsonl -f markdown --by category -o report.md
      ae-format trials.jsonl -f html -o report.html
      ae-format graded.jsonl --by category -o junit.xml
      ae-format new.jsonl -f dpo --against old.jsonl -o pairs.jsonl
      ae-extract -s claude raw.jsonl | ae-grade -g ./grader.py | ae-format -f csv > scores.csv
    """
    form = FORMS.choose(form, output, "jsonl")
    given = {"--by": by is not None, "--raw-csv": raw_csv, "--limit": limit is not None, "--all": every}
    given |= {"--no-trajectories": no_trajectories, "--against": against is not None, "--for": reader is not None}
    given |= {"--failed": failed, "--status": statuses is not None}
    refuse_ignored(form, given, READ_BY)
    if failed and statuses is not None:
        raise UserError("--failed is --status fail,error,flaky: give one of the two")
    groups = form in GROUPED or (by is not None and form in READ_BY["--by"])
    use = KeyUse("--by", by or "category") if groups else None
    wishes: dict[str, Any] = {"by": by or "category", "grouped": by is not None, "raw_csv": raw_csv}
    wishes |= {"limit": limit, "trajectories": not no_trajectories, "every": every, "reader": reader or ""}
    wishes |= {"statuses": FAILED_STATUSES if failed else statuses}
    wishes |= {"against": against, "use": use, "max_line": max_line}
    return write_results(NAME, FORMS, form, path, output, progress=progress, strict=strict, **wishes)
