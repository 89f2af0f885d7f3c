"""The scripted model: replies with a tool call first, then with the answer."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.agent_rig.conversation import Body, Call, ModelRequest, Reply, Usage

FILE = "hello.txt"
CODEWORD = "heliotrope"
THOUGHT = "A file is wanted. One command will do."
BEFORE = "I run one command."
ANSWER = "Done. The answer is 42."
AGAIN = "FOLLOWUP"
REMEMBERED = "I remember. The answer is still 42."
FORGOTTEN = "I remember nothing."
REFUSAL = "scripted refusal"

TASK_USAGE = Usage(input=1200, cached=500, output=57, reasoning=12)
SIDE_USAGE = Usage(input=7, cached=0, output=3, reasoning=0)  # requests beside the task: for a title, for routing

SHELLS = (
    "Bash",
    "bash",
    "exec_command",
    "shell_command",
    "shell",
    "run_shell_command",
    "run_commands",
    "run_terminal_command",
    "terminal",
)
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"  # mini-swe-agent ends with a command that prints this
RECAP = "ultra-short dashboard line"  # grok asks for a summary of the turn, with all tools
COMPLETE = "complete"  # gptme ends with this tool
FINISH = "finish"  # openhands ends with this tool, which gets the answer


class Script(NamedTuple):
    """The model's part of a scenario."""

    command: str
    status: int = 200
    waits: bool = False
    """The model does not reply any more after the tool call."""
    cut: bool = False
    """The model answers at once, and ends at the limit of tokens."""
    without_tools: bool = False
    """The agent has no tools: the answer holds the file, and a model that `waits` never replies at all."""


def reply_to(request: ModelRequest, body: Body, script: Script) -> Reply | None:
    """Returns the model's reply, or None if it waits."""
    if request.answer_schema is not None:
        return Reply(json.dumps(_filled(request.answer_schema)), SIDE_USAGE)
    if RECAP in request.prompt:
        return Reply("Hello", SIDE_USAGE)
    shell = next((name for name in SHELLS if name in request.tools), None)
    if shell is None and not script.without_tools:
        return Reply("Hello", SIDE_USAGE)
    if script.cut:
        return Reply(ANSWER, TASK_USAGE, cut=True)
    if script.waits and (request.ends_with_tool_result or shell is None):
        return None
    if AGAIN in request.prompt and not request.ends_with_tool_result:
        remembers = CODEWORD in json.dumps(body)
        return _last(REMEMBERED if remembers else FORGOTTEN, request, body, shell)
    if request.ends_with_tool_result:
        return _last(ANSWER, request, body, shell)
    if shell is None:
        return Reply(f"{FILE}\n```\nhello\n```\n\n{ANSWER}", TASK_USAGE)
    return Reply(BEFORE, TASK_USAGE, THOUGHT, Call(shell, arguments_for(request.tools[shell], script.command)))


def _last(text: str, request: ModelRequest, body: Body, shell: str | None) -> Reply:
    """Returns the final reply in the way that the agent expects it."""
    if shell and SUBMIT in json.dumps(body.get("messages", [])[:2]):
        ending = Call(shell, {"command": f"echo {SUBMIT}; echo '{text}'"})
    elif COMPLETE in request.tools:
        ending = Call(COMPLETE, {})
    elif FINISH in request.tools:
        return Reply("", TASK_USAGE, call=Call(FINISH, {**_filled(request.tools[FINISH]), "message": text}))
    else:
        return Reply(text, TASK_USAGE)
    return Reply(text, TASK_USAGE, call=ending)


# --- arguments ------------------------------------------------------------------------------------


def arguments_for(schema: Body, command: str) -> Body:
    """Returns arguments with which a shell tool runs the command; other required ones get placeholder values."""
    properties: Body = schema.get("properties") or {}
    name = next((each for each in ("command", "cmd", "commands") if each in properties), None)
    if name is None:
        return {"command": command}
    several = properties[name].get("type") in ("array", "ARRAY")
    words = [command] if name == "commands" else ["bash", "-c", command]
    return {**_filled(schema), name: words if several else command}


def _filled(schema: Body) -> Body:
    """Returns a minimal object that satisfies the schema."""
    properties: Body = schema.get("properties") or {}
    return {name: _placeholder(properties.get(name) or {}) for name in schema.get("required") or properties}


def _placeholder(schema: Body) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    kind = str(schema.get("type")).lower()
    return {"boolean": False, "integer": 60, "number": 60, "array": [], "object": {}}.get(kind, "a word")
