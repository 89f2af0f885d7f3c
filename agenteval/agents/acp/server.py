"""Serves an adapter schema as an Agent Client Protocol agent on stdin and stdout.

Data flow: one thread reads requests from stdin and answers them. Each session/prompt gets a thread of its own, which
runs the command line, reads its lines with the schema, writes them to stdout as session/update notifications, then
writes the response. The main thread waits for the end of stdin, a closed stdout or a signal, and ends all processes.
Read with the adapter `acp`, the updates give the same trajectory again.
"""

from __future__ import annotations

import os
import shlex
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from agenteval import __version__
from agenteval.adapters.reader import Reading
from agenteval.adapters.trajectory import Step, Trajectory
from agenteval.adapters.values import as_text, held_back, status_of, without_halves
from agenteval.agents.acp import rpc
from agenteval.agents.acp.conversation import ConversingProcess
from agenteval.agents.acp.rpc import Message, RequestError
from agenteval.agents.kinds import DEFAULT_TIMEOUT, NextCommand, SchemaAgent
from agenteval.agents.session import DEFAULT_MAX_OUTPUT
from agenteval.errors import CannotGoOn, ClosedPipe, UserError
from agenteval.processes.pool import raise_on_signals
from agenteval.processes.process import Command, failure_of, printed_lines
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.output import Output
from agenteval.streams.redaction import Redactor
from agenteval.streams.source import Source

MOST_TURNS = 500  # turns that run at the same time; more wait
FINAL_WAIT = 3.0  # seconds for unfinished turns to be answered when the server ends
OWN_SESSION = "session-"  # what the ids of session/new begin with
WHICH_ID = "load the id that _meta.sessionId of a reply to session/prompt names"
NOTHING_SECRET = Redactor(None)
CHUNKS = {"message": "agent_message_chunk", "thought": "agent_thought_chunk"}
SHOWN = 4000  # characters of a tool's output for clients to display; rawOutput has all of it
TEXTS = ("content", "text", "step", "title", "description", "name")  # fields that may hold the text of a plan's entry
PRIORITIES = ("high", "medium", "low")

Update = dict[str, Any]


class AcpServer:
    """Answers the requests of one client; its sessions are conversations with the schema's command line."""

    def __init__(
        self,
        agent: SchemaAgent,
        *,
        timeout: float | None,
        trace: Callable[[str], None] | None,
        redact: Redactor = NOTHING_SECRET,
    ) -> None:
        self.agent, self.trace, self.redact = agent, trace, redact
        self.timeout = timeout or agent.timeout or DEFAULT_TIMEOUT
        self.cwd = os.getcwd()
        self.processes = ProcessSupervisor(MOST_TURNS)
        self.slots = threading.Semaphore(self.processes.concurrency)
        self.ending = False
        self._output = Output()
        self._sessions: dict[str, ServedSession] = {}
        self._problem: Exception | None = None
        self._ended = threading.Event()
        self._methods: dict[str, Callable[[Message], Any]] = {
            "initialize": self._initialize,
            "session/new": self._new_session,
            "session/cancel": self._cancel,
        }
        if agent.resumable:
            self._methods |= {"session/load": self._load_session, "session/resume": self._load_session}

    def run(self, source: Source) -> None:
        """Serves until stdin ends or stdout is closed, then ends all processes; raises what ended it, if not stdin."""
        raise_on_signals()
        _start_thread(self._read, source)
        try:
            self._ended.wait()
        finally:
            self.ending = True
            self.processes.stop()
            deadline = time.monotonic() + FINAL_WAIT
            for session in list(self._sessions.values()):
                session.join(deadline)
            self.processes.close()
        if self._problem is not None:
            raise self._problem

    def send(self, message: Message) -> None:
        """Writes a message; if stdout is closed or cannot be written, the server ends."""
        try:
            line = rpc.message_line(message)
            if self.redact.found_in(line):
                parts = {name: value if name == "id" else self.redact.value(value) for name, value in message.items()}
                line = rpc.message_line(parts)
        except Exception as error:
            line = rpc.message_line(rpc.error_response(None, error, self._report))
        try:
            self._output.write_bytes(line)
        except (ClosedPipe, CannotGoOn) as error:
            self._problem = self._problem or error
            self._ended.set()

    def respond(self, request: Message, compute: Callable[[], Any]) -> None:
        """Answers a request with what `compute` returns or raises; a notification gets no answer."""
        answer = rpc.response(request.get("id"), compute, self._report)
        if "id" in request:
            self.send(answer)

    def _report(self, error: Exception) -> None:
        if self.trace is not None:
            for line in traceback.format_exception(error):
                self.trace(line.rstrip())

    # --- requests, in the thread that reads stdin ---

    def _read(self, source: Source) -> None:
        try:
            for batch in source.lines():
                for _number, line in batch:
                    self._handle(line)
        except UserError:
            pass  # stdin cannot be read any more
        except Exception as error:
            self._problem = error  # the main thread reports it
        finally:
            self._ended.set()

    def _handle(self, line: bytes) -> None:
        ident = None
        try:
            request = rpc.parse_message(line)
            ident, method, params = request.get("id"), request.get("method"), request.get("params") or {}
            if method == "session/prompt" and "id" in request:
                self._session(params).start_turn(request, prompt_text(params.get("prompt")))
            elif method is not None:  # else it is a response, and the server sends no requests
                self.respond(request, lambda: self._call(method, params))
        except Exception as error:
            self.send(rpc.error_response(ident, error, self._report))

    def _call(self, method: str, params: Message) -> Any:
        if method not in self._methods:
            raise RequestError(rpc.METHOD_NOT_FOUND, f"Method not found: {method}")
        return self._methods[method](params)

    def _initialize(self, params: Message) -> Message:
        """Returns version and capabilities; the version is ours, whatever the client's is."""
        version = rpc.integer_param(params, "protocolVersion")
        if version is None or not 0 <= version <= 65535:
            raise RequestError(rpc.INVALID_PARAMS, 'Invalid params: "protocolVersion" must be between 0 and 65535')
        capabilities: Message = {
            "loadSession": self.agent.resumable,
            "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
        }
        if self.agent.resumable:
            capabilities["sessionCapabilities"] = {"resume": {}}
        return {
            "protocolVersion": rpc.PROTOCOL_VERSION,
            "agentCapabilities": capabilities,
            "authMethods": [],
            "agentInfo": {"name": self.agent.config.name, "version": __version__},
        }

    def _new_session(self, params: Message) -> Message:
        return self._open_session(f"{OWN_SESSION}{len(self._sessions) + 1}", params, self.agent.open())

    def _load_session(self, params: Message) -> Message:
        """Continues a session: one of this server, or the one of that id in the command line's own storage."""
        name = rpc.text_param(params, "sessionId")
        if name in self._sessions:
            return {"sessionId": name}
        if not name or name.startswith((OWN_SESSION, "-")):
            raise RequestError(rpc.RESOURCE_NOT_FOUND, f'no such session: "{name}" ({WHICH_ID})')
        return self._open_session(name, params, self.agent.resume(name))

    def _open_session(self, name: str, params: Message, next_command: NextCommand) -> Message:
        cwd = rpc.text_param(params, "cwd") if params.get("cwd") is not None else self.cwd
        if not os.path.isabs(cwd) or not os.path.isdir(cwd):
            raise RequestError(rpc.INVALID_PARAMS, f"cwd must be the absolute path of a directory, got {cwd}")
        self._sessions[name] = ServedSession(self, name, cwd, next_command)
        return {"sessionId": name}

    def _cancel(self, params: Message) -> None:
        if session := self._sessions.get(rpc.text_param(params, "sessionId")):
            session.cancel()

    def _session(self, params: Message) -> ServedSession:
        name = rpc.text_param(params, "sessionId")
        if name not in self._sessions:
            raise RequestError(rpc.INVALID_PARAMS, f"no such session: {name}")
        return self._sessions[name]


class ServedSession:
    """One session: a conversation with the command line, in each turn the ProcessPeer of its process."""

    interactive, turn = False, 0

    def __init__(self, server: AcpServer, name: str, cwd: str, next_command: NextCommand) -> None:
        self.server, self.name, self.cwd, self.next_command = server, name, cwd, next_command
        self.reader = Reading(server.agent.adapter, LiveTrajectory(name, self._send_update, server.redact))
        self.before: tuple[str, Reading] | None = None  # the last turn's text, and the reading
        self.done = False  # the turn was cancelled
        self._busy = False
        self._thread: threading.Thread | None = None
        self._key = self._lines = 0

    def start_turn(self, request: Message, text: str) -> None:
        """Starts a thread that runs a turn and answers the request."""
        if self._busy:
            raise RequestError(rpc.INVALID_REQUEST, "a prompt is being answered in this session; cancel it first")
        self._busy, self.done = True, False
        # A key per turn: what ends a cancelled turn may still be at work when the next one starts.
        self._key = self.server.processes.new_agent_key()
        self._thread = _start_thread(self.server.respond, request, lambda: self._run_turn(text))

    def cancel(self) -> None:
        """Ends the running turn, if there is one, with all its processes."""
        if self._busy:
            self.done = True
            _start_thread(self.server.processes.terminate_tree, self._key)

    def join(self, deadline: float) -> None:
        """Waits until the running turn has been answered, or until the deadline."""
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))

    def reply_to(self, line: bytes, _running: bool) -> bytes:
        """Reads a line as soon as it is printed."""
        self._lines += 1
        self.reader.take([line.decode("utf-8", "replace")])
        return b""

    def time_over(self) -> bytes:
        """Returns nothing: a command line cannot be asked to end its turn."""
        return b""

    # --- one turn, in its thread ---

    def _run_turn(self, text: str) -> Message:
        """Runs the command line once and returns the reply to session/prompt; raises RequestError if it failed."""
        out, usage = self.reader.out, self.reader.usage
        first = len(out.steps)
        try:
            with self.server.slots:
                problem = self._run_command(text)
            if self.done or self.server.ending:
                return {"stopReason": "cancelled"}
            return self._reply(problem, usage)
        finally:
            out.errors.clear()  # the next turn may fail in the same way
            for step in out.steps[first:]:
                step.clear()  # it has been sent, and a session may be long
            self._busy = False

    def _run_command(self, text: str) -> str | None:
        """Runs the command line and sends what it prints as updates; returns why it failed, or None."""
        server = self.server
        self.reader.begin_turn()
        self._lines = 0
        try:
            invocation = self.next_command(text, self.cwd, self.before)
            if server.trace is not None:
                server.trace(f"{self.name}: in {self.cwd}: {shlex.join(invocation.argv)}")
            command = Command(invocation.program, invocation.argv, self.cwd, invocation.env, invocation.stdin)
            outcome = ConversingProcess(
                server.processes, self._key, command, server.timeout / 1000, DEFAULT_MAX_OUTPUT, self
            ).run()
            lines = printed_lines(outcome)
            self.reader.take(lines[self._lines :])  # printed while the process was being ended
            self.before = text, self.reader
            return failure_of(outcome, server.timeout)
        except (ValueError, CannotGoOn) as error:  # a limit of ours refuses the start: the next turn may work
            return str(error)
        finally:
            self.reader.end_turn()

    def _send_update(self, update: Update) -> None:
        self.server.send({"method": "session/update", "params": {"sessionId": self.name, "update": update}})

    def _reply(self, problem: str | None, usage_before: dict[str, int | float]) -> Message:
        output, last = self.reader.output, self.reader.last_message()
        if output and not last:
            self._send_update(result_chunk(output))
        problems = [*([problem] if problem else []), *self.reader.out.errors]
        if problems:
            raise RequestError(rpc.INTERNAL_ERROR, "; ".join(problems), {"output": output} if output != last else None)
        reply: Message = {"stopReason": "end_turn", "content": [text_block(output)]}  # content: the older dialect
        if usage := _turn_usage(usage_before, self.reader.usage):
            reply["usage"] = usage
        session_id = self.reader.session_id if self.server.agent.resumable else None
        meta = {"costUsd": self.reader.usage.get("costUsd"), "sessionId": session_id}
        if meta := {name: value for name, value in meta.items() if value is not None}:
            reply["_meta"] = meta
        return reply


def _turn_usage(before: dict[str, int | float], after: dict[str, int | float]) -> Message | None:
    """Returns the tokens of one turn, None unless input and output are known; cached input is counted apart."""
    if not {"inputTokens", "outputTokens"} <= after.keys():
        return None
    spent = {name: max(0, int(number - before.get(name, 0))) for name, number in after.items()}
    cached = min(spent.get("cachedTokens", 0), spent["inputTokens"])
    return {
        "totalTokens": spent["inputTokens"] + spent["outputTokens"],
        "inputTokens": spent["inputTokens"] - cached,
        "outputTokens": spent["outputTokens"],
        **({"cachedReadTokens": cached} if "cachedTokens" in after else {}),
    }


def prompt_text(blocks: Any) -> str:
    """Returns the content blocks of a prompt as one text; raises RequestError if one of them has no text."""
    texts = []
    for block in blocks if isinstance(blocks, list) else [None]:
        match block:
            case (
                {"type": "text", "text": str(text)}
                | {"type": "resource_link", "uri": str(text)}
                | {"type": "resource", "resource": {"text": str(text)}}
            ):
                texts.append(text)
            case _:
                raise RequestError(rpc.INVALID_PARAMS, "a prompt is a list of blocks: text, links and embedded text")
    return "\n".join(texts)


def _start_thread(work: Callable[..., None], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


# --- updates ------------------------------------------------------------------------------------


class LiveTrajectory(Trajectory):
    """A trajectory that sends each change as an update; a step's id is the id of its message or tool call."""

    def __init__(self, record_id: str, send: Callable[[Update], None], redact: Redactor = NOTHING_SECRET) -> None:
        super().__init__(record_id, None)  # each step is sent at once, and a session may be long
        self._send, self._redact = send, redact
        self._begun = ""  # of the open text: what is not sent yet

    def send(self, update: Update) -> None:
        """Sends an update, with the tool call that it belongs to if it is that of a sub-agent."""
        if self.parent is not None:
            parent = as_text(self.parent)
            caller = self.step_of(parent) or {}
            update["_meta"] = {"claudeCode": {"parentToolUseId": caller.get("stepId", parent)}}
        self._send(without_halves(update) if self.has_halves else update)

    def text(self, kind: str, content: Any) -> None:
        """Adds a thought or message."""
        count = len(self.steps)
        super().text(kind, content)
        if len(self.steps) > count:
            self._send_text(kind, self.steps[-1]["content"])

    def piece(self, kind: str, content: Any, message: Any = None) -> None:
        """Adds a piece of a thought or message.

        Half a character at its end, or what may be the beginning of a secret, is sent with the next piece.
        """
        count, last = len(self.pieces), self._last
        super().piece(kind, content, message)
        if len(self.pieces) == count and self._last is last:
            return  # the piece was empty
        whole, half = held_back(self._begun + self.pieces[-1])
        whole, begun = self._redact.split_off_begun(whole)
        self._begun = begun + half
        if whole or len(self.pieces) == 1:
            self._send_text(kind, whole)

    def _join(self) -> Step:
        if self._begun:
            self._send_text(self.open_kind, self._begun)
            self._begun = ""
        return super()._join()

    def plan(self, entries: Any) -> None:
        """Adds a plan."""
        super().plan(entries)
        given = self.steps[-1]["entries"]
        shown = [_entry(entry) for entry in given]
        self.send(
            {"sessionUpdate": "plan", "entries": shown, **({} if shown == given else {"_meta": {"entries": given}})}
        )

    def call(self, ident: Any, name: Any, given: Any) -> Step:
        """Adds a tool call."""
        count = len(self.steps)
        step = super().call(ident, name, given)
        if len(self.steps) > count:
            self.send(_present({"sessionUpdate": "tool_call", **_named(step), "status": "pending", "rawInput": given}))
        elif given is not None:
            self.send({"sessionUpdate": "tool_call_update", "toolCallId": step["stepId"], "rawInput": given})
        return step

    def settle(self, ident: Any, name: Any, given: Any, status: str, output: Any, duration: Any) -> Step:
        """Adds that a tool call runs, or its result."""
        return self._send_change(super().settle(ident, name, given, status, output, duration), given, output)

    def _amend(self, ident: Any, name: Any, given: Any, output: Any) -> Step:
        return self._send_change(super()._amend(ident, name, given, output), given, output)

    def add_output(self, step: Step, piece: Any) -> Step:
        """Adds a piece to the output of a tool call."""
        if piece is not None:
            delta = {"terminal_output_delta": {"data": as_text(piece), "terminal_id": step["stepId"]}}
            self.send({"sessionUpdate": "tool_call_update", "toolCallId": step["stepId"], "_meta": delta})
        return super().add_output(step, piece)

    def _send_change(self, step: Step, given: Any, output: Any) -> Step:
        status = step["status"] if step["status"] != "pending" else None
        change = {**_named(step), "status": status, "rawInput": given, "rawOutput": output}
        shown = None if output is None else [{"type": "content", "content": text_block(as_text(output)[:SHOWN])}]
        self.send(_present({"sessionUpdate": "tool_call_update", **change, "content": shown}))
        return step

    def _send_text(self, kind: str, text: str) -> None:
        self.send({"sessionUpdate": CHUNKS[kind], "messageId": self.steps[-1]["stepId"], "content": text_block(text)})


def result_chunk(text: str) -> Update:
    """Returns an update with an output that no message had, for a person to read; the adapter `acp` ignores it."""
    return {"sessionUpdate": "agent_message_chunk", "content": text_block(text), "_meta": {"result": True}}


def _named(step: Step) -> Update:
    return {"toolCallId": step["stepId"], "title": step["name"]}


def text_block(text: str) -> Update:
    """Returns a content block."""
    return {"type": "text", "text": text}


def _present(update: Update) -> Update:
    return {field: value for field, value in update.items() if value is not None}


def _entry(entry: Any) -> Update:
    """Returns an entry of a plan with the fields of the protocol: content, priority and status."""
    fields = entry if isinstance(entry, dict) else {"content": entry}
    content = next((fields[name] for name in TEXTS if isinstance(fields.get(name), str)), None)
    word = fields.get("status", fields.get("completed"))
    status = "completed" if word is True else status_of(word) if isinstance(word, str) else None
    priority = fields.get("priority")
    return {
        "content": as_text(entry) if content is None else content,
        "priority": priority if priority in PRIORITIES else "medium",
        "status": status if status in ("in_progress", "completed") else "pending",
    }
