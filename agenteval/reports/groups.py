"""Results by category: a summary for each value of a key below metadata."""

from __future__ import annotations

from agenteval.comparison.row_facts import metadata_path, metadata_text
from agenteval.reports.run_summary import RunSummary
from agenteval.wire.result_view import ResultView

NO_GROUP = "(none)"
MOST_GROUPS = 1000
OTHER_GROUPS = "(others)"


def add_to_group(groups: dict[str, RunSummary], row: ResultView, by: str) -> None:
    """Adds a result to the summary of its category; records without the key are a category of their own."""
    name = metadata_text(getattr(row, "metadata", None), metadata_path(by)) or NO_GROUP
    if name not in groups and len(groups) >= MOST_GROUPS:
        name = OTHER_GROUPS
    groups.setdefault(name, RunSummary()).add(row)
