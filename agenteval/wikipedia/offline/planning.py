"""What the rule model does next: which words it searches for, which pages it reads, when it has read enough.

Everything is derived from the conversation so far, as with a real model. The rules know English (english.py) and what
the tools gave back, nothing of the wiki behind them nor of the questions that will be asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from agenteval.wikipedia.offline.composing import Text, compose
from agenteval.wikipedia.offline.english import (
    content_words,
    coverage,
    key_words,
    light_roots,
    root,
    roots,
    stand_ins,
    weighted_terms,
)
from agenteval.wikipedia.offline.ranking import words

MOST_SEARCHES, MOST_PAGES = 3, 2  # where nobody asks for more
MOST_WORDS = 20  # of a query; a wiki takes 300 characters
SPARE_READS = 3  # for titles that turn out to be ambiguous or missing
POOR, THIN = 0.45, 0.4  # shares of the question: results to search again after, pages to read on after
TITLE, SNIPPET = 0.6, 0.8
COMPARES = re.compile(r"\b(differ\w*|compar\w*|versus|vs|between|relat\w+|connect\w*|link\w*|distinguish\w*)\b", re.I)
BETWEEN = re.compile(r"\b(?:and|or|versus|vs|than|from|with|between|to)\b|[,;]", re.I)
SIDE_PAGE = re.compile(r"\(disambiguation\)|^(List|Outline|Index|Timeline) of\b")


class PlannedHit(NamedTuple):
    """A search result."""

    title: str
    snippet: str


class Search(NamedTuple):
    """A search that was made; failed where it gave an error instead of results."""

    query: str
    hits: Sequence[PlannedHit] = ()
    failed: bool = False


class Read(NamedTuple):
    """A page that was asked for: its text, or the titles that were offered instead."""

    asked: str
    page: Text | None = None
    instead: Sequence[str] = ()


class Work(NamedTuple):
    """A question, what was done about it so far (in order), and how much is asked for."""

    question: str
    done: Sequence[Search | Read] = ()
    searches_wanted: int = 1
    pages_wanted: int = MOST_PAGES

    @property
    def searches(self) -> list[Search]:
        """The searches made."""
        return [one for one in self.done if isinstance(one, Search)]

    @property
    def reads(self) -> list[Read]:
        """The pages asked for."""
        return [one for one in self.done if isinstance(one, Read)]

    @property
    def pages(self) -> list[Text]:
        """The pages read, each once."""
        found = {one.page.title: one.page for one in self.reads if one.page}
        return list(found.values())

    @property
    def searched_again(self) -> bool:
        """Whether there was a search after a page had been read."""
        first = next((number for number, one in enumerate(self.done) if isinstance(one, Read)), len(self.done))
        return any(isinstance(one, Search) for one in self.done[first:])


class Plan(NamedTuple):
    """What to do next: searches or pages, and why; neither when it is time to answer."""

    queries: Sequence[str] = ()
    titles: Sequence[str] = ()
    thought: str = ""


def next_step(work: Work) -> Plan:
    """Searches, as many as are asked for and more while they find little; then pages; then, if thin, once more."""
    if not work.searches:
        queries = first_queries(work.question)
        return Plan(queries, thought=f"The question is about {_listed(key_words(work.question))}. I search for that.")
    if all(search.failed for search in work.searches[-2:]) and len(work.searches) > 1:
        return Plan()  # the search is out of order
    if not work.reads and (plan := _search_more(work)):
        return plan
    if plan := _read_more(work):
        return plan
    return _look_further(work)


def _search_more(work: Work) -> Plan | None:
    lacking = work.searches_wanted - len(work.searches)
    queries = list(other_queries(work))
    if lacking > 0 and queries:
        return Plan(queries[:lacking], thought="I search with other words too.")
    if queries and len(work.searches) < MOST_SEARCHES and best_match(work) < POOR:
        return Plan(queries[:1], thought="These results hardly fit the question. I try other words.")
    return None


def _read_more(work: Work) -> Plan | None:
    wanted = work.pages_wanted + (work.searched_again and bool(work.searches[-1].hits))
    lacking = min(wanted - len(work.pages), wanted + SPARE_READS - len(work.reads))
    titles = list(next_titles(work))[: max(0, lacking)]
    if not titles:
        return None
    if work.reads and not work.reads[-1].page:
        return Plan(titles=titles, thought=f"That was not a page to read. I take {_listed(titles)} instead.")
    return Plan(titles=titles, thought=f"{_listed(titles)} should answer this. I read on there.")


def _look_further(work: Work) -> Plan:
    """One more search for what the pages leave open; nothing where they say enough."""
    if work.searched_again or not work.pages:
        return Plan()
    draft = compose(work.question, work.pages)
    open_words = [word for word in key_words(work.question) if root(word) in draft.missing]
    queries = fresh([" ".join(open_words), *other_queries(work)], work)
    if draft.covered >= THIN or not queries:
        return Plan()
    return Plan(queries[:1], thought="The pages leave part of the question open. I search once more.")


# --- queries ------------------------------------------------------------------------------------


def first_queries(question: str) -> list[str]:
    """The key words of a question as one query, or one for each thing that it compares."""
    if COMPARES.search(question):
        plain = COMPARES.sub(lambda found: found[0] if BETWEEN.fullmatch(found[0]) else " ", question)
        parts = [part for part in BETWEEN.split(plain) if not light_roots().issuperset(roots(part))]
        things = [" ".join(key_words(part)) for part in parts]
        if 1 < len(things) <= 3:
            return things
    return [" ".join(content_words(question)[:MOST_WORDS]) or question.strip() or "Wikipedia"]


def other_queries(work: Work) -> list[str]:
    """Further queries, none made before: other words for those not found, the best title with what it lacks, fewer."""
    mine = key_words(work.question)[:MOST_WORDS]
    seen = {word for search in work.searches for hit in search.hits for word in roots(f"{hit.title} {hit.snippet}")}
    replaced = [word if root(word) in seen else stand_ins().get(root(word), word) for word in mine]
    candidates = [" ".join(replaced), " ".join(mine)]
    fewer = [*sorted(pairs(work.question), key=len, reverse=True), *sorted(mine, key=len, reverse=True)]
    titled: list[str] = []
    if ranked := ranked_hits(work):
        lacking = [word for word in mine if root(word) not in roots(ranked[0].title)]
        titled = [" ".join([ranked[0].title, *lacking])]
    candidates += [*fewer, *titled] if best_match(work) < POOR else [*titled, *fewer]
    return fresh(candidates, work)


def pairs(question: str) -> Iterator[str]:
    """Two key words that stand side by side."""
    keys = set(key_words(question))
    for one, two in pairwise(words(question)):
        if one in keys and two in keys:
            yield f"{one} {two}"


def fresh(queries: Sequence[str], work: Work) -> list[str]:
    """The queries that are not empty and not one made before in other order or spelling."""
    made = {frozenset(roots(search.query)) for search in work.searches}
    found: dict[frozenset[str], str] = {}
    for query in queries:
        key = frozenset(roots(query))
        if key and key not in made:
            found.setdefault(key, query)
    return list(found.values())


# --- results ------------------------------------------------------------------------------------


def ranked_hits(work: Work) -> list[PlannedHit]:
    """All results once, the likeliest to answer first: high in a search, the question's words in title and snippet."""
    terms = weighted_terms(work.question)
    scores: dict[str, float] = {}
    hits: dict[str, PlannedHit] = {}
    for search in work.searches:
        for rank, hit in enumerate(search.hits):
            first = hits.setdefault(hit.title, hit)
            scores.setdefault(hit.title, _fit(first, terms))
            scores[hit.title] += 1 / (1 + rank)
    return sorted(hits.values(), key=lambda hit: -scores[hit.title])


def best_match(work: Work) -> float:
    """The share of the question that the best result speaks of."""
    terms = weighted_terms(work.question)
    return max((coverage(terms, roots(f"{h.title} {h.snippet}")) for s in work.searches for h in s.hits), default=0.0)


def next_titles(work: Work) -> Iterator[str]:
    """Titles worth reading, none asked for before: what was offered instead of a page, then the results."""
    known = {_key(read.asked) for read in work.reads} | {_key(page.title) for page in work.pages}
    terms = weighted_terms(work.question)
    for read in work.reads:
        chosen = max(read.instead, key=lambda title: _fit(PlannedHit(title, ""), terms), default=None)
        if chosen and not read.page and _key(chosen) not in known:
            known.add(_key(chosen))
            yield chosen
    for hit in ranked_hits(work):
        if _key(hit.title) not in known:
            yield hit.title


def _fit(hit: PlannedHit, terms: dict[str, float]) -> float:
    in_title = coverage(dict.fromkeys(roots(hit.title), 1.0), terms)
    fit = TITLE * in_title + SNIPPET * coverage(terms, roots(f"{hit.title} {hit.snippet}"))
    return fit - 1.0 if SIDE_PAGE.search(hit.title) else fit


def _key(title: str) -> str:
    return " ".join(title.replace("_", " ").lower().split())


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else "".join(names) or "nothing I know"
