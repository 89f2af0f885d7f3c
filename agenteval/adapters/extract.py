"""Raw record → result: what the lines contain, beside what the run recorded."""

from __future__ import annotations

from agenteval.adapters.reader import Adapter, Reading
from agenteval.streams.jsonl import encode
from agenteval.wire.records import VERDICT_FIELDS, Record
from agenteval.wire.richness import richness_of

# Fields that become something else in a result; all others of a raw record stay as they are.
RAW_ONLY = frozenset(("lineTimes", "turns", "permissions", "exitCode", "signal", "timedOut", "error"))
NOT_GRADED_YET = frozenset(VERDICT_FIELDS)  # a verdict on what was extracted before is none on this
ENDING = ("exitCode", "signal", "timedOut")


def read_raw(raw: Record, adapter: Adapter, reading: Reading | None = None) -> Reading:
    """Reads a raw record; a `reading` that has its first turns already is continued."""
    turns = raw.get("turns")
    counts = [turn["lines"] for turn in turns] if turns else None
    reading = reading or adapter.begin(raw["id"])
    reading.add_turns(answered_lines(raw), raw.get("lineTimes"), counts)
    return reading


def answered_lines(raw: Record) -> list[str]:
    """Returns the lines of a raw record; a request for permission has the answer that was given in `permission`."""
    lines: list[str] = raw["rawLines"]
    if answers := raw.get("permissions"):
        lines = list(lines)
        for answer in answers:
            at = answer["line"] - 1
            if at < len(lines) and (line := lines[at].rstrip()).endswith("}"):
                lines[at] = f'{line[:-1]},"permission":{encode(answer["outcome"]).decode()}}}'
    return lines


def result_of(raw: Record, adapter: Adapter, *, keep_raw: bool = False, reading: Reading | None = None) -> Record:
    """Returns the result of a raw record: fields in the order of the contract, then its unknown ones.

    A `reading` that has the first turns of this record already is continued.
    """
    reading = read_raw(raw, adapter, reading)
    result: Record = {"id": raw["id"], "input": raw["input"], "output": reading.output}
    if "hint" in raw:
        result["hint"] = raw["hint"]
    result["trajectory"] = reading.trajectory
    result["metadata"] = {
        **(raw.get("metadata") or {}),
        **reading.facts,
        "agent": _own_name(reading) or adapter.config.name,
        "trajectoryRichness": richness_of(None, (step["type"] for step in reading.trajectory)),
        "turnCount": len(raw["input"]) if isinstance(raw["input"], list) else 1,
        **({"turnSteps": reading.turn_steps} if reading.turns > 1 else {}),
        **{field: raw[field] for field in ENDING if field in raw},
    }
    result["timing"] = {**raw["timing"], **reading.usage}
    result["toolErrors"] = reading.tool_errors or (bool(raw.get("timedOut")) and _has_open_call(reading.trajectory))
    error = raw.get("error")
    if errors := [*(raw.get("errors") or ()), *([error] if error else ()), *reading.errors]:
        result["errors"] = errors
    for field, value in raw.items():
        if field in result or field in NOT_GRADED_YET:
            continue
        if keep_raw or (field not in RAW_ONLY and field != "rawLines"):
            result[field] = value
    return result


def failed_result(raw: Record, adapter: Adapter, reason: str) -> Record:
    """Returns the result of a raw record that could not be read: nothing but what the run recorded, and the reason."""
    unread = {field: value for field, value in raw.items() if field not in RAW_ONLY and field != "rawLines"}
    found: Record = {"output": "", "trajectory": [], "toolErrors": False}
    metadata = {**(raw.get("metadata") or {}), "agent": adapter.config.name}
    errors = [*(raw.get("errors") or ()), reason]
    return {**unread, **found, "metadata": metadata, "errors": errors}


def _own_name(reading: Reading) -> str | None:
    """Returns the name that an agent gives itself, if its schema takes one: that of ACP reads many agents."""
    name = reading.facts.get("agent")
    return name if isinstance(name, str) else None


def _has_open_call(trajectory: list[Record]) -> bool:
    """Whether a tool call has no result: in a turn that timed out, the tool has used up the time."""
    return any(step.get("status") in ("pending", "in_progress") for step in trajectory if step["type"] == "tool_call")
