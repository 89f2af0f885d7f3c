"""Generates raw records of several shapes, with an adapter schema for each: what costs ae-extract time differs.

They differ in how many lines a record has, how long the lines are, how deep tool output is nested, and how much of the
text is not ASCII or has escapes. Runs as a script in its own process, as data.py does.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

Event = dict[str, Any]

WORDS = "an agent opens files edits them runs the tests and repeats until the change it was asked for works"
ASCII = tuple(WORDS.split(" "))
OTHER = ("读取", "文件", "组件", "тест", "проходит", "après", "naïve", "—", "“quoted”", "🙂", "\t", "\\", '"')
TOOLS = ("Bash", "Read", "Write")
USAGE = {"input_tokens": 900, "output_tokens": 450}


class Text:
    """Draws words."""

    def __init__(self, seed: str, vocabulary: Sequence[str]) -> None:
        self.random, self.vocabulary = random.Random(seed), vocabulary

    def __call__(self, words: int) -> str:
        return " ".join(self.random.choices(self.vocabulary, k=words))

    def tree(self, depth: int, words: int) -> Any:
        """Returns nested objects and lists, text at the bottom."""
        if depth == 0:
            return self(words)
        inner = self.tree(depth - 1, words)
        return {"path": inner, "match": self.tree(depth - 1, words), "lines": [inner, inner], "n": depth}


def _call(text: Text, number: int, given: Any, answer: Any) -> Iterator[Event]:
    name = text.random.choice(TOOLS)
    yield {"type": "tool_use", "session_id": "s", "name": name, "id": f"t{number}", "input": given}
    yield {"type": "tool_result", "session_id": "s", "name": name, "tool_use_id": f"t{number}", "content": answer}


def flat(text: Text, calls: int, words: int) -> Iterator[Event]:
    """A message, a tool call and its result, a line each."""
    yield {"type": "system", "subtype": "init", "session_id": "s", "tools": TOOLS}
    for number in range(calls):
        content = [{"type": "text", "text": text(words)}]
        message = {"id": f"m{number}", "role": "assistant", "content": content, "usage": USAGE}
        yield {"type": "assistant", "session_id": "s", "message": message}
        yield from _call(text, number, {"command": text(12)}, text(words * 3))


def words(text: Text, calls: int, words: int) -> Iterator[Event]:
    """Messages that arrive word by word: many short lines."""
    yield {"type": "session", "session_id": "s"}
    for number in range(calls):
        yield from ({"type": "delta", "text": f"{text(1)} "} for _ in range(words))
        yield from _call(text, number, {"command": text(8)}, text(20))


def nested(text: Text, calls: int, words: int) -> Iterator[Event]:
    """Deep tool output, which is kept as it is."""
    for number in range(calls):
        yield from _call(text, number, {"query": text.tree(1, words)}, text.tree(4, words))


class Shape(NamedTuple):
    """How the records of a shape are made."""

    events: Callable[[Text, int, int], Iterator[Event]]
    calls: int
    words: int
    vocabulary: Sequence[str] = ASCII
    records: int = 4_500  # about 100 MB


SHAPES = {
    "flat": Shape(flat, 12, 60),
    "long-lines": Shape(flat, 3, 1200, records=1_300),
    "short-lines": Shape(words, 6, 60, records=4_700),
    "nested-output": Shape(nested, 8, 6, records=910),
    "not-ascii": Shape(flat, 8, 60, OTHER, records=3_460),
}


def records(name: str, count: int) -> Iterator[dict[str, Any]]:
    """Yields raw records of a shape; every second one has its text escaped to ASCII."""
    shape, text = SHAPES[name], Text(name, SHAPES[name].vocabulary)
    for number in range(count):
        end = {"type": "result", "session_id": "s", "result": text(40), "usage": USAGE}
        events = [*shape.events(text, shape.calls, shape.words), end]
        lines = [json.dumps(event, ensure_ascii=number % 2 == 0) for event in events]
        yield {
            "id": f"case-{number:06}",
            "input": text(30),
            "hint": "button",
            "metadata": {"category": "ui"},
            "rawLines": lines,
            "lineTimes": list(range(len(lines))),
            "timing": {"start": 1_760_000_000_000, "end": 1_760_000_001_234, "total": 1234},
        }


def schema(name: str) -> dict[str, Any]:
    """Returns the adapter schema of a shape."""
    delta = SHAPES[name].events is words
    call = {"title": "$.name", "status": "'pending'", "id": "$.id", "input": "$.input"}
    answer = {"title": "$.name", "status": "'completed'", "id": "$.tool_use_id", "output": "$.content"}
    message = {"content": "$.text" if delta else "$.message.content[0].text"}
    rules = [
        _rule("delta" if delta else "assistant", "message", message) | ({"delta": True} if delta else {}),
        _rule("tool_use", "tool_call", call),
        _rule("tool_result", "tool_call", answer),
    ]
    return {
        "version": 1,
        "name": name,
        "command": ["true"],
        "sessionMode": "stream",
        "prompt": {"flag": ""},
        "output": {"flag": "", "value": ""},
        "outputEvents": rules,
        "usage": {"inputTokens": "$.usage.input_tokens", "outputTokens": "$.usage.output_tokens"},
        "result": {"matchPath": "$.type", "matchValue": "result", "contentPath": "$.result"},
    }


def _rule(kind: str, emitted: str, extract: dict[str, str]) -> dict[str, Any]:
    return {"match": {"path": "$.type", "value": kind}, "emitAs": emitted, "extract": extract}


def make(folder: str, name: str, count: int) -> tuple[str, str]:
    """Returns the paths of a file with `count` records of a shape and of its schema; generates them if need be."""
    path = os.path.join(folder, f"{name}-{count}.jsonl")
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(__file__):
        subprocess.run([sys.executable, os.path.abspath(__file__), name, str(count), path], check=True)
    return path, f"{path}.schema"


def main(name: str, count: int, path: str) -> None:
    """Writes the records, and the schema to PATH.schema."""
    with open(f"{path}.schema", "w", encoding="utf-8") as file:
        json.dump(schema(name), file)
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        for record in records(name, count):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    os.replace(f"{path}.part", path)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
