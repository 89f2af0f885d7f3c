"""json: the evaluation as `ae-schemas Evaluation` describes it, with the user's own metadata"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from agenteval.reports.evaluation_facts import EvaluationReport
from agenteval.reports.forms import ReportContext
from agenteval.streams.text import pretty_json


def render(report: EvaluationReport, _context: ReportContext) -> Iterator[bytes]:
    """Yields the evaluation as JSON."""
    whole = msgspec.to_builtins(report.evaluation)
    whole["metadata"] |= report.own
    yield pretty_json(whole)
