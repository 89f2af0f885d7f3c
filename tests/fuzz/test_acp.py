"""The Agent Client Protocol in both directions: an agent that sends anything, and a client that asks anything."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.checks import examples, expect_sound
from tests.fuzz.server import ToolServer
from tests.fuzz.strategies import as_line, broken_lines, json_values, mutated, text
from tests.support.tool import ROOT, jsonl, script

RECORDED = sorted((ROOT / "tests/data/acp").glob("*.jsonl"))
PROMPTS = b'{"id":"a","input":"x"}\n{"id":"b","input":["x","y"]}\n'
ECHO = {"version": 1, "name": "echo", "command": ["cat"], "sessionMode": "iterative", "prompt": {"stdin": True}}
ECHO |= {"outputMode": "text"}
SESSION = {"cwd": "/", "mcpServers": []}
PROMPT = {"sessionId": "SESSION", "prompt": [{"type": "text", "text": "x"}, {"type": "resource_link", "uri": "f"}]}
REQUESTS: list[Any] = [
    {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}},
    {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": SESSION},
    {"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": {**SESSION, "sessionId": "s"}},
    {"jsonrpc": "2.0", "id": "three", "method": "session/prompt", "params": PROMPT},
    {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "SESSION"}},
    {"jsonrpc": "2.0", "id": 5, "method": "session/set_mode", "params": {"sessionId": "SESSION", "modeId": "m"}},
    {"jsonrpc": "2.0", "id": 6, "result": {}},
    {"jsonrpc": "2.0", "id": None, "method": "no/such"},
    [{"jsonrpc": "2.0", "id": 7, "method": "initialize"}],
]


def conversations() -> list[list[Any]]:
    """Returns the messages of recorded agents; the files that they ask for are harmless."""
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in RECORDED]


@st.composite
def messages(draw: st.DrawFn, found: list[list[Any]]) -> bytes:
    """Returns a conversation in which messages were changed, broken, repeated, moved or left out."""
    lines = list(map(as_line, draw(st.sampled_from(found))))
    values = [json.loads(line) for line in lines]
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        kind = draw(st.sampled_from(["change", "change", "change", "break", "repeat", "drop", "other", "noise"]))
        if kind == "change":
            lines[at] = as_line(draw(mutated(st.just(values[at]))))
        elif kind == "break":
            lines[at] = draw(broken_lines(st.just(values[at])))
        elif kind == "repeat":
            lines[at] = lines[draw(st.integers(0, len(lines) - 1))]
        elif kind == "drop":
            lines[at] = b""
        elif kind == "other":
            lines[at] = as_line(draw(json_values))
        else:
            lines[at] = draw(text).replace("\n", " ").encode("utf-8", "replace") + lines[at]
    return b"\n".join(lines) + draw(st.sampled_from([b"\n", b""]))


@examples(short=2, long=150)
@given(messages(conversations()), st.sampled_from(["", "cat > /dev/null", "exec >&-; cat > /dev/null"]))
def test_an_agent_that_sends_anything(tools: ToolServer, sent: bytes, then: str) -> None:
    """The client ends, with a record per prompt that the adapter reads; files outside of the directory stay."""
    (tools.folder / "work").mkdir(exist_ok=True)
    (tools.folder / "messages").write_bytes(sent)
    agent = script(tools.folder / "agent", f"cat {tools.folder}/messages; {then}")
    done = expect_sound(tools.run("ae-run", "-t", "700ms", "-j", 2, "-c", "work", "--", agent, stdin=PROMPTS), sent)
    assert sorted(done.ids) == ["a", "b"], done
    read = expect_sound(tools.run("ae-extract", "-s", "acp", stdin=done.out), done.out)
    assert read.ids == done.ids, read


@examples(short=5, long=300)
@given(messages([REQUESTS]))
def test_a_client_that_asks_anything(tools: ToolServer, sent: bytes) -> None:
    """Every request is answered once, with a result or an error; nothing else is printed."""
    (tools.folder / "echo.json").write_text(jsonl(ECHO))
    done = expect_sound(tools.run("ae-headless", "-s", "echo.json", stdin=sent), sent)
    for message in done.records:
        assert message["jsonrpc"] == "2.0" and ("method" in message) != ("result" in message or "error" in message), (
            done
        )
        assert message.get("error", {}).get("code") != -32603, f"an internal error{sent!r}{done}"
