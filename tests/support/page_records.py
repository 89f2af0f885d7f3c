"""Records for the tests of the html page: every status, kinds of steps, and text that would like to be code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.tool import Record

LONG = "\n".join(f"line {number}" for number in range(1, 201))


def result(id: str, **fields: Any) -> Record:
    """Returns a result with a trajectory of one step of each kind."""
    steps = [
        {"type": "thought", "content": f"thinking about {id}", "timestamp": 100},
        {
            "type": "tool_call",
            "name": "Bash",
            "status": "completed",
            "input": {"command": "ls -la"},
            "output": LONG,
            "duration": 1000,
            "timestamp": 200,
        },
        {
            "type": "tool_call",
            "name": "Edit",
            "status": "failed",
            "output": "Error: no match",
            "timestamp": 1300,
            "input": {"file_path": "app.py", "old_string": "a\nb\nc", "new_string": "a\nB\nc"},
            "duration": 500,
        },
        {"type": "plan", "entries": [{"content": "test it", "status": "pending"}], "timestamp": 1850},
        {"type": "message", "content": '{"answer": [1, 2]}', "timestamp": 2000},
    ]
    return {
        "id": id,
        "input": f"What is {id}?",
        "output": f"It is {id}.",
        "trajectory": steps,
        "metadata": {"category": "ui", "agent": "robot", "model": "model-1"},
        "timing": {
            "start": 1_700_000_000_000,
            "end": 1_700_000_002_000,
            "total": 2000,
            "inputTokens": 900,
            "outputTokens": 100,
            "costUsd": 0.25,
        },
        **fields,
    }


def graded(passed: bool, score: float, why: str = "because") -> Record:
    """Returns a verdict."""
    return {"pass": passed, "score": score, "reasoning": why}


def every_status() -> list[Record]:
    """Returns results of every status, in two categories."""
    both = {"hint": graded(True, 1.0, "hint found"), "judge": graded(False, 0.2, "judge was not convinced")}
    return [
        result("first", score=graded(True, 0.9)),
        result(
            "second",
            score=graded(False, 0.6, "two graders"),
            scores=both,
            metadata={"category": "api", "agent": "robot"},
        ),
        result("third", errors=["robot exited with 1"], score=graded(False, 0.0, "agent failed: robot exited with 1")),
        result("fourth", graderError="judge: timed out"),
        result("fifth", metadata={"category": "api"}, timing={"total": 90_000}, trajectory=[]),
        result("sixth", score=graded(True, 1.0), output="the needle is here"),
    ]


def trial(id: str, passes: Sequence[bool | None], **fields: Any) -> Record:
    """Returns a prompt with a trial for each verdict; None is a trial whose agent failed."""
    trials = []
    for number, passed in enumerate(passes, 1):
        entry = {"trialNum": number, "output": f"answer {number}", "duration": 1000 * number}
        entry["trajectory"] = result(id)["trajectory"]
        verdict = {"errors": ["it crashed"]} if passed is None else {}
        reasoning = f"reason {number}" if passed is not None else "agent failed: it crashed"
        trials.append({**entry, **verdict, "pass": bool(passed), "score": float(bool(passed)), "reasoning": reasoning})
    return {
        "id": id,
        "input": f"What is {id}?",
        "k": len(passes),
        "trials": trials,
        "metadata": {"agent": "robot"},
        **fields,
    }


def with_sub_agents() -> Record:
    """Returns a result whose agent has a sub-agent, which has one of its own, and steps of a call that is not there."""
    call = {"type": "tool_call", "status": "completed", "output": "done", "duration": 500}
    steps = [
        {"type": "message", "content": "I delegate.", "timestamp": 1},
        {**call, "name": "Task", "input": {"prompt": "find it"}, "callId": "t1", "timestamp": 2},
        {"type": "thought", "content": "sub thinks", "parentId": "t1", "timestamp": 3},
        {**call, "name": "Task", "input": {}, "callId": "t2", "parentId": "t1", "timestamp": 4},
        {**call, "name": "Grep", "input": "x", "parentId": "t2", "timestamp": 5},
        {"type": "message", "content": "sub found it", "parentId": "t1", "timestamp": 6},
        {"type": "message", "content": "lost", "parentId": "elsewhere", "timestamp": 7},
        {"type": "message", "content": "All done.", "timestamp": 600},
    ]
    return result("nested", trajectory=steps, output="All done.", score=graded(True, 1.0))


HOSTILE = [
    "</script><script>window.pwned = 1</script>",
    "<!--<script>",
    "]]><img src=http://127.0.0.1:9/a.png onerror='window.pwned = 1'>",
    "\"'><svg/onload=window.pwned=1>",
    "javascript:window.pwned=1",
    "{{data}}{{style}}{{policy}}",
    "line\u2028separator\u2029s",
    "\u202egpj.exe\u202c",
    "nul\x00 and \x1b[31mred\x9b31m",
    "__proto__",
    "constructor",
    "toString",
    "status=fail",
    "a&id=b",
    "100% %zz #x",
    "../../etc/passwd",
    " ",
    "<style>* { display: none !important }</style>",
    "<base href=http://127.0.0.1:9/><meta http-equiv=refresh content=0;url=http://127.0.0.1:9/>",
    "🦀‍é\U000e0041",
]


def hostile(text: str) -> Record:
    """Returns a result with this text in every place where an agent, a prompt or a grader may put one."""
    nested = {text: text, "__proto__": {"polluted": text}, "constructor": {"prototype": {"polluted": 1}}, "url": text}
    change = {"old_string": text, "new_string": text + text, "path": text}
    steps = [
        {
            "type": "tool_call",
            "name": text,
            "status": text,
            "input": nested,
            "output": {"__proto__": text},
            "timestamp": 1,
        },
        {
            "type": "tool_call",
            "name": "Edit",
            "status": "failed",
            "input": change,
            "output": [{"type": "text", "text": text}],
        },
        {"type": "message", "content": text, "timestamp": -1e300},
        {"type": "thought", "content": text, "timestamp": 1e300, "stepId": text},
        {"type": "plan", "entries": [text, {"content": text, "status": text}, None, 5, [text]]},
    ]
    verdict = {"pass": True, "score": 0.5, "reasoning": text, "outcome": nested}
    return {
        "id": text,
        "input": [text, text],
        "output": text,
        "hint": text,
        "reference": text,
        "trajectory": steps,
        "metadata": {"category": text, "agent": text, "model": text, "turnSteps": [2, 3], "__proto__": {"polluted": 1}},
        "timing": {"start": 1, "end": 2, "total": 9e15, "inputTokens": 2**53, "costUsd": -1},
        "errors": [text],
        "score": verdict,
        "scores": {text: verdict, "__proto__": verdict},
        "stderr": text,
        "__proto__": {"polluted": 1},
    }
