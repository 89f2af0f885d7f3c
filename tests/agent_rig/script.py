"""The scripted model: replies with tool calls first, then with the answer."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from tests.agent_rig.catalogue import SECRET
from tests.agent_rig.conversation import Body, Call, ModelRequest, Reply, Usage
from tests.agent_rig.mcp_server import RESULT, TOOL

FILE = "hello.txt"
CODEWORD = "heliotrope"
THOUGHT = "A file is wanted. One command will do."
BEFORE = "I run one command."
ANSWER = "Done. The answer is 42."
AGAIN = "FOLLOWUP"
REMEMBERED = "I remember. The answer is still 42."
FORGOTTEN = "I remember nothing."
REFUSAL = "scripted refusal"
SUB_TASK = "SUBTASK: name a colour."
SUB_ANSWER = "The colour is mauve."

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
SUB_AGENTS = (  # tools that start a sub-agent
    "Agent",  # claude, kimi
    "Task",  # claude, older
    "agent",  # qwen
    "task",  # opencode, copilot, openhands, vibe
    "spawn_agent",  # codex, cline
    "invoke_agent",  # gemini
    "spawn_subagent",  # grok
    "delegate",  # goose
)
AWAITED: Body = {"run_in_background": False, "background": False}
TASK_NAMES = ("prompt", "message", "objective", "task", "instructions")  # the argument for the task
WAIT = ("wait_agent", "wait")  # codex: a sub-agent runs until somebody waits for it
END_SUB_TASK = "complete_task"  # sub-agents of gemini end with this tool
# Where agents ask the model to keep what it wants to remember: a directory that the system prompt names.
MEMORY = re.compile(r"(/[^\s\"'`\\\\<>]+/memory)/")
# Tools that look into the memory, and their arguments.
RECALL: dict[str, Body] = {
    "memory_search": {"query": "codeword"},  # grok
    "session_store_sql": {  # copilot
        "query": "SELECT session_id, user_message FROM turns LIMIT 50",
        "source": "local",
        "action": "query",
    },
}

# Tools that find the tools of MCP servers, and their arguments.
SEARCHES: dict[str, Body] = {
    "ToolSearch": {"query": f"select:mcp__rig__{TOOL}", "max_results": 5},  # claude
    "search_tool": {"query": TOOL},  # grok
    "tool_search": {"query": TOOL},  # qwen
    "search_tool_functions": {"query": TOOL},  # vibe
}
# Tools that call those, and the names of the arguments for the name and for the arguments.
CALLERS = {"use_tool": ("tool_name", "tool_input"), "tool_call": ("name", "arguments")}


class Script(NamedTuple):
    """The model's part of a scenario."""

    command: str
    status: int = 200
    waits: bool = False
    """The model does not reply any more after the tool call."""
    cut: bool = False
    """The model answers at once, and ends at the limit of tokens."""
    answer: str = ANSWER
    """The last reply to the first prompt."""
    commands: tuple[str, ...] = ()
    """More commands, called together with the first."""
    sub_agent: bool = False
    """The model has a sub-agent do the task, instead of the command."""
    sub_agent_arguments: Body = {}
    """What the tool that starts a sub-agent needs beside the task."""
    memorizes: bool = False
    """The first session commits SECRET, which is in its prompt, to the agent's memory if the model is told where that
    is; the others look there if they have a tool for it."""
    waits_again: bool = False
    """The model does not reply any more after the tool call of the second prompt."""
    leaves: str = ""
    """A command that the model runs in a session whose prompt has SECRET, to leave that behind."""
    tool: str = ""
    """The model calls the tool that has this in its name, instead of the command."""
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
    if script.sub_agent and SUB_TASK in (text := json.dumps(body)) and CODEWORD not in text:
        return _from_sub_agent(request)
    if script.cut:
        return Reply(ANSWER, TASK_USAGE, cut=True)
    if script.waits and (request.ends_with_tool_result or shell is None):
        return None
    if script.waits_again and AGAIN in json.dumps(body):
        if request.ends_with_tool_result:
            return None
        return Reply(BEFORE, TASK_USAGE, THOUGHT, (_shell_call(shell, request, script.command),))
    if AGAIN in request.prompt and not request.ends_with_tool_result:
        remembers = CODEWORD in json.dumps(body)
        return _last(REMEMBERED if remembers else FORGOTTEN, request, body, shell)
    if script.tool and RESULT not in json.dumps(body):
        return _call_of(script.tool, request, body)
    if request.ends_with_tool_result:
        return _after_tool(request, body, script, shell)
    if shell is None:
        return Reply(f"{FILE}\n```\nhello\n```\n\n{ANSWER}", TASK_USAGE)
    starts_sub_agent = next((name for name in SUB_AGENTS if name in request.tools), None)
    if script.sub_agent and (
        not starts_sub_agent or SUB_TASK in json.dumps(body)
    ):  # told that a sub-agent in the background has ended
        return _last(script.answer, request, body, shell)
    if script.sub_agent:
        return Reply(
            BEFORE, TASK_USAGE, THOUGHT, (_sub_agent_call(starts_sub_agent, request, script.sub_agent_arguments),)
        )
    command = script.command
    memorizes = script.memorizes and SECRET in request.prompt
    if memorizes and script.leaves:
        command += f"; {script.leaves}"
    if memorizes and (found := MEMORY.search(json.dumps(body))):
        command += f"; mkdir -p {found[1]} && echo 'The codeword is {SECRET}.' > {found[1]}/MEMORY.md"
    calls = [_shell_call(shell, request, each) for each in (command, *script.commands)]
    if script.memorizes and not memorizes:
        calls += [_recall(name, request) for name in RECALL if name in request.tools]
    return Reply(BEFORE, TASK_USAGE, THOUGHT, tuple(calls))


def _after_tool(request: ModelRequest, body: Body, script: Script, shell: str | None) -> Reply:
    """Returns the reply to the result of a tool: the answer, unless a sub-agent has to be waited for."""
    wait = next((name for name in WAIT if name in request.tools), None)
    if script.sub_agent and wait and SUB_ANSWER not in (text := json.dumps(body)):
        agents = re.findall(r"agent_id\W+([0-9a-f-]{36})", text)
        given = {"targets": agents, "ids": agents, "timeout_ms": 20_000}
        known = request.tools[wait].get("properties") or {}
        return Reply("", TASK_USAGE, calls=(Call(wait, {name: given[name] for name in given if name in known}),))
    return _last(script.answer, request, body, shell)


def _call_of(tool: str, request: ModelRequest, body: Body) -> Reply:
    """Returns a reply that calls a tool of an MCP server, which may have to be found first and called by another."""
    name = next((name for name in request.tools if tool in name), None)  # after the name of the server
    search = next((name for name in SEARCHES if name in request.tools), None)
    caller = next((name for name in CALLERS if name in request.tools), None)
    if name is not None:
        call = Call(name, _filled(request.tools[name]))
    elif search and not request.ends_with_tool_result:
        call = Call(search, SEARCHES[search])
    elif "run_typescript" in request.tools and (found := re.findall(rf"\w+\.\w*{tool}", json.dumps(body))):  # vibe
        code = f"async function main() {{ return await tools.{found[-1]}({{word: 'a word'}}); }}"
        call = Call("run_typescript", {"code": code})
    elif caller and (found := re.findall(rf"\w+__{tool}", json.dumps(body))):
        of_name, of_arguments = CALLERS[caller]
        call = Call(caller, {of_name: found[-1], of_arguments: {"word": "a word"}})
    else:
        return Reply(f"I have no tool {tool}.", TASK_USAGE)
    return Reply(BEFORE, TASK_USAGE, THOUGHT, (call,))


def _shell_call(shell: str | None, request: ModelRequest, command: str) -> Call:
    assert shell is not None
    return Call(shell, arguments_for(request.tools[shell], command))


def _recall(name: str, request: ModelRequest) -> Call:
    schema = request.tools[name]
    given = {key: value for key, value in RECALL[name].items() if key in schema["properties"]}
    return Call(name, {**(_filled(schema) if schema.get("required") else {}), **given})


def _from_sub_agent(request: ModelRequest) -> Reply:
    """Returns the reply to the request of a sub-agent, which has the task but not the user's prompt."""
    if END_SUB_TASK not in request.tools:
        return Reply(SUB_ANSWER, TASK_USAGE)
    arguments = dict.fromkeys(request.tools[END_SUB_TASK].get("properties") or {}, SUB_ANSWER)
    return Reply("", TASK_USAGE, calls=(Call(END_SUB_TASK, arguments),))


def _sub_agent_call(name: str | None, request: ModelRequest, given: Body) -> Call:
    assert name is not None
    schema = request.tools[name]
    known = schema.get("properties") or {}
    needed = _filled(schema) if schema.get("required") else {}
    awaited = {key: value for key, value in AWAITED.items() if key in known}
    task = next(key for key in TASK_NAMES if key in known)
    return Call(name, {**needed, **awaited, **given, task: SUB_TASK})


def _last(text: str, request: ModelRequest, body: Body, shell: str | None) -> Reply:
    """Returns the final reply in the way that the agent expects it."""
    if shell and SUBMIT in json.dumps(body.get("messages", [])[:2]):
        ending = Call(shell, {"command": f"echo {SUBMIT}; echo '{text}'"})
    elif COMPLETE in request.tools:
        ending = Call(COMPLETE, {})
    elif FINISH in request.tools:
        return Reply("", TASK_USAGE, calls=(Call(FINISH, {**_filled(request.tools[FINISH]), "message": text}),))
    else:
        return Reply(text, TASK_USAGE)
    return Reply(text, TASK_USAGE, calls=(ending,))


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
