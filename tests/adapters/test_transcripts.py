"""The adapters that ship with the suite, on what the real programs print: goldens in full, and what must be in them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agenteval.adapters.reader import Reading
from agenteval.adapters.schema_file import bundled_adapters, load_adapter
from tests.support.schema_building import brief, contents
from tests.support.transcripts import CASES, adapter_name, compiled_once, recorded, scenarios

HERE = Path(__file__).parent.parent
GOLDEN = HERE / "golden" / "adapters"
UPDATE = "AE_UPDATE_GOLDEN"  # set it to write the golden files anew, then read the diff


def read(agent: str, *turns: str) -> Reading:
    raw = [recorded(agent, turn) for turn in turns]
    lines = [line for turn in raw for line in turn]
    times = [10 * n for n in range(len(lines))]
    adapter = compiled_once(adapter_name(agent))
    return adapter.read(lines, times, [len(turn) for turn in raw], f"{agent}-{turns[0]}")


@pytest.mark.parametrize(("agent", "case"), CASES)
def test_golden(agent: str, case: str) -> None:
    reading = contents(read(agent, *case.split("+")))
    golden = GOLDEN / adapter_name(agent) / f"{case}.json"
    if UPDATE in os.environ:
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(json.dumps(reading, indent=2, ensure_ascii=False) + "\n")
    assert json.dumps(reading) == json.dumps(json.loads(golden.read_text())), "the order of fields included"


def test_every_golden_has_its_transcript() -> None:
    kept = {f"{path.parent.name}/{path.stem}" for path in GOLDEN.glob("*/*.json")}
    assert kept == {f"{adapter_name(agent)}/{case}" for agent, case in CASES}


def test_every_adapter_of_a_program_was_tried_on_it() -> None:
    tried = {adapter_name(agent) for agent in scenarios()}
    assert tried == set(bundled_adapters()) - {"acp", "text", "wikiagent"}


# --- what the goldens must have -----------------------------------------------------------------

FIRST = ("message", "I'll create the file now.")
THOUGHT = ("thought", "The user wants a file. I will run one shell command.")
WORKS = "echo hi > hello.txt && echo wrote-it"
FAILS = "echo partial-out; echo boom >&2; exit 3"
FINAL = "Created hello.txt. The answer is 42."
FAILED = "The command failed with exit code 3. The answer is 42."

TOKENS = {"inputTokens": 2400, "outputTokens": 114, "cachedTokens": 1000}  # of two requests
PRICED = TOKENS | {"costUsd": 2 * 0.000864}
QWEN_END = "Exit Code: 3\nSignal: (none)\nProcess Group PGID: (none)"

# Agent → the steps before the answer when the command fails (name, input, what is in the output), and the usage.
TOOLFAIL: dict[str, tuple[list[Any], str, Any, str, dict[str, Any]]] = {
    "claude": (
        [THOUGHT, FIRST],
        "Bash",
        {"command": FAILS},
        "Exit code 3\npartial-out\nboom",
        {"inputTokens": 4000, "outputTokens": 114, "cachedTokens": 1000, "costUsd": 0.01508},
    ),
    "codex": ([THOUGHT, FIRST], "command_execution", f"/bin/bash -lc '{FAILS}'", "partial-out\nboom\n", TOKENS),
    "gemini": (
        [FIRST],
        "run_shell_command",
        {"command": FAILS},
        "partial-out\nboom",
        {"inputTokens": 3600, "outputTokens": 171 + 36, "cachedTokens": 1500},  # 36 of thoughts
    ),
    "opencode": ([THOUGHT, FIRST], "bash", {"command": FAILS}, "partial-out\nboom\n", PRICED),
    "copilot": (
        [THOUGHT, FIRST],
        "bash",
        {"command": FAILS, "description": "create hello.txt"},
        "partial-out\nboom\n<shellId: 0 completed with exit code 3>",
        {},
    ),
    "pi": (
        [THOUGHT, FIRST],
        "bash",
        {"command": FAILS},
        "partial-out\\nboom\\n\\n\\nCommand exited with code 3",
        PRICED,
    ),
    "qwen": (
        [THOUGHT, FIRST],
        "run_shell_command",
        {"command": FAILS},
        f"Command: {FAILS}\nDirectory: (root)\nOutput: partial-out\nboom\nError: (none)\n{QWEN_END}",
        TOKENS,
    ),
    "cline": (
        [THOUGHT, FIRST],
        "run_commands",
        {"commands": [FAILS]},
        '"error": "Command exited with code 3", "success": false',
        TOKENS,  # it reports a cost of 0: it knows no price of the model
    ),
    "gptme": (
        [THOUGHT, FIRST],
        "shell",
        {"command": FAILS},
        "\nReturn code: 3\n",
        {"inputTokens": 3600, "outputTokens": 171, "cachedTokens": 1500},
    ),
    "openhands": (
        [THOUGHT, FIRST],
        "terminal",
        {"command": f"({FAILS})", "security_risk": "LOW"},  # an exit in its terminal itself would end that
        "partial-out\nboom",
        {},
    ),
    "miniswe": ([THOUGHT, FIRST], "bash", FAILS, "partial-out\nboom\n", TOKENS),
}


@pytest.mark.parametrize("agent", TOOLFAIL)
def test_a_command_that_fails(agent: str) -> None:
    before, name, given, output, usage = TOOLFAIL[agent]
    reading = read(agent, "toolfail")
    status = "completed" if agent == "gemini" else "failed"  # only gemini does not report the exit code
    steps = brief(reading)
    assert steps[: len(before)] == before
    kind, *call, given_back = steps[len(before)]
    assert (kind, *call) == ("tool_call", name, status, given)
    assert output in (given_back if isinstance(given_back, str) else json.dumps(given_back))
    assert [step for step in steps if step[0] == "tool_call" and step[2] == "failed"] == (
        [] if agent == "gemini" else [steps[len(before)]]
    )
    assert reading.output == FAILED
    assert reading.usage == pytest.approx(usage)
    assert reading.errors == []
    assert reading.tool_errors == (agent != "gemini")


@pytest.mark.parametrize("agent", TOOLFAIL)
def test_a_command_that_works(agent: str) -> None:
    reading = read(agent, "success")
    call = next(step for step in reading.trajectory if step["type"] == "tool_call")
    assert (call["status"], reading.tool_errors, reading.errors) == ("completed", False, [])
    assert WORKS in json.dumps(call["input"])
    assert "wrote-it" in json.dumps(call["output"])
    assert reading.output == FINAL


UNAUTHORIZED = "invalid x-api-key (fake)"
BROKEN = "Internal server error (fake)"
ERRORS = {
    ("aider", "http401"): f"litellm.BadRequestError: OpenAIException - {UNAUTHORIZED}",
    ("aider", "http500"): "litellm.InternalServerError: InternalServerError: OpenAIException - Internal \n"
    "server error (fake)\nThe API provider's servers are down or overloaded.",
    ("claude", "http401"): "Invalid API key · Fix external API key",
    ("claude", "http500"): f"API Error: 500 {BROKEN}. This is a server-side issue, usually temporary — try again in a "
    "moment. If it persists, check your inference gateway (127.0.0.1:8765).",
    ("cline", "http401"): UNAUTHORIZED,
    ("cline", "http500"): BROKEN,
    (
        "codex",
        "http401",
    ): f"unexpected status 401 Unauthorized: {UNAUTHORIZED}, url: http://127.0.0.1:8765/v1/responses",
    ("codex", "http500"): "We’re currently experiencing high demand, which may cause temporary errors.",
    ("copilot", "http401"): "Authentication failed with provider at http://127.0.0.1:8765/v1 (HTTP 401).\n  Check your "
    "COPILOT_PROVIDER_API_KEY, COPILOT_PROVIDER_API_KEY_COMMAND, or COPILOT_PROVIDER_BEARER_TOKEN.",
    ("copilot", "http500"): "Failed to get response from the AI model; retried 5 times (total retry wait time: 14.98 "
    f"seconds) Last error: 500 {BROKEN}",
    (
        "gemini",
        "http401",
    ): f'[API Error: {{"error":{{"code":401,"message":"{UNAUTHORIZED}","status":"UNAUTHENTICATED"}}}}]',
    ("gemini", "http500"): f'[API Error: {{"error":{{"code":500,"message":"{BROKEN}","status":"INTERNAL"}}}}]',
    ("gemini", "sseerror"): "Model stream ended without a finish reason.",
    ("miniswe", "http401"): f"litellm.BadRequestError: OpenAIException - {UNAUTHORIZED}",
    ("opencode", "http401"): UNAUTHORIZED,
    ("opencode", "http500"): BROKEN,
    ("openhands", "http401"): f"litellm.AuthenticationError: AuthenticationError: OpenAIException - {UNAUTHORIZED}",
    ("openhands", "http500"): f"litellm.InternalServerError: InternalServerError: OpenAIException - {BROKEN}",
    ("pi", "http401"): f"401 {UNAUTHORIZED}",
    ("pi", "http500"): f"500 {BROKEN}",
    ("qwen", "http401"): f"[API Error: 401 {UNAUTHORIZED}]",
    ("qwen", "http500"): f"[API Error: 500 {BROKEN}]",
}


def test_every_failure_of_an_agent_is_looked_at() -> None:
    assert {(agent, case) for agent, case in CASES if "http" in case or "error" in case} == set(ERRORS)


@pytest.mark.parametrize(("agent", "scenario"), ERRORS)
def test_the_agent_says_that_it_failed(agent: str, scenario: str) -> None:
    assert read(agent, scenario).errors == [ERRORS[agent, scenario]], (
        "retries are no errors, one error is reported once"
    )


THREE = {"inputTokens": 3600, "outputTokens": 171, "cachedTokens": 1500}  # requests
RESUMED = [
    ("aider", {"inputTokens": 722 + 768, "outputTokens": 26 + 18}, 12),
    ("claude", {"inputTokens": 6000, "outputTokens": 171, "cachedTokens": 1500, "costUsd": 0.02262}, 6),
    ("codex", THREE, 10),
    ("copilot", THREE, 6),
    ("gemini", {"inputTokens": 6000, "outputTokens": 285 + 60, "cachedTokens": 2500}, 5),
    ("llm", {}, 5),
    ("opencode", THREE | {"costUsd": 3 * 0.000864}, 6),
    ("openhands", {}, 7),
    ("pi", THREE | {"costUsd": 3 * 0.000864}, 6),
    ("qwen", {"inputTokens": 6000, "outputTokens": 285, "cachedTokens": 2500}, 6),
]


@pytest.mark.parametrize(("agent", "usage", "messages"), RESUMED, ids=[row[0] for row in RESUMED])
def test_two_turns_of_one_session(agent: str, usage: dict[str, Any], messages: int) -> None:
    both, first = read(agent, "resume1", "resume2"), read(agent, "resume1")
    assert both.output == f"FOLLOWUP seen; history had {messages} messages. The answer is still 42."
    assert first.output.endswith(FINAL)
    assert both.usage == pytest.approx(usage), "what is cumulative is not added up again"
    assert both.session_id == first.session_id
    assert (both.session_id is None) == (load_adapter(agent).config.session_mode == "iterative")
    assert both.trajectory[: len(first.trajectory)] == first.trajectory


def test_several_tools_of_openhands() -> None:
    reading = read("openhands", "tools")
    calls = [step for step in reading.trajectory if step["type"] == "tool_call"]
    assert [(call["name"], call["status"]) for call in calls] == [
        ("terminal", "completed"),
        ("file_editor", "failed"),  # no such file
        ("file_editor", "completed"),
        ("file_editor", "failed"),  # an argument is missing
        ("no_such_tool", "failed"),
        ("task_tracker", "completed"),
        ("terminal", "in_progress"),  # still running when the terminal stopped waiting
        ("terminal", "failed"),
    ]
    assert all(call["output"] and call["input"] for call in calls)
    assert [step["content"] for step in reading.trajectory if step["type"] == "thought"] == [
        "The file is missing. I write it.",
        "It is done.",
    ]
    assert reading.output == "One command was interrupted.", "of a message, without the tool finish"


def test_tokens_from_a_file() -> None:
    assert read("copilot", "usagefile").usage == TOKENS
