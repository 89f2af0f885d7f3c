"""Trajectories in the Agent Trajectory Interchange Format → results."""

from agenteval.adapters.imported import ImportedResult, as_object, objects
from agenteval.adapters.values import as_text, total
from agenteval.errors import BadRecord
from agenteval.wire.records import Record

METRICS = {
    "inputTokens": ("total_prompt_tokens", "prompt_tokens"),
    "outputTokens": ("total_completion_tokens", "completion_tokens"),
    "cachedTokens": ("total_cached_tokens", "cached_tokens"),
    "costUsd": ("total_cost_usd", "cost_usd"),
}


def results_of(document: Record) -> list[Record]:
    """Returns the result of a trajectory; raises BadRecord if the document is something else."""
    steps, agent = document.get("steps"), as_object(document.get("agent"))
    if not str(document.get("schema_version", "")).startswith("ATIF-") or not isinstance(steps, list):
        raise BadRecord("not an ATIF trajectory: schema_version or steps is missing")
    ident = document.get("trajectory_id") or document.get("session_id")
    built = ImportedResult(as_text(ident) or "trajectory", as_text(agent.get("name")) or "unknown")
    version = agent.get("version")
    built.metadata = {"model": agent.get("model_name"), "agentVersion": None if version == "unknown" else version}
    steps = objects(steps)
    for step in steps:
        _add_step(built, step)
    final = as_object(document.get("final_metrics"))
    for name, (whole, single) in METRICS.items():
        counts = (as_object(step.get("metrics")).get(single) for step in steps)
        built.usage[name] = final[whole] if whole in final else total(*counts)
    errors = as_object(document.get("extra")).get("errors")
    built.errors = list(map(as_text, errors)) if isinstance(errors, list) else []
    return [built.result()]


def _add_step(built: ImportedResult, step: Record) -> None:
    built.at(step.get("timestamp"))
    text = as_text(step.get("message"))
    if step.get("source") == "user":
        built.turn(text)
    if step.get("source") != "agent":
        return
    if step.get("model_name"):
        built.metadata["model"] = step["model_name"]
    if reasoning := as_text(step.get("reasoning_content")):
        built.out.text("thought", reasoning)
    if text:
        built.out.text("message", text)
    results = {one.get("source_call_id"): one for one in objects(as_object(step.get("observation")).get("results"))}
    for call in objects(step.get("tool_calls")):
        ident, name, extra = call.get("tool_call_id"), call.get("function_name"), as_object(call.get("extra"))
        built.out.call(ident, name, call.get("arguments"))
        if (found := results.get(ident)) is not None:
            failed = as_object(found.get("extra")).get("is_error") or extra.get("status") == "failed"
            status = "failed" if failed else "completed"
            built.out.settle(ident, name, None, status, found.get("content"), extra.get("duration_ms"))
