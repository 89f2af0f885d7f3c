"""Files of other harnesses → results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agenteval.adapters.foreign import atif, otlp
from tests.support.tool import run

START = 1794891695000

ATIF = {
    "schema_version": "ATIF-v1.7",
    "session_id": "s1",
    "agent": {"name": "goose", "version": "1.2", "model_name": "gpt-5"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "You are an agent."},
        {"step_id": 2, "source": "user", "message": "Fix it.", "timestamp": "2026-11-17T05:01:35Z"},
        {
            "step_id": 3,
            "source": "agent",
            "timestamp": "2026-11-17T05:01:36Z",
            "message": [{"type": "text", "text": "I run two."}],
            "reasoning_content": "Two commands.",
            "tool_calls": [
                {"tool_call_id": "a", "function_name": "shell", "arguments": {"command": "true"}},
                {"tool_call_id": "b", "function_name": "shell", "arguments": {"command": "false"}},
                {"tool_call_id": "c", "function_name": "shell", "arguments": {}},
            ],
            "observation": {
                "results": [
                    {"source_call_id": "b", "content": "no", "extra": {"is_error": True}},
                    {"source_call_id": "a", "content": "yes"},
                ]
            },
            "metrics": {"prompt_tokens": 10, "completion_tokens": 2},
        },
        {"step_id": 4, "source": "user", "message": "And now?"},
        {"step_id": 5, "source": "agent", "message": "Done.", "metrics": {"prompt_tokens": 20, "completion_tokens": 3}},
    ],
}


def test_an_atif_trajectory() -> None:
    (record,) = atif.results_of(ATIF)
    assert (record["id"], record["input"], record["output"]) == ("s1", ["Fix it.", "And now?"], "Done.")
    assert [(step["type"], step.get("status"), step.get("output")) for step in record["trajectory"]] == [
        ("thought", None, None),
        ("message", None, None),
        ("tool_call", "completed", "yes"),
        ("tool_call", "failed", "no"),
        ("tool_call", "pending", None),
        ("message", None, None),
    ]
    assert record["metadata"] == {
        "model": "gpt-5",
        "agentVersion": "1.2",
        "agent": "goose",
        "trajectoryRichness": "full",
        "turnCount": 2,
        "turnSteps": [5, 1],
    }
    assert record["timing"] == {
        "start": START,
        "end": START + 1000,
        "total": 1000,
        "inputTokens": 30,
        "outputTokens": 5,
    }
    assert record["toolErrors"] is True and "errors" not in record


def attributes(**values: Any) -> list[dict[str, Any]]:
    names = {int: "intValue", str: "stringValue"}
    plain = {key.replace("__", "."): value for key, value in values.items()}
    return [{"key": f"gen_ai.{key}", "value": {names[type(one)]: str(one)}} for key, one in plain.items()]


def span(ident: str, parent: str | None, start: int, operation: str, **values: Any) -> dict[str, Any]:
    times = {"startTimeUnixNano": f"{START + start}000000", "endTimeUnixNano": f"{START + start + 5}000000"}
    found = attributes(operation__name=operation, **values)
    return {"traceId": "t", "spanId": ident, "parentSpanId": parent or "", "attributes": found, **times}


def chat(role: str, *parts: dict[str, Any]) -> str:
    return json.dumps([{"role": role, "parts": list(parts)}])


def text(content: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "content": content}


OTLP = {
    "resourceSpans": [
        {
            "scopeSpans": [
                {
                    "spans": [
                        span("5", "4", 40, "execute_tool", tool__name="grep", tool__call__id="inner"),
                        span("1", None, 0, "invoke_agent", agent__name="helper", conversation__id="c1"),
                        span(
                            *("2", "1", 10, "chat"),
                            input__messages=chat("user", text("Find it.")),
                            output__messages=chat(
                                "assistant",
                                text("Let me think.", "reasoning"),
                                text("I search."),
                                {"type": "tool_call", "id": "x", "name": "find", "arguments": {"q": 1}},
                            ),
                            usage__input_tokens=10,
                            usage__output_tokens=2,
                        ),
                        span(
                            "3", "1", 20, "execute_tool", tool__name="find", tool__call__id="x", tool__call__result="[]"
                        ),
                        span("4", "3", 30, "invoke_agent", agent__name="sub"),
                        span(
                            *("6", "1", 50, "chat"),
                            output__messages=chat("assistant", text("Not there.")),
                            usage__input_tokens=20,
                            usage__output_tokens=3,
                        ),
                    ]
                }
            ]
        }
    ]
}


def test_an_otlp_trace() -> None:
    (record,) = otlp.results_of(OTLP)
    assert (record["id"], record["input"], record["output"]) == ("c1", "Find it.", "Not there.")
    assert [(step["type"], step.get("name"), step.get("parentId")) for step in record["trajectory"]] == [
        ("thought", None, None),
        ("message", None, None),
        ("tool_call", "find", None),
        ("tool_call", "grep", "x"),
        ("message", None, None),
    ]
    found = record["trajectory"][2]
    assert (found["input"], found["output"], found["status"], found["duration"]) == ({"q": 1}, "[]", "completed", 5)
    assert record["metadata"]["agent"] == "helper"
    assert record["timing"]["inputTokens"] == 30 and record["timing"]["outputTokens"] == 5


def test_files_of_others(tmp_path: Path) -> None:
    """A document may be a file or a line; one that is none is refused, the others are read."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.json").write_text(json.dumps(ATIF, indent=2))
    lines = [json.dumps({**ATIF, "session_id": "s2"}), '{"steps": []}', "broken"]
    (tmp_path / "logs" / "b.jsonl").write_text("\n".join(lines))
    done = run("ae-import", "atif", "logs", cwd=tmp_path).expect(1)
    assert done.ids == ["s1", "s2"] and len(done.messages) == 2, done
    assert "logs/b.jsonl: document 2: not an ATIF trajectory" in done.stderr and "logs/b.jsonl:3: " in done.stderr
    piped = run("ae-import", "otlp", stdin=json.dumps(OTLP), cwd=tmp_path).expect(0, stderr="")
    assert piped.ids == ["c1"]
    run("ae-import", "atif", "nowhere", cwd=tmp_path).expect(1).says("nowhere", "No such file")
