"""What agents of the Agent Client Protocol send: recordings of real ones, and what becomes of permissions and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agenteval.adapters.reader import result_of
from agenteval.adapters.schema_file import load_adapter
from agenteval.agents.acp.client import Client
from agenteval.agents.raw_record import RawRecordBuilder
from agenteval.processes.process import Outcome
from agenteval.streams.redaction import Redactor
from tests.agents.test_acp import actions, one, reading, talk
from tests.support.tool import BIN, ROOT, Record, jsonl, run

RECORDED = ROOT / "tests" / "data" / "acp"
FAILING = "echo it-was-written; sh -c 'exit 3'"
WRITING = "echo hello > hello.txt && echo it-was-written"


def replay(name: str, *, deny: bool) -> tuple[Client, Record]:
    """Gives our client what an agent sent, and returns it with the result of the record that it would be."""
    lines = (RECORDED / f"{name}.jsonl").read_text().splitlines()
    client = Client(["x"], "/", deny=deny)
    for line in lines:
        client.reply_to(line.encode(), True)
    raw = {"id": "a", "input": "x", "rawLines": lines, "timing": {}, "permissions": client.permissions}
    return client, result_of(raw, load_adapter("acp"))


def call_of(result: Record) -> Record:
    call: Record
    (call,) = [step for step in result["trajectory"] if step["type"] == "tool_call"]
    return call


@pytest.mark.parametrize(
    ("agent", "name", "given", "output", "tokens"),
    [
        ("codex", "exec_command", {"command": FAILING, "cwd": "/workspace"}, "it-was-written\n", [2400, 114, 1000]),
        (
            "opencode",
            "bash",
            {"command": FAILING, "cwd": "/workspace"},
            {"output": "it-was-written\n", "metadata": {"output": "it-was-written\n", "exit": 3, "truncated": False}},
            [1200, 45, 500],  # of the last request of the turn: it reports no others
        ),
        ("goose", "shell", {"command": FAILING}, {"stdout": "it-was-written", "stderr": "", "exit_code": 3}, None),
        ("qwen", "run_shell_command", {"command": FAILING}, None, [2400, 114, 1000]),
    ],
)
def test_a_tool_that_failed(agent: str, name: str, given: Any, output: Any, tokens: list[int] | None) -> None:
    client, result = replay(f"{agent}-failing-tool", deny=False)
    assert client.done and client.problem is None
    call = call_of(result)
    assert [call["name"], call["status"], call["input"]] == [name, "failed", given]
    assert call["output"]["exitCode"] == 3 if output is None else call["output"] == output
    assert result["toolErrors"] and result["metadata"]["stopReason"] == "end_turn"
    if tokens is not None:
        assert [result["timing"][key] for key in ("inputTokens", "outputTokens", "cachedTokens")] == tokens


@pytest.mark.parametrize(
    ("agent", "given"),
    [
        ("claude", {"command": WRITING}),
        ("opencode", {"command": WRITING, "cwd": "/workspace"}),
        ("qwen", {"command": WRITING}),
        ("goose", {"command": WRITING}),
        ("kimi", {"command": WRITING}),
        ("gemini", None),
    ],
)
def test_a_call_that_was_denied(agent: str, given: Any) -> None:
    client, result = replay(f"{agent}-denied", deny=True)
    assert client.problem is None and [answer["outcome"] for answer in client.permissions] == ["denied"]
    call = call_of(result)
    assert [call["status"], call["permission"], call.get("input")] == ["failed", "denied", given]
    assert result["toolErrors"]
    assert "permissions" not in result


def test_a_turn_that_ends_with_the_denial() -> None:
    client, result = replay("codex-acp-zed-denied", deny=True)
    assert client.problem == "the agent cancelled the turn when permission was denied (stopReason cancelled)"
    call = call_of(result)
    assert [call["status"], call["permission"]] == ["failed", "denied"]
    assert result["metadata"]["stopReason"] == "cancelled"


def test_a_sub_agent_is_nested_and_its_tokens_count() -> None:
    """The model reported 3500 input, 170 output and 600 cached tokens, and 7 and 3 for a request beside the task."""
    _client, result = replay("claude-sub-agent", deny=False)
    outer, inner = [step for step in result["trajectory"] if step["type"] == "tool_call"]
    assert [outer["name"], inner["name"], inner["output"]] == ["Agent", "Bash", "inner-output"]
    assert outer["callId"] == inner["parentId"]
    assert result["output"] == "Outer done."
    tokens = [result["timing"][key] for key in ("inputTokens", "outputTokens", "cachedTokens")]
    assert tokens == [3507, 173, 600]


def asked(call: Record) -> list[Any]:
    return ["send", {"id": 7, "method": "session/request_permission", "params": {"toolCall": call, "options": KINDS}}]


KINDS = [{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}]


def test_permission_in_raw_and_result(tmp_path: Path) -> None:
    given = {"command": "ls", "cwd": "/"}
    does: list[list[Any]] = [
        ["update", "tool_call", {"toolCallId": "1", "title": "Bash", "rawInput": given, "status": "pending"}],
        asked({"toolCallId": "1", "title": "ls", "rawInput": {"command": "ls"}}),
        ["update", "tool_call", {"toolCallId": "2", "title": "Read", "rawInput": {}, "status": "pending"}],
        asked({"toolCallId": "2", "rawInput": {"path": "a"}}),
        ["update", "tool_call_update", {"toolCallId": "2", "status": "completed"}],
    ]
    for options, word, statuses in (([], "allowed", ["pending", "completed"]), (["--deny-permissions"], "denied", 0)):
        raw = one(tmp_path, *does, options=options)
        assert [answer["outcome"] for answer in raw["permissions"]] == [word, word]
        lines = [raw["rawLines"][answer["line"] - 1] for answer in raw["permissions"]]
        assert all("session/request_permission" in line for line in lines), "the lines stay as the agent printed them"
        result = run("ae-extract", "-s", "acp", stdin=jsonl(raw)).expect(0).records[0]
        calls = result["trajectory"]
        assert [call["permission"] for call in calls] == [word, word]
        assert [call["input"] for call in calls] == [given, {"path": "a"}]
        assert [call["status"] for call in calls] == (statuses or ["failed", "completed"])
        assert "permissions" not in result
        explained = run("ae-extract", "-s", "acp", "--explain", stdin=jsonl(raw)).expect(0).stdout
        assert explained.count(f'permission="{word}"') == 2


def test_pieces_of_a_tools_output() -> None:
    adapter = load_adapter("acp")

    def update(**fields: Any) -> str:
        return json.dumps({"params": {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "1", **fields}}})

    def piece(text: str, **fields: Any) -> str:
        return update(_meta={"terminal_output_delta": {"data": text}, **fields})

    start = update(sessionUpdate="tool_call", title="sh", status="in_progress", content=[{"type": "terminal"}])
    done, exit_3 = update(status="completed"), {"terminal_exit": {"exit_code": 3}}
    for lines, output, status in (
        ([start, piece("a"), piece("b"), done], "ab", "completed"),
        ([start, piece("a"), done, piece("late")], "alate", "completed"),
        ([start, piece("a"), update(status="completed", rawOutput={"all": 1})], {"all": 1}, "completed"),
        ([start, piece("a"), piece("b", **exit_3)], "ab", "failed"),
        ([start, piece("\ud83d"), piece("\ude00"), done], "😀", "completed"),
        ([start, piece("cut short")], "cut short", "in_progress"),
    ):
        (step,) = adapter.read(lines).trajectory
        assert [step["output"], step["status"]] == [output, status], lines


def test_the_usage_of_requests_counts_unless_the_answer_has_that_of_the_turn() -> None:
    spent = {"inputTokens": 10, "outputTokens": 2, "cachedReadTokens": 5}
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}, "_meta": {"usage": spent}}
    lines = [json.dumps({"params": {"update": chunk}})] * 2
    for answer, usage in (
        ({}, {"inputTokens": 20, "outputTokens": 4, "cachedTokens": 10}),
        ({"usage": {"inputTokens": 7, "outputTokens": 3}}, {"inputTokens": 7, "outputTokens": 3, "cachedTokens": 10}),
    ):
        ending = json.dumps({"id": 3, "result": {"stopReason": "end_turn", **answer}})
        assert load_adapter("acp").read([*lines, ending]).usage == usage


def test_files_are_not_offered(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    request = ["ask", "fs/read_text_file", {"sessionId": "s1", "path": str(tmp_path / "a.txt")}]
    offered = json.loads(Client(["x"], "/", deny=False, files=False).opening)["params"]["clientCapabilities"]
    assert offered["fs"] == {"readTextFile": False, "writeTextFile": False}
    refused = reading(one(tmp_path, request, options=["--no-acp-fs"])).output
    assert "Method not found: fs/read_text_file" in refused
    assert '"text"' in reading(one(tmp_path, request)).output
    run("ae-run", "--simple", "echo {}", "--no-acp-fs", cwd=tmp_path).expect(2).says("--no-acp-fs", "--")


def test_the_time_of_a_run_ends_with_the_last_answer(tmp_path: Path) -> None:
    (raw,) = talk(tmp_path, [actions(["message", "x"], ["stay"])]).expect(0).records
    assert raw["signal"] is not None, "the agent stayed, and was ended"
    assert abs(raw["timing"]["total"] - raw["turns"][0]["total"]) <= 1, "the time to end it is not in it"
    builder, client = RawRecordBuilder(Redactor(None)), Client(["x"], "/", deny=False)
    client.reply_to(b'{"id": 1, "error": {"code": 1, "message": "no"}}', True)
    assert client.ended is not None and client.problem
    client.ended = builder.zero + 0.25
    builder.add_conversation(Outcome(b"", [], b"", 0, None, False, False, None, None, False), client)
    assert [builder.fields("/")["timing"]["total"], builder.turns[0]["total"]] == [250, 250]


def test_headless_sends_what_a_literal_status_says(tmp_path: Path) -> None:
    events = [{"t": "call", "id": "1"}, {"t": "run", "id": "1"}, {"t": "ok", "id": "1", "o": "done"}, {"t": "say"}]
    status = {"call": "pending", "run": "in_progress", "ok": "completed"}
    rules = [
        {
            "match": {"path": "$.t", "value": word},
            "emitAs": "tool_call",
            "extract": {"id": "$.id", "title": "'sh'", "output": "$.o", "status": f"'{meaning}'"},
        }
        for word, meaning in status.items()
    ]
    say = {"match": {"path": "$.t", "value": "say"}, "emitAs": "message", "extract": {"content": "'hi'"}}
    schema = {"version": 1, "name": "mine", "sessionMode": "iterative", "prompt": {"flag": ""}}
    command = ["printf", "%s\n", *map(json.dumps, events)]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**schema, "command": command, "outputEvents": [*rules, say]}))
    prompts = jsonl({"id": "a", "input": "x"})
    (direct,) = run("ae-capture", "-s", path, stdin=prompts, cwd=tmp_path).expect(0).records
    (raw,) = run("ae-run", "--", BIN / "ae-headless", "-s", path, stdin=prompts, cwd=tmp_path).expect(0).records
    sent = [json.loads(line).get("params", {}).get("update", {}) for line in raw["rawLines"]]
    assert [update["status"] for update in sent if "status" in update] == ["pending", "in_progress", "completed"]
    steps = [
        [[step.get(key) for key in ("name", "status", "output", "content")] for step in record["trajectory"]]
        for record in (direct, result_of(raw, load_adapter("acp")))
    ]
    assert steps[0] == steps[1] == [["sh", "completed", "done", None], [None, None, None, "hi"]]
