"""json: the plan as `ae-schemas EvaluationPlan` describes it"""

from __future__ import annotations

from collections.abc import Iterator

from agenteval.reports.forms import ReportContext
from agenteval.streams.text import pretty_json
from agenteval.wire.plan import EvaluationPlan


def render(plan: EvaluationPlan, _context: ReportContext) -> Iterator[bytes]:
    """Yields the plan as JSON."""
    yield pretty_json(plan)
