"""An ACP agent for tests that performs the actions in its prompt; it needs the standard library only.

The prompt is a JSON list of actions (`ACTIONS`), performed in turn before session/prompt is answered. A text that is no
list is echoed. An argument that is an action is performed at the start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

ME: dict[str, Any] = {"session": "s1", "answer": {"stopReason": "end_turn"}, "next": 100}


def put(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def send(**message: Any) -> None:
    put(json.dumps({"jsonrpc": "2.0", **message}))


def update(kind: str, **fields: Any) -> None:
    send(method="session/update", params={"sessionId": ME["session"], "update": {"sessionUpdate": kind, **fields}})


def chunk(kind: str, text: str, **fields: Any) -> None:
    update(kind, content={"type": "text", "text": text}, **fields)


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def ask(method: str, params: Any, ident: Any = None) -> None:
    """Sends a request, and reports the answer as a message."""
    if ident is None:
        ME["next"] += 1
        ident = ME["next"]
    send(id=ident, method=method, params=params)
    answer = read()
    assert answer.pop("jsonrpc") == "2.0"
    assert answer.pop("id") == ident, answer
    chunk("agent_message_chunk", json.dumps(answer), messageId=str(ident))


def flood(count: int, text: str) -> None:
    for _ in range(count):
        sys.stdout.write(text)
    sys.stdout.flush()


def ask_much(count: int, path: str) -> None:
    """Sends many requests and reads none of the answers."""
    for number in range(count):
        send(id=number, method="fs/read_text_file", params={"sessionId": "s1", "path": path})


ACTIONS: dict[str, Any] = {
    "message": lambda text, **fields: chunk("agent_message_chunk", text, **fields),
    "thought": lambda text, **fields: chunk("agent_thought_chunk", text, **fields),
    "update": lambda kind, **fields: update(kind, **fields),
    "put": put,
    "send": lambda **message: send(**message),
    "ask": ask,
    "answer": lambda result: ME.update(answer=result),
    "answer_as": lambda ident: ME.update(ident=ident),
    "fail": lambda error: ME.update(error=error),
    "sleep": time.sleep,
    "exit": os._exit,
    "start": lambda *argv: subprocess.Popen(argv, start_new_session=True),
    "close": lambda: os.close(1),
    "flood": flood,
    "ask_much": ask_much,
    "stay": lambda: ME.update(stay=True),
    "stderr": lambda text: sys.stderr.write(text),
    "cwd": lambda: chunk("agent_message_chunk", os.getcwd()),
    "initialize": lambda result: ME.update(initialize=result),
    "new": lambda result: ME.update(new=result),
    "new_error": lambda error: ME.update(new_error=error),
}


def do(actions: list[list[Any]]) -> None:
    for name, *arguments in actions:
        keywords = arguments.pop() if arguments and isinstance(arguments[-1], dict) and name in KEYWORDS else {}
        ACTIONS[name](*arguments, **keywords)


KEYWORDS = {"message", "thought", "update", "send"}


def prompted(ident: Any, text: str) -> None:
    ME.update(answer={"stopReason": "end_turn"}, error=None, ident=ident)
    if text.startswith("["):
        do(json.loads(text))
    else:
        chunk("agent_message_chunk", f"echo: {text}")
    if ME["error"] is not None:
        send(id=ME["ident"], error=ME["error"])
    else:
        send(id=ME["ident"], result=ME["answer"])


def main() -> None:
    for argument in sys.argv[1:]:
        if argument.startswith("["):
            do([json.loads(argument)])
    while True:
        request = read()
        ident, method = request.get("id"), request.get("method")
        if method == "initialize":
            send(id=ident, result=ME.get("initialize", {"protocolVersion": 1, "agentCapabilities": {}}))
        elif method == "session/new" and ME.get("new_error"):
            send(id=ident, error=ME["new_error"])
        elif method == "session/new":
            send(id=ident, result=ME.get("new", {"sessionId": ME["session"]}))
        elif method == "session/prompt":
            prompted(ident, request["params"]["prompt"][0]["text"])
        if ME.get("stay") and method == "session/prompt":
            time.sleep(1000)


main()
