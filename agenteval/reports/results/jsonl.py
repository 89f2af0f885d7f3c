"""jsonl: the records again, one compact line each, unknown fields kept"""

from collections.abc import Iterator

from agenteval.reports.forms import ReportContext
from agenteval.reports.reader import RowReader
from agenteval.streams.jsonl import encode


def render(results: RowReader, context: ReportContext) -> Iterator[bytes]:
    """Yields a line per record, as it comes."""
    for record, row in results.records():
        if context.lists(row.status):
            yield encode(record) + b"\n"
