"""What the rule model does next: which words to search for, which pages to read, and when it has read enough.

Everything follows from the conversation so far, as with a real model. The rules know English (english.py) and the
results of the tools, but neither the wiki behind them nor the questions of any evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from agenteval.wikipedia.offline.composing import PageText, compose
from agenteval.wikipedia.offline.english import (
    content_words,
    coverage,
    key_words,
    light_roots,
    replacements,
    root,
    roots,
    weighted_terms,
    words,
)
from agenteval.wikipedia.wiki import SearchHit

MOST_SEARCHES, MOST_PAGES = 3, 2  # unless the instructions ask for more
MOST_WORDS = 20  # of a query; a wiki takes 300 characters
SPARE_READS = 3  # for titles that turn out to be ambiguous or missing
POOR_RESULTS, THIN_PAGES = 0.45, 0.4  # share of the question covered below which to search again
TITLE_WEIGHT, SNIPPET_WEIGHT = 0.6, 0.8
COMPARES = re.compile(r"\b(differ\w*|compar\w*|versus|vs|between|relat\w+|connect\w*|link\w*|distinguish\w*)\b", re.I)
SEPARATOR = re.compile(r"\b(?:and|or|versus|vs|than|from|with|between|to)\b|[,;]", re.I)
SIDE_PAGE = re.compile(r"\(disambiguation\)|^(List|Outline|Index|Timeline) of\b")


class Search(NamedTuple):
    """A search that was made."""

    query: str
    hits: Sequence[SearchHit] = ()


class Read(NamedTuple):
    """A page that was requested: its text, or the titles that were offered instead."""

    asked: str
    page: PageText | None = None
    instead: Sequence[str] = ()


class Work(NamedTuple):
    """A question, what was done about it so far (in order), and how many searches and pages are asked for."""

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
        """The pages requested."""
        return [one for one in self.done if isinstance(one, Read)]

    @property
    def pages(self) -> list[PageText]:
        """The pages read, each once."""
        return list({one.page.title: one.page for one in self.reads if one.page}.values())

    @property
    def searched_again(self) -> bool:
        """Whether there was a search after a page had been requested."""
        kinds = [type(one) for one in self.done]
        return Read in kinds and Search in kinds[kinds.index(Read) :]


class Plan(NamedTuple):
    """What to do next, searches or pages, and why; neither when it is time to answer."""

    queries: Sequence[str] = ()
    titles: Sequence[str] = ()
    thought: str = ""


def next_step(work: Work) -> Plan:
    """Plans the searches that are asked for, and more while they find little; then pages; then one more search."""
    if not work.searches:
        subject = _listed(key_words(work.question))
        return Plan(first_queries(work.question), thought=f"The question is about {subject}. I search for that.")
    return (not work.reads and _search_more(work)) or _read_more(work) or _look_further(work)


def _search_more(work: Work) -> Plan | None:
    lacking = work.searches_wanted - len(work.searches)
    queries = other_queries(work)
    if lacking > 0 and queries:
        return Plan(queries[:lacking], thought="I search with other words too.")
    if queries and len(work.searches) < MOST_SEARCHES and best_match(work) < POOR_RESULTS:
        return Plan(queries[:1], thought="These results hardly fit the question. I try other words.")
    return None


def _read_more(work: Work) -> Plan | None:
    wanted = work.pages_wanted + (work.searched_again and bool(work.searches[-1].hits))
    lacking = min(wanted - len(work.pages), wanted + SPARE_READS - len(work.reads))
    titles = list(next_titles(work))[: max(0, lacking)]
    if not titles:
        return None
    if work.reads and not work.reads[-1].page:
        return Plan(titles=titles, thought=f"There is no such page. I read {_listed(titles)} instead.")
    return Plan(titles=titles, thought=f"{_listed(titles)} should answer this. I read on there.")


def _look_further(work: Work) -> Plan:
    """Plans one more search for what the pages leave open; nothing if they cover enough."""
    if work.searched_again or not work.pages:
        return Plan()
    draft = compose(work.question, work.pages)
    open_words = [word for word in key_words(work.question) if root(word) in draft.missing]
    queries = new_queries([" ".join(open_words), *other_queries(work)], work)
    if draft.covered >= THIN_PAGES or not queries:
        return Plan()
    return Plan(queries[:1], thought="The pages leave part of the question open. I search once more.")


# --- queries ------------------------------------------------------------------------------------


def first_queries(question: str) -> list[str]:
    """Returns the content words of a question as one query, or one query for each thing that it compares."""
    if COMPARES.search(question):
        plain = COMPARES.sub(lambda found: found[0] if SEPARATOR.fullmatch(found[0]) else " ", question)
        parts = [part for part in SEPARATOR.split(plain) if not light_roots().issuperset(roots(part))]
        if 1 < len(parts) <= 3:
            return [" ".join(key_words(part)) for part in parts]
    return [" ".join(content_words(question)[:MOST_WORDS]) or question.strip() or "Wikipedia"]


def other_queries(work: Work) -> list[str]:
    """Returns further queries: synonyms for words not yet found, fewer words, the best title with what it lacks."""
    mine = key_words(work.question)[:MOST_WORDS]
    seen = {word for search in work.searches for hit in search.hits for word in roots(f"{hit.title} {hit.snippet}")}
    replaced = [word if root(word) in seen else replacements().get(root(word), word) for word in mine]
    fewer = [*sorted(word_pairs(work.question), key=len, reverse=True), *sorted(mine, key=len, reverse=True)]
    titled: list[str] = []
    if ranked := ranked_hits(work):
        lacking = [word for word in mine if root(word) not in roots(ranked[0].title)]
        titled = [" ".join([ranked[0].title, *lacking])]
    last = [*fewer, *titled] if best_match(work) < POOR_RESULTS else [*titled, *fewer]
    return new_queries([" ".join(replaced), " ".join(mine), *last], work)


def word_pairs(question: str) -> Iterator[str]:
    """Yields the pairs of neighbouring key words."""
    keys = set(key_words(question))
    for one, two in pairwise(words(question)):
        if one in keys and two in keys:
            yield f"{one} {two}"


def new_queries(queries: Sequence[str], work: Work) -> list[str]:
    """Returns the queries that are not empty and differ from each other and earlier ones by more than spelling."""
    made = {frozenset(roots(search.query)) for search in work.searches}
    found: dict[frozenset[str], str] = {}
    for query in queries:
        key = frozenset(roots(query))
        if key and key not in made:
            found.setdefault(key, query)
    return list(found.values())


# --- results ------------------------------------------------------------------------------------


def ranked_hits(work: Work) -> list[SearchHit]:
    """Returns each result once, best first: by its ranks, and by the question's words in title and snippet."""
    terms = weighted_terms(work.question)
    scores: dict[str, float] = {}
    hits: dict[str, SearchHit] = {}
    for search in work.searches:
        for rank, hit in enumerate(search.hits):
            first = hits.setdefault(hit.title, hit)
            scores.setdefault(hit.title, _fit(first, terms))
            scores[hit.title] += 1 / (1 + rank)
    return sorted(hits.values(), key=lambda hit: -scores[hit.title])


def best_match(work: Work) -> float:
    """Returns the largest share of the question that a result covers."""
    terms = weighted_terms(work.question)
    return max((coverage(terms, roots(f"{h.title} {h.snippet}")) for s in work.searches for h in s.hits), default=0.0)


def next_titles(work: Work) -> Iterator[str]:
    """Yields titles worth reading that were not requested before: those offered instead of a page, then the results."""
    known = {_key(read.asked) for read in work.reads} | {_key(page.title) for page in work.pages}
    terms = weighted_terms(work.question)
    for read in work.reads:
        chosen = max(read.instead, key=lambda title: _fit(SearchHit(title, ""), terms), default=None)
        if chosen and not read.page and _key(chosen) not in known:
            known.add(_key(chosen))
            yield chosen
    for hit in ranked_hits(work):
        if _key(hit.title) not in known:
            yield hit.title


def _fit(hit: SearchHit, terms: Mapping[str, float]) -> float:
    in_title = coverage(dict.fromkeys(roots(hit.title), 1.0), terms)
    fit = TITLE_WEIGHT * in_title + SNIPPET_WEIGHT * coverage(terms, roots(f"{hit.title} {hit.snippet}"))
    return fit - 1.0 if SIDE_PAGE.search(hit.title) else fit


def _key(title: str) -> str:
    return " ".join(title.replace("_", " ").lower().split())


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else "".join(names) or "nothing I know"
