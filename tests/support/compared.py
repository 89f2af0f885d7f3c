"""Rows and reports of comparisons, made without files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agenteval.comparison.comparison import CompareSettings, Comparison
from agenteval.comparison.row_table import ComparedRow
from agenteval.comparison.rows import RunRows
from agenteval.wire.comparison import ComparisonReport, TrialsComparisonReport

RESULTS, TRIALS = Comparison(trials=False), Comparison(trials=True)


def result_row(
    score: float | None = None,
    passed: bool = False,
    duration: float | None = None,
    *,
    failed: bool = False,
    grader_error: bool = False,
    **fields: Any,
) -> ComparedRow:
    """What is kept of a result."""
    return ComparedRow(
        graded=score is not None,
        passed=passed,
        scores=() if score is None else (score,),
        durations=() if duration is None else (duration,),
        failed=failed,
        errors=failed,
        grader_errors=grader_error,
        **fields,
    )


def trials_row(passed: int, k: int, **fields: Any) -> ComparedRow:
    """What is kept of k trials, of which so many passed."""
    rates = {"pass_at_k": 1.0, "pass_exp_k": 0.0} | fields
    return ComparedRow(k=k, attempts=k, graded=k, passed=passed, **rates)


def compare_results(runs: Sequence[RunRows], settings: CompareSettings) -> ComparisonReport:
    """The report on runs of results."""
    found = RESULTS.compare(runs, settings)
    assert isinstance(found, ComparisonReport)
    return found


def compare_trials(runs: Sequence[RunRows], settings: CompareSettings) -> TrialsComparisonReport:
    """The report on runs of trials."""
    found = TRIALS.compare(runs, settings)
    assert isinstance(found, TrialsComparisonReport)
    return found
