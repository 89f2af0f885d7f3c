"""markdown: the verdict in words, then the figures behind it"""

from __future__ import annotations

from collections.abc import Iterator

from agenteval.reports.forms import ReportContext
from agenteval.reports.markup import page
from agenteval.reports.result_sections import result_sections
from agenteval.reports.trial_sections import trial_sections
from agenteval.wire.comparison import ComparisonReport
from agenteval.wire.trials_comparison import TrialsComparisonReport


def render(report: ComparisonReport | TrialsComparisonReport, _context: ReportContext) -> Iterator[bytes]:
    """Yields the report as markdown."""
    sections = trial_sections(report) if isinstance(report, TrialsComparisonReport) else result_sections(report)
    yield page(sections).encode()
