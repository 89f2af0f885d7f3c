"""An answer from pages that were read: the sentences that say most about the question, and where they stand.

A sentence is worth the question's words that it has, rare ones more than common ones; each further one must add what
the chosen ones lack. Nothing is made up: an answer is quoted, or there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from typing import NamedTuple

from agenteval.wikipedia.offline.english import coverage, matched, roots, sentences, weighted_terms

MOST_SENTENCES = 4
WORTH_ADDING, WORTH_SAYING = 0.3, 0.4  # of what the first sentence adds, and of what it is worth
ENOUGH, ENOUGH_AT_ONCE = 0.34, 0.3  # of the question's words, in all sentences and in one; with fewer no answer
TITLE, HEADING, OPENING, GOES_ON = 0.6, 0.25, 0.3, 0.4
AGAIN = 0.85  # for each sentence that the same page has given already
ALONE = 0.6  # for a sentence that leans on the one before
SHORTEST, LONG = 4, 40  # words: what is shorter is no sentence, what is longer is hard to read
WHOLE = (".", "!", "?", '"', "'", "”", "’", ")")
HEADLINE = re.compile(r"=+ *(.*?) *=+")
LEANS_BACK = re.compile(r"(It|Its|This|That|These|Those|They|Their|Such|He|His|She|Her|Both|Others?|However|But|So)\b")
NUMBER = re.compile(r"\d|\b(two|three|four|five|six|seven|eight|nine|ten|dozens?|hundreds?|twice|half|double)\b", re.I)
KINDS = (
    (re.compile(r"\b(when|what year|which year)\b", re.I), re.compile(r"\b1\d{3}\b|\b20\d\d\b")),
    (re.compile(r"\bhow (many|much|large|big|often)\b", re.I), NUMBER),
    (re.compile(r"\b(who|whose|whom)\b", re.I), re.compile(r"(?<=\w )[A-Z]\w+ [A-Z]\w+")),
    (re.compile(r"\bwhy\b", re.I), re.compile(r"\b(because|since|reason|therefore|so that|due to|explain\w*)\b")),
)
THE_RIGHT_KIND = 1.25

Match = Mapping[str, float]  # a term of the question → how far it is there: as itself, or by a word that stands for it


class Text(NamedTuple):
    """A page that was read."""

    title: str
    text: str


class Draft(NamedTuple):
    """An answer with its sources, best first; no sources where the pages do not answer."""

    answer: str
    confidence: float
    sources: list[str]
    covered: float
    """The share of the question that the answer's sentences speak of."""
    missing: list[str]
    """Roots of the question that stand in no page that was read."""


class ScoredSentence(NamedTuple):
    """A sentence, where it stands, and how far the question's terms are in it."""

    page: int
    place: int
    text: str
    goes_on: bool
    """Whether another sentence stands before it in its paragraph."""
    heading: Match
    own: Match
    context: Match
    """In it, in the heading above it, or in the title."""


class Sentence(NamedTuple):
    """A line and what it is worth."""

    line: ScoredSentence
    worth: float


def compose(question: str, pages: Sequence[Text]) -> Draft:
    """The best answer that the pages give; one that says so, without sources, where they give none."""
    terms = weighted_terms(question)
    lines = [line for number, page in enumerate(pages) for line in _lines(number, page, terms)]
    weights = {term: weight * _rarity(term, lines) for term, weight in terms.items()}
    chosen = _choose(_weigh(question, pages, lines, weights), weights)
    missing = [term for term in terms if not any(term in line.context for line in lines)]
    covered, at_once = _covered([one.line for one in chosen], terms)
    if covered < ENOUGH or at_once < ENOUGH_AT_ONCE:
        return Draft(_no_answer(pages), 0.1 if pages else 0.05, [], covered, missing)
    order = _by_worth(chosen)
    chosen.sort(key=lambda one: (order.index(one.line.page), one.line.place))
    text = " ".join(one.line.text for one in chosen)
    return Draft(text, round(min(0.95, 0.2 + 0.75 * covered), 2), [pages[n].title for n in order], covered, missing)


def _covered(lines: Sequence[ScoredSentence], terms: Mapping[str, float]) -> tuple[float, float]:
    """The share of the question that lines speak of, where scattered words count less, and that of the best line."""
    whole = sum(terms.values()) or 1.0
    at_once = max((_sum(line.context, terms) for line in lines), default=0.0) / whole
    together = _sum(_either(*(line.context for line in lines)), terms) / whole
    return (together + 2 * at_once) / 3, at_once


def _no_answer(pages: Sequence[Text]) -> str:
    read = ", ".join(page.title for page in pages)
    return f"The pages that I read ({read}) do not answer this question." if pages else "I found no page about this."


# --- sentences ----------------------------------------------------------------------------------


def _lines(number: int, page: Text, terms: Iterable[str]) -> Iterator[ScoredSentence]:
    """The sentences of a page, headings left out."""
    title = matched(terms, roots(page.title))
    heading: Match = {}
    place = 0
    for paragraph in page.text.splitlines():
        if headline := HEADLINE.fullmatch(paragraph.strip()):
            heading = matched(terms, roots(headline[1]))
            continue
        for count, text in enumerate(sentences(paragraph)):
            own = matched(terms, roots(text))
            yield ScoredSentence(number, place, text, count > 0, heading, own, _either(title, heading, own))
            place += 1


def _weigh(
    question: str, pages: Sequence[Text], lines: Sequence[ScoredSentence], weights: Mapping[str, float]
) -> Iterator[Sentence]:
    """The sentences with what each is worth; a text that was cut ends in half a sentence, which is left out."""
    named = [coverage(dict.fromkeys(roots(page.title), 1.0), weights) for page in pages]
    wanted = [kind for asked, kind in KINDS if asked.search(question)]
    before = 0.0
    for line in lines:
        own = _sum(line.own, weights) + HEADING * _sum(line.heading, weights)
        fits = 1 + TITLE * named[line.page] + (OPENING * (1 + named[line.page]) if line.place == 0 else 0.0)
        worth = own + (GOES_ON * before if line.goes_on else 0.0)
        before = own
        if len(line.text.split()) >= SHORTEST and line.text.endswith(WHOLE):
            yield Sentence(line, worth * fits * _form(line, wanted))


def _form(line: ScoredSentence, wanted: Sequence[re.Pattern[str]]) -> float:
    """How fit a sentence is by its form: the right kind of fact, to be understood alone, not too long."""
    fit = THE_RIGHT_KIND if any(kind.search(line.text) for kind in wanted) else 1.0
    fit *= ALONE if line.goes_on and LEANS_BACK.match(line.text) else 1.0
    return fit * min(1.0, LONG / len(line.text.split()))


def _choose(sentences: Iterable[Sentence], weights: Mapping[str, float]) -> list[Sentence]:
    """A few sentences, the best first, each adding something; none that says nothing of the question."""
    candidates = list(sentences)
    rest = [one for one in candidates if one.worth > 0]
    chosen: list[Sentence] = []
    covered: Match = {}
    enough = 0.0

    def gain(one: Sentence) -> float:
        own = one.line.own
        new = sum(weights[term] * max(0.0, like - covered.get(term, 0.0)) for term, like in own.items())
        adds = new * one.worth / (_sum(own, weights) or 1.0) + WORTH_ADDING * one.worth
        return float(adds * AGAIN ** sum(one.line.page == other.line.page for other in chosen))

    while rest and len(chosen) < MOST_SENTENCES:
        best = max(rest, key=gain)
        enough = enough or WORTH_ADDING * gain(best)
        chosen.append(best)
        covered = _either(covered, best.line.own)
        least = WORTH_SAYING * chosen[0].worth
        rest = [one for one in rest if one is not best and (gain(one) >= enough or one.worth >= least)]
    if len(chosen) == 1:  # what follows it explains it
        page, place = chosen[0].line[:2]
        chosen += [one for one in candidates if one.line[:2] == (page, place + 1)]
    return chosen


def _by_worth(chosen: list[Sentence]) -> list[int]:
    """The numbers of the pages that sentences come from, the page that gave most first."""
    worth: dict[int, float] = {}
    for one in chosen:
        worth[one.line.page] = worth.get(one.line.page, 0.0) + one.worth
    return sorted(worth, key=lambda number: (-worth[number], number))


# --- terms --------------------------------------------------------------------------------------


def _rarity(term: str, lines: Sequence[ScoredSentence]) -> float:
    """How much it says that a sentence has the term; most where hardly one has it."""
    having = sum(line.own.get(term, 0.0) for line in lines)
    return 1.0 + log((1 + len(lines)) / (1 + having))


def _sum(found: Match, weights: Mapping[str, float]) -> float:
    return sum(weights[term] * like for term, like in found.items())


def _either(*matches: Match) -> Match:
    """How far each term is in any of them."""
    found: dict[str, float] = {}
    for match in matches:
        for term, like in match.items():
            found[term] = max(like, found.get(term, 0.0))
    return found
