"""Replaces Wikipedia and the model for `ae-wikiagent --offline` by bundled articles and rules.

A demonstration without a key or a network: the same question always gives the same calls and the same answer. The
rules search for the words of the question, read the pages that fit best and answer with sentences from them; they know
neither the articles nor the questions of any evaluation.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from math import log
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from agenteval.grading.offline_judge import (
    COMMON_ROOTS,
    key_roots,
    offline_answer,
    root,
    roots,
    sentences,
    share,
    words,
)
from agenteval.models.chat import FunctionCall, ModelAnswer
from agenteval.streams.jsonl import decode, encode
from agenteval.wikipedia.agent import FINAL, GET_PAGE, NO_MORE, SEARCH
from agenteval.wikipedia.wiki import Ambiguous, NoPage, SearchHit, WikiError, WikiPage, truncate
from agenteval.wire.records import Record

# --- the articles ---------------------------------------------------------------------------------

ARTICLES = Path(__file__).with_name("articles")
FILE = re.compile(r"title: (\S.*)\nredirects:(.*)\nkind: (article|disambiguation)\n\n(\S[^\0]*)")
LINK = re.compile(r"\[\[([^\]|]+)\]\]")
SITE = "https://en.wikipedia.org/wiki/"
TITLE_WEIGHT, REDIRECT_WEIGHT = 5, 2  # of a word, relative to one in the text
SATURATION = 2.0  # number of occurrences at which a word has half of its greatest weight
LONGEST_SNIPPET = 200  # characters


class Article(NamedTuple):
    """A page with the number of occurrences of each word; title and redirects are Wikipedia's, the text is not."""

    title: str
    redirects: list[str]
    options: list[str]  # the titles that a disambiguation page lists
    text: str
    occurrences: Counter[str]


def read_article(path: Path) -> Article:
    """Reads a file: the lines title:, redirects: and kind:, a blank line, paragraphs and `== headings ==`."""
    found = FILE.fullmatch(path.read_text(encoding="utf-8"))
    if not found:
        raise ValueError(f"{path}: needs the lines title:, redirects: and kind:, a blank line, then text")
    title, redirects, kind, marked = found.groups()
    text = LINK.sub(r"\1", re.sub(r"\n\n(?!=)", "\n", marked.strip()).replace("\n\n=", "\n\n\n="))
    occurrences = Counter(roots(text))
    for weight, name in ((TITLE_WEIGHT, title), (REDIRECT_WEIGHT, redirects)):
        occurrences.update(dict.fromkeys(roots(name), weight))
    others = [other.strip() for other in redirects.split("|") if other.strip()]
    return Article(title, others, LINK.findall(marked) if kind == "disambiguation" else [], text, occurrences)


@cache
def bundled() -> list[Article]:
    """Returns the articles that ship with the suite."""
    return [read_article(path) for path in sorted(ARTICLES.glob("*.txt"))]


class OfflineWiki:
    """Searches and reads articles, as Wiki does over HTTP."""

    def __init__(self, articles: Sequence[Article], text_limit: int = 6000) -> None:
        self.articles, self.text_limit = articles, text_limit
        self._by_title = {other.lower(): one for one in articles for other in (one.title, *one.redirects)}
        self._having = Counter(word for one in articles for word in one.occurrences)

    def search(self, query: str, most: int = 5) -> list[SearchHit]:
        """Returns the articles with any word of the query, best first: many words, rare words, words of the title."""
        if not query.strip():
            raise WikiError("there is nothing to search for: the query is empty")
        wanted = key_roots(query)
        scores = {one.title: self._score(one, wanted) for one in self.articles}
        if exact := self._by_title.get(query.strip().lower()):
            scores[exact.title] = float("inf")
        best = sorted((one for one in self.articles if scores[one.title]), key=lambda one: -scores[one.title])
        return [SearchHit(one.title, _snippet(one, wanted)) for one in best[:most]]

    def page(self, title: str) -> WikiPage:
        """Returns the article with this title or redirect; raises Ambiguous or NoPage."""
        article = self._by_title.get(" ".join(title.partition("#")[0].replace("_", " ").lower().split()))
        if article is None:
            raise NoPage(f'there is no page "{title}"', [hit.title for hit in self.search(title or "?")])
        if article.options:
            raise Ambiguous(f'"{title}" may mean several pages', article.options)
        text, truncated = truncate(article.text, self.text_limit)
        url = SITE + quote(article.title.replace(" ", "_"), safe="/:@!$*(),;~'")
        return WikiPage(article.title, url, text, truncated)

    def _score(self, article: Article, wanted: frozenset[str]) -> float:
        found = {word: article.occurrences[word] for word in wanted if word in article.occurrences}
        rarity = {word: log(1 + len(self.articles) / self._having[word]) for word in found}
        return sum(rarity[word] * count / (count + SATURATION) for word, count in sorted(found.items()))


def _snippet(article: Article, wanted: frozenset[str]) -> str:
    """Returns the beginning of the sentence with the most words of the query."""
    every = [sentence for line in article.text.splitlines() if "==" not in line for sentence in sentences(line)]
    return max(every, key=lambda sentence: share(wanted, roots(sentence)))[:LONGEST_SNIPPET]


# --- the conversation -----------------------------------------------------------------------------

MOST_WORDS = 20  # of a query; a wiki takes 300 characters
LONGEST_QUESTION = 4000  # characters
MOST_SEARCHES = 3  # unless the instructions ask for more
SPARE_READS = 3  # for titles that turn out to be ambiguous or missing
POOR_RESULTS = 0.45  # share of the question covered by the best result, below which to search again


class Work(NamedTuple):
    """A question and what was done about it so far, in order."""

    question: str
    queries: list[str]
    hits: list[list[SearchHit]]  # the results of each query
    asked: list[str]  # the titles of the pages requested
    offered: list[str]  # titles that were offered in place of a page
    pages: dict[str, str]  # the texts of the pages read, by title


def ask(messages: list[Record], *, tools: list[Record] | None = None, schema: Record | None = None) -> ModelAnswer:
    """Returns the next tool calls, or the answer as JSON if enough was read or no tools are offered."""
    work = work_so_far(messages)
    instructions = "\n".join(message["content"] for message in messages if message["role"] == "system")
    searches, pages = (_number(rf"\bat least (\d+) {what}", instructions) for what in ("search", "page"))
    queries = next_queries(work, searches) if tools and not work.asked else []
    titles = next_titles(work, pages) if tools and not queries else []
    requests = [(SEARCH, "query", query) for query in queries] + [(GET_PAGE, "title", title) for title in titles]
    calls = [
        FunctionCall(f"call_{number}", name, encode({parameter: value}).decode())
        for number, (name, parameter, value) in enumerate(requests, len(work.queries) + len(work.asked) + 1)
    ]
    if not calls:
        return offline_answer(messages, final_answer(work), [], tools)
    plan = f'search for "{queries[0]}"' if queries else f"read {', '.join(titles)}"
    return offline_answer(messages, f"To answer this, I {plan}.", calls, tools)


def _number(pattern: str, instructions: str) -> int:
    found = re.search(pattern, instructions, re.IGNORECASE)
    return int(found[1]) if found else 1


def work_so_far(messages: list[Record]) -> Work:
    """Returns the last question and the results of the tools since then."""
    asked = [n for n, m in enumerate(messages) if m["role"] == "user" and m["content"] not in (FINAL, NO_MORE)]
    since = messages[asked[-1] :]
    work = Work(since[0]["content"][:LONGEST_QUESTION], [], [], [], [], {})
    calls = {call["id"]: call["function"] for message in since for call in message.get("tool_calls", ())}
    for message in since:
        if message["role"] != "tool":
            continue
        call, result = calls[message["tool_call_id"]], decode(message["content"])
        given: dict[str, Any] = decode(call["arguments"])
        if call["name"] == SEARCH:
            work.queries.append(given["query"])
            work.hits.append([SearchHit(hit["title"], hit["snippet"]) for hit in result.get("results", ())])
            continue
        work.asked.append(given["title"])
        work.offered.extend([*result.get("options", ()), *result.get("suggestions", ())])
        if "text" in result:
            work.pages[result["title"]] = result["text"]
    return work


def next_queries(work: Work, wanted: int) -> list[str]:
    """Returns queries that were not made yet: the question's key words, then fewer of them while results are poor."""
    key = [word for word in dict.fromkeys(words(work.question)) if root(word) not in COMMON_ROOTS][:MOST_WORDS]
    first = " ".join(key) or work.question.strip()
    pairs = [f"{one} {two}" for one, two in zip(key, key[1:], strict=False)]
    others = [one for one in dict.fromkeys([*pairs, *sorted(key, key=len, reverse=True)]) if one not in work.queries]
    if not work.queries:
        return [first]
    lacking = wanted - len(work.queries)
    terms = key_roots(work.question)
    best = max((share(terms, roots(f"{h.title} {h.snippet}")) for hits in work.hits for h in hits), default=0.0)
    if best < POOR_RESULTS and len(work.queries) < MOST_SEARCHES:
        lacking = max(lacking, 1)
    return others[: max(0, lacking)]


def next_titles(work: Work, wanted: int) -> list[str]:
    """Returns the titles to read next: the best of those offered in place of a page, then the best results."""
    terms = key_roots(work.question)
    scores: dict[str, float] = {}
    for hits in work.hits:
        for rank, hit in enumerate(hits):
            fit = share(terms, roots(f"{hit.title} {hit.snippet}")) + 0.6 * share(roots(hit.title), terms)
            scores[hit.title] = max(scores.get(hit.title, 0.0), fit) + 1 / (1 + rank)
    offered = sorted(work.offered, key=lambda title: -share(roots(title), terms))[:1]
    known = {title.lower() for title in (*work.asked, *work.pages)}
    ranked = [*offered, *sorted(scores, key=lambda title: -scores[title])]
    lacking = min(wanted - len(work.pages), wanted + SPARE_READS - len(work.asked))
    return [title for title in dict.fromkeys(ranked) if title.lower() not in known][: max(0, lacking)]


# --- the answer -----------------------------------------------------------------------------------

MOST_SENTENCES = 4
ENOUGH = 0.3  # share of the question's words in the best sentence and its title; below that, there is no answer
LEAST_SCORE = 0.3  # of a further sentence, relative to the best one
TITLE, OPENING = 0.6, 0.3  # what a title about the question and the first sentence of a page add to a score
REFERS_BACK = re.compile(r"(It|Its|This|That|These|Those|They|Their|Such|He|His|She|Her|Both|Others?|However|But|So)\b")
SENTENCE_ENDS = (".", "!", "?", '"', "'", "”", "’", ")")


class Sentence(NamedTuple):
    """A sentence of a page: which words of the question it has, and how well it answers."""

    page: str
    text: str
    matches: frozenset[str]
    score: float


def final_answer(work: Work) -> str:
    """Returns the JSON object that the agent asks for, with the best sentences and the pages that have them."""
    terms = key_roots(work.question)
    chosen = choose([one for title, text in work.pages.items() for one in scored(title, text, terms)], terms)
    covered = share(terms, frozenset().union(*(one.matches for one in chosen)))
    sources = list(dict.fromkeys(one.page for one in chosen))
    read = ", ".join(work.pages) or "no page"
    text = " ".join(one.text for title in sources for one in chosen if one.page == title)
    if not chosen:
        text = f"The pages that I read ({read}) do not answer this." if work.pages else "I found no page about this."
    searched = " and ".join(f'"{query}"' for query in work.queries) or "nothing"
    fields = {
        "answer": text,
        "confidence": round(0.2 + 0.75 * covered, 2) if chosen else 0.1,
        "sources_used": sources,
        "reasoning": f"Searched for {searched} and read {read}; the text covers {covered:.0%} of the question.",
    }
    return encode(fields).decode()


def scored(title: str, text: str, terms: frozenset[str]) -> Iterator[Sentence]:
    """Yields the whole sentences of a page; a truncated page ends in the middle of one, which is left out."""
    about = frozenset(roots(title))
    every = [one for line in text.splitlines() if not line.startswith("=") for one in sentences(line)]
    for place, sentence in enumerate(every):
        if not sentence.endswith(SENTENCE_ENDS):
            continue
        matches = terms.intersection(roots(sentence))
        score = share(terms, matches) * (1 + TITLE * share(about, terms) + (OPENING if place == 0 else 0.0))
        score *= 0.6 if REFERS_BACK.match(sentence) else 1.0
        yield Sentence(title, sentence, matches | (terms & about), score)


def choose(candidates: Sequence[Sentence], terms: frozenset[str]) -> list[Sentence]:
    """Returns a few sentences, best first, each with a word of the question that is not in those before."""
    ranked = sorted(candidates, key=lambda one: -one.score)
    if not ranked or share(terms, ranked[0].matches) < ENOUGH:
        return []
    chosen: list[Sentence] = []
    for one in ranked:
        new = one.matches.difference(*(other.matches for other in chosen))
        if new and one.score >= LEAST_SCORE * ranked[0].score and len(chosen) < MOST_SENTENCES:
            chosen.append(one)
    return chosen
