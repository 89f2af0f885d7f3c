"""JSON lines: every field in its place, known or not; compact, and nothing that is not a result."""

from __future__ import annotations

from collections.abc import Iterator

from agenteval.reports import ReportContext
from agenteval.reports.passes import Rows
from agenteval.streams.jsonl import encode


def render(rows: Rows, _page: ReportContext) -> Iterator[bytes]:
    """One line per record, as it comes."""
    for record in rows.records():
        yield encode(record) + b"\n"
