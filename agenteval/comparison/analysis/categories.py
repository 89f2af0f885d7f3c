"""Each category of prompts by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from agenteval.comparison.analysis.differences import ValueOf, decide, difference, paired_values
from agenteval.comparison.pairing import RunRows
from agenteval.wire.differences import Category, CategoryRun

NONE = "(none)"  # prompts without the key


def by_category(
    runs: Sequence[RunRows[Any]],
    figures: Callable[[RunRows[Any]], CategoryRun],
    passes_of: ValueOf,
    *,
    clustered: bool,
) -> dict[str, Category] | None:
    """Each category, in order of appearance: each run, and every two runs; None if no record has one."""
    if all(row.category is None for run in runs for row in run.rows.values()):
        return None
    category_of: dict[str, str] = {}
    for run in runs:
        for id, row in run.rows.items():
            if row.category is not None:
                category_of.setdefault(id, row.category)
    parts: dict[str, list[RunRows[Any]]] = {}
    for place, run in enumerate(runs):
        for id, row in run.rows.items():
            category = category_of.get(id, NONE)
            part = parts.get(category)
            if part is None:
                part = parts[category] = [RunRows(run.label, {}) for run in runs]
            part[place].rows[id] = row
    found = {
        category: Category(
            runs={run.label: figures(run) for run in part},
            pairs=[difference(paired_values(a, b, passes_of, clustered=clustered)) for a, b in combinations(part, 2)],
        )
        for category, part in parts.items()
    }
    decide([pair for category in found.values() for pair in category.pairs])
    return found
