"""The trials of a prompt as results named `ID#N`, for every report that shows results one by one."""

from __future__ import annotations

from typing import Any

from agenteval.comparison.trial_rows import ComparedTrials, trial_row
from agenteval.wire.records import Record
from agenteval.wire.result_view import TrialView
from agenteval.wire.validation import check

SAME = ("output", "timing", "scores", "outcome", "errors", "graderError", "gradedFailed", "toolErrors", "cwd")
OF_PROMPT = ("input", "hint", "metadata")


def trial_views(record: Record, *, steps: bool = True) -> list[TrialView]:
    """The trials of a record, in order; BadRecord if it is not valid. Without `steps`, trajectories are left out."""
    row = trial_row(check(record, ComparedTrials))
    prompt = {field: record.get(field) for field in OF_PROMPT}
    facts = {"trialOf": record["id"], "k": row.k, "passRate": row.pass_rate}
    trials = enumerate(record["trials"], 1)
    return [check({**prompt, **facts, **result_of(record["id"], trial, at, steps)}, TrialView) for at, trial in trials]


def result_of(id: str, trial: Record, at: int, steps: bool) -> Record:
    """The fields of a trial as those of a result; `at` is its number if it has none."""
    result: Record = {field: trial[field] for field in SAME if trial.get(field) is not None}
    result["id"] = f"{id}#{trial.get('trialNum', at)}"
    result.setdefault("output", "")
    if steps:
        result["trajectory"] = trial.get("trajectory")
    if trial.get("duration") is not None:
        result["timing"] = {**(trial.get("timing") or {}), "total": trial["duration"]}
    if (verdict := _verdict(trial)) is not None:
        result["score"] = verdict
    return result


def _verdict(trial: Record) -> Any:
    """Pass, score and reasoning as one object; a verdict without a score has that of its pass."""
    passed = trial.get("pass")
    if passed is None:
        return None
    score = trial.get("score")
    found = {"pass": passed, "score": float(bool(passed)) if score is None else score}
    more = {field: trial[field] for field in ("reasoning", "outcome") if trial.get(field) is not None}
    return {**found, **more}
