"""The forms of a report (csv, html, …), how they are chosen, and how a report is written in one of them.

A form is a function `render(subject, context)` that yields the report as bytes, piece by piece. A report with a few
forms declares them as functions of one module. Those of results are files: reports/results/csv.py is the form csv. To
add one, add the file; options, `--help`, completion and the choice by the extension of -o find it, and it is imported
only when it is used. The docstring of a form begins with `NAME: ` and a paragraph that describes it in `--help`.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from agenteval.errors import UserError
from agenteval.streams.console import supports_color
from agenteval.streams.output import Output
from agenteval.streams.text import NO_TERMINAL, terminal_columns
from agenteval.wire.calibration import Label

HERE = os.path.dirname(os.path.abspath(__file__))
EXTENSIONS = {  # any other extension is the name of its form
    "md": ("markdown",),
    "ndjson": ("jsonl",),
    "xml": ("junit",),
    "htm": ("html",),
    "txt": ("text", "table"),
}


class Following(NamedTuple):
    """What a page shows about an unfinished run."""

    planned: int | None  # records at its end, if that is known
    reload: float = 0  # seconds until the page loads itself again; 0: it is not followed any more

    def shown(self, records: int) -> dict[str, Any]:
        """The same for the script of the page, with the number of records so far."""
        done = f"{min(records, self.planned):,} of {self.planned:,}" if self.planned else f"{records:,} so far"
        return {"text": f"running, {done}" if self.reload else f"not finished: {done}", "reload": self.reload}


class ReportContext(NamedTuple):
    """Where a report is written, when it was made, and what the user asked for."""

    width: int = NO_TERMINAL
    color: bool = False
    generated: str = ""
    source: str = ""
    by: str = "category"  # the metadata by which records are grouped
    grouped: bool = False  # whether the user asked for it
    group_by: str = ""  # reason, or the metadata by which listed records are counted instead
    sort: str = ""  # what the records are sorted by
    raw_csv: bool = False  # csv for programs: values as they are
    for_web: bool = False  # whether text of agents is escaped, so that a web page can show it
    statuses: frozenset[str] | None = None  # of the records that are listed; None: of all
    limit: int | None = None  # how many records are listed one by one
    trajectories: bool = True
    say: Callable[[str], None] = lambda _message: None  # one line for the user
    terminal: bool = False  # whether the report is written to one
    every: bool = False  # whether to list, or export for training, also the answers that the form leaves out
    labels: Mapping[str, Label] | None = None  # of a person, by the name of the answer
    against: Any = None  # a ResultReader: another run of the same prompts
    reader: str = ""  # whose training reads the examples: trl or openai
    following: Following | None = None  # if the run is not finished
    prompts: Any = None  # of a comparison: page.comparison_rows.PromptLines, which reads the records again

    def lists(self, status: str) -> bool:
        """Whether a record or an answer with this status is listed."""
        return self.statuses is None or status in self.statuses


Form = Callable[[Any, ReportContext], Iterator[bytes]]


class ReportForms:
    """The forms of one kind of report: functions by name, or the files of a folder below reports/."""

    def __init__(self, folder: str = "", /, **functions: Form) -> None:
        self._folder, self._functions = folder, functions

    def names(self) -> list[str]:
        """The names of the forms, sorted; nothing is imported."""
        files = os.listdir(os.path.join(HERE, self._folder)) if self._folder else ()
        found = [file.removesuffix(".py") for file in files if file.endswith(".py") and not file.startswith("_")]
        return sorted([*self._functions, *found])

    def description(self, name: str) -> list[str]:
        """The lines of the first paragraph of a form's docstring, without its name; nothing is imported."""
        if function := self._functions.get(name):
            text = function.__doc__ or ""
        else:
            with open(os.path.join(HERE, self._folder, f"{name}.py"), encoding="utf-8") as file:
                text = file.read().partition('"""')[2].partition('"""')[0]
        paragraph = text.partition("\n\n")[0].rstrip().removeprefix(f"{name}: ")
        return [line.strip() for line in paragraph.split("\n")]

    def choose(self, asked: str | None, output: str | None, default: str) -> str:
        """The requested form, else the one that the extension of the output names, else the default.

        On a terminal the default is a table, if there is one. Raises UserError for an extension that no form has.
        """
        extension = os.path.splitext(output or "")[1].lower().removeprefix(".")
        names = self.names()
        if asked or not extension:
            on_terminal = "table" in names and output in (None, "-") and os.isatty(1)
            return asked or ("table" if on_terminal else default)
        form = next((name for name in EXTENSIONS.get(extension, (extension,)) if name in names), None)
        if form is None:
            raise UserError(f"-o {output}: no format has this extension; choose one with -f: {', '.join(names)}")
        return form

    def render(self, name: str) -> Form:
        """The function that renders that form."""
        found: Form = self._functions.get(name) or import_module(f"agenteval.reports.{self._folder}.{name}").render
        return found

    def write(self, name: str, subject: Any, output: Output, **wishes: Any) -> None:
        """Writes the subject in that form, with these fields of the context, and closes the output."""
        for piece in self.render(name)(subject, context_of(output)._replace(**wishes)):
            output.write_bytes(piece)
        output.close()


def context_of(output: Output) -> ReportContext:
    """The context of an output: the width and colours of the terminal, if it is one."""
    generated = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if output.path is not None:
        return ReportContext(generated=generated)
    terminal = output.isatty()
    return ReportContext(terminal_columns(), terminal and supports_color(), generated, terminal=terminal)
