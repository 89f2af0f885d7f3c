"""Jobs of Harbor: the result.json of each trial, its trajectory (ATIF) and its rewards → results."""

import os
from collections.abc import Iterator
from contextlib import suppress

from agenteval.adapters.foreign import atif
from agenteval.adapters.imported import ImportedResult, as_object, verdict
from agenteval.adapters.values import as_text, epoch_milliseconds
from agenteval.errors import BadRecord
from agenteval.streams.console import Console
from agenteval.streams.source import read_objects
from agenteval.wire.records import Record

FILE = "result.json"
TRAJECTORY = os.path.join("agent", "trajectory.json")
USAGE = {"inputTokens": "n_input_tokens", "outputTokens": "n_output_tokens", "cachedTokens": "n_cache_tokens"}


def read_documents(path: str, console: Console) -> Iterator[Record]:
    """Yields the result of a trial with its trajectory; nothing for that of the whole job."""
    for document in read_objects(path, console):
        if "trial_name" not in document and "n_total_trials" in document:
            continue
        there = os.path.join(os.path.dirname(path), TRAJECTORY)
        yield document | {
            "trajectory": next(iter(read_objects(there, console)), None) if os.path.isfile(there) else None
        }


def results_of(document: Record) -> list[Record]:
    """Returns the result of a trial; raises BadRecord if the document is something else."""
    if "trial_name" not in document or "task_name" not in document:
        raise BadRecord("not the result of a Harbor trial: trial_name or task_name is missing")
    agent, context = as_object(document.get("agent_info")), as_object(document.get("agent_result"))
    built = ImportedResult(as_text(document["task_name"]), as_text(agent.get("name")) or "unknown")
    built.metadata = {
        "model": as_object(agent.get("model_info")).get("name"),
        "agentVersion": agent.get("version"),
        "trial": document["trial_name"],
        "source": document.get("source"),
    }
    built.usage = {name: context.get(theirs) for name, theirs in USAGE.items()} | {"costUsd": context.get("cost_usd")}
    executed = as_object(document.get("agent_execution"))
    built.start, built.end = (epoch_milliseconds(executed.get(name)) for name in ("started_at", "finished_at"))
    if failure := as_object(document.get("exception_info")):
        built.errors = [f"{failure.get('exception_type')}: {as_text(failure.get('exception_message'))}"]
    rewards = as_object(as_object(document.get("verifier_result")).get("rewards"))
    for name, reward in rewards.items():
        if (found := verdict(reward, None, f"{name} {reward}")) is not None:
            built.add_verdict(name, found)
    result = built.result()
    return [_with_trajectory(result, as_object(document.get("trajectory")))]


def _with_trajectory(result: Record, trajectory: Record) -> Record:
    """Adds what the agent did; the numbers of the trial come first."""
    with suppress(BadRecord):
        done = atif.results_of(trajectory)[0]
        for step in done["trajectory"]:
            step["stepId"] = f"{result['id']}-step-{step['stepId'].rpartition('-')[2]}"
        timing = {**done["timing"], **{name: value for name, value in result["timing"].items() if value}}
        kept = {name: done[name] for name in ("input", "output", "trajectory", "toolErrors")}
        seen = {name: done["metadata"][name] for name in ("trajectoryRichness", "turnCount")}
        return {**result, **kept, "timing": timing, "metadata": {**result["metadata"], **seen}}
    return result
