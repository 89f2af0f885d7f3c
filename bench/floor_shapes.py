"""A lower bound for ae-extract on the data of shapes.py: the same records with bare orjson and the events hard-coded.

`python -S -E floor_shapes.py ORJSON-DIR RAW NAME`: no schema, no validation, no messages.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

sys.path.append(sys.argv[1])
orjson: Any = import_module("orjson")


def result_of(raw: dict[str, Any], name: str, loads: Any = orjson.loads) -> dict[str, Any]:
    """Returns the record that ae-extract writes."""
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


def main(path: str, name: str) -> None:
    """Writes a line per record."""
    out = sys.stdout.buffer
    with open(path, "rb") as lines:
        for line in lines:
            out.write(orjson.dumps(result_of(orjson.loads(line), name), option=orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    main(sys.argv[2], sys.argv[3])
