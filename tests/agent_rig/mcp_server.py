"""An MCP server on stdio with one tool; `python mcp_server.py FILE` notes in FILE that it was started.

What it notes is the value of RIG_VALUE in its environment.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

TOOL = "rig_lookup"
RESULT = "the-lookup-found-cerulean"


def main(started: str) -> None:
    """Answers requests line by line until its stdin is closed."""
    with open(started, "a", encoding="utf-8") as file:
        file.write(os.environ.get("RIG_VALUE", "") + "\n")
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        if "id" not in request or "method" not in request:  # a notification, or an answer
            continue
        answer = {"jsonrpc": "2.0", "id": request["id"], **_answer(request["method"], request.get("params") or {})}
        print(json.dumps(answer), flush=True)


def _answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        version = params.get("protocolVersion", "2025-03-26")
        about = {"name": "rig", "version": "1.0"}
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}}
    if method == "tools/list":
        takes = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
        return {"result": {"tools": [{"name": TOOL, "description": "Looks a word up.", "inputSchema": takes}]}}
    if method == "tools/call":
        return {"result": {"content": [{"type": "text", "text": RESULT}], "isError": False}}
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": -32601, "message": f"no method {method}"}}


if __name__ == "__main__":
    main(sys.argv[1])
