"""json: every figure, as `ae-schemas ComparisonReport` and `ae-schemas TrialsComparisonReport` describe it"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agenteval.reports.forms import ReportContext
from agenteval.streams.text import pretty_json

if TYPE_CHECKING:  # results do not need the types of trials, which take nearly a millisecond of the start
    from agenteval.wire.comparison import ComparisonReport
    from agenteval.wire.trials_comparison import TrialsComparisonReport


def render(report: ComparisonReport | TrialsComparisonReport, _context: ReportContext) -> Iterator[bytes]:
    """Yields the report as JSON."""
    yield pretty_json(report)
