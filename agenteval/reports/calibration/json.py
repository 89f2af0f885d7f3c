"""json: every figure, as `ae-schemas CalibrationReport` describes it"""

from __future__ import annotations

from collections.abc import Iterator

from agenteval.reports.forms import ReportContext
from agenteval.review.calibration import Calibration
from agenteval.streams.text import pretty_json


def render(calibration: Calibration, _context: ReportContext) -> Iterator[bytes]:
    """Yields the report as JSON."""
    yield pretty_json(calibration.report())
