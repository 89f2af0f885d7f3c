"""What the scripted model does: first a tool call, then the answer."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from agent_rig.conversation import Asked, Body, Call, Reply, Usage

FILE = "hello.txt"
CODEWORD = "heliotrope"
THOUGHT = "A file is wanted. One command will do."
BEFORE = "I run one command."
ANSWER = "Done. The answer is 42."
AGAIN = "FOLLOWUP"
REMEMBERED = "I remember. The answer is still 42."
FORGOTTEN = "I remember nothing."
REFUSAL = "scripted refusal"

FULL = Usage(input=1200, cached=500, output=57, reasoning=12)
ASIDE = Usage(input=7, cached=0, output=3, reasoning=0)  # what agents ask beside the task: a title, a route

SHELLS = ("Bash", "bash", "exec_command", "shell_command", "shell", "run_shell_command", "run_commands")
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"  # mini-swe-agent ends with a command that prints this
COMPLETE = "complete"  # gptme ends with this tool


class Script(NamedTuple):
    """One scenario as the model plays it."""

    command: str
    status: int = 200
    waits: bool = False
    """Once it has called the tool, the model says nothing more."""
    by_text: bool = False
    """The agent has no tools: files are written in the answer, and where it `waits` it does so at once."""


def reply_to(asked: Asked, body: Body, script: Script) -> Reply | None:
    """What the model replies; None when it waits."""
    if asked.form is not None:
        return Reply(json.dumps(_filled(asked.form)), ASIDE)
    shell = next((name for name in SHELLS if name in asked.tools), None)
    if shell is None and not script.by_text:
        return Reply("Hello", ASIDE)
    if script.waits and (asked.answered or shell is None):
        return None
    if AGAIN in asked.prompt and not asked.answered:
        remembers = CODEWORD in json.dumps(body)
        return _last(REMEMBERED if remembers else FORGOTTEN, asked, body, shell)
    if asked.answered:
        return _last(ANSWER, asked, body, shell)
    if shell is None:
        return Reply(f"{FILE}\n```\nhello\n```\n\n{ANSWER}", FULL)
    return Reply(BEFORE, FULL, THOUGHT, Call(shell, arguments_for(asked.tools[shell], script.command)))


def _last(text: str, asked: Asked, body: Body, shell: str | None) -> Reply:
    """The last word, in the way that the agent takes for it."""
    if shell and SUBMIT in json.dumps(body.get("messages", [])[:2]):
        ending = Call(shell, {"command": f"echo {SUBMIT}; echo '{text}'"})
    elif COMPLETE in asked.tools:
        ending = Call(COMPLETE, {})
    else:
        return Reply(text, FULL)
    return Reply(text, FULL, call=ending)


# --- arguments ------------------------------------------------------------------------------------


def arguments_for(schema: Body, command: str) -> Body:
    """Arguments with which a shell tool runs the command; what else it requires is made up."""
    properties: Body = schema.get("properties") or {}
    name = next((each for each in ("command", "cmd", "commands") if each in properties), None)
    if name is None:
        return {"command": command}
    several = properties[name].get("type") in ("array", "ARRAY")
    words = [command] if name == "commands" else ["bash", "-c", command]
    return {**_filled(schema), name: words if several else command}


def _filled(schema: Body) -> Body:
    """The least that satisfies the schema of an object."""
    properties: Body = schema.get("properties") or {}
    return {name: _made_up(properties.get(name) or {}) for name in schema.get("required") or properties}


def _made_up(schema: Body) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    kind = str(schema.get("type")).lower()
    return {"boolean": False, "integer": 60, "number": 60, "array": [], "object": {}}.get(kind, "a word")
