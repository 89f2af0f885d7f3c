"""Serves an adapter schema as an Agent Client Protocol agent on stdin and stdout.

Data flow: one thread reads requests from stdin and answers them. Each session/prompt gets a thread of its own, which
runs the command line, reads its lines with the schema, writes them to stdout as session/update notifications, then
writes the response. The main thread waits for the end of stdin, a closed stdout or a signal, and ends all processes.
"""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Callable
from typing import Any

from agenteval import __version__
from agenteval.adapters.reader import Reading
from agenteval.agents.acp import rpc
from agenteval.agents.acp.conversation import ConversingProcess
from agenteval.agents.acp.rpc import Message, RequestError
from agenteval.agents.acp.updates import NOTHING_SECRET, LiveTrajectory, Update, result_chunk, text_block
from agenteval.agents.kinds import DEFAULT_TIMEOUT, SchemaAgent, Session
from agenteval.agents.session import DEFAULT_MAX_OUTPUT
from agenteval.errors import CannotGoOn, ClosedPipe, UserError
from agenteval.processes.outcome import failure_of, printed_lines
from agenteval.processes.process import Command
from agenteval.processes.shutdown import raise_on_signals
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.console import describe_fault
from agenteval.streams.output import Output
from agenteval.streams.redaction import Redactor
from agenteval.streams.source import Source

MOST_TURNS = 500  # turns that run at the same time; more wait
FINAL_WAIT = 3.0  # seconds for unfinished turns to be answered when the server ends

OWN_SESSION = "session-"  # what the ids of session/new begin with
WHICH_ID = "load the id that _meta.sessionId of a reply to session/prompt names"


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
                line = rpc.message_line(self._without_secrets(message))
        except Exception as error:
            self._report(error)
            line = rpc.message_line(rpc.error_response(None, RequestError(rpc.INTERNAL_ERROR, describe_fault(error))))
        try:
            self._output.write_bytes(line)
        except (ClosedPipe, CannotGoOn) as error:
            self._problem = self._problem or error
            self._ended.set()

    def _without_secrets(self, message: Message) -> Message:
        return {name: value if name == "id" else self.redact.value(value) for name, value in message.items()}

    def respond(self, request: Message, compute: Callable[[], Any]) -> None:
        """Answers a request with what `compute` returns or raises; a notification gets no answer."""
        answer = rpc.response(request.get("id"), compute, self._report)
        if "id" in request:
            self.send(answer)

    def _report(self, error: Exception) -> None:
        if self.trace is not None:
            import traceback

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
        except RequestError as error:
            self.send(rpc.error_response(ident, error))
        except Exception as error:
            self._report(error)
            self.send(rpc.error_response(ident, RequestError(rpc.INTERNAL_ERROR, describe_fault(error))))

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

    def _open_session(self, name: str, params: Message, conversation: Session) -> Message:
        cwd = rpc.text_param(params, "cwd") if params.get("cwd") is not None else self.cwd
        if not os.path.isabs(cwd) or not os.path.isdir(cwd):
            raise RequestError(rpc.INVALID_PARAMS, f"cwd must be the absolute path of a directory, got {cwd}")
        self._sessions[name] = ServedSession(self, name, cwd, conversation)
        return {"sessionId": name}

    def _cancel(self, params: Message) -> None:
        session = self._sessions.get(rpc.text_param(params, "sessionId"))
        if session is not None:
            session.cancel()

    def _session(self, params: Message) -> ServedSession:
        name = rpc.text_param(params, "sessionId")
        if name not in self._sessions:
            raise RequestError(rpc.INVALID_PARAMS, f"no such session: {name}")
        return self._sessions[name]


class ServedSession:
    """One session: a conversation with the command line, in each turn the ProcessPeer of its process."""

    interactive, turn = False, 0

    def __init__(self, server: AcpServer, name: str, cwd: str, conversation: Session) -> None:
        self.server, self.name, self.cwd = server, name, cwd
        self.conversation = conversation
        self.reader = Reading(server.agent.adapter(), LiveTrajectory(name, self._send_update, server.redact))
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

    # --- one turn, in its thread ---

    def _run_turn(self, text: str) -> Message:
        """Runs the command line once and returns the reply to session/prompt; RequestError if it failed."""
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
            invocation = self.conversation.next_command(text, self.cwd)
            if server.trace is not None:
                server.trace(f"{self.name}: in {self.cwd}: {shlex.join(invocation.argv)}")
            command = Command(invocation.program, invocation.argv, self.cwd, invocation.env, invocation.stdin)
            outcome = ConversingProcess(
                server.processes, self._key, command, server.timeout / 1000, DEFAULT_MAX_OUTPUT, self
            ).run()
            lines = printed_lines(outcome)
            self.reader.take(lines[self._lines :])  # printed while the process was being ended
            self.conversation.observe(text, lambda: self.reader)
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
    """Returns the content blocks of a prompt as one text; RequestError if one of them has no text."""
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
