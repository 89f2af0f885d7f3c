"""ae-wikiagent: the loop with a scripted model, and the reference evaluation's functional tests, offline."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from agenteval.cli.tools.wikiagent import conversation
from agenteval.models.chat import FunctionCall, ModelAnswer, ModelError, TokenUsage
from agenteval.wikipedia.agent import AgentConversation, Tool, read_final, wiki_tools
from agenteval.wikipedia.wiki import Ambiguous, NoPage, SearchHit, WikiError, WikiPage
from tests.support.tool import ROOT, Record, jsonl, run

QUESTION = "Why do people fear losses more than they enjoy gains of the same size?"
FINAL = {"answer": "Because.", "confidence": 0.5, "sources_used": ["Loss aversion"], "reasoning": "The page says so."}

# --- the loop -----------------------------------------------------------------------------------


class Scripted:
    """A model with scripted answers that records what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def __call__(self, messages: list[Record], **how: Any) -> ModelAnswer:
        self.asked.append({"messages": [dict(message) for message in messages], **how})
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        text, calls = (answer, []) if isinstance(answer, str) else answer
        return ModelAnswer(text=text, calls=calls, usage=TokenUsage(10, 2, 1), model="scripted", finish="stop")


def search(query: str, **_more: Any) -> FunctionCall:
    return FunctionCall("c1", "wikipedia_search", json.dumps({"query": query}))


class Shelf:
    """A wiki of one page."""

    def search(self, query: str, most: int = 5) -> list[SearchHit]:
        if query == "down":
            raise WikiError("https://wiki answered 503 (tried 4 times)")
        return [SearchHit("Loss aversion", f"{query}: losses loom larger")][:most]

    def page(self, title: str) -> WikiPage:
        if title == "Losses":
            raise NoPage('there is no page "Losses"', ["Loss aversion"])
        if title == "Loss":
            raise Ambiguous('"Loss" may mean several things', ["Loss aversion", "Loss function"])
        return WikiPage(title, f"https://wiki/{title}", "Losses loom larger than gains.", truncated=False)


def tools() -> dict[str, Tool]:
    wiki: Any = Shelf()
    return wiki_tools(wiki, 5)


def events_of(model: Scripted, *, steps: int = 5) -> list[Record]:
    return list(AgentConversation(model, tools(), mode="evaluation", steps=steps, session="s").answer(QUESTION))


def test_searches_reads_and_answers() -> None:
    page = FunctionCall("c2", "wikipedia_get_page", '{"title": "Loss aversion"}')
    events = events_of(Scripted(("I look.", [search("loss gain")]), ("", [page]), json.dumps(FINAL)))
    assert [event["type"] for event in events] == [
        "start",
        "thought",
        "tool_call",
        "tool_result",
        "tool_call",
        "tool_result",
        "message",
        "result",
    ]
    assert events[2] == {
        "type": "tool_call",
        "session_id": "s",
        "model": "scripted",
        "id": "c1",
        "name": "wikipedia_search",
        "input": {"query": "loss gain"},
    }
    assert events[3]["output"]["results"][0]["title"] == "Loss aversion"
    assert events[5]["output"]["text"] == "Losses loom larger than gains."
    assert events[-1]["result"] == FINAL
    assert events[-1]["usage"] == {"input_tokens": 30, "output_tokens": 6, "cached_tokens": 3}
    assert events[-1]["is_error"] is False


def test_the_model_gets_the_results_of_its_tools() -> None:
    model = Scripted(("", [search("loss")]), json.dumps(FINAL))
    events_of(model)
    system, question, call, result = model.asked[1]["messages"]
    assert "at least 1 searches" in system["content"] and "at least 2 pages" in system["content"]
    assert question == {"role": "user", "content": QUESTION}
    assert call["tool_calls"][0]["function"] == {"name": "wikipedia_search", "arguments": '{"query": "loss"}'}
    assert result["tool_call_id"] == "c1" and "losses loom larger" in result["content"]
    assert [tool["function"]["name"] for tool in model.asked[0]["tools"]] == ["wikipedia_search", "wikipedia_get_page"]


def test_an_answer_in_words_is_asked_for_again_as_json() -> None:
    model = Scripted("People hate losing.", json.dumps(FINAL))
    events = events_of(model)
    assert [event.get("text") for event in events if event["type"] == "message"] == ["People hate losing.", "Because."]
    assert model.asked[1]["schema"]["required"] == ["answer", "confidence", "sources_used", "reasoning"]
    assert model.asked[1].get("tools") is None


def test_the_limit_of_steps() -> None:
    model = Scripted(*[("", [search("again")])] * 3, json.dumps(FINAL))
    events = events_of(model, steps=3)
    assert len([event for event in events if event["type"] == "tool_call"]) == 3
    assert model.asked[-1].get("tools") is None, "it may only answer now"
    assert events[-1]["result"] == FINAL


MISTAKES: dict[str, tuple[FunctionCall, str]] = {
    "no such tool": (FunctionCall("c", "google", "{}"), "there is no tool google"),
    "broken arguments": (FunctionCall("c", "wikipedia_search", '{"query": '), 'needs "query"'),
    "wrong type": (FunctionCall("c", "wikipedia_get_page", '{"title": 7}'), 'needs "title"'),
    "empty": (FunctionCall("c", "wikipedia_search", '{"query": " "}'), 'needs "query"'),
    "missing page": (FunctionCall("c", "wikipedia_get_page", '{"title": "Losses"}'), "no page"),
    "ambiguous page": (FunctionCall("c", "wikipedia_get_page", '{"title": "Loss"}'), "several things"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_the_models_to_mend(name: str) -> None:
    call, part = MISTAKES[name]
    events = events_of(Scripted(("", [call]), json.dumps(FINAL)))
    result = next(event for event in events if event["type"] == "tool_result")
    assert result["is_error"] and part in result["output"]["error"]
    assert events[-1]["is_error"] is False
    if "ambiguous" in name:
        assert result["output"]["options"] == ["Loss aversion", "Loss function"]


def test_a_wiki_that_is_down_ends_it() -> None:
    events = events_of(Scripted(("", [search("down")])))
    assert [event["type"] for event in events[-2:]] == ["tool_result", "result"]
    assert events[-1]["is_error"] is True
    assert events[-1]["error"] == "the wiki cannot be used: https://wiki answered 503 (tried 4 times)"


def test_a_model_that_fails_ends_it() -> None:
    events = events_of(Scripted(("", [search("x")]), ModelError("https://api answered 500 (tried 5 times)")))
    assert events[-1]["error"] == "https://api answered 500 (tried 5 times)"
    assert events[-1]["usage"]["input_tokens"] == 10, "the usage is reported all the same"
    assert events_of(Scripted("words", "still words"))[-1]["error"].startswith(
        "the model gave no structured answer: still"
    )


FINALS: dict[str, tuple[str, Any]] = {
    "plain": (json.dumps(FINAL), FINAL),
    "fenced": (f"Here:\n```json\n{json.dumps(FINAL)}\n```", FINAL),
    "behind braces": (f"In {{short}}: {json.dumps(FINAL)}", FINAL),
    "odd fields": (
        '{"answer": "a", "confidence": 7, "sources_used": ["x", 3], "more": 1}',
        {"answer": "a", "confidence": 1.0, "sources_used": ["x"], "reasoning": ""},
    ),
    "no confidence": ('{"answer": "a", "confidence": "high"}', {"answer": "a", "confidence": None}),
    "no object": ("just words", None),
    "no answer": ('{"result": "a"}', None),
    "broken": ('{"answer": "a"', None),
}


@pytest.mark.parametrize("name", FINALS)
def test_read_final(name: str) -> None:
    text, expected = FINALS[name]
    found = read_final(text)
    assert found is None if expected is None else found is not None and expected.items() <= found.items()


# --- the offline agent: functional tests of the reference evaluation ---------------------------


@pytest.fixture(scope="module")
def offline() -> list[Record]:
    """What the agent says to one question, once for all tests."""
    return run("ae-wikiagent", "--offline", "-p", QUESTION).expect(0, stderr="").records


def calls_of(events: list[Record], name: str | None = None) -> list[Record]:
    return [event for event in events if event["type"] == "tool_call" and name in (None, event["name"])]


def check_functional(events: list[Record]) -> None:
    """Tool invoked, both tools used, several pages fetched, sources included, calls tracked, usage adds up."""
    assert calls_of(events, "wikipedia_search"), "the search was used"
    assert len(calls_of(events, "wikipedia_get_page")) >= 2, "several pages were fetched"
    for call in calls_of(events):
        assert call["id"] and isinstance(call["input"], dict) and call["input"], "tracked with name and arguments"
    answered = {event["id"] for event in events if event["type"] == "tool_result"}
    assert answered == {call["id"] for call in calls_of(events)}
    final = events[-1]
    assert final["type"] == "result" and final["is_error"] is False
    assert set(final["result"]) == {"answer", "confidence", "sources_used", "reasoning"}
    read = {event["output"].get("title") for event in events if event["type"] == "tool_result"}
    assert final["result"]["answer"] and final["result"]["sources_used"]
    assert set(final["result"]["sources_used"]) <= read, "it cites what it read"
    assert final["usage"]["input_tokens"] > final["usage"]["output_tokens"] > 0


def test_functional_offline(offline: list[Record]) -> None:
    check_functional(offline)
    assert {event["model"] for event in offline[1:]} == {"offline"}
    assert offline[-1]["result"]["sources_used"][0] == "Loss aversion"


def test_the_questions_of_the_example_as_its_readme_counts_them() -> None:
    """All of them in this process, with the agent's own rules: sources that were read, and sources that were cited."""
    example = ROOT / "examples" / "wikipedia"
    model: dict[str, Any] = {
        "model": "none",
        "mode": "evaluation",
        "max_steps": 12,
        "temperature": 0.0,
        "timeout": 60.0,
    }
    wiki: dict[str, Any] = {"language": "en", "api_url": None, "user_agent": None, "text_limit": 6000, "pause": 0.0}
    questions = json.loads((example / "ground_truth.json").read_text())
    read = cited = 0
    for question in questions:
        events = list(conversation(**model, offline=True, **wiki).answer(question["question"]))
        expected = set(question["expected_sources"])
        pages = {event["output"].get("title") for event in events if event["type"] == "tool_result"}
        read += bool(expected & pages)
        cited += bool(expected & set(events[-1]["result"]["sources_used"]))
    shown = f"Of {len(questions)} questions, an expected source was read for {read} and cited for {cited}.\n"
    assert f"```text\n{shown}```" in (example / "README.md").read_text(), shown


@pytest.mark.network
@pytest.mark.skipif("OPENAI_API_KEY" not in os.environ, reason="needs OPENAI_API_KEY and the internet")
def test_functional_live() -> None:
    key = {name: os.environ[name] for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL") if name in os.environ}
    check_functional(run("ae-wikiagent", "-p", QUESTION, env=key, timeout=300).expect(0, stderr="").records)


def test_the_events_through_the_pipeline() -> None:
    raw = run(
        "ae-run", "-s", "wikiagent", stdin=jsonl({"id": "q", "input": QUESTION}), env={"AE_WIKIAGENT_OFFLINE": "1"}
    ).expect(0, stderr="")
    [result] = run("ae-extract", "-s", "wikiagent", stdin=raw.out).expect(0, stderr="").records
    assert json.loads(result["output"])["sources_used"][0] == "Loss aversion"
    assert result["metadata"]["model"] == "offline" and result["metadata"]["search_mode"] == "evaluation"
    tools_used = [step for step in result["trajectory"] if step["type"] == "tool_call"]
    assert {step["name"] for step in tools_used} == {"wikipedia_search", "wikipedia_get_page"}
    assert all(step["status"] == "completed" and step["input"] and step["output"] for step in tools_used)
    assert result["trajectory"][-1]["content"] == json.loads(result["output"])["answer"]
    usage = json.loads(raw.records[0]["rawLines"][-1])["usage"]
    assert (result["timing"]["inputTokens"], result["timing"]["outputTokens"]) == (
        usage["input_tokens"],
        usage["output_tokens"],
    )


def test_modes_ask_for_more(offline: list[Record]) -> None:
    research = run("ae-wikiagent", "--offline", "--mode", "research", *QUESTION.split()).expect(0, stderr="").records
    assert len(calls_of(research)) > len(calls_of(offline))
    assert research[0]["mode"] == "research"


def test_the_question_on_stdin(offline: list[Record]) -> None:
    done = run("ae-wikiagent", "--offline", stdin=f"\n{QUESTION}\n").expect(0, stderr="")
    assert done.records[-1]["result"] == offline[-1]["result"]


def test_wrong_calls() -> None:
    run("ae-wikiagent", "--offline", stdin="  \n").expect(2).says("question is empty")
    run("ae-wikiagent", "--offline", "-p", "x", "y").expect(2).says("not both")
    run("ae-wikiagent", "-p", "x").expect(2).says("OPENAI_API_KEY", "--offline")
    run("ae-wikiagent", "--mode", "deep", "-p", "x").expect(2).says("deep")


def test_errors_are_events_and_an_exit_code() -> None:
    unreachable = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    done = run("ae-wikiagent", "-p", QUESTION, "--timeout", "2", env=unreachable, timeout=60).expect(1, stderr="")
    assert done.records[-1]["type"] == "result" and done.records[-1]["is_error"] is True
    assert "127.0.0.1:9" in done.records[-1]["error"]
