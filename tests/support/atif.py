"""The rules of the Agent Trajectory Interchange Format, checked strictly: unknown keys are errors.

harbor, whose models define the format, is large: `make test-peers` has its validator check the same documents.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from tests.support.tool import Record

TRAJECTORY = {"schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics", "extra"}
TRAJECTORY |= {"subagent_trajectories"}
AGENT = {"name", "version", "model_name", "tool_definitions", "extra"}
AGENT_ONLY = {"model_name", "reasoning_content", "tool_calls", "metrics"}
STEP = {"step_id", "source", "message", "timestamp", "observation", "extra"} | AGENT_ONLY
CALL = {"tool_call_id", "function_name", "arguments", "extra"}
RESULT = {"source_call_id", "content", "subagent_trajectory_ref", "extra"}
TOTALS = {"total_prompt_tokens", "total_completion_tokens", "total_cached_tokens", "total_cost_usd", "total_steps"}


def check_trajectory(document: Record) -> None:
    """Asserts that a document keeps the rules."""
    keys(document, TRAJECTORY, {"schema_version", "agent", "steps"})
    assert document["schema_version"] in ("ATIF-v1.7", "ATIF-v1.8")
    keys(document["agent"], AGENT, {"name", "version"})
    totals = keys(document.get("final_metrics", {}), TOTALS | {"extra"})
    assert all(type(totals[name]) is int for name in totals.keys() & (TOTALS - {"total_cost_usd"})), totals
    steps = document["steps"]
    assert steps and [step["step_id"] for step in steps] == list(range(1, len(steps) + 1))
    assert totals.get("total_steps", len(steps)) == len(steps)
    nested = document.get("subagent_trajectories", [])
    workers = [one["trajectory_id"] for one in nested]
    assert len(set(workers)) == len(workers)
    for one in [document, *nested]:
        for step in one["steps"]:
            check_step(step, workers)
    for one in nested:
        check_trajectory(one | {"steps": [step | {"observation": {}} for step in one["steps"]]})


def check_step(step: Record, workers: Collection[str] = ()) -> None:
    """Asserts that a step keeps the rules; `workers` are the trajectories that it may refer to."""
    keys(step, STEP, {"step_id", "source", "message"})
    assert step["source"] in ("system", "user", "agent") and isinstance(step["message"], str)
    assert step["source"] == "agent" or not step.keys() & AGENT_ONLY
    if "timestamp" in step:
        datetime.fromisoformat(step["timestamp"])
    calls = [keys(call, CALL, {"tool_call_id", "function_name", "arguments"}) for call in step.get("tool_calls", [])]
    assert all(isinstance(call["arguments"], dict) for call in calls)
    ids = [call["tool_call_id"] for call in calls]
    assert len(set(ids)) == len(ids)
    for result in keys(step.get("observation", {}), {"results"}).get("results", []):
        keys(result, RESULT)
        assert result.get("source_call_id", ids[0] if ids else None) in ids
        assert isinstance(result.get("content", ""), str)
        assert {ref["trajectory_id"] for ref in result.get("subagent_trajectory_ref", [])} <= set(workers)


def keys(found: Record, allowed: Collection[str], required: Collection[str] = ()) -> Record:
    """Asserts that an object has the keys it must have and no others; returns it."""
    assert isinstance(found, dict) and found.keys() <= set(allowed), found.keys() - set(allowed)
    assert found.keys() >= set(required), set(required) - found.keys()
    assert not [name for name, value in found.items() if value is None]
    return found
