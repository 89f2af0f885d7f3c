"""The client's side of the Agent Client Protocol: all turns of one prompt with one agent process.

initialize, session/new, then session/prompt per turn, each sent when the one before has been answered. Meanwhile the
agent sends notifications (session/update: kept as raw lines, read by the adapter `acp`) and requests of its own: for
permission, for files. The older dialect of agent-eval-harness differs only in its updates and replies.
"""

import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from agenteval import __version__
from agenteval.adapters.trajectory import PERMISSIONS
from agenteval.agents.acp import rpc
from agenteval.agents.acp.rpc import Message, RequestError
from agenteval.streams.console import describe_fault
from agenteval.streams.jsonl import encode

PERMISSION = "session/request_permission"
ALLOWED, DENIED = PERMISSIONS
LONGEST_ID = 20  # digits of an id that may be one of ours
ID_SHOWN = 100
LARGEST_FILE = 16 << 20  # bytes of a file to read: it goes through a pipe, and stays in memory until it is read
CANCELLED = "cancelled"
AFTER_DENIAL = "the agent cancelled the turn when permission was denied (stopReason cancelled)"
# Stop reasons of a turn that was not completed: later turns would make no sense.
INCOMPLETE = {
    "refusal": "the agent refused to continue (stopReason refusal)",
    CANCELLED: "the agent reported the turn as cancelled, although it was not asked to (stopReason cancelled)",
    "max_tokens": "the agent reached its token limit (stopReason max_tokens)",
    "max_turn_requests": "the agent reached its limit of model requests (stopReason max_turn_requests)",
}


class Client:
    """Runs the turns of one prompt with an agent; the ProcessPeer of its process."""

    interactive = True

    def __init__(
        self,
        texts: list[str],
        cwd: str,
        *,
        deny: bool,
        files: bool = True,
        servers: Sequence[Message] = (),
        model: str | None = None,
    ) -> None:
        self.texts, self.cwd, self.servers, self.model = texts, cwd, list(servers), model
        self.turn, self.done = 1, False
        self.problem: str | None = None
        self.ends: list[tuple[int, float]] = []  # per answered turn: lines read up to its answer, and its time
        self.session_began: float | None = None
        self.no_session = False  # whether initialize or session/new failed, but not for want of a login
        self.first_update: float | None = None
        self.permissions: list[Message] = []  # the answers to requests for permission, as the raw record has them
        self.ended: float | None = None  # when the last answer came, or the conversation failed
        self._lines = 0
        self._handler = RequestHandler(cwd, deny=deny, files=files)
        self.session: Any = None
        self._cancelled = False  # whether the turn's time is over
        self._logins: list[str] = []
        self._last_id = 0
        self._on_result: Callable[[Any], bytes] = lambda _result: b""
        info = {"name": "agenteval", "title": "agenteval", "version": __version__}
        offered = {"fs": {"readTextFile": files, "writeTextFile": files}, "terminal": False}
        params = {"protocolVersion": rpc.PROTOCOL_VERSION, "clientCapabilities": offered, "clientInfo": info}
        self.opening = self._request("initialize", params, self._initialized)

    def reply_to(self, line: bytes, running: bool) -> bytes:
        """Returns what to send in reply to a line of the agent; lines that are not messages are ignored."""
        self._lines += 1
        try:
            message = rpc.find_message(line)
            if message is None or self.done:
                return b""
            if "method" not in message:
                return self._answered(message) if "id" in message else b""
            if self.first_update is None and _is_progress(message):
                self.first_update = time.monotonic()
            return self._serve(message) if running and "id" in message else b""
        except Exception as error:
            return self._fail(f"a message of the agent cannot be answered: {describe_fault(error)}")

    def time_over(self) -> bytes:
        """Returns the notification that ends the turn; an agent may answer the prompt with what it has so far."""
        if self.session is None or self.done:
            return b""
        self._cancelled = True
        return rpc.message_line({"method": "session/cancel", "params": {"sessionId": self.session}})

    def _serve(self, request: Message) -> bytes:
        answer = self._handler.serve(request)
        if request["method"] == PERMISSION:
            self.permissions.append({"line": self._lines, "outcome": self._handler.decision})
        return answer

    # --- requests to the agent ---

    def _request(self, method: str, params: Message, on_result: Callable[[Any], bytes]) -> bytes:
        self._last_id += 1
        self.waiting, self._on_result = method, on_result
        return rpc.message_line({"id": self._last_id, "method": method, "params": params})

    def _answered(self, message: Message) -> bytes:
        number, error = message["id"], message.get("error")
        if number is None and error is not None:
            return self._fail(f"the agent could not read {self.waiting}: {_error_text(error)}")
        if type(number) is str and number.isdecimal() and len(number) <= LONGEST_ID:
            number = int(number)
        if type(number) is not int or not 0 < number <= self._last_id:
            shown = "of many digits" if type(number) is int and number.bit_length() > 256 else encode(number).decode()
            return self._fail(f"the agent answered a request that was not sent (id {shown[:ID_SHOWN]})")
        if number < self._last_id:
            return b""  # a second answer: the first one counts
        if error is not None:
            return self._fail(self._refusal(error))
        return self._on_result(message.get("result"))

    def _initialized(self, result: Any) -> bytes:
        answer = result if isinstance(result, dict) else {}
        version = answer.get("protocolVersion", rpc.PROTOCOL_VERSION)
        if version != rpc.PROTOCOL_VERSION or isinstance(version, bool):
            shown = encode(version).decode()
            return self._fail(
                f"the agent speaks version {shown} of the Agent Client Protocol, not {rpc.PROTOCOL_VERSION}"
            )
        methods = answer.get("authMethods")
        for method in methods if isinstance(methods, list) else []:
            if isinstance(method, dict):
                self._logins.append(str(method.get("name") or method.get("id")))
        offered = answer.get("agentCapabilities")
        transports = offered.get("mcpCapabilities") if isinstance(offered, dict) else None
        for server in self.servers:
            kind = server.get("type", "stdio")
            if kind != "stdio" and not (isinstance(transports, dict) and transports.get(kind)):
                return self._fail(f"the agent does not support MCP servers over {kind} (--mcp: {server['name']})")
        return self._request("session/new", {"cwd": self.cwd, "mcpServers": self.servers}, self._opened)

    def _opened(self, result: Any) -> bytes:
        self.session = result.get("sessionId") if isinstance(result, dict) else None
        if self.session is None:
            return self._fail("the agent answered session/new without a sessionId")
        self.session_began = time.monotonic()
        if self.model is None:
            return self._prompt()
        offered = model_choice(result, self.model)
        if isinstance(offered, str):
            return self._fail(offered)
        method, params = offered
        return self._request(method, {"sessionId": self.session, **params}, lambda _result: self._prompt())

    def _prompt(self) -> bytes:
        block = {"type": "text", "text": self.texts[self.turn - 1]}
        return self._request("session/prompt", {"sessionId": self.session, "prompt": [block]}, self._prompted)

    def _prompted(self, result: Any) -> bytes:
        self.ends.append((self._lines, time.monotonic()))
        if self._cancelled:
            return self._end()
        reason = result.get("stopReason") if isinstance(result, dict) else None
        if isinstance(reason, str) and reason in INCOMPLETE:
            return self._fail(AFTER_DENIAL if reason == CANCELLED and self._denied() else INCOMPLETE[reason])
        if self.turn == len(self.texts):
            return self._end()
        self.turn += 1
        return self._prompt()

    # --- failures ---

    def _fail(self, problem: str) -> bytes:
        self.problem = problem
        return self._end()

    def _end(self) -> bytes:
        self.done, self.ended = True, time.monotonic()
        return b""

    def _denied(self) -> bool:
        """Whether permission was denied in this turn."""
        first = self.ends[-2][0] if len(self.ends) > 1 else 0
        return any(answer["line"] > first and answer["outcome"] == DENIED for answer in self.permissions)

    def _refusal(self, error: Any) -> str:
        text = f"{self.waiting} failed: {_error_text(error)}"
        self.no_session = self.session_began is None
        if isinstance(error, dict) and error.get("code") == rpc.AUTHENTICATION_REQUIRED:
            ways = f" (it offers: {', '.join(self._logins)})" if self._logins else ""
            self.no_session = False
            text += f"; log in with the agent's own command first{ways}"
        return text


def model_choice(session: Message, model: str) -> tuple[str, Message] | str:
    """Returns the request that sets the model of a new session, or why there is none."""
    options = session.get("configOptions")
    for option in options if isinstance(options, list) else ():
        if isinstance(option, dict) and option.get("category") == "model":
            given = option.get("options") or []
            nested = [one for item in given if isinstance(item, dict) for one in (item.get("options") or [item])]
            if model in (names := [str(one.get("value")) for one in nested if isinstance(one, dict)]):
                return "session/set_config_option", {"configId": option.get("id"), "value": model}
            return f"the agent does not offer the model {model} (--model); it offers {', '.join(names)}"
    models = session.get("models")
    available = models.get("availableModels") if isinstance(models, dict) else None
    if not isinstance(available, list):
        return f"the agent does not let its client choose the model (--model {model})"
    names = [str(one.get("modelId")) for one in available if isinstance(one, dict)]
    if model in names:
        return "session/set_model", {"modelId": model}
    return f"the agent does not offer the model {model} (--model); it offers {', '.join(names)}"


def _is_progress(message: Message) -> bool:
    """Whether a notification reports work on the prompt; others list commands, modes and the like."""
    params = message.get("params")
    update = params.get("update") if isinstance(params, dict) else None
    kind = update.get("sessionUpdate") if isinstance(update, dict) else None
    return isinstance(kind, str) and kind.startswith(("agent_", "tool_call", "plan"))


def _error_text(error: Any) -> str:
    """Returns the text of a JSON-RPC error, with the details that some agents put into its data."""
    if not isinstance(error, dict):
        return encode(error).decode()[:1000]
    text = str(error.get("message") or "no message")
    data = error.get("data")
    details = data.get("details") or data.get("message") if isinstance(data, dict) else data
    if isinstance(details, str) and details not in text:
        text += f": {details}"
    return f"{text[:1000]} (code {error.get('code')})"


# --- what the agent asks for --------------------------------------------------------------------


class RequestHandler:
    """Answers requests of an agent: grants or denies permission, serves `files` below one directory.

    `decision` is the last answer to a request for permission.
    """

    def __init__(self, cwd: str, *, deny: bool, files: bool = True) -> None:
        self.files, self.deny, self.decision = WorkFiles(cwd) if files else None, deny, DENIED

    def serve(self, request: Message) -> bytes:
        """Returns the response to a request, as a line."""
        params = request.get("params")
        given = params if isinstance(params, dict) else {}
        return rpc.message_line(rpc.response(request["id"], lambda: self._result(request["method"], given)))

    def _result(self, method: Any, params: Message) -> Message:
        if method == PERMISSION:
            return {"outcome": self._permission(params)}
        if method == "fs/read_text_file" and self.files:
            line, limit = rpc.integer_param(params, "line"), rpc.integer_param(params, "limit")
            return {"content": self.files.read(rpc.text_param(params, "path"), line, limit)}
        if method == "fs/write_text_file" and self.files:
            self.files.write(rpc.text_param(params, "path"), rpc.text_param(params, "content"))
            return {}
        raise RequestError(rpc.METHOD_NOT_FOUND, f"Method not found: {method}")

    def _permission(self, params: Message) -> Message:
        """Selects the option that allows (or, with `deny`, rejects) the request, once rather than always."""
        offered = params.get("options")
        options = [option for option in offered if isinstance(option, dict)] if isinstance(offered, list) else []
        self.decision, word = DENIED, "reject" if self.deny else "allow"
        fitting = [option for option in options if str(option.get("kind")).startswith(word)]
        fitting.sort(key=lambda option: str(option.get("kind")) != f"{word}_once")
        if not fitting:
            return {"outcome": CANCELLED}
        self.decision = DENIED if self.deny else ALLOWED
        return {"outcome": "selected", "optionId": fitting[0].get("optionId")}


class WorkFiles:
    """Reads and writes text files below a directory for an agent, and no file outside it.

    A path is resolved first, so that `..` and symbolic links work inside the directory. Then its components are opened
    one by one without following links, so that a link put there in the meantime does not lead outside.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)

    def read(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """Returns the text of a file, or `limit` lines of it from number `line` on (1 is the first)."""
        with os.fdopen(self._open(path, os.O_RDONLY), "rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise RequestError(rpc.INVALID_PARAMS, f"{path}: larger than {LARGEST_FILE} bytes")
        if line is not None or limit is not None:
            start = max(1, line or 1) - 1
            end = None if limit is None else start + max(0, limit)
            data = b"".join(data.splitlines(keepends=True)[start:end])
        return data.decode("utf-8", "replace")

    def write(self, path: str, text: str) -> None:
        """Replaces the content of a file; creates it, with its directories, if it does not exist."""
        fd = self._open(path, os.O_WRONLY | os.O_CREAT)
        try:
            with os.fdopen(fd, "wb") as file:
                file.truncate(0)
                file.write(text.encode("utf-8", "replace"))
        except OSError as error:  # a full disk
            raise RequestError(rpc.INTERNAL_ERROR, f"{path}: {error.strerror}") from None

    def _open(self, path: str, flags: int) -> int:
        try:
            parts = self._parts(path)
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for part in parts[:-1]:
                fd = _open_at(fd, part, os.O_RDONLY | os.O_DIRECTORY, make=bool(flags & os.O_CREAT))
            # O_NONBLOCK: opening a FIFO would otherwise wait until its other end is opened.
            fd = _open_at(fd, parts[-1], flags | os.O_NONBLOCK)
        except OSError as error:
            code = rpc.RESOURCE_NOT_FOUND if isinstance(error, FileNotFoundError) else rpc.INTERNAL_ERROR
            raise RequestError(code, f"{path}: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise RequestError(rpc.INVALID_PARAMS, f"{path}: not a regular file")
        return fd

    def _parts(self, path: str) -> list[str]:
        """Returns the components of a path below the root; raises RequestError if it is outside."""
        if not path or "\0" in path:
            raise RequestError(rpc.INVALID_PARAMS, "the path is empty or has a NUL character")
        real = os.path.realpath(os.path.join(self.root, path))
        parts = os.path.relpath(real, self.root).split(os.sep)
        if parts[0] in (os.pardir, os.curdir):
            raise RequestError(rpc.INVALID_PARAMS, f"{path}: only files inside {self.root} can be read and written")
        return parts


def _open_at(directory: int, name: str, flags: int, *, make: bool = False) -> int:
    """Opens a file or, with `make`, a new directory in a directory, following no symbolic link; closes the latter."""
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=directory)
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=directory)
    finally:
        os.close(directory)
