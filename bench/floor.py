"""A lower bound for ae-extract: writes the same records with bare orjson and Claude's event format hard-coded.

`python -S -E floor.py ORJSON-DIR RAW [--bare]`: no schema, no validation, no messages. With --bare it builds no
records: it only parses every line and writes about as many bytes.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

sys.path.append(sys.argv[1])
orjson: Any = import_module("orjson")

ENDING = ("exitCode", "signal", "timedOut")
DROPPED = {"rawLines", "lineTimes", "turns", *ENDING}


def result_of(raw: dict[str, Any], loads: Any = orjson.loads) -> dict[str, Any]:
    """Returns the record that ae-extract -s claude writes."""
    steps: list[dict[str, Any]] = []
    open_calls: dict[str, tuple[dict[str, Any], float]] = {}
    result: dict[str, Any] = {"id": raw["id"], "input": raw["input"], "output": ""}
    if "hint" in raw:
        result["hint"] = raw["hint"]
    tool_errors = False
    usage: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    stopped: dict[str, Any] = {}
    prefix = raw["id"] + "-step-"
    for line, time in zip(raw["rawLines"], raw["lineTimes"], strict=True):
        event = loads(line)
        kind = event["type"]
        if kind == "assistant":
            for item in event["message"]["content"]:
                what = item["type"]
                if what == "tool_use":
                    step = {
                        "type": "tool_call",
                        "name": item["name"],
                        "status": "pending",
                        "input": item["input"],
                        "output": None,
                        "duration": None,
                    }
                    open_calls[item["id"]] = (step, time)
                elif what == "text":
                    step = {"type": "message", "content": item["text"]}
                else:
                    step = {"type": "thought", "content": item["thinking"]}
                step["timestamp"] = time
                steps.append(step)
                step["stepId"] = prefix + str(len(steps))
        elif kind == "user":
            for item in event["message"]["content"]:
                if item["type"] == "tool_result":
                    step, started = open_calls.pop(item["tool_use_id"])
                    failed = item["is_error"]
                    tool_errors = tool_errors or failed
                    step["status"] = "failed" if failed else "completed"
                    step["output"] = item["content"]
                    step["duration"] = time - started
        elif kind == "system" and "model" in event:
            facts = {"model": event["model"]}
        elif kind == "result":
            result["output"] = event["result"]
            stopped = {"stopReason": event["stop_reason"]}
            (used,) = event["modelUsage"].values()
            cached = used["cacheReadInputTokens"]
            usage = {
                "inputTokens": used["inputTokens"] + used["cacheCreationInputTokens"] + cached,
                "outputTokens": used["outputTokens"],
                "cachedTokens": cached,
                "costUsd": used["costUSD"],
            }
    result["trajectory"] = steps
    result["metadata"] = {
        **raw["metadata"],
        **facts,
        "agent": "claude",
        "trajectoryRichness": "full",
        "turnCount": 1,
        **stopped,
        **{field: raw[field] for field in ENDING},
    }
    result["timing"] = {**raw["timing"], **usage}
    result["toolErrors"] = tool_errors
    for field, value in raw.items():
        if field not in result and field not in DROPPED:
            result[field] = value
    return result


def bare(raw: dict[str, Any], loads: Any = orjson.loads) -> list[Any]:
    """Parses every event; returns about as much data as a record has."""
    events = [loads(line) for line in raw["rawLines"]]
    return [event["message"]["content"] for event in events if "message" in event]


def main() -> None:
    """Reads raw records, writes results to stdout."""
    make: Any = bare if "--bare" in sys.argv else result_of
    out = sys.stdout.buffer
    with open(sys.argv[2], "rb") as lines:
        for line in lines:
            out.write(orjson.dumps(make(orjson.loads(line)), option=orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    main()
