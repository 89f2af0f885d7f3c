"""The rule model: answers in place of a chat model for `--offline`; free, without a network, and deterministic.

`ask` takes the agent's side of a conversation (planning.py decides what to search and read, composing.py answers),
`judge` that of a judge. Both are called like `Model.ask` and keep no state: the messages are all they know.
"""

from __future__ import annotations

import re
from typing import Any

from agenteval.models.chat_protocol import FunctionCall, ModelAnswer, TokenUsage
from agenteval.models.tokens import OFFLINE, count_tokens
from agenteval.streams.jsonl import decode, encode
from agenteval.wikipedia.agent import FINAL, GET_PAGE, NO_MORE, SEARCH
from agenteval.wikipedia.offline.composing import PageText, compose
from agenteval.wikipedia.offline.judge import read_case, verdict
from agenteval.wikipedia.offline.planning import MOST_PAGES, Plan, Read, Search, Work, next_step
from agenteval.wikipedia.wiki import SearchHit
from agenteval.wire.records import Record

MESSAGE_TOKENS = 3  # around each message and before the reply, in the chat format of OpenAI's models
MOST_WANTED = 20
LONGEST_QUESTION = 4000  # characters
SEARCHES = re.compile(r"\bat least (\d+) search", re.IGNORECASE)
PAGES = re.compile(r"\bat least (\d+) page", re.IGNORECASE)


def ask(messages: list[Record], *, tools: list[Record] | None = None, schema: Record | None = None) -> ModelAnswer:
    """Returns the next tool calls, or the answer if enough was read or no tools are offered; as JSON with a schema."""
    work = work_so_far(messages)
    plan = next_step(work) if tools else Plan()
    made = len(work.done)
    requests = [*((SEARCH, {"query": query}) for query in plan.queries)]
    requests += [(GET_PAGE, {"title": title}) for title in plan.titles]
    calls = [
        FunctionCall(f"call_{number}", name, encode(arguments).decode())
        for number, (name, arguments) in enumerate(requests, made + 1)
    ]
    text = plan.thought if calls else final_answer(work, structured=schema is not None)
    return _model_answer(messages, text, calls, tools)


def judge(messages: list[Record], **_options: object) -> ModelAnswer:
    """Returns the verdict on the case in the last message, as JSON."""
    return _model_answer(messages, encode(verdict(read_case(messages[-1]["content"]))).decode())


def final_answer(work: Work, *, structured: bool) -> str:
    """Returns the answer with its sources as text, or as the JSON object that the agent asks for."""
    draft = compose(work.question, work.pages)
    if not structured:
        return "\n\n".join([draft.answer, *([f"Sources: {'; '.join(draft.sources)}"] if draft.sources else [])])
    searched = " and ".join(f'"{search.query}"' for search in work.searches) or "nothing"
    read = ", ".join(page.title for page in work.pages) or "no page"
    quoted = f"the sentences from {', '.join(draft.sources)} cover" if draft.sources else "the text covers"
    fields = {
        "answer": draft.answer,
        "confidence": draft.confidence,
        "sources_used": draft.sources,
        "reasoning": f"Searched for {searched} and read {read}; {quoted} {draft.covered:.0%} of the question.",
    }
    return encode(fields).decode()


def work_so_far(messages: list[Record]) -> Work:
    """Returns the last question, the results of the tools since then, and how much the instructions ask for."""
    instructions = "\n".join(message["content"] for message in messages if message["role"] == "system")
    asked = [n for n, m in enumerate(messages) if m["role"] == "user" and m["content"] not in (FINAL, NO_MORE)]
    since = messages[asked[-1] :]
    calls = {call["id"]: call["function"] for message in since for call in message.get("tool_calls", ())}
    results = [message for message in since if message["role"] == "tool"]
    return Work(
        question=since[0]["content"][:LONGEST_QUESTION],
        done=[_outcome(calls[message["tool_call_id"]], decode(message["content"])) for message in results],
        searches_wanted=_wanted(SEARCHES, instructions, 1),
        pages_wanted=_wanted(PAGES, instructions, MOST_PAGES),
    )


def _wanted(pattern: re.Pattern[str], instructions: str, default: int) -> int:
    found = pattern.search(instructions)
    return min(int(found[1]), MOST_WANTED) if found else default


def _outcome(call: Record, result: Any) -> Search | Read:
    """Returns what a tool call found."""
    arguments = decode(call["arguments"])
    if call["name"] == SEARCH:
        hits = [SearchHit(hit["title"], hit["snippet"]) for hit in result.get("results", ())]
        return Search(arguments["query"], hits)
    if "text" in result:
        return Read(arguments["title"], PageText(result["title"], result["text"]))
    return Read(arguments["title"], instead=[*result.get("options", ()), *result.get("suggestions", ())])


def _model_answer(
    messages: list[Record], text: str, calls: list[FunctionCall] | None = None, tools: list[Record] | None = None
) -> ModelAnswer:
    """Returns the answer with its token usage, counted as a model of OpenAI's would."""
    sent = MESSAGE_TOKENS + _count(encode(tools).decode() if tools else "")
    for message in messages:
        called = "".join(c["function"]["name"] + c["function"]["arguments"] for c in message.get("tool_calls", ()))
        sent += MESSAGE_TOKENS + sum(map(_count, (message["role"], message["content"] or "", called)))
    calls = calls or []
    received = _count(text) + sum(_count(call.name) + _count(call.arguments) for call in calls)
    return ModelAnswer(text, calls, TokenUsage(sent, received), OFFLINE, "tool_calls" if calls else "stop")


def _count(text: str) -> int:
    return count_tokens(text, OFFLINE).tokens if text else 0
