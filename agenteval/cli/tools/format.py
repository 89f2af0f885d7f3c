"""ae-format: turn results into reports, or into files for other programs."""

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
EXIT_1 = "finished, but some lines were refused, or no record has the key given with --by or --group-by"


def parse_statuses(text: str) -> frozenset[str]:
    """Returns the statuses of --status; raises ValueError, which lists the statuses, for an unknown one."""
    names = frozenset(text.split(","))
    if unknown := sorted(names - {*STATUSES}):
        raise ValueError(f"{unknown[0]!r} is not a status; choose from {', '.join(STATUSES)}")
    return names


@tool(NAME, exit_status={1: EXIT_1})
@input_argument("RESULTS")
@form_option(FORMS, "jsonl", "--style")
@max_line_option
@output_option
@click.option(
    "--by",
    metavar="KEY[,KEY]",
    help="Break the figures down by this metadata key, or by two keys, crossed.  [default: category]",
)
@click.option("--failed", is_flag=True, help="List only what did not pass: --status fail,error,flaky,grader-error.")
@click.option(
    "--status",
    "statuses",
    metavar="STATUS,...",
    type=Parsed("statuses", parse_statuses),
    help="List only records with this status: pass, fail, error, flaky, ungraded, grader-error.",
)
@click.option(
    "--sort",
    type=click.Choice(list(SORTS)),
    help="score: lowest first; time, cost: highest first; unknown values come last.",
)
@click.option(
    "--group-by",
    metavar="reason|KEY",
    help="table, markdown: a line per group instead of per record: by why they did not pass, or by a metadata key.",
)
@click.option("--raw-csv", is_flag=True, help="csv: values unchanged, lines end with LF; for programs.")
@count_option("--limit", least=1, help="html: list only the first N records; the figures still cover all.")
@click.option("--no-trajectories", is_flag=True, help="html: leave out the agents' steps.")
@click.option("--follow", is_flag=True, help="html: keep rewriting the page until the run has ended.")
@click.option("--labels", metavar="FILE", help="html: a person's verdicts, shown next to the graders'.")
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="markdown: also records that passed; sft: also those that did not; dpo: also what failed agents left behind.",
)
@click.option("--against", metavar="FILE", help="dpo: pair with the answers of another run.")
@click.option(
    "--for",
    "reader",
    type=click.Choice(["trl", "openai"]),
    help="sft, dpo: which trainer reads it. trl: tool arguments are objects; openai: OpenAI's own dpo format.",
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
    """Turn results into reports, or into files for other programs.

    RESULTS is a file of results or of trials, graded or not; stdin if missing or -. Each trial is shown as a result
    named ID#N; summaries have pass@k and pass^k, with intervals over the prompts.

    Formats:
      {forms}

    jsonl and csv write each record as it comes; markdown and table begin with a summary and therefore wait for the last
    record. Unknown values stay empty. A record whose grader erred has no score: summaries count it separately, and csv
    has only its reasoning. markdown has a section for each record that did not pass; --all adds the others.

    csv has the graded columns if any record of the file has a score, and always if the input is a pipe. Text that a
    spreadsheet would execute as a formula (=, +, -, @) gets a leading apostrophe; control characters become symbols
    (NUL is ␀). --raw-csv does neither and ends lines with LF: it is for programs, not for spreadsheets.

    html is one self-contained file: figures, a table to search and filter, and the trajectory of each record. The
    address contains the view, so you can send report.html#status=fail&category=ui or report.html#id=ID as a link. --by
    takes a dotted path below metadata, or two separated by a comma; a key that no record has is reported, with exit
    code 1. Options that the format does not use are refused.

    --follow keeps rewriting the page while the run goes on, that is, as long as a tool of the suite writes to RESULTS;
    the file need not exist yet. The page shows the run's progress and reloads itself. When the run ends, the page is
    written one last time, and ae-format exits.

    --failed and --status select what table, markdown, csv, jsonl and html list. For trials, the first three list single
    trials, the others whole prompts (flaky: only some trials of the prompt pass). Summaries always cover all records.
    --sort waits for the last record, and keeps the records in a temporary file; the trials of a prompt stay together.
    --group-by reason groups what did not pass by its error, its failed checks or the reasoning, ignoring differences in
    numbers and quoted text.

    sft and dpo report on stderr what they leave out, and why. dpo pairs every answer that passed with every one that
    did not. Tool arguments are JSON text, as OpenAI's API takes them; --for trl writes objects, which most chat
    templates need. -o FILE.xml means junit. docs/exports.md has more on each format.

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
        raise UserError("--all lists every record: leave out either it, or --failed and --status")
    if group_by is not None and (sort is not None or every):
        raise UserError("--group-by lists groups, not records: leave out --sort and --all")
    option = "--by"
    if group_by not in (None, REASON):
        if by is not None:
            raise UserError("--group-by KEY already breaks the figures down by that key: leave out --by")
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
            raise UserError("--follow needs a file of results (it need not exist yet) and -o PAGE.html")
        if labels is not None:
            raise UserError("--labels is for a finished run: leave out --follow")
        del wishes["against"]
        return follow_results(Console(NAME, strict=strict, output=output), FORMS, str(path), str(output), wishes)
    wishes["labels"] = labels
    return write_results(NAME, FORMS, form, path, output, progress=progress, strict=strict, **wishes)
