"""json: the whole report, for programs"""

from collections.abc import Iterator

from agenteval.comparison.figures import Report
from agenteval.reports.forms import ReportContext
from agenteval.streams.text import pretty_json


def render(report: Report, _context: ReportContext) -> Iterator[bytes]:
    """Yields the report as JSON."""
    yield pretty_json(report)
