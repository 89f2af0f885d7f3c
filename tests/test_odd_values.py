"""No single record ends a run, whatever is in it: an odd value at every place of every kind of record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.mutants import mutants
from tests.support.tool import Done, Record, jsonl, run, write

EVENTS: list[Record] = [
    {"type": "system", "subtype": "init", "session_id": "s", "model": "m"},
    {
        "type": "assistant",
        "message": {
            "id": "m1",
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}},
            ],
            "usage": {"input_tokens": 3, "output_tokens": 4},
        },
    },
    {
        "type": "user",
        "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a b", "is_error": False}]},
    },
    {
        "type": "result",
        "is_error": False,
        "result": "done",
        "usage": {"input_tokens": 3, "cache_read_input_tokens": 1, "output_tokens": 4},
        "total_cost_usd": 0.5,
    },
]
PROMPT: Record = {"id": "a", "input": ["x"], "hint": "x", "metadata": {"category": "c"}, "timeout": 5000, "tags": ["t"]}
RAW: Record = {
    **{field: PROMPT[field] for field in ("id", "input", "hint", "metadata")},
    "rawLines": ["{}"],
    "lineTimes": [1],
    "turns": [{"lines": 1, "exitCode": 0, "signal": None, "timedOut": False, "total": 7}],
    "timing": {"start": 1, "end": 2, "total": 1, "firstResponse": 1},
    "exitCode": 0,
    "timedOut": False,
    "errors": [],
}
STEP = {"type": "tool_call", "name": "n", "status": "completed", "input": {}, "output": "o", "duration": 3}
VERDICT = {"pass": True, "score": 1.0, "reasoning": "r", "outcome": {"hit_rate": 1.0, "mrr": 1.0, "input_tokens": 3}}
RESULT: Record = {
    "id": "a",
    "input": "x",
    "output": "x",
    "hint": "x",
    "trajectory": [{**STEP, "timestamp": 1, "stepId": "a-step-1"}, {"type": "message", "content": "m"}],
    "metadata": {"agent": "n", "category": "c", "turnCount": 1},
    "timing": {"start": 1, "end": 2, "total": 1, "inputTokens": 5, "outputTokens": 6, "costUsd": 0.1},
    "toolErrors": False,
    "expected_sources": ["A"],
    "sources_used": ["A"],
    "score": VERDICT,
    "scores": {"sources": VERDICT, "judge": {**VERDICT, "outcome": {"overall_score": 0.5, "judge_model": "m"}}},
}
TRIAL: Record = {
    "id": "a",
    "input": "x",
    "k": 2,
    "passRate": 0.5,
    "passAtK": 0.75,
    "passExpK": 0.25,
    "passAt": {"1": 0.5},
    "passExp": {"1": 0.5},
    "trials": [
        {"trialNum": 1, "output": "x", "trajectory": [], "duration": 3, "pass": True, "score": 1.0},
        {"trialNum": 2, "output": "y", "trajectory": [STEP], "duration": 3, "pass": False, "score": 0.0},
    ],
    "metadata": {"agent": "n"},
}


def good(record: Record) -> Record:
    return {**record, "id": "good"}


def expect_a_report(done: Done, tool: str) -> None:
    assert done.code in (0, 1) and "Traceback" not in done.stderr, done
    assert "internal error" not in done.stderr, "\n".join(line for line in done.messages if "internal" in line)[:2000]
    assert all(message.startswith(f"{tool}: ") for message in done.messages), done


@pytest.mark.parametrize("schema", ["claude", "text", "gptme", "acp"])
def test_extract(schema: str) -> None:
    raws = list(mutants(RAW))
    for number, event in enumerate(EVENTS):
        for odd in mutants({"id": "e", **event}):
            lines = [json.dumps(odd if at == number else event) for at, event in enumerate(EVENTS)]
            raws.append({**RAW, "id": odd["id"] if isinstance(odd["id"], str) else "e", "rawLines": lines})
    done = run("ae-extract", "-s", schema, stdin=jsonl(*raws, good(RAW)))
    expect_a_report(done, "ae-extract")
    assert done.ids[-1] == "good" and len(done.ids) > len(raws) / 2


@pytest.mark.parametrize(
    "args",
    [
        ["ae-grade", "-g", "hint=ae-grader-hint", "-g", "sources=ae-grader-sources"],
        ["ae-grade", "-g", "ae-grader-tools --require n"],
        ["ae-format", "-f", "csv"],
        ["ae-format", "-f", "markdown", "--all", "--sort", "time"],
        ["ae-format", "-f", "table"],
        ["ae-summarize"],
        ["ae-summarize", "--markdown"],
        ["ae-score"],
        ["ae-calibrate", "--all", "-s", "100000"],
    ],
    ids=" ".join,
)
def test_results(args: list[str]) -> None:
    done = run(*args, stdin=jsonl(*mutants(RESULT), good(RESULT)))
    expect_a_report(done, args[0])
    assert "good" in done.stdout


@pytest.mark.parametrize("record", [RESULT, TRIAL], ids=["results", "trials"])
@pytest.mark.parametrize("args", [[], ["-s", "statistical"], ["-f", "markdown"]], ids=" ".join)
def test_compare(record: Record, args: list[str], tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / name, *mutants(record), good(record))
    done = run("ae-compare", "a", "b", *args, cwd=tmp_path)
    expect_a_report(done, "ae-compare")
    assert done.stdout, done


@pytest.mark.parametrize("tool", ["ae-run", "ae-capture", "ae-validate-refs", "ae-balance"])
def test_prompts(tool: str) -> None:
    odd = [{**PROMPT, "reference": "x", "scores": "oops", "score": 3, "errors": "oops"}]
    odd += mutants({**PROMPT, "reference": "x", "scores": {"a": VERDICT}})
    agent = ["--simple", "true {}", "-j", "4"] if tool in ("ae-run", "ae-capture") else []
    graders = ["-g", "h=ae-grader-hint"] if tool in ("ae-capture", "ae-validate-refs") else []
    some: list[Any] = odd[:: 7 if agent else 1]  # each starts a process
    done = run(tool, *agent, *graders, stdin=jsonl(*some, good({**PROMPT, "reference": "x"})), timeout=60)
    expect_a_report(done, tool)
    assert "good" in done.stdout or tool == "ae-balance"
