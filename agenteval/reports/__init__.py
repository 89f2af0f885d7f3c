"""Records → something to read: one file per form, each with a `render`, imported only when it is asked for.

A new form is a new file and a new line in FORMS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agenteval.reports.passes import Rows

FORMS = {
    "jsonl": "agenteval.reports.results.jsonl",
    "markdown": "agenteval.reports.results.markdown",
    "csv": "agenteval.reports.results.csv_",
    "table": "agenteval.reports.results.table",
}


class ReportContext(NamedTuple):
    """What a form knows of the place it is written to, and when."""

    width: int = 100
    color: bool = False
    generated: str = ""


Form = Callable[["Rows", ReportContext], Iterator[bytes]]


def form(name: str) -> Form:
    """The form of that name: a function from rows to the pieces in which it is written."""
    render: Form = import_module(FORMS[name]).render
    return render
