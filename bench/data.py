"""Generates the data: deterministic, in the format that Claude Code prints.

Runs as a script in its own process (`python bench/data.py KIND COUNT FILE`), so that its memory does not count as
that of the process measured next.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

Record = dict[str, Any]

VOCABULARY = (
    "the file returns error value index module import class def test assert None True path config request response "
    "handler parse token stream buffer line count result expected actual failed passed run build install version "
    "user session agent tool call output input schema record field async await return yield for while if else try "
    'except with open read write close "quoted" {brace} [list] C:\\path naïve größe → ✓ 数据'
)
WORDS = VOCABULARY.split()
TOOLS = ("Bash", "Read", "Edit", "Grep", "Write", "WebFetch")
COMMANDS = tuple(f"command-{number}" for number in range(45))
START = 1_760_000_000_000


class Prose:
    """Returns text of any length, cut from one long generated text."""

    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)
        words = self.random.choices(WORDS, k=60_000)
        self.text = "".join(word + ("\n" if n % 11 == 10 else " ") for n, word in enumerate(words))

    def __call__(self, low: int, high: int) -> str:
        start = self.random.randrange(len(self.text) - high)
        return self.text[start : start + self.random.randint(low, high)]


def raw_records(count: int, rounds: tuple[int, int] = (6, 18)) -> Iterator[Record]:
    """Yields raw records of 20 to 60 lines; each round has a thought or text, a tool call and its result."""
    prose = Prose()
    for number in range(count):
        lines = list(_session(prose, number, prose.random.randint(*rounds)))
        times = sorted(prose.random.randrange(60_000) for _ in lines)
        total = times[-1] + 12
        yield {
            "id": f"case-{number:06}",
            "input": prose(80, 400),
            "hint": f"answer {number}",
            "metadata": {"category": prose.random.choice(("code", "web", "data")), "difficulty": number % 3},
            "suite": "bench",
            "rawLines": [json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines],
            "lineTimes": times,
            "turns": [{"lines": len(lines), "exitCode": 0, "total": total}],
            "cwd": "/tmp/bench",
            "timing": {
                "start": START + number * 1000,
                "end": START + number * 1000 + total,
                "total": total,
                "sessionCreation": 3,
                "firstResponse": times[0],
            },
            "exitCode": 0,
            "signal": None,
            "timedOut": False,
        }


def _session(prose: Prose, number: int, rounds: int) -> Iterator[Record]:
    session = f"047de2cc-3567-4fc6-984c-{number:012x}"
    yield {
        "type": "system",
        "subtype": "init",
        "cwd": "/tmp/bench",
        "session_id": session,
        "tools": list(TOOLS),
        "model": "claude-opus-5-5",
        "slash_commands": COMMANDS,
        "uuid": _uuid(prose),
    }
    for turn in range(rounds):
        if turn % 3 == 0:
            thought = {"type": "thinking", "thinking": prose(60, 900), "signature": "ZmFrZXNpZw=="}
            yield _event(prose, session, "assistant", thought)
        if turn % 2 == 0:
            yield _event(prose, session, "assistant", {"type": "text", "text": prose(40, 500)})
        call = f"toolu_{number:06}{turn:04}"
        name = prose.random.choice(TOOLS)
        given = {"command": prose(20, 200), "description": prose(20, 60), "timeout": 1000 * turn}
        yield _event(prose, session, "assistant", {"type": "tool_use", "id": call, "name": name, "input": given})
        content, failed = prose(50, 1100), prose.random.random() < 0.05
        item = {"tool_use_id": call, "type": "tool_result", "content": content, "is_error": failed}
        answer = _event(prose, session, "user", item)
        yield {**answer, "tool_use_result": {"stdout": content, "stderr": "", "interrupted": False, "isImage": False}}
        if turn % 4 == 0:
            yield {
                "type": "system",
                "subtype": "thinking_tokens",
                "estimated_tokens": turn * 13,
                "description": prose(150, 250),
                "session_id": session,
                "uuid": _uuid(prose),
            }
    yield {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "num_turns": rounds,
        "stop_reason": "end_turn",
        "result": f"{prose(100, 600)} answer {number if number % 5 else 'unknown'}",
        "session_id": session,
        "total_cost_usd": 0.015 + number / 1e6,
        "usage": _usage(2400 + number),
        "modelUsage": {"claude-opus-5-5": _model_usage(2400 + number, 0.015 + number / 1e6)},
        "permission_denials": [],
        "uuid": _uuid(prose),
    }


def _event(prose: Prose, session: str, kind: str, item: Record) -> Record:
    message: Record = {"role": kind, "content": [item]}
    if kind == "assistant":
        message = {
            "id": "msg_fake00000002",
            "type": "message",
            "role": kind,
            "model": "claude-opus-5-5",
            "content": [item],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(1200),
            "context_management": None,
        }
    return {
        "type": kind,
        "message": message,
        "parent_tool_use_id": None,
        "session_id": session,
        "uuid": _uuid(prose),
        "timestamp": "2026-11-15T23:53:50.003Z",
    }


def _usage(tokens: int) -> Record:
    return {
        "input_tokens": tokens,
        "cache_creation_input_tokens": 300,
        "cache_read_input_tokens": 500,
        "output_tokens": 114,
    }


def _model_usage(tokens: int, cost: float) -> Record:
    return {
        "inputTokens": tokens,
        "outputTokens": 114,
        "cacheReadInputTokens": 500,
        "cacheCreationInputTokens": 300,
        "webSearchRequests": 0,
        "costUSD": cost,
        "contextWindow": 1_000_000,
    }


def _uuid(prose: Prose) -> str:
    return f"40c9c940-02c5-4857-bf7f-{prose.random.getrandbits(48):012x}"


def small_raw_records(count: int) -> Iterator[Record]:
    """Yields short raw records of 7 lines, for runs with many records."""
    return raw_records(count, rounds=(1, 1))


def tiny_raw_records(count: int) -> Iterator[Record]:
    """Yields raw records of one line, for a million of them."""
    for number in range(count):
        line = {"type": "result", "subtype": "success", "is_error": False, "result": f"The sum is {number + 1}."}
        yield {
            "id": f"case-{number:06}",
            "input": f"What is {number} + 1?",
            "rawLines": [json.dumps(line)],
            "timing": {"start": START, "end": START + 5, "total": 5},
        }


def results(count: int, seed: int = 2) -> Iterator[Record]:
    """Yields graded results of 2.9 KB that are valid input for agent-eval-harness too."""
    prose, asked = Prose(seed), Prose(0)  # each run is asked the same
    for number in range(count):
        total = prose.random.randrange(500, 60_000)
        score = round(prose.random.random(), 3)
        yield {
            "id": f"case-{number:06}",
            "input": f"Question {number}: {asked(60, 200)}",
            "output": prose(150, 600),
            "hint": f"answer {number}",
            "trajectory": list(_steps(prose, number)),
            "metadata": {"category": "code", "agent": "claude", "trajectoryRichness": "full", "turnCount": 1},
            "timing": {
                "start": START + number * 1000,
                "end": START + number * 1000 + total,
                "total": total,
                "sessionCreation": 3,
                "firstResponse": 120,
                "inputTokens": 4000,
                "outputTokens": 114,
            },
            "toolErrors": number % 17 == 0,
            "score": {"pass": score >= 0.4, "score": score, "reasoning": prose(20, 100)},
        }


def _steps(prose: Prose, number: int) -> Iterator[Record]:
    for step in range(1, 10, 3):
        place = f"case-{number:06}-step-"
        yield {"type": "thought", "content": prose(40, 160), "timestamp": step * 100, "stepId": f"{place}{step}"}
        yield {
            "type": "tool_call",
            "name": prose.random.choice(TOOLS),
            "status": "completed",
            "input": {"command": prose(20, 80)},
            "output": prose(40, 160),
            "duration": 12,
            "timestamp": step * 100 + 10,
            "stepId": f"{place}{step + 1}",
        }
        yield {
            "type": "message",
            "content": prose(30, 120),
            "timestamp": step * 100 + 20,
            "stepId": f"{place}{step + 2}",
        }


def other_results(count: int) -> Iterator[Record]:
    """Yields another run of the same prompts."""
    return results(count, seed=3)


def small_results(count: int) -> Iterator[Record]:
    """Yields results of 110 bytes, with output and hint but no trajectory."""
    for number in range(count):
        yield {
            "id": f"case-{number:06}",
            "input": f"What is {number} + 1? Answer with the number.",
            "output": f"The sum is {number + 1}.",
            "hint": str(number + 1),
        }


def prompts(count: int) -> Iterator[Record]:
    """Yields short prompts."""
    for number in range(count):
        yield {"id": f"case-{number:06}", "input": f"What is {number} + 1?", "hint": f"{number} + 1"}


KINDS: dict[str, Callable[[int], Iterator[Record]]] = {
    "raw": raw_records,
    "small-raw": small_raw_records,
    "tiny-raw": tiny_raw_records,
    "results": results,
    "other-results": other_results,
    "small-results": small_results,
    "prompts": prompts,
}


def write(kind: str, count: int, path: str) -> None:
    """Writes the records as JSONL, and NUL-terminated to PATH.items for xargs."""
    with open(f"{path}.part", "w", encoding="utf-8") as file, open(f"{path}.items", "w", encoding="utf-8") as items:
        for record in KINDS[kind](count):
            line = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
            file.write(line + "\n")
            if kind in ("prompts", "results"):
                items.write((record["input"] if kind == "prompts" else line) + "\0")
    os.replace(f"{path}.part", path)


def make(folder: str, kind: str, count: int) -> str:
    """Returns the path of a file with `count` records; generates it unless it exists and is newer than this script."""
    path = os.path.join(folder, f"{kind}-{count}.jsonl")
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(__file__):
        subprocess.run([sys.executable, os.path.abspath(__file__), kind, str(count), path], check=True)
    return path


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), sys.argv[3])
