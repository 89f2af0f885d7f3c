"""The Wikipedia agent: a model that searches, reads pages and answers, as a stream of events.

Data flow: question → model → tool calls → wiki → model → … → structured answer. The model and the wiki come in as
arguments; every event is one dict, in the form that the adapter `wikiagent` reads.
"""

import os
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple, Protocol

from agenteval.adapters.values import json_object
from agenteval.grading.sources import final_object
from agenteval.models.chat import FunctionCall, ModelAnswer, ModelError
from agenteval.streams.jsonl import encode, read_json
from agenteval.wikipedia.wiki import Ambiguous, NoPage, SearchHit, WikiError, WikiPage
from agenteval.wire.records import Record

INSTRUCTIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions")

Event = dict[str, Any]
Tool = Callable[[str], Record]


class Mode(NamedTuple):
    """How much an agent is asked to search and to read."""

    searches: int
    pages: int
    results: int


MODES = {
    "evaluation": Mode(searches=1, pages=2, results=5),
    "production": Mode(searches=2, pages=3, results=8),
    "research": Mode(searches=4, pages=6, results=10),
}

ANSWER_SCHEMA: Record = read_json(os.path.join(INSTRUCTIONS, "answer.json"))
TOOLS: list[Record] = read_json(os.path.join(INSTRUCTIONS, "tools.json"))
SEARCH, GET_PAGE = "wikipedia_search", "wikipedia_get_page"
PARAMETERS = {SEARCH: "query", GET_PAGE: "title"}
FINAL = "Now give your final answer as JSON: answer, confidence, sources_used, reasoning."
NO_MORE = "You have used up your tool calls. Answer now with what you have read."


class AskModel(Protocol):
    """Sends messages to a model."""

    def __call__(
        self, messages: list[Record], *, tools: list[Record] | None = None, schema: Record | None = None
    ) -> ModelAnswer: ...


class SearchableWiki(Protocol):
    """Wikipedia, or the articles in its place."""

    def search(self, query: str, most: int = 5) -> list[SearchHit]: ...

    def page(self, title: str) -> WikiPage: ...


class AgentFailed(Exception):
    """The model or the wiki failed and the agent cannot continue; the message is one line."""


# --- the conversation ---------------------------------------------------------------------------


class AgentConversation:
    """One question, from the first search to the answer."""

    def __init__(self, ask: AskModel, tools: dict[str, Tool], *, mode: str, steps: int, session: str) -> None:
        self.ask, self.tools, self.steps, self.session = ask, tools, steps, session
        self.mode, wanted = mode, MODES[mode]
        with open(os.path.join(INSTRUCTIONS, "wikiagent.txt"), encoding="utf-8") as file:
            text = file.read().format(searches=wanted.searches, pages=wanted.pages, mode=mode)
        self.messages: list[Record] = [{"role": "system", "content": text}]
        self.used: dict[str, int] = {}
        self.model: str | None = None

    def answer(self, question: str) -> Iterator[Event]:
        """Yields the events of one question; the last one is the result, even if the agent failed."""
        yield self._event("start", mode=self.mode, tools=list(self.tools))
        self.messages.append({"role": "user", "content": question})
        try:
            text = yield from self._work()
            final = yield from self._conclude(text)
        except AgentFailed as error:
            yield self._event("result", is_error=True, error=str(error), usage=self.used)
            return
        yield self._event("result", is_error=False, result=final, usage=self.used)

    def _work(self) -> Generator[Event, None, str]:
        """Lets the model search and read until it answers; returns its last text."""
        for _step in range(self.steps):
            answer = self._ask(tools=TOOLS)
            if not answer.calls:
                return answer.text
            if answer.text:
                yield self._event("thought", text=answer.text)
            for call in answer.calls:
                yield from self._use(call)
        self.messages.append({"role": "user", "content": NO_MORE})
        return self._ask().text

    def _use(self, call: FunctionCall) -> Iterator[Event]:
        """Yields a tool call and its result; an invalid call is reported to the model, a failing wiki ends the run."""
        given = json_object(call.arguments)
        yield self._event("tool_call", id=call.id, name=call.name, input=given)
        try:
            result = self._call_tool(call.name, given)
        except WikiError as error:
            yield self._event("tool_result", id=call.id, name=call.name, output={"error": str(error)}, is_error=True)
            raise AgentFailed(f"the wiki cannot be used: {error}") from None
        yield self._event("tool_result", id=call.id, name=call.name, output=result, is_error="error" in result)
        self.messages.append({"role": "tool", "tool_call_id": call.id, "content": encode(result).decode()})

    def _call_tool(self, name: str, given: Any) -> Record:
        if name not in self.tools:
            return {"error": f"there is no tool {name}; the tools are {', '.join(self.tools)}"}
        parameter = PARAMETERS[name]
        value = given.get(parameter) if isinstance(given, dict) else None
        if not isinstance(value, str) or not value.strip():
            return {"error": f'{name} needs "{parameter}", a string'}
        return self.tools[name](value)

    def _conclude(self, text: str) -> Generator[Event, None, Record]:
        """Returns the structured answer; asks for it once more if the model answered in plain text."""
        final = read_final(text)
        if final is None:
            if text:
                yield self._event("message", text=text)
            self.messages.append({"role": "user", "content": FINAL})
            again = self._ask(schema=ANSWER_SCHEMA).text
            if (final := read_final(again)) is None:
                raise AgentFailed(f"the model gave no structured answer: {' '.join(again[:200].split()) or 'nothing'}")
        if final["answer"] != text:
            yield self._event("message", text=final["answer"])
        return final

    def _ask(self, *, tools: list[Record] | None = None, schema: Record | None = None) -> ModelAnswer:
        try:
            answer = self.ask(self.messages, tools=tools, schema=schema)
        except ModelError as error:
            raise AgentFailed(str(error)) from None
        self.model = answer.model
        if answer.usage is not None:
            for name, tokens in answer.usage._asdict().items():
                self.used[f"{name}_tokens"] = self.used.get(f"{name}_tokens", 0) + tokens
        message: Record = {"role": "assistant", "content": answer.text or None}
        if answer.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in answer.calls
            ]
        self.messages.append(message)
        return answer

    def _event(self, kind: str, **fields: Any) -> Event:
        model = {"model": self.model} if self.model is not None else {}
        return {"type": kind, "session_id": self.session, **model, **fields}


def read_final(text: str) -> Record | None:
    """Returns the answer object that a text is or ends with, with every field; None if there is no such object.

    A model may omit a field, or write a number as text.
    """
    found = final_object(text) or {}
    if not isinstance(found.get("answer"), str):
        return None
    sources, given = found.get("sources_used"), found.get("confidence")
    return {
        "answer": found["answer"],
        "confidence": min(1.0, max(0.0, given)) if isinstance(given, int | float) and given is not True else None,
        "sources_used": [title for title in sources if isinstance(title, str)] if isinstance(sources, list) else [],
        "reasoning": found["reasoning"] if isinstance(found.get("reasoning"), str) else "",
    }


# --- the tools ----------------------------------------------------------------------------------


def wiki_tools(wiki: SearchableWiki, results: int) -> dict[str, Tool]:
    """Returns the agent's two tools; a page that does not exist is a result for the model, not an error."""

    def search(query: str) -> Record:
        hits = wiki.search(query, results)
        return {"results": [{"title": hit.title, "snippet": hit.snippet} for hit in hits]}

    def get_page(title: str) -> Record:
        try:
            page = wiki.page(title)
        except NoPage as error:
            return {"error": str(error), "suggestions": error.titles}
        except Ambiguous as error:
            return {"error": str(error), "options": error.titles}
        return {"title": page.title, "url": page.url, "text": page.text, "truncated": page.truncated}

    return {SEARCH: search, GET_PAGE: get_page}
