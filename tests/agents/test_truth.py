"""What agents print is not always what they did: empty answers, limits, tokens of a turn that was cut short."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agenteval.adapters.schema_file import BUNDLED, bundled_adapters, load_adapter
from agenteval.adapters.sessions.schema import session_formats
from tests.support.tool import Record, jsonl, run
from tests.support.watching import in_time

GUESS = "I guess it is 42, let me check."


def extract(agent: str, *events: Any, **fields: Any) -> Record:
    """Returns what ae-extract makes of the lines of an agent."""
    lines = [json.dumps(event) for event in events]
    raw = {"id": "p", "input": "x", "rawLines": lines, "timing": {"start": 0, "end": 1, "total": 1}, **fields}
    (record,) = run("ae-extract", "-s", agent, stdin=jsonl(raw)).expect(0).records
    return record


# --- answers ------------------------------------------------------------------------------------


def text(words: str) -> Record:
    return {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": words}]}}


def call(tool: str) -> Record:
    part = {"type": "tool_use", "id": "t1", "name": tool, "input": {}}
    return {"type": "assistant", "message": {"role": "assistant", "content": [part]}}


def codex_item(kind: str, **fields: Any) -> Record:
    return {"type": "item.completed", "item": {"id": "i", "type": kind, **fields}}


def opencode_step(reason: str, cost: float = 0.5) -> Record:
    part = {"reason": reason, "tokens": {"input": 10, "output": 2}, "cost": cost}
    return {"type": "step_finish", "sessionID": "s1", "part": part}


ANSWERED_WITH_NOTHING: dict[str, list[Any]] = {
    "claude": [text(GUESS), call("Bash"), {"type": "result", "subtype": "success", "is_error": False, "result": ""}],
    "qwen": [text(GUESS), call("sh"), {"type": "result", "subtype": "success", "is_error": False, "result": ""}],
    "codex": [
        codex_item("agent_message", text=GUESS),
        codex_item("command_execution", command="ls", aggregated_output="", exit_code=0, status="completed"),
        {"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 2}},
    ],
    "opencode": [
        {"type": "text", "part": {"text": GUESS}},
        {"type": "tool_use", "part": {"id": "t1", "tool": "bash", "state": {"status": "completed", "output": ""}}},
        opencode_step("tool-calls"),
        opencode_step("stop"),
    ],
    "gemini": [
        {"type": "message", "role": "assistant", "content": GUESS, "delta": True},
        {"type": "tool_use", "tool_id": "t1", "tool_name": "ls", "parameters": {}},
        {"type": "tool_result", "tool_id": "t1", "status": "success", "output": ""},
        {"type": "result", "status": "success", "stats": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 15}},
    ],
    "kimi": [
        {"role": "assistant", "content": GUESS, "tool_calls": [{"id": "t1", "function": {"name": "ls"}}]},
        {"role": "tool", "tool_call_id": "t1", "content": ""},
    ],
}


@pytest.mark.parametrize("agent", ANSWERED_WITH_NOTHING)
def test_an_empty_answer_is_the_answer(agent: str) -> None:
    record = extract(agent, *ANSWERED_WITH_NOTHING[agent])
    assert record["output"] == "" and "errors" not in record
    assert GUESS in [step.get("content") for step in record["trajectory"]]


@pytest.mark.parametrize("agent", ANSWERED_WITH_NOTHING)
def test_an_agent_that_was_ended_leaves_its_last_message(agent: str) -> None:
    record = extract(agent, *ANSWERED_WITH_NOTHING[agent][:2], timedOut=True, errors=["timeout: not done after 9 ms"])
    assert record["output"] == GUESS
    assert record["errors"] == ["timeout: not done after 9 ms"]


def test_at_the_limit_of_turns_the_last_message_is_the_output_and_the_reason_the_first_error() -> None:
    end = {"type": "result", "subtype": "error_max_turns", "is_error": True, "errors": ["Reached maximum of 1 turns"]}
    warning = "exited with code 1: Warning: no stdin data received"
    record = extract("claude", text("First."), text(GUESS), call("Bash"), end, exitCode=1, errors=[warning])
    assert record["output"] == GUESS
    assert record["metadata"]["stopReason"] == "max_turns"
    assert record["errors"] == ["Reached maximum of 1 turns", warning]


@pytest.mark.parametrize("agent", ["gemini", "qwen"])
def test_the_limit_of_turns_may_be_known_by_the_exit_code(agent: str) -> None:
    said = {"gemini": ANSWERED_WITH_NOTHING["gemini"][:3], "qwen": ANSWERED_WITH_NOTHING["qwen"][:2]}[agent]
    failure = {"type": "FatalTurnLimitedError", "message": "Reached max session turns"}
    end = [{"type": "result", "status": "error", "error": failure}] if agent == "gemini" else []
    record = extract(agent, *said, *end, exitCode=53, errors=["exited with code 53: Reached max session turns"])
    assert (record["output"], record["metadata"]["stopReason"]) == (GUESS, "max_turns")
    assert "Reached max session turns" in record["errors"][0]


def test_a_timeout_comes_before_what_the_agent_complained_about() -> None:
    failed = {"type": "error", "error": {"message": "overloaded"}}
    record = extract("opencode", failed, timedOut=True, errors=["timeout: not done after 9 ms"])
    assert record["errors"] == ["timeout: not done after 9 ms", "overloaded"]


# --- tokens -------------------------------------------------------------------------------------


def test_the_tokens_of_thoughts_are_output() -> None:
    timing = extract("gemini", *ANSWERED_WITH_NOTHING["gemini"])["timing"]
    assert (timing["inputTokens"], timing["outputTokens"]) == (10, 5)


def test_a_cost_of_nothing_for_tokens_is_unknown() -> None:
    assert "costUsd" not in extract("opencode", opencode_step("stop", 0))["timing"]
    assert extract("opencode", opencode_step("tool-calls", 0), opencode_step("stop", 0.5))["timing"]["costUsd"] == 0.5


def test_tokens_of_an_agent_that_was_ended_are_partial() -> None:
    step = opencode_step("tool-calls")
    assert extract("opencode", step, timedOut=True)["timing"]["tokensPartial"] is True
    assert extract("opencode", step, signal="SIGKILL")["timing"]["tokensPartial"] is True
    assert "tokensPartial" not in extract("opencode", step)["timing"]
    assert "tokensPartial" not in extract("opencode", {"type": "text", "part": {"text": "a"}}, timedOut=True)["timing"]
    end = {
        "type": "result",
        "subtype": "success",
        "stop_reason": "end_turn",
        "result": "a",
        "usage": {"input_tokens": 1},
    }
    assert "tokensPartial" not in extract("claude", end, timedOut=True)["timing"], "it had reported them all"


# An agent that writes the log of its session, says who it is, and is killed if it is told to be.
LOGGING = """\
import json, os, signal, sqlite3, sys
home = os.environ["HOME"]
def log(path, *events):
    path = os.path.join(home, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write("".join(json.dumps(event) + "\\n" for event in events) + '{"cut off')
{body}
if sys.argv[-1] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
"""
CLAUDE = """\
def said(ident, tokens, **more):
    usage = {"input_tokens": tokens, "cache_read_input_tokens": 1, "output_tokens": 2}
    message = {"id": ident, "model": "opus", "usage": usage}
    return {"type": "assistant", "sessionId": "11112222-3333", "message": message, **more}
log(".claude/projects/-ws/11112222-3333.jsonl", said("m1", 10), said("m1", 10), said("m2", 20))
log(".claude/projects/-ws/11112222-3333/subagents/agent-7.jsonl", said("m3", 100))
log(".claude/projects/-ws/other.jsonl", {**said("m4", 1000), "sessionId": "other"})
print(json.dumps({"type": "system", "session_id": "11112222-3333", "model": "alias"}), flush=True)
"""
CODEX = """\
def rollout(ident, tokens, source):
    counts = {"input_tokens": tokens, "cached_input_tokens": 1, "output_tokens": 2}
    log(f".codex/sessions/2026/11/18/rollout-2026-11-18T05-00-00-{ident}.jsonl",
        {"type": "session_meta", "timestamp": "2026-11-18T05:00:00Z", "payload": {"id": ident, "source": source}},
        {"type": "turn_context", "payload": {"model": "gpt"}},
        {"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": counts}}})
def below(parent):
    return {"subagent": {"thread_spawn": {"parent_thread_id": parent}}}
rollout("11112222-3333", 30, "exec")
rollout("child", 40, below("11112222-3333"))
rollout("grandchild", 60, below("child"))
rollout("stranger", 1000, below("somebody"))
print(json.dumps({"type": "thread.started", "thread_id": "11112222-3333"}), flush=True)
"""
OPENCODE = """\
os.makedirs(os.path.join(home, ".local/share/opencode"), exist_ok=True)
database = sqlite3.connect(os.path.join(home, ".local/share/opencode/opencode.db"))
database.execute("CREATE TABLE session (id, parent_id, directory, version, time_created)")
database.execute("CREATE TABLE message (id, session_id, time_created, data)")
database.execute("CREATE TABLE part (id, message_id, session_id, time_created, data)")
for ident, parent, tokens in (("s1", None, 30), ("s2", "s1", 100), ("s3", None, 1000)):
    counts = {"input": tokens - 1, "output": 2, "cache": {"read": 1}}
    said = {"role": "assistant", "modelID": "glm", "tokens": counts}
    database.execute("INSERT INTO session VALUES (?, ?, '/ws', '1', 1)", (ident, parent))
    database.execute("INSERT INTO message VALUES (?, ?, 1, ?)", ("m" + ident, ident, json.dumps(said)))
database.commit()
print(json.dumps({"type": "text", "sessionID": "s1", "part": {"text": "a"}}), flush=True)
"""


@pytest.mark.parametrize("asked", ["die", "live"])
@pytest.mark.parametrize(
    ("agent", "body", "tokens", "model"),
    [
        ("claude", CLAUDE, (10 + 20 + 100 + 3, 6), "opus"),
        ("codex", CODEX, (30 + 40 + 60, 6), "gpt"),
        ("opencode", OPENCODE, (30 + 100, 4), "glm"),
    ],
)
def test_the_log_of_the_session_has_what_was_not_printed(
    tmp_path: Path, agent: str, body: str, tokens: tuple[int, int], model: str, asked: str
) -> None:
    (tmp_path / "agent.py").write_text(LOGGING.replace("{body}", body))
    schema = json.loads(Path(BUNDLED, f"{agent}.json").read_bytes())
    schema |= {"command": [sys.executable, str(tmp_path / "agent.py")], "prompt": {"flag": ""}}
    schema["resume"].pop("command", None)
    (tmp_path / "agent.json").write_text(json.dumps(schema))
    env = {**os.environ, "HOME": str(tmp_path)}
    prompt = jsonl({"id": "p", "input": asked})
    (record,) = run("ae-capture", "-s", "agent.json", stdin=prompt, cwd=tmp_path, env=env).expect(0).records
    timing = record["timing"]
    assert (timing["inputTokens"], timing["outputTokens"]) == tokens
    assert record["metadata"]["model"] == model
    assert record["metadata"]["signal"] == ("SIGKILL" if asked == "die" else None)
    assert "tokensPartial" not in timing and "sessionLog" not in record


def test_every_session_log_that_a_schema_names_has_a_format() -> None:
    named = {load_adapter(name).config.session_log for name in bundled_adapters()}
    assert {"claude", "codex", "gemini", "opencode", "qwen", "pi"} <= named
    assert named - {None} <= {*session_formats()}


# --- memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "switch"),
    [
        ("claude", "CLAUDE_CODE_DISABLE_AUTO_MEMORY=1"),
        ("codex", "features.memories=false"),
        ("grok", "GROK_MEMORY=0"),
        ("qwen", "QWEN_CODE_MEMORY_LOCAL=1"),
    ],
)
def test_memory_across_sessions_is_off(agent: str, switch: str) -> None:
    config = load_adapter(agent).config
    variables = [f"{name}={value}" for name, value in (config.env or {}).items()]
    assert switch in [*variables, *(config.auto_approve or [])]


# --- over ACP -----------------------------------------------------------------------------------

SLOW = """\
import json, sys
prompt = None
def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        send({"id": asked["id"], "result": {"protocolVersion": 1}})
    elif asked["method"] == "session/new":
        send({"id": asked["id"], "result": {"sessionId": "s"}})
    elif asked["method"] == "session/prompt":
        prompt = asked["id"]
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Well,"}}
        send({"method": "session/update", "params": {"sessionId": "s", "update": update}})
    elif asked["method"] == "session/cancel" and sys.argv[1] != "deaf":
        spent = int(sys.argv[1])
        usage = {"inputTokens": spent, "outputTokens": spent, "totalTokens": 2 * spent}
        send({"id": prompt, "result": {"stopReason": "cancelled", "usage": usage}})
"""


@pytest.mark.parametrize(("argument", "tokens"), [("0", None), ("7", 7), ("deaf", None)])
def test_a_turn_that_takes_too_long_is_cancelled_first(tmp_path: Path, argument: str, tokens: int | None) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    agent = ["--", sys.executable, "slow.py", argument]

    def late(limit: int) -> Record | None:
        """Returns the record of an agent that had begun in time, and then answered within a second if it does."""
        done = run("ae-capture", "-t", f"{limit}ms", *agent, stdin=jsonl({"id": "p", "input": "x"}), cwd=tmp_path)
        (record,) = done.expect(0).records
        record["errors"] = [error.replace(str(limit), "LIMIT") for error in record["errors"]]
        return record if record["output"] and (argument == "deaf" or record["metadata"].get("stopReason")) else None

    record = in_time(late, 1000)
    assert record["errors"] == ["timeout: session/prompt not answered within LIMIT ms"]
    assert record["metadata"]["timedOut"] is True
    assert record["output"] == "Well,"
    assert record["timing"].get("inputTokens") == tokens, "no tokens of a cancelled turn are unknown tokens"
    assert "tokensPartial" not in record["timing"]
    assert record["metadata"].get("stopReason") == (None if argument == "deaf" else "cancelled")
