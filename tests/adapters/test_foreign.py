"""Files of other harnesses → results."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agenteval.adapters.foreign import atif, inspect, otlp
from agenteval.streams.console import Console
from tests.support.tool import BIN, ROOT, run

FOREIGN = ROOT / "tests" / "data" / "foreign"

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
    run("ae-import", "atif", "nowhere", cwd=tmp_path).expect(2).says("nowhere", "No such file")


# --- files that inspect_ai 0.3.285 and promptfoo 0.123.1 wrote --------------------------------------


def steps_of(record: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (step["type"], step.get("name"), step.get("status"), step.get("input"), step.get("output", step.get("content")))
        for step in record["trajectory"]
    ]


@pytest.mark.parametrize("file", ["inspect.eval", "inspect.json"])
def test_a_log_of_inspect(file: str, tmp_path: Path) -> None:
    records = {one["id"]: one for one in run("ae-import", "inspect", FOREIGN / file, cwd=tmp_path).expect(0).records}
    one, two = records["one"], records["2"]
    assert (one["input"], one["output"], one["hint"]) == ("What is 1+41?", "The answer is 42.", "42")
    assert steps_of(one) == [
        ("message", None, None, None, "I add."),
        ("tool_call", "add", "completed", {"x": 1, "y": 41}, "42"),
        ("thought", None, None, None, "Simple sum."),
        ("message", None, None, None, "The answer is 42."),
    ]
    assert steps_of(two)[1] == ("tool_call", "add", "failed", {"x": 99, "y": 41}, "no 99") and two["toolErrors"] is True
    assert one["metadata"]["category"] == "math" and one["metadata"]["model"] == "mockllm/model"
    timing = one["timing"]
    assert (timing["inputTokens"], timing["outputTokens"], timing["cachedTokens"]) == (200, 20, 80)
    assert 0 < timing["total"] < 10_000 and all(0 <= step["timestamp"] <= timing["total"] for step in one["trajectory"])
    assert (one["score"]["pass"], two["score"]["pass"], list(one["scores"])) == (True, False, ["includes", "match"])


def test_a_sample_of_inspect_that_failed_and_its_epochs() -> None:
    task = {"task": "t", "model": "m", "config": {"epochs": 2}}
    long = {"content": "attachment://1a", "role": "user"}
    first = {
        "id": 7,
        "epoch": 1,
        "messages": [long],
        "attachments": {"1a": "a long question"},
        "scores": {"s": {"value": 9}},
    }
    second = {"id": 7, "epoch": 2, "input": "q", "error": {"message": "boom"}, "scores": {"s": {"value": "C"}}}
    good, bad = inspect.results_of({"eval": task, "samples": [first, second, "no sample"]})
    assert (good["id"], good["input"], bad["id"], bad["input"]) == ("7-epoch-1", "a long question", "7-epoch-2", "q")
    assert bad["errors"] == ["boom"] and "score" not in bad, "an agent that failed has no verdict"
    assert "score" not in good, "9 is no score from 0 to 1"


def changed_member(archive: bytes, number: int, local: int, central: int, value: bytes) -> bytes:
    """Returns a zip file with other bytes in both headers of its nth member."""
    changed = bytearray(archive)
    for signature, offset in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        at = -1
        for _ in range(number):
            at = changed.index(signature, at + 1)
        changed[at + offset : at + offset + len(value)] = value
    return bytes(changed)


def test_an_archive_with_broken_samples(tmp_path: Path) -> None:
    """Cut off, encrypted, of a wrong kind: each costs itself. A sample that claims 200 GB takes no memory."""
    text = b'{"id": "bomb", "input": "q", "messages": []}'
    claims = (200 << 30).to_bytes(8, "little")
    frame = b"\x28\xb5\x2f\xfd\xe0" + claims + (len(text) << 3 | 1).to_bytes(3, "little") + text
    members: dict[str, str | bytes] = {
        "_journal/start.json": json.dumps({"eval": {"task": "t"}}),
        "samples/1_epoch_1.json": "{",
        "samples/2_epoch_1.json": frame,
        "samples/3_epoch_1.json": json.dumps({"id": 3, "input": "q"}),
        "samples/4_epoch_1.json": json.dumps({"id": 4, "input": "q", "target": 5, "messages": "x", "scores": [1]}),
    }
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    whole = (tmp_path / "a.eval").read_bytes()
    zstandard_, encrypted = (93).to_bytes(2, "little"), b"\1\0"
    whole = changed_member(changed_member(whole, 3, 8, 10, zstandard_), 4, 6, 8, encrypted)
    (tmp_path / "a.eval").write_bytes(whole)
    (tmp_path / "b.eval").write_bytes(whole[:-30])
    (tmp_path / "c.eval").write_bytes(whole.replace(b"PK\x01\x02", b"PK\x01\x03"))
    limited = f"ulimit -v 1500000; exec {BIN}/ae-import inspect ."
    done = run("/bin/sh", "-c", limited, cwd=tmp_path).expect(1)
    assert done.ids == ["4"] and done.records[-1]["hint"] == "5", "a run that did not end has no header: it is read"
    said = "\n".join(done.messages)
    assert "./a.eval: samples/1_epoch_1.json: not JSON" in said and "samples/2_epoch_1.json: cannot be unpacked" in said
    assert "samples/3_epoch_1.json: encrypted" in said and "./b.eval: the archive is damaged or incomplete" in said
    assert "./c.eval: the archive is damaged or incomplete: Bad magic number" in said
    assert "internal error" not in said and "not enough memory" not in said


def test_results_of_promptfoo(tmp_path: Path) -> None:
    whole = run("ae-import", "promptfoo", FOREIGN / "promptfoo.json", cwd=tmp_path).expect(0, stderr="").records
    rows = json.loads((FOREIGN / "promptfoo.json").read_text())["results"]["results"]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    piped = run("ae-import", "promptfoo", stdin=lines, cwd=tmp_path).expect(0, stderr="").records
    records = {record["id"]: record for record in whole}
    assert [record["id"] for record in piped] == list(records) == ["1-1", "1-3", "2-1", "2-3", "3-1", "3-3"]
    good = records["1-1"]
    assert (good["input"], good["output"]) == ("Say hello please", "said: Say hello please")
    assert good["metadata"]["agent"] == "mine" and good["metadata"]["category"] == "easy"
    assert good["timing"]["total"] == 12 and good["timing"]["costUsd"] == 0.002
    assert (good["timing"]["inputTokens"], good["timing"]["outputTokens"]) == (20, 10)
    assert good["score"]["pass"] is True and list(good["scores"]) == ["contains", "javascript"]
    assert records["2-1"]["score"]["pass"] is False and "nope" in records["2-1"]["score"]["reasoning"]
    assert records["3-1"]["errors"] == ["Error: exploded"] and "score" not in records["3-1"]
    assert "score" not in records["3-3"], "without an assertion nothing was graded"
    assert "inputTokens" not in records["3-3"]["timing"], "0 tokens are unknown tokens"


# --- what ae-format writes ------------------------------------------------------------------------

RESULTS: list[dict[str, Any]] = [
    {
        "id": "a",
        "input": "Fix it, ünter",
        "output": "Done.",
        "trajectory": [
            {"type": "thought", "content": "Hm.", "timestamp": 5, "stepId": "a-step-1"},
            {"type": "message", "content": "I look.", "timestamp": 6, "stepId": "a-step-2"},
            *(
                {"type": "tool_call", "name": name, "status": status, "input": {"path": "y"}, "output": output}
                for name, status, output in (("Read", "completed", "text"), ("Edit", "failed", "no such file"))
            ),
            {"type": "message", "content": "Done.", "timestamp": 30, "stepId": "a-step-5"},
        ],
        "metadata": {"agent": "claude", "model": "opus", "turnCount": 1},
        "timing": {"start": START, "end": START + 1066, "total": 1066, "inputTokens": 200, "outputTokens": 20},
        "toolErrors": True,
        "score": {"pass": True, "score": 0.75, "reasoning": "good"},
    },
    {
        "id": "b",
        "input": "q",
        "output": "",
        "trajectory": [],
        "metadata": {"agent": "claude", "turnCount": 1},
        "timing": {"start": START, "end": START + 1066, "total": 1066},
        "errors": ["claude exited with 1: oops"],
    },
]


@pytest.mark.parametrize("format_", ["atif", "otlp", "inspect"])
def test_what_ae_format_exports_ae_import_reads(format_: str, tmp_path: Path) -> None:
    lines = "".join(json.dumps(one) + "\n" for one in RESULTS)
    exported = run("ae-format", "-f", format_, stdin=lines, cwd=tmp_path).expect(0).stdout
    records = run("ae-import", format_, stdin=exported, cwd=tmp_path).expect(0, stderr="").records
    for before, after in zip(RESULTS, records, strict=True):
        for field in ("id", "input", "output", "errors"):
            assert after.get(field) == before.get(field), field
        assert after["metadata"]["agent"] == "claude"
        for name in ("inputTokens", "outputTokens"):
            assert after["timing"].get(name) == before["timing"].get(name)
        kept = [step for step in steps_of(before) if format_ != "otlp" or step[0] == "tool_call"]
        assert steps_of(after) == kept
    if format_ == "inspect":
        assert records[0]["score"] == RESULTS[0]["score"] and "score" not in records[1]


def test_an_archive_that_claims_less_than_it_unpacks_to_does_not_fill_the_memory(tmp_path: Path) -> None:
    """A sample of 1.5 GB, packed in 1.5 MB, whose size was given as 100 bytes, took 2 GB of memory."""
    path = tmp_path / "bomb.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", '{"version":2,"status":"success","eval":{"task":"t","model":"m"}}')
        archive.writestr("samples/1_epoch_1.json", b" " * (64 << 20))
    content = bytearray(path.read_bytes())
    entry = content.rfind(b"PK\x01\x02")  # of the sample, in the directory of the archive
    content[entry + 24 : entry + 28] = (100).to_bytes(4, "little")
    path.write_bytes(content)
    refusals = Console("ae-import", progress=False)
    tracemalloc.start()
    try:
        assert list(inspect.read_archive(str(path), refusals)) == []
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert refusals.refused == 1
