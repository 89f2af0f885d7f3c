"""The client's side of the Agent Client Protocol: one prompt, all its turns, with an agent process.

JSON-RPC 2.0, one message per line: initialize, session/new, then session/prompt per turn, each sent when the one before
is answered. Meanwhile the agent reports (session/update, which is kept as raw lines and read by the adapter `acp`) and
asks: for permission, for files. The older dialect of agent-eval-harness differs only in what it reports and answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from agenteval import __version__
from agenteval.agents.acp.files import FileRefused, WorkFiles
from agenteval.errors import BadRecord
from agenteval.streams.jsonl import decode, encode
from agenteval.streams.source import BOM

VERSION = 1
CAPABILITIES = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False}

INVALID_PARAMS = -32602
METHOD_NOT_FOUND = -32601
AUTHENTICATION = -32000

# Each of them says that the turn was not brought to its end; without an end, the next turn makes no sense.
CUT_SHORT = {
    "refusal": "the agent refuses to go on (stopReason refusal)",
    "cancelled": "the agent says that the turn was cancelled, which nobody asked for (stopReason cancelled)",
    "max_tokens": "the agent ran into its limit of tokens (stopReason max_tokens)",
    "max_turn_requests": "the agent ran into its limit of model requests (stopReason max_turn_requests)",
}

Message = dict[str, Any]


class Client:
    """Talks with one agent about one prompt; a Peer of its process (process.py)."""

    interactive = True

    def __init__(self, texts: list[str], cwd: str, *, deny: bool) -> None:
        self.texts, self.cwd = texts, cwd
        self.turn, self.done = 1, False
        self.problem: str | None = None
        self.ends: list[tuple[int, float]] = []  # of each turn answered: lines heard until then, and when
        self.heard = 0
        self.session_began: float | None = None
        self.first_update: float | None = None
        self._desk = RequestHandler(cwd, deny=deny)
        self._session: Any = None
        self._logins: list[str] = []
        self._number = 0
        self._take: Callable[[Any], bytes] = lambda _result: b""
        info = {"name": "agenteval", "title": "agenteval", "version": __version__}
        params = {"protocolVersion": VERSION, "clientCapabilities": CAPABILITIES, "clientInfo": info}
        self.opening = self._ask("initialize", params, self._initialized)

    def reply_to(self, line: bytes, running: bool) -> bytes:
        """What to say to a line of the agent; a line that is no message is its own business."""
        self.heard += 1
        message = read_message(line)
        if message is None or self.done:
            return b""
        if "method" in message:
            if self.first_update is None and _responds(message):
                self.first_update = time.monotonic()
            return self._desk.serve(message) if running and "id" in message else b""
        return self._answered(message) if "id" in message else b""

    # --- what we ask ---

    def _ask(self, method: str, params: Message, take: Callable[[Any], bytes]) -> bytes:
        self._number += 1
        self.waiting, self._take = method, take
        return _line({"id": self._number, "method": method, "params": params})

    def _answered(self, message: Message) -> bytes:
        number, error = message["id"], message.get("error")
        if number is None and error is not None:
            return self._fail(f"the agent could not read {self.waiting}: {_error_text(error)}")
        if type(number) is str and number.isdecimal():
            number = int(number)
        if type(number) is not int or not 0 < number <= self._number:
            return self._fail(f"the agent answered a request that was not sent (id {encode(number).decode()})")
        if number < self._number:
            return b""  # answered twice: the first one counted
        if error is not None:
            return self._fail(self._refusal(error))
        return self._take(message.get("result"))

    def _initialized(self, result: Any) -> bytes:
        answer = result if isinstance(result, dict) else {}
        version = answer.get("protocolVersion", VERSION)
        if version != VERSION or isinstance(version, bool):
            shown = encode(version).decode()
            return self._fail(f"the agent speaks version {shown} of the Agent Client Protocol, not {VERSION}")
        methods = answer.get("authMethods")
        for method in methods if isinstance(methods, list) else []:
            if isinstance(method, dict):
                self._logins.append(str(method.get("name") or method.get("id")))
        return self._ask("session/new", {"cwd": self.cwd, "mcpServers": []}, self._opened)

    def _opened(self, result: Any) -> bytes:
        self._session = result.get("sessionId") if isinstance(result, dict) else None
        if self._session is None:
            return self._fail("the agent answered session/new without a sessionId")
        self.session_began = time.monotonic()
        return self._prompt()

    def _prompt(self) -> bytes:
        block = {"type": "text", "text": self.texts[self.turn - 1]}
        return self._ask("session/prompt", {"sessionId": self._session, "prompt": [block]}, self._prompted)

    def _prompted(self, result: Any) -> bytes:
        self.ends.append((self.heard, time.monotonic()))
        reason = result.get("stopReason") if isinstance(result, dict) else None
        if isinstance(reason, str) and reason in CUT_SHORT:
            return self._fail(CUT_SHORT[reason])
        if self.turn == len(self.texts):
            self.done = True
            return b""
        self.turn += 1
        return self._prompt()

    # --- what goes wrong ---

    def _fail(self, problem: str) -> bytes:
        self.problem, self.done = problem, True
        return b""

    def _refusal(self, error: Any) -> str:
        text = f"{self.waiting} failed: {_error_text(error)}"
        if isinstance(error, dict) and error.get("code") == AUTHENTICATION:
            ways = f" (it offers: {', '.join(self._logins)})" if self._logins else ""
            text += f"; log in with the agent's own command first{ways}"
        return text


class RequestHandler:
    """Answers what an agent asks: permission is given or denied, files are served below one directory."""

    def __init__(self, cwd: str, *, deny: bool) -> None:
        self.files, self.deny = WorkFiles(cwd), deny

    def serve(self, request: Message) -> bytes:
        """The answer to a request, whatever it is."""
        params = request.get("params")
        try:
            result = self._result(request["method"], params if isinstance(params, dict) else {})
        except FileRefused as refused:
            error = {"code": refused.code, "message": str(refused)}
            return _line({"id": request["id"], "error": error})
        return _line({"id": request["id"], "result": result})

    def _result(self, method: Any, params: Message) -> Message:
        if method == "session/request_permission":
            return {"outcome": self._permission(params)}
        if method == "fs/read_text_file":
            line, limit = _number(params, "line"), _number(params, "limit")
            return {"content": self.files.read(_text(params, "path"), line, limit)}
        if method == "fs/write_text_file":
            self.files.write(_text(params, "path"), _text(params, "content"))
            return {}
        raise FileRefused(METHOD_NOT_FOUND, f"Method not found: {method}")

    def _permission(self, params: Message) -> Message:
        """The option that lets the agent do it, this once if there is a choice; or the one that does not."""
        offered = params.get("options")
        options = [option for option in offered if isinstance(option, dict)] if isinstance(offered, list) else []
        word = "reject" if self.deny else "allow"
        fitting = [option for option in options if str(option.get("kind")).startswith(word)]
        fitting.sort(key=lambda option: str(option.get("kind")) != f"{word}_once")
        if not fitting:
            return {"outcome": "cancelled"}
        return {"outcome": "selected", "optionId": fitting[0].get("optionId")}


def read_message(line: bytes) -> Message | None:
    """The JSON-RPC message of a line; None for anything else that an agent may print."""
    line = line.strip().removeprefix(BOM)
    if not line.startswith(b"{"):
        return None
    try:
        message = decode(line)
    except BadRecord:
        from agenteval.adapters.reader import decode_leniently

        message = decode_leniently(line.decode("utf-8", "replace"))
    return message if isinstance(message, dict) else None


def _responds(message: Message) -> bool:
    """Whether it tells what the agent does about the prompt; agents also tell which commands they know."""
    params = message.get("params")
    update = params.get("update") if isinstance(params, dict) else None
    kind = update.get("sessionUpdate") if isinstance(update, dict) else None
    return isinstance(kind, str) and kind.startswith(("agent_", "tool_call", "plan"))


def _line(message: Message) -> bytes:
    return encode({"jsonrpc": "2.0", **message}) + b"\n"


def _error_text(error: Any) -> str:
    """What a JSON-RPC error says, with the details that some agents put into its data."""
    if not isinstance(error, dict):
        return encode(error).decode()[:1000]
    text = str(error.get("message") or "no message")
    data = error.get("data")
    details = data.get("details") or data.get("message") if isinstance(data, dict) else data
    if isinstance(details, str) and details not in text:
        text += f": {details}"
    return f"{text[:1000]} (code {error.get('code')})"


def _text(params: Message, name: str) -> str:
    if not isinstance(value := params.get(name), str):
        raise FileRefused(INVALID_PARAMS, f'Invalid params: "{name}" must be a text')
    return value


def _number(params: Message, name: str) -> int | None:
    value = params.get(name)
    if value is not None and type(value) is not int:
        raise FileRefused(INVALID_PARAMS, f'Invalid params: "{name}" must be a whole number')
    return value
