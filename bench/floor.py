"""A lower bound for ae-extract: writes the same records with bare orjson, the formats of events hard-coded.

`python -S -E floor.py ORJSON-DIR RAW KIND`: no schema, no validation, no messages. KIND is claude or a shape of
shapes.py.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

sys.path.append(sys.argv[1])
orjson: Any = import_module("orjson")

ENDING = ("exitCode", "signal", "timedOut")
DROPPED = {"rawLines", "lineTimes", "turns", *ENDING}


SETUP = {"model": "model", "tools": "tools", "mcpServers": "mcp_servers", "skills": "skills"}


def claude_result(raw: dict[str, Any], loads: Any = orjson.loads) -> dict[str, Any]:
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
            setup = {name: event[key] for name, key in SETUP.items() if key in event}
            facts = {"agentSetup": setup, "model": event["model"]}
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


def shape_result(raw: dict[str, Any], name: str, loads: Any = orjson.loads) -> dict[str, Any]:
    """Returns the record that ae-extract writes for a shape."""
    steps: list[dict[str, Any]] = []
    opened: dict[str, tuple[dict[str, Any], float]] = {}
    result = {"id": raw["id"], "input": raw["input"], "output": "", "hint": raw["hint"]}
    usage: dict[str, Any] = {}
    prefix = raw["id"] + "-step-"
    pieces: list[str] | None = None
    step: dict[str, Any] = {}
    for line, time in zip(raw["rawLines"], raw["lineTimes"], strict=True):
        event = loads(line)
        kind = event["type"]
        if kind == "delta":
            if pieces is None:
                pieces = []
                step = {"type": "message", "content": "", "timestamp": time}
                steps.append(step)
                step["stepId"] = prefix + str(len(steps))
            pieces.append(event["text"])
            continue
        if pieces is not None:
            step["content"] = "".join(pieces)
            pieces = None
        if kind == "assistant":
            step = {"type": "message", "content": event["message"]["content"][0]["text"], "timestamp": time}
            steps.append(step)
            step["stepId"] = prefix + str(len(steps))
        elif kind == "tool_use":
            step = {"type": "tool_call", "name": event["name"], "status": "pending", "input": event["input"]}
            step["output"] = step["duration"] = None
            step["timestamp"] = time
            opened[event["id"]] = (step, time)
            steps.append(step)
            step["stepId"] = prefix + str(len(steps))
        elif kind == "tool_result":
            step, started = opened.pop(event["tool_use_id"])
            step["status"], step["output"], step["duration"] = "completed", event["content"], time - started
        elif kind == "result":
            result["output"] = event["result"]
            tokens = event["usage"]
            usage = {"inputTokens": tokens["input_tokens"], "outputTokens": tokens["output_tokens"]}
    facts = {"agent": name, "trajectoryRichness": "full", "turnCount": 1}
    return {
        **result,
        "trajectory": steps,
        "metadata": {**raw["metadata"], **facts},
        "timing": {**raw["timing"], **usage},
        "toolErrors": False,
    }


def main(path: str, kind: str) -> None:
    """Reads raw records, writes results to stdout."""
    out = sys.stdout.buffer
    with open(path, "rb") as lines:
        for line in lines:
            raw = orjson.loads(line)
            result = claude_result(raw) if kind == "claude" else shape_result(raw, kind)
            out.write(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    main(sys.argv[2], sys.argv[3])
