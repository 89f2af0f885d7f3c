"""A raw record and an adapter → a result."""

from __future__ import annotations

from agenteval.adapters.reader import Adapter
from agenteval.wire.records import Record
from agenteval.wire.richness import richness_of

# What becomes something else in a result; all other fields of a raw record stay as they are.
RAW_ONLY = frozenset(("lineTimes", "turns", "exitCode", "signal", "timedOut", "error"))
ENDING = ("exitCode", "signal", "timedOut")


def result_of(raw: Record, adapter: Adapter, *, keep_raw: bool = False) -> Record:
    """The result of a raw record, in the order of the contract, its unknown fields behind."""
    turns = raw.get("turns")
    counts = [turn["lines"] for turn in turns] if turns else None
    reading = adapter.read(raw["rawLines"], raw.get("lineTimes"), counts, raw["id"])
    result: Record = {"id": raw["id"], "input": raw["input"], "output": reading.output}
    if "hint" in raw:
        result["hint"] = raw["hint"]
    result["trajectory"] = reading.trajectory
    result["metadata"] = {
        **(raw.get("metadata") or {}),
        **reading.facts,
        "agent": adapter.config.name,
        "trajectoryRichness": richness_of(None, (step["type"] for step in reading.trajectory)),
        "turnCount": len(raw["input"]) if isinstance(raw["input"], list) else 1,
        **{field: raw[field] for field in ENDING if field in raw},
    }
    result["timing"] = {**raw["timing"], **reading.usage}
    result["toolErrors"] = reading.tool_errors
    said = raw.get("error")
    if errors := [*(raw.get("errors") or ()), *([said] if said else ()), *reading.errors]:
        result["errors"] = errors
    for field, value in raw.items():
        if field not in result and (keep_raw or (field not in RAW_ONLY and field != "rawLines")):
            result[field] = value
    return result
