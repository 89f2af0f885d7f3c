"""A chat request as the OpenAI API has it: its form, what is wrong with it, and what it says of the work so far."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from agenteval.errors import BadRecord
from agenteval.streams.jsonl import decode
from agenteval.wikipedia.offline.composing import Text
from agenteval.wikipedia.offline.planning import MOST_PAGES, PlannedHit, Read, Search, Work
from agenteval.wire.records import Record
from agenteval.wire.validation import check

MOST_WANTED = 20
LONGEST_QUESTION = 4000  # characters
SEARCHES = re.compile(r"\bat least (\d+) search|\bsearches: *(\d+)", re.IGNORECASE)
PAGES = re.compile(r"\bat least (\d+) page|\bpages: *(\d+)", re.IGNORECASE)
REMINDER = re.compile(r"\b(final answer|answer now)\b", re.IGNORECASE)


class Function(msgspec.Struct):
    """A function that is offered, or called (then with arguments)."""

    name: str
    arguments: str = "{}"
    parameters: Record | None = None


class ToolCall(msgspec.Struct):
    """A call that the model made."""

    id: str
    function: Function


class OfferedTool(msgspec.Struct):
    """A tool that is offered."""

    type: Literal["function"]
    function: Function


class Message(msgspec.Struct):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Record] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """Its text, whether it came whole or in parts."""
        if isinstance(self.content, list):
            return "".join(str(part.get("text") or "") for part in self.content)
        return self.content or ""


class Choice(msgspec.Struct):
    """The tool that must be called."""

    function: Function


class JsonSchema(msgspec.Struct):
    """The form of a structured answer."""

    schema: Record


class Format(msgspec.Struct):
    """How the answer is to be written."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StreamOptions(msgspec.Struct):
    """What else a stream tells."""

    include_usage: bool | None = None


class ChatRequest(msgspec.Struct):
    """What is asked of the chat API, as far as it means anything here."""

    model: str
    messages: list[Message]
    tools: list[OfferedTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | Choice | None = None
    response_format: Format | None = None
    parallel_tool_calls: bool | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


class Refused(Exception):
    """A request that cannot be answered, with the parameter that is wrong."""

    def __init__(self, why: str, param: str | None = None) -> None:
        super().__init__(why)
        self.param = param


class Offer(NamedTuple):
    """A tool that the rules can use: its name, and that of its one parameter."""

    name: str
    parameter: str


# --- a request ----------------------------------------------------------------------------------


def read_request(body: bytes) -> ChatRequest:
    """The request; Refused says what is wrong with it, in the way the real API would."""
    try:
        request = check(decode(body), ChatRequest)
    except BadRecord as error:
        raise Refused(f"We could not parse the body of your request: {error}") from None
    if not request.messages:
        raise Refused("[] is too short - 'messages'", "messages")
    form = request.response_format
    if form and form.type == "json_schema" and not form.json_schema:
        raise Refused("Missing required parameter: 'response_format.json_schema'.", "response_format.json_schema")
    if request.n not in (None, 1):
        raise Refused("The offline model gives one choice: leave out 'n'.", "n")
    _check_order(request.messages)
    return request


def _check_order(messages: Sequence[Message]) -> None:
    """Refused where a call has no result, or a result no call: real servers do not answer that either."""
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                why = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
                raise Refused(f"Invalid parameter: {why}", f"messages.[{number}].role")
            open_calls.remove(message.tool_call_id)
            continue
        if open_calls:
            break
        open_calls = [call.id for call in message.tool_calls or ()]
    if open_calls:
        why = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'"
        )
        raise Refused(f"{why}. Without a response: {', '.join(open_calls)}", "messages")


def offered(tools: Sequence[OfferedTool] | None) -> tuple[Offer | None, Offer | None]:
    """The tools that search and that give a page, as far as their names tell."""
    search = page = None
    for tool in tools or ():
        if _searches(tool.function.name):
            search = search or Offer(tool.function.name, _parameter(tool, "query"))
        elif re.search(r"page|article|read|fetch|get", tool.function.name):
            page = page or Offer(tool.function.name, _parameter(tool, "title"))
    return search, page


def _parameter(tool: OfferedTool, usual: str) -> str:
    described = tool.function.parameters or {}
    names = [*_texts(described.get("required")), *_keys(described.get("properties"))]
    return usual if usual in names else next(iter(names), usual)


def _keys(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def _searches(name: str) -> bool:
    return "search" in name.lower()


# --- what was done ------------------------------------------------------------------------------


def work_so_far(messages: Sequence[Message]) -> Work:
    """The last question, what the tools gave for it, and how much the instructions ask for."""
    told = "\n".join(message.text for message in messages if message.role in ("system", "developer"))
    start = _question_at(messages)
    calls = {call.id: call.function for message in messages[start:] for call in message.tool_calls or ()}
    results = [message for message in messages[start:] if message.role == "tool"]
    return Work(
        question=messages[start].text[:LONGEST_QUESTION] if start < len(messages) else "",
        done=[_outcome(calls[str(message.tool_call_id)], message.text) for message in results],
        searches_wanted=_wanted(SEARCHES, told, 1),
        pages_wanted=_wanted(PAGES, told, MOST_PAGES),
    )


def _question_at(messages: Sequence[Message]) -> int:
    """The place of the last message of the user that is a question and no reminder to answer one."""
    asked = [number for number, message in enumerate(messages) if message.role == "user"]
    questions = [number for number in asked if not REMINDER.search(messages[number].text)]
    return next(reversed(questions or asked), len(messages))


def _wanted(pattern: re.Pattern[str], told: str, usual: int) -> int:
    found = pattern.search(told)
    return min(int(found[1] or found[2]), MOST_WANTED) if found else usual


def _outcome(call: Function, content: str) -> Search | Read:
    """What a tool gave; what cannot be read counts as failed."""
    given, result = _object(call.arguments), _object(content)
    asked = next((value for value in given.values() if isinstance(value, str)), "")
    if _searches(call.name):
        results = result.get("results")
        hits = [_hit(one) for one in results if isinstance(one, dict)] if isinstance(results, list) else []
        return Search(asked, [hit for hit in hits if hit.title], failed=not isinstance(results, list))
    title, text = result.get("title"), result.get("text")
    if isinstance(text, str):
        return Read(asked, Text(title if isinstance(title, str) and title else asked, text))
    others = [*_texts(result.get("options")), *_texts(result.get("suggestions"))]
    return Read(asked, instead=others)


def _hit(result: Record) -> PlannedHit:
    title, snippet = result.get("title"), result.get("snippet")
    plain = re.sub(r"<[^>]+>", "", snippet) if isinstance(snippet, str) else ""
    return PlannedHit(title if isinstance(title, str) else "", plain)


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str) and text] if isinstance(value, list) else []


def _object(text: str) -> Record:
    try:
        found = decode(text)
    except BadRecord:
        return {}
    return found if isinstance(found, dict) else {}
