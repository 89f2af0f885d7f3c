"""An adapter schema, served as an Agent Client Protocol agent on stdin and stdout, with the official SDK.

Data flow: a thread reads messages from stdin → the SDK calls HeadlessAgent → a thread per prompt runs the command line
and reads what it prints with the schema → updates → a thread writes to stdout. Alone imports acp.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import acp
from acp.schema import (
    AgentCapabilities,
    EmbeddedResourceContentBlock,
    Implementation,
    PromptCapabilities,
    ResourceContentBlock,
    SessionNotification,
    TextContentBlock,
    TextResourceContents,
    Usage,
)

from agenteval import __version__
from agenteval.adapters.reader import Reader
from agenteval.agents.acp.updates import LiveTrajectory, Update, result_chunk
from agenteval.agents.kinds import DEFAULT_TIMEOUT, SchemaAgent
from agenteval.agents.session import DEFAULT_MAX_OUTPUT
from agenteval.errors import BadRecord, CannotGoOn, ClosedPipe, Stopped, UserError
from agenteval.processes.outcome import failure_of, printed_lines
from agenteval.processes.process import Command
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.jsonl import decode
from agenteval.streams.output import Output
from agenteval.streams.source import Source

MANY = 500  # prompts at a time, each in a thread of its own
FAREWELL = 3.0  # seconds in which what was asked is answered when the client has gone

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32602, -32603

Message = dict[str, Any]
Say = Callable[[str], None]


def serve(agent: SchemaAgent, source: Source, *, timeout: float | None, say: Say | None, debug: bool) -> None:
    """Serve until stdin ends; Stopped after a signal. `say` is told each command line."""
    if not debug:
        logging.disable(logging.CRITICAL)  # the SDK logs with tracebacks what it answers anyway
        warnings.simplefilter("ignore")
    processes = ProcessSupervisor(MANY)
    try:
        asyncio.run(_serve(HeadlessAgent(agent, processes, timeout, say), source))
    finally:
        processes.close()


async def _serve(agent: HeadlessAgent, source: Source) -> None:
    stdio = Stdio(source, Output(), agent.leave)
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(signum, stdio.stop, signum)
    await acp.run_agent(cast(acp.Agent, agent), stdio)
    if stdio.broken is not None:
        raise stdio.broken


# --- the agent ----------------------------------------------------------------------------------


class HeadlessAgent:
    """What the SDK calls; each session is a conversation with the schema's command line."""

    def __init__(
        self, agent: SchemaAgent, processes: ProcessSupervisor, timeout: float | None, say: Say | None
    ) -> None:
        self.agent, self.processes, self.say = agent, processes, say
        self.timeout = timeout or agent.timeout or DEFAULT_TIMEOUT
        self.sessions: dict[str, ServedSession] = {}
        self.threads = ThreadPoolExecutor(MANY)
        self.leaving = False

    def on_connect(self, client: acp.Client) -> None:
        """The SDK's way to say whom the updates go to."""
        self.client = client

    async def initialize(self, protocol_version: int, **_rest: Any) -> acp.InitializeResponse:
        """What we are; the version is ours, whatever the client's is."""
        prompts = PromptCapabilities(image=False, audio=False, embedded_context=True)
        return acp.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(load_session=False, prompt_capabilities=prompts),
            agent_info=Implementation(name=self.agent.config.name, version=__version__),
            auth_methods=[],
        )

    async def new_session(self, cwd: str, **_rest: Any) -> acp.NewSessionResponse:
        """A new conversation in a directory."""
        if not os.path.isabs(cwd) or not os.path.isdir(cwd):
            raise acp.RequestError(INVALID_PARAMS, f"cwd must be the absolute path of a directory, got {cwd}")
        key = self.processes.new_agent_key()
        session = ServedSession(self, f"session-{key}", key, cwd)
        self.sessions[session.name] = session
        return acp.NewSessionResponse(session_id=session.name)

    async def prompt(self, prompt: list[Any], session_id: str, **_rest: Any) -> acp.PromptResponse:
        """One turn: updates go out while the command line prints."""
        session = self._session(session_id)
        if session.busy:
            raise acp.RequestError(INVALID_REQUEST, "a prompt is being answered in this session; cancel it first")
        return await session.prompt(prompt_text(prompt))

    async def cancel(self, session_id: str, **_rest: Any) -> None:
        """End the turn that is running, if there is one."""
        session = self.sessions.get(session_id)
        if session is not None and session.busy:
            session.done = True
            await asyncio.to_thread(self.processes.terminate_tree, session.key)

    def leave(self) -> None:
        """The client has gone, or we are told to: end every process."""
        self.leaving = True
        threading.Thread(target=self.processes.stop, daemon=True).start()

    def _session(self, name: str) -> ServedSession:
        if name not in self.sessions:
            raise acp.RequestError(INVALID_PARAMS, f"no such session: {name}")
        return self.sessions[name]


class ServedSession:
    """One conversation with the command line; a Peer of its process in each turn."""

    interactive, turn = False, 0

    def __init__(self, server: HeadlessAgent, name: str, key: int, cwd: str) -> None:
        self.server, self.name, self.key, self.cwd = server, name, key, cwd
        self.conversation = server.agent.open()
        self.reader = Reader(server.agent.adapter(), LiveTrajectory(name, self._tell))
        self.busy = self.done = False  # done: the turn was cancelled
        self.heard = 0
        self._updates: asyncio.Queue[Update | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    async def prompt(self, text: str) -> acp.PromptResponse:
        """Run one turn in a thread and pass on what it tells; RequestError when it failed."""
        self.busy, self.done = True, self.server.leaving
        used, out = self.reader.usage, self.reader.out
        first = len(out.steps)
        running = self._loop.run_in_executor(self.server.threads, self._run, text)
        try:
            while (update := await self._updates.get()) is not None:
                await self._send(update)
            problem = await running
        finally:
            self.busy = False
        if self.done or self.server.leaving:
            return acp.PromptResponse(stop_reason="cancelled")
        missed = await self._missed_output()
        problems = [*([problem] if problem else []), *out.errors]
        out.errors.clear()  # what went wrong in this turn may go wrong in the next
        for step in out.steps[first:]:
            step.clear()  # told, and in the way: a session may be long
        if problems:
            raise acp.RequestError(INTERNAL_ERROR, "; ".join(problems), missed or None)
        usage, cost = self._usage(used), self.reader.usage.get("costUsd")
        meta = {**missed, **({"costUsd": cost} if cost is not None else {})}
        return acp.PromptResponse(stop_reason="end_turn", usage=usage, field_meta=meta or None)

    # --- in a thread ---

    def reply_to(self, line: bytes, _running: bool) -> bytes:
        """Read a line as soon as it is printed."""
        self.heard += 1
        self.reader.take([line.decode("utf-8", "replace")])
        return b""

    def _run(self, text: str) -> str | None:
        """What went wrong in a turn, None when nothing did; its updates are told meanwhile."""
        self.reader.begin_turn()
        self.heard = 0
        try:
            return self._attend(text)
        except ValueError as error:
            return str(error)
        finally:
            self.reader.end_turn()
            self._tell(None)

    def _attend(self, text: str) -> str | None:
        server = self.server
        said = self.conversation.next_command(text, self.cwd)
        if server.say is not None:
            server.say(f"{self.name}: in {self.cwd}: {shlex.join(said.argv)}")
        command = Command(said.program, said.argv, self.cwd, said.env, said.stdin)
        seconds = server.timeout / 1000
        outcome = server.processes.run(self.key, command, timeout=seconds, max_output=DEFAULT_MAX_OUTPUT, peer=self)
        lines = printed_lines(outcome)
        self.reader.take(lines[self.heard :])  # what came while it was being ended
        self.conversation.observe(text, lines)
        return failure_of(outcome, server.timeout)

    def _tell(self, update: Update | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._updates.put_nowait, update)
        except RuntimeError:
            pass  # the loop is closed: we are leaving

    # --- what the client is told ---

    async def _send(self, update: Update) -> None:
        notification = SessionNotification.model_validate({"sessionId": self.name, "update": update})
        await self.server.client.session_update(self.name, notification.update)

    async def _missed_output(self) -> dict[str, str]:
        """The output, where it is not the turn's last message; one that no message had is sent for a person to see."""
        output, last = self.reader.output, self.reader.last_message()
        if output and not last:
            await self._send(result_chunk(output))
        return {} if output == last else {"output": output}

    def _usage(self, before: dict[str, int | float]) -> Usage | None:
        """The tokens of this turn, where both numbers are known; those from a cache are counted apart."""
        now = self.reader.usage
        if not {"inputTokens", "outputTokens"} <= now.keys():
            return None
        spent = {name: max(0, int(number - before.get(name, 0))) for name, number in now.items()}
        cached = min(spent.get("cachedTokens", 0), spent["inputTokens"])
        return Usage(
            total_tokens=spent["inputTokens"] + spent["outputTokens"],
            input_tokens=spent["inputTokens"] - cached,
            output_tokens=spent["outputTokens"],
            cached_read_tokens=cached if "cachedTokens" in now else None,
        )


def prompt_text(blocks: list[Any]) -> str:
    """The blocks of a prompt as one text; RequestError for what is none."""
    texts = []
    for block in blocks:
        if isinstance(block, TextContentBlock):
            texts.append(block.text)
        elif isinstance(block, ResourceContentBlock):
            texts.append(block.uri)
        elif isinstance(block, EmbeddedResourceContentBlock) and isinstance(block.resource, TextResourceContents):
            texts.append(block.resource.text)
        else:
            raise acp.RequestError(INVALID_PARAMS, "a prompt may have text, links and embedded text, nothing else")
    return "\n".join(texts)


# --- stdin and stdout ---------------------------------------------------------------------------


class Stdio:
    """The messages on stdin and stdout, as the SDK wants a transport to be."""

    def __init__(self, source: Source, output: Output, leave: Callable[[], None]) -> None:
        self.source, self.output, self.leave = source, output, leave
        self.broken: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        self._writer = ThreadPoolExecutor(1)
        self._queue: asyncio.Queue[Message | None] = asyncio.Queue()
        self._owed = 0
        self._settled = asyncio.Event()
        threading.Thread(target=self._read, daemon=True).start()

    async def receive(self) -> Message | None:
        """The next message; None when no more will come and what was asked is answered."""
        while (message := await self._queue.get()) is not None:
            if isinstance(message, dict) and "method" not in message:
                continue  # it answers something, and we ask nothing
            if problem := _malformed(message):
                await self.send({"jsonrpc": "2.0", "id": None, "error": problem})
            else:
                self._owed += message.get("id") is not None
                return message
        self.leave()
        while self._owed and self.broken is None:
            self._settled.clear()
            try:
                await asyncio.wait_for(self._settled.wait(), FAREWELL)
            except TimeoutError:
                break
        return None

    async def send(self, message: Message) -> None:
        """Write a message; the client's going away ends everything."""
        try:
            await self._loop.run_in_executor(self._writer, self.output.write, message)
        except (ClosedPipe, CannotGoOn) as error:
            self._end(error)
            raise
        finally:
            self._owed -= "method" not in message and message.get("id") is not None
            self._settled.set()

    async def close(self) -> None:
        """Nothing to close: the process ends."""

    def stop(self, signum: int) -> None:
        """End as if stdin had ended; a second signal ends at once, and the guardian kills the rest."""
        if self.broken is not None:
            os._exit(128 + signum)
        self._end(Stopped(signum))

    def _end(self, reason: BaseException) -> None:
        self.broken = self.broken or reason
        self._queue.put_nowait(None)

    def _read(self) -> None:
        try:
            for batch in self.source.lines():
                for _number, line in batch:
                    self._put(_message(line))
        except UserError:
            pass  # stdin cannot be read any more
        self._put(None)

    def _put(self, message: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, message)
        except RuntimeError:
            pass  # the loop is closed: we are leaving


def _message(line: bytes) -> Any:
    try:
        return decode(line)
    except BadRecord as error:
        return error


def _malformed(message: Any) -> Message | None:
    """The JSON-RPC error that something which is no message is answered with."""
    if isinstance(message, BadRecord):
        return {"code": PARSE_ERROR, "message": "Parse error", "data": str(message)}
    good = isinstance(message, dict) and isinstance(message.get("method", ""), str)
    if good and isinstance(message.get("id", 0), str | int | None) and isinstance(message.get("params"), dict | None):
        return None
    return {"code": INVALID_REQUEST, "message": "Invalid request"}
