"""The forms of each kind of report, found by their file names: reports/results/csv.py is the form csv of results.

A form is a module with `render(subject, context)`, which yields the report as bytes, piece by piece. To add a form, add
the file: options, `--help`, completion and the choice by the extension of -o find it. Its docstring begins with
`NAME: ` and a paragraph that describes it in `--help`. A form is imported only when it is used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

from agenteval.streams.console import supports_color
from agenteval.streams.output import Output
from agenteval.streams.text import NO_TERMINAL, terminal_columns

HERE = os.path.dirname(os.path.abspath(__file__))
WRITE_SIZE = 1 << 16
EXTENSIONS = {"md": "markdown", "ndjson": "jsonl", "xml": "junit"}  # any other extension is the name of its form


def _say_nothing(_message: str) -> None:
    """Drops a message."""


class ReportContext(NamedTuple):
    """Where a report is written, when it was made, and what the user asked to be in it."""

    width: int = NO_TERMINAL
    color: bool = False
    generated: str = ""
    source: str = ""
    by: str = "category"  # the metadata by which records are grouped
    grouped: bool = False  # whether text reports are grouped by it, too
    raw_csv: bool = False  # csv for programs: values as they are
    for_web: bool = False  # whether text of agents is escaped, so that a web page can show it
    limit: int | None = None  # how many records are listed one by one
    trajectories: bool = True
    say: Callable[[str], None] = _say_nothing  # one line for the user
    terminal: bool = False  # whether the report is written to one
    every: bool = False  # whether training data is made of answers that did not pass, too
    against: Any = None  # a ResultReader: another run of the same prompts
    reader: str = ""  # whose training reads the examples: trl or openai
    prompts: Any = None  # of a comparison: page.comparison_rows.PromptLines, which reads the records again


Form = Callable[[Any, ReportContext], Iterator[bytes]]


class ReportForms:
    """The forms of one kind of report: the files of one package below reports/."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def names(self) -> list[str]:
        """The names of the forms, sorted; nothing is imported."""
        files = sorted(os.listdir(os.path.join(HERE, self.kind)))
        return [file.removesuffix(".py") for file in files if file.endswith(".py") and not file.startswith("_")]

    def description(self, name: str) -> list[str]:
        """The lines of the first paragraph of a form's docstring, without its name; nothing is imported."""
        with open(os.path.join(HERE, self.kind, f"{name}.py"), encoding="utf-8") as file:
            text = file.read().partition('"""')[2].partition('"""')[0]
        return text.partition("\n\n")[0].rstrip().removeprefix(f"{name}: ").split("\n")

    def choose(self, asked: str | None, output: str | None, default: str) -> str:
        """The form that was asked for, else the one that the extension of the output names, else the default."""
        extension = os.path.splitext(output or "")[1].lower().removeprefix(".")
        named = EXTENSIONS.get(extension, extension)
        return asked or (named if named in self.names() else default)

    def render(self, name: str) -> Form:
        """The function that renders that form."""
        render: Form = import_module(f"agenteval.reports.{self.kind}.{name}").render
        return render

    def write(self, name: str, subject: Any, output: Output, *, at_once: bool = False, **wishes: Any) -> None:
        """Writes the subject in that form, with these fields of the context, and closes the output.

        Each piece is written as it comes, or many at a time if all of the input is there already (`at_once`).
        """
        pieces = self.render(name)(subject, context_of(output)._replace(**wishes))
        for piece in _joined(pieces) if at_once else pieces:
            output.write_bytes(piece)
        output.close()


def _joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Joins pieces to larger ones; those that came before an error are not lost."""
    waiting: list[bytes] = []
    size = 0
    try:
        for piece in pieces:
            waiting.append(piece)
            size += len(piece)
            if size >= WRITE_SIZE:
                yield b"".join(waiting)
                waiting, size = [], 0
    except Exception:
        if waiting:
            yield b"".join(waiting)
        raise
    if waiting:
        yield b"".join(waiting)


def context_of(output: Output) -> ReportContext:
    """The context of an output: the width and colours of the terminal, if it is one."""
    generated = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if output.path is not None:
        return ReportContext(generated=generated)
    terminal = output.isatty()
    return ReportContext(terminal_columns(), terminal and supports_color(), generated, terminal=terminal)
