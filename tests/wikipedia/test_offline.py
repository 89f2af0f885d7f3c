"""The offline Wikipedia: the bundled articles, which of them a search finds, and what the rules do with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate  # type: ignore[import-untyped]

from agenteval.grading.offline_judge import sentences
from agenteval.models.tokens import count_tokens
from agenteval.wikipedia.agent import ANSWER_SCHEMA, FINAL, NO_MORE, TOOLS
from agenteval.wikipedia.offline import OfflineWiki, ask, bundled, read_article
from agenteval.wikipedia.wiki import Ambiguous, NoPage, WikiError

# --- the articles -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def articles() -> OfflineWiki:
    return OfflineWiki(bundled())


def test_each_article_is_whole_and_each_title_taken_once() -> None:
    titles = [title for one in bundled() for title in {title.lower() for title in (one.title, *one.redirects)}]
    assert sorted(set(titles)) == sorted(titles)
    for one in bundled():
        assert one.options or 200 <= len(one.text.split()) <= 500, one.title
        assert "[[" not in one.text and "\n\n\n\n" not in one.text, one.title
    assert sum(not one.options for one in bundled()) >= 60


def test_a_file_that_is_not_an_article_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("title: A\n\ntext\n")
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path}/a.txt: ")):
        read_article(tmp_path / "a.txt")


def test_each_article_is_found_by_its_titles(articles: OfflineWiki) -> None:
    for one in bundled():
        assert [hit.title for hit in articles.search(one.title, 1)] == [one.title]
        if not one.options:
            assert {articles.page(title).title for title in (one.title, *one.redirects)} == {one.title}


def test_search(articles: OfflineWiki) -> None:
    hits = articles.search("What factors influence customer behavior?", 3)
    assert len(hits) == 3 and hits[0].title == "Consumer behaviour" and "customer" in hits[0].snippet
    assert articles.search("qwertz") == []
    with pytest.raises(WikiError, match="the query is empty"):
        articles.search("  ")


def test_pages(articles: OfflineWiki) -> None:
    page = articles.page(" customer_behavior#Factors ")
    assert page.title == "Consumer behaviour" and page.url == "https://en.wikipedia.org/wiki/Consumer_behaviour"
    assert "\n\n\n== Factors that influence customers ==\n" in page.text and not page.truncated
    cut = OfflineWiki(bundled(), text_limit=500).page("Consumer behaviour")
    assert cut.truncated and len(cut.text) <= 500
    with pytest.raises(Ambiguous) as ambiguous:
        articles.page("Nudge")
    assert ambiguous.value.titles[0] == "Nudge theory"
    with pytest.raises(NoPage, match='there is no page "Loss aversions"') as missing:
        articles.page("Loss aversions")
    assert missing.value.titles[0] == "Loss aversion"


# --- a whole conversation -----------------------------------------------------------------------

QUESTION = "How do bees find the way back to their hive?"
PAGES = {
    "Bee navigation": "Bee navigation is how bees find their way. Bees use the sun as a compass to find the hive.\n\n\n"
    "== Landmarks ==\nNear the hive they remember trees and other landmarks. It is learned on short flights.",
    "Hive": "Beekeepers keep a hive of wood. Bees know the smell of it.",
    "Compass": "A compass shows where north is; bees have one of their own.",
}
INSTRUCTIONS = "Answer from the wiki.\nMake at least {} searches.\nRead at least {} pages."

Conversation = list[dict[str, Any]]
ToolBox = Callable[[str, dict[str, Any]], dict[str, Any]]


def wiki(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Tools over the three pages: those with a word of the query are found, the best first."""
    if name == "wikipedia_search":
        words = set(given["query"].lower().split())
        having = {title: words & set(re.findall(r"\w+", f"{title} {text}".lower())) for title, text in PAGES.items()}
        found = sorted((title for title in PAGES if having[title]), key=lambda title: -len(having[title]))
        return {"results": [{"title": title, "snippet": PAGES[title][:60]} for title in found]}
    if given["title"] not in PAGES:
        return {"error": f"there is no page {given['title']!r}", "suggestions": []}
    return {"title": given["title"], "url": "https://x.test", "text": PAGES[given["title"]], "truncated": False}


def start(question: str = QUESTION, searches: int = 1, pages: int = 2) -> Conversation:
    return [
        {"role": "system", "content": INSTRUCTIONS.format(searches, pages)},
        {"role": "user", "content": question},
    ]


def converse(messages: Conversation, tools: ToolBox = wiki, steps: int = 12) -> list[str]:
    """Let the model call tools until it answers; the calls as `name: argument`, the messages grow."""
    made = []
    for _ in range(steps):
        answer = ask(messages, tools=TOOLS)
        messages.append({"role": "assistant", "content": answer.text or None})
        if not answer.calls:
            assert answer.finish == "stop"
            break
        assert answer.finish == "tool_calls"
        functions = [{"name": call.name, "arguments": call.arguments} for call in answer.calls]
        messages[-1]["tool_calls"] = [
            {"id": call.id, "type": "function", "function": function}
            for call, function in zip(answer.calls, functions, strict=True)
        ]
        for call in answer.calls:
            given = json.loads(call.arguments)
            made.append(f"{call.name}: {next(iter(given.values()))}")
            result = json.dumps(tools(call.name, given))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return made


def final(messages: Conversation) -> dict[str, Any]:
    """The structured answer to a conversation."""
    asked = [*messages, {"role": "user", "content": FINAL}]
    answer: dict[str, Any] = json.loads(ask(asked, schema=ANSWER_SCHEMA).text)
    validate(answer, ANSWER_SCHEMA)
    return answer


def test_it_searches_reads_and_answers_with_what_it_read() -> None:
    messages = start()
    made = converse(messages)
    assert made[0] == "wikipedia_search: bees back hive"
    assert sorted(made[1:]) == ["wikipedia_get_page: Bee navigation", "wikipedia_get_page: Hive"]
    assert "sun as a compass" in messages[-1]["content"]
    answer = final(messages)
    assert "Bee navigation" in answer["sources_used"]
    assert answer["confidence"] > 0.6
    assert sentences(answer["answer"])
    for sentence in sentences(answer["answer"]):
        assert any(sentence in page for page in PAGES.values()), "an answer is quoted"
    assert "Bee navigation" in answer["reasoning"]


def test_the_same_conversation_gives_the_same_calls_and_words() -> None:
    once, again = start(), start()
    assert converse(once) == converse(again)
    assert once == again


@pytest.mark.parametrize(("searches", "pages"), [(1, 1), (1, 3), (2, 2), (4, 3)])
def test_as_many_searches_and_pages_as_asked_for(searches: int, pages: int) -> None:
    made = converse(start(searches=searches, pages=pages))
    assert sum(call.startswith("wikipedia_search") for call in made) == searches
    assert sum(call.startswith("wikipedia_get_page") for call in made) == pages
    assert len(set(made)) == len(made), "nothing is asked twice"


def test_a_question_about_something_else_has_no_answer_and_no_sources() -> None:
    messages = start("Who won the football championship of 1954?")
    made = converse(messages)
    answer = final(messages)
    assert answer["sources_used"] == []
    assert answer["confidence"] <= 0.1
    assert "no page" in answer["answer"] or "do not answer" in answer["answer"]
    assert 1 < len(made) <= 4, "it tried other words, and gave up"


def test_an_ambiguous_title_is_resolved_by_an_option_that_fits() -> None:
    def ambiguous(name: str, given: dict[str, Any]) -> dict[str, Any]:
        if given == {"title": "Bee navigation"}:
            return {"error": "may mean several pages", "options": ["Spelling bee", "Bees of Asia", "Hive"]}
        return wiki(name, given)

    messages = start("Where is the hive?", pages=1)
    made = converse(messages, ambiguous)
    assert made[-1] == "wikipedia_get_page: Hive"
    assert final(messages)["sources_used"] == ["Hive"]


@pytest.mark.parametrize(("suggestions", "instead"), [(["Bee navigation"], "Bee navigation"), ([], "Compass")])
def test_a_missing_page_is_replaced_by_a_suggestion_else_by_another_result(
    suggestions: list[str], instead: str
) -> None:
    def stale(name: str, given: dict[str, Any]) -> dict[str, Any]:
        if name == "wikipedia_search":
            return {"results": [{"title": title, "snippet": "bees find hive"} for title in ("Gone", "Hive", "Compass")]}
        return {"error": "no page", "suggestions": suggestions} if given["title"] == "Gone" else wiki(name, given)

    made = converse(start(), stale)
    assert made[1:] == [f"wikipedia_get_page: {title}" for title in ("Hive", "Gone", instead)]


def test_it_answers_when_asked_to_answer_now() -> None:
    messages = start()
    converse(messages, steps=2)
    messages.append({"role": "user", "content": NO_MORE})
    answer = ask(messages)
    assert answer.calls == []
    assert "sun as a compass" in answer.text


def test_a_second_question_starts_anew() -> None:
    messages = start()
    converse(messages)
    messages.append({"role": "user", "content": "What does a compass show?"})
    assert converse(messages)[0] == "wikipedia_search: compass"
    assert "north" in final(messages)["answer"]


def test_a_question_of_many_pages_makes_a_short_query() -> None:
    (made,) = converse(start("Why do bees sting? " + " ".join(f"word{n}" for n in range(20_000))), steps=1)
    assert made.startswith("wikipedia_search: bees sting") and len(made) < 250


# --- usage --------------------------------------------------------------------------------------


def test_it_reports_that_it_is_offline_and_its_tokens() -> None:
    text = "Hello! " * 50
    answer = ask([{"role": "user", "content": text}])
    assert answer.model == "offline"
    assert answer.usage is not None
    assert answer.usage.input == count_tokens(text, "offline").tokens + 3 + 1 + 3
    assert answer.usage.output == count_tokens(answer.text, "offline").tokens


def test_tools_and_results_count_as_input() -> None:
    def sent(messages: Conversation, tools: list[Any] | None = None) -> int:
        usage = ask(messages, tools=tools).usage
        assert usage is not None
        return usage.input

    messages = start()
    before = sent(messages, TOOLS)
    assert before > sent(messages) + 20
    converse(messages)
    assert sent(messages, TOOLS) > before + 100
