"""ae-format: turn results into something to read, or into what other programs read."""

from typing import Any

import click

from agenteval.cli.follow import follow_results
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
from agenteval.reports.answer_groups import REASON
from agenteval.reports.forms import ReportForms
from agenteval.reports.reader import SORTS
from agenteval.streams.console import Console
from agenteval.streams.rows import KeyUse
from agenteval.wire.row import ERROR, FAIL, FLAKY, GRADER_ERROR, PASS, UNGRADED

NAME = "ae-format"
FORMS = ReportForms("results")
GROUPED = ("html", "junit", "parquet")  # with --by or without
LISTED = ("table", "markdown", "csv", "jsonl", "html")
STATUSES = (PASS, FAIL, ERROR, FLAKY, UNGRADED, GRADER_ERROR)
FAILED_STATUSES = frozenset((FAIL, ERROR, FLAKY, GRADER_ERROR))
READ_BY = {
    "--failed": LISTED,
    "--status": LISTED,
    "--sort": LISTED,
    "--group-by": ("table", "markdown"),
    "--by": ("table", "markdown", *GROUPED),
    "--raw-csv": ("csv",),
    "--limit": ("html",),
    "--no-trajectories": ("html",),
    "--follow": ("html",),
    "--labels": ("html",),
    "--all": ("markdown", "sft", "dpo"),
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
    metavar="KEY[,KEY]",
    help="Figures by this key of metadata, or by two keys, crossed.  [default: category]",
)
@click.option("--failed", is_flag=True, help="List only what did not pass: --status fail,error,flaky,grader-error.")
@click.option(
    "--status",
    "statuses",
    metavar="STATUS,...",
    type=Parsed("statuses", parse_statuses),
    help="List only records that ended so: pass, fail, error, flaky, ungraded, grader-error.",
)
@click.option(
    "--sort",
    type=click.Choice(list(SORTS)),
    help="score: lowest first; time, cost: largest first; what is not known comes last.",
)
@click.option(
    "--group-by",
    metavar="reason|KEY",
    help="table, markdown: a line per group in place of records: why they did not pass, or a key of metadata.",
)
@click.option("--raw-csv", is_flag=True, help="csv: values as they are, lines end in LF; for programs.")
@count_option("--limit", least=1, help="html: list only the first N records; the figures are over all.")
@click.option("--no-trajectories", is_flag=True, help="html: leave out the steps of the agents.")
@click.option("--follow", is_flag=True, help="html: write the page again while the run goes on, until it has ended.")
@click.option("--labels", metavar="FILE", help="html: a person's verdicts, to show beside those of the graders.")
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="markdown, sft: also records that passed, or did not; dpo: with what agents that failed have left.",
)
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
    sort: str | None,
    group_by: str | None,
    raw_csv: bool,
    limit: int | None,
    no_trajectories: bool,
    follow: bool,
    labels: str | None,
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
    score: summaries count it apart, and csv has only its reasoning. markdown has a section for each
    record but those that passed; --all adds these.

    csv has the graded columns if a record of the file has a score, and always if the input is a
    pipe. Text that a spreadsheet would run as a formula (=, +, -, @) gets a leading apostrophe;
    control characters become pictures (NUL is ␀). --raw-csv does neither and ends lines with LF: for
    programs, not for spreadsheets.

    html is one file that opens from disk and loads nothing: figures, a table to search and filter,
    and the trajectory of each record. The address has the view: report.html#status=fail&category=ui
    or report.html#id=ID can be sent as a link. --by takes a dotted path below metadata, and two with a
    comma between them; a key that no record has is reported, with exit 1. An option that the form does
    not read is refused.

    --follow writes the page while the run goes on: as long as a tool of the suite writes to RESULTS, which
    may be missing at first. The page says how far the run is, and loads itself again. When the run ends, the
    last page is written, and ae-format exits.

    --failed and --status choose what table, markdown, csv, jsonl and html list; of trials a trial is chosen in
    the first three, a prompt in the others (flaky: some of its trials pass). Summaries are over all records.
    --sort waits for the last record, and keeps the records in a temporary file; the trials of a prompt stay
    together. --group-by reason counts what did not pass by its error, by the checks that do not hold or by
    the reasoning, in which numbers and what is quoted may differ.

    sft and dpo say on stderr what they leave out, and why. dpo pairs every answer that passed with
    every one that did not. Tool arguments are JSON text, as OpenAI's API takes them; --for trl writes
    objects, which most chat templates need. -o FILE.xml is junit. docs/exports.md has more on each form.

    Examples:
      ae-format graded.jsonl -f table --failed --sort cost | less -S
      ae-format graded.jsonl -f table --group-by reason
      ae-format graded.jsonl -f markdown --by category,level -o report.md
      ae-format trials.jsonl -f html -o report.html
      ae-format results.jsonl --follow -o page.html
      ae-format graded.jsonl --by category -o junit.xml
      ae-format new.jsonl -f dpo --against old.jsonl -o pairs.jsonl
      ae-extract -s claude raw.jsonl | ae-grade -g ./grader.py | ae-format -f csv > scores.csv
    """
    form = FORMS.choose(form, output, "jsonl")
    given = {"--by": by is not None, "--raw-csv": raw_csv, "--limit": limit is not None, "--all": every}
    given |= {"--no-trajectories": no_trajectories, "--against": against is not None, "--for": reader is not None}
    given |= {"--failed": failed, "--status": statuses is not None, "--sort": sort is not None}
    given |= {"--group-by": group_by is not None, "--follow": follow, "--labels": labels is not None}
    refuse_ignored(form, given, READ_BY)
    if failed and statuses is not None:
        raise UserError("--failed is --status fail,error,flaky,grader-error: give one of the two")
    if every and (failed or statuses is not None):
        raise UserError("--all lists every record: leave it out, or --failed and --status")
    if group_by is not None and (sort is not None or every):
        raise UserError("--group-by lists groups, not records: leave out --sort and --all")
    option = "--by"
    if group_by not in (None, REASON):
        if by is not None:
            raise UserError("--group-by KEY has the figures by that key, too: leave out --by")
        option, by = "--group-by", group_by
    groups = form in GROUPED or (by is not None and form in READ_BY["--by"])
    use = KeyUse(option, by or "category") if groups else None
    wishes: dict[str, Any] = {"by": by or "category", "grouped": by is not None, "raw_csv": raw_csv}
    wishes |= {"group_by": group_by or "", "sort": sort}
    wishes |= {"limit": limit, "trajectories": not no_trajectories, "every": every, "reader": reader or ""}
    wishes |= {"statuses": FAILED_STATUSES if failed else statuses}
    wishes |= {"against": against, "use": use, "max_line": max_line}
    if follow:
        if path in (None, "-") or output in (None, "-"):
            raise UserError("--follow needs a file of results, which may still be missing, and -o PAGE.html")
        if labels is not None:
            raise UserError("--labels needs a run that has ended: leave out --follow")
        del wishes["against"]
        return follow_results(Console(NAME, strict=strict, output=output), FORMS, str(path), str(output), wishes)
    wishes["labels"] = labels
    return write_results(NAME, FORMS, form, path, output, progress=progress, strict=strict, **wishes)
