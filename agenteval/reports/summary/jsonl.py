"""jsonl: a short record each: id, input, output, toolCalls and duration"""

from __future__ import annotations

from collections.abc import Iterator

from agenteval.reports.forms import ReportContext
from agenteval.reports.result_reader import ResultReader
from agenteval.streams.jsonl import encode
from agenteval.wire.records import Summary
from agenteval.wire.result_view import ResultWithCalls


def render(results: ResultReader, _context: ReportContext) -> Iterator[bytes]:
    """Yields a line per record, as it comes."""
    for result in results.views(ResultWithCalls):
        yield encode(summary_of(result)) + b"\n"


def summary_of(result: ResultWithCalls) -> Summary:
    """The short record of a result."""
    return Summary(
        id=result.id,
        input=None if result.input is None else result.turns("\n"),
        output=result.output,
        tool_calls=[step.name or "" for step in result.trajectory or () if step.type == "tool_call"],
        duration=result.duration,
    )
