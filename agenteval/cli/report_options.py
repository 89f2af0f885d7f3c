"""Shared by the tools that write reports: -f with the available forms, and results written in one of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from agenteval.cli.options import Decorator, F
from agenteval.errors import FAILED, OK, UserError
from agenteval.reports.forms import ReportForms
from agenteval.reports.reader import RowReader
from agenteval.streams.console import Console
from agenteval.streams.files import LONGEST_LINE
from agenteval.streams.output import Output
from agenteval.streams.rows import KeyUse
from agenteval.streams.source import Source
from agenteval.streams.text import visible
from agenteval.wire.calibration import Label

MOST_FORMS_IN_A_LINE = 6


def form_option(forms: ReportForms, default: str, *more_names: str) -> Decorator:
    """-f FORM; the default is the form of the extension of -o, else `default`.

    {forms} in a tool's help is replaced by the list of forms.
    """

    def decorate(function: F) -> F:
        function.fill_help = lambda text: text.replace("{forms}", form_list(forms))  # type: ignore[attr-defined]
        other = f"table on a terminal, {default} elsewhere" if "table" in forms.names() else default
        help_text = f"Output format.  [default: by the extension of -o, else {other}]"
        names = ("-f", *more_names, "--format", "form")
        metavar = "FORM" if len(forms.names()) > MOST_FORMS_IN_A_LINE else None
        return click.option(*names, type=click.Choice(forms.names()), metavar=metavar, help=help_text)(function)

    return decorate


def form_list(forms: ReportForms) -> str:
    """Returns the forms with their descriptions, one or more lines each."""
    names = forms.names()
    column = max(map(len, names)) + 2
    lines = []
    for name in names:
        first, *more = forms.description(name)
        lines += [f"{name:{column}}{first}", *(" " * column + line for line in more)]
    return "\n  ".join(lines)


def refuse_ignored(form: str, given: Mapping[str, bool], read_by: Mapping[str, Sequence[str]]) -> None:
    """Raises UserError for a given option that the chosen form does not use."""
    for option, forms in read_by.items():
        if given.get(option) and form not in forms:
            *most, last = forms
            also = f"{', '.join(most)} or {last}" if most else last
            raise UserError(f"{option} has no effect with -f {form}: leave it out, or give -f {also}")


def write_results(
    tool: str,
    forms: ReportForms,
    form: str,
    path: str | None,
    output: str | None,
    *,
    progress: bool | None,
    strict: bool,
    against: str | None = None,
    labels: str | None = None,
    use: KeyUse | None = None,
    sort: str | None = None,
    max_line: int = LONGEST_LINE,
    **wishes: Any,
) -> int:
    """Writes all results of a file in a form, with those of another run if it is given; returns the exit code.

    `use` is the key by which the form groups records, if any; `sort` names the field to sort them by.
    """
    console = Console(tool, progress=progress, strict=strict, output=output)
    source = Source(path, max_line=max_line)
    other = None if against is None else Source(against, max_line=max_line)
    target = Output(output, inputs=[source, other] if other else [source])
    if labels is not None:
        wishes["labels"] = _labels(labels, path, console)
    if other:
        wishes["against"] = RowReader(other, console)
    if target.path is None:
        target.before_first = console.end_progress
    console.begin(None, "records")
    try:
        seen = (lambda id: console.advance(visible(id))) if console.shows_progress else None
        reader = RowReader(source, console, seen, use, sort)
        forms.write(form, reader, target, source=source.name, say=console.say, sort=sort or "", **wishes)
    except UserError:
        target.abandon()
        raise
    finally:
        console.finish()
    complaint = use.complaint() if use and wishes.get("grouped") else None
    if complaint:
        console.say(complaint)
    return FAILED if console.refused or complaint else OK


def _labels(labels: str, path: str | None, console: Console) -> Mapping[str, Label]:
    """Returns a person's labels, by the name of the answer."""
    from agenteval.review.calibration import read_labels  # heavy: only where there are labels

    if labels == "-" and path in (None, "-"):
        raise UserError("RESULTS and --labels cannot both be stdin")
    return read_labels(Source(labels), console)
