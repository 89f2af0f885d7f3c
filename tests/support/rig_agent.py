"""A small agent for the tests of the rig: it takes configuration, skills and MCP servers as real ones do.

With FAULTY set it does what the scenarios are to find: it reads the user's own HOME, and takes nothing of a variant.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

FAULTY = os.environ.get("FAULTY")
SHELL = {"name": "bash", "parameters": {"type": "object", "properties": {"command": {}}, "required": ["command"]}}


def main(arguments: list[str]) -> None:
    """Runs the prompt, which is the last argument, and prints a line of JSON for each step."""
    home = Path(os.environ["USERS"] if FAULTY else os.environ["HOME"])
    config = json.loads((home / ".fake/config.json").read_text())
    model = arguments[arguments.index("--model") + 1] if "--model" in arguments and not FAULTY else config["model"]
    for command in config.get("hooks", []):
        subprocess.run(command, shell=True, check=False)
    servers = {name: _start(server) for name, server in config.get("mcpServers", {}).items()}
    tools = [
        SHELL,
        *({"name": f"{name}_{tool['name']}", **_takes(tool)} for name in servers for tool in _tools(servers[name])),
    ]
    messages: list[Any] = [{"role": "system", "content": _context(home)}, {"role": "user", "content": arguments[-1]}]
    while True:
        body = {
            "model": model,
            "messages": messages,
            "tools": [{"type": "function", "function": tool} for tool in tools],
        }
        message = _post(f"{config['url']}/v1/chat/completions", body)["choices"][0]["message"]
        messages.append(message)
        _print("text", text=message["content"])
        if not message.get("tool_calls"):
            break
        for call in message["tool_calls"]:
            name, given = call["function"]["name"], json.loads(call["function"]["arguments"])
            server, _, tool = name.partition("_")
            output = _shell(home, given["command"]) if name == "bash" else _call(servers[server], tool, given)
            _print("tool", name=name, input=given, output=output)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
    for server in servers.values():
        server.terminate()


def _context(home: Path) -> str:
    """Returns the system prompt: instructions of the user and of the project, names of skills."""
    here = Path.cwd()
    found = [home / ".claude/CLAUDE.md"]
    for folder in (here, *here.parents):
        found += [folder / "AGENTS.md"] if folder != here or not FAULTY else []
        if (folder / ".git").exists() and not FAULTY:
            break
    texts = [path.read_text() for path in found if path.is_file()]
    return "\n".join([*texts, *(path.name for path in here.glob(".fake/skills/*") if not FAULTY)])


def _shell(home: Path, command: str) -> str:
    done = subprocess.run(
        command, shell=True, check=False, capture_output=True, text=True, env={**os.environ, "HOME": str(home)}
    )
    return done.stdout + done.stderr


def _start(server: dict[str, Any]) -> subprocess.Popen[str]:
    env = {**os.environ, **server.get("env", {})}
    pipe = subprocess.PIPE
    return subprocess.Popen([server["command"], *server["args"]], stdin=pipe, stdout=pipe, text=True, env=env)


def _ask(server: subprocess.Popen[str], method: str, params: dict[str, Any]) -> Any:
    assert server.stdin and server.stdout
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())["result"]


def _tools(server: subprocess.Popen[str]) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = _ask(server, "tools/list", {})["tools"]
    return tools


def _takes(tool: dict[str, Any]) -> dict[str, Any]:
    return {"parameters": tool["inputSchema"]}


def _call(server: subprocess.Popen[str], tool: str, given: dict[str, Any]) -> str:
    return str(_ask(server, "tools/call", {"name": tool, "arguments": given})["content"][0]["text"])


def _post(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def _print(kind: str, **fields: object) -> None:
    print(json.dumps({"type": kind, **fields}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
