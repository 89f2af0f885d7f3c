"""The forms of ae-balance: JSON, and for a terminal a bar for each category."""

from collections.abc import Iterator

from agenteval.reports.forms import ReportContext, ReportForms
from agenteval.reports.terminal import chart
from agenteval.streams.text import pretty_json, visible
from agenteval.wire.balance import Balance


def as_json(balance: Balance, _context: ReportContext) -> Iterator[bytes]:
    """json: every figure"""
    yield pretty_json(balance)


def as_table(balance: Balance, context: ReportContext) -> Iterator[bytes]:
    """table: a bar for each category, and what to add"""
    for line in (*chart(balance, context.width), *(f"- {text}" for text in balance.suggestions)):
        yield f"{visible(line)}\n".encode()


FORMS = ReportForms(json=as_json, table=as_table)
