"""An answer from the pages read: the sentences that cover most of the question, and the pages they come from.

A sentence scores by the question's words in it, rare words more than common ones; each further sentence must add
something to those chosen. Nothing is invented: an answer consists of quotes, or there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from typing import NamedTuple

from agenteval.wikipedia.offline.english import coverage, matched, roots, sentences, weighted_terms

MOST_SENTENCES = 4
LEAST_GAIN, LEAST_SCORE = 0.3, 0.4  # relative to the gain and the score of the first sentence
ENOUGH, ENOUGH_AT_ONCE = 0.34, 0.3  # share of the question in all sentences, and in one; below that there is no answer
TITLE, HEADING, OPENING, CONTINUATION = 0.6, 0.25, 0.3, 0.4
SAME_PAGE = 0.85  # factor for each sentence already taken from the page
DEPENDENT = 0.6  # factor for a sentence that refers to the one before
SHORTEST, LONG = 4, 40  # words: shorter text is no sentence, a longer sentence is hard to read
SENTENCE_ENDS = (".", "!", "?", '"', "'", "”", "’", ")")
HEADLINE = re.compile(r"=+ *(.*?) *=+")
REFERS_BACK = re.compile(r"(It|Its|This|That|These|Those|They|Their|Such|He|His|She|Her|Both|Others?|However|But|So)\b")
NUMBER = re.compile(r"\d|\b(two|three|four|five|six|seven|eight|nine|ten|dozens?|hundreds?|twice|half|double)\b", re.I)
# The kind of question → the kind of fact that answers it.
FACTS = (
    (re.compile(r"\b(when|what year|which year)\b", re.I), re.compile(r"\b1\d{3}\b|\b20\d\d\b")),
    (re.compile(r"\bhow (many|much|large|big|often)\b", re.I), NUMBER),
    (re.compile(r"\b(who|whose|whom)\b", re.I), re.compile(r"(?<=\w )[A-Z]\w+ [A-Z]\w+")),
    (re.compile(r"\bwhy\b", re.I), re.compile(r"\b(because|since|reason|therefore|so that|due to|explain\w*)\b")),
)
RIGHT_FACT = 1.25

Match = Mapping[str, float]  # a term of the question → how much of it is there: the word itself, or a synonym


class PageText(NamedTuple):
    """A page that was read."""

    title: str
    text: str


class Draft(NamedTuple):
    """An answer with its sources, best first; without sources if the pages do not answer the question."""

    answer: str
    confidence: float
    sources: list[str]
    covered: float
    """The share of the question that the chosen sentences cover."""
    missing: list[str]
    """Roots of the question that occur in no page that was read."""


class Sentence(NamedTuple):
    """A sentence, its place, and which terms of the question it matches."""

    page: int
    place: int
    text: str
    continues: bool
    """Whether another sentence precedes it in its paragraph."""
    heading: Match
    own: Match
    context: Match
    """The matches in the sentence, the heading above it and the title together."""


class ScoredSentence(NamedTuple):
    """A sentence with its score."""

    sentence: Sentence
    score: float


def compose(question: str, pages: Sequence[PageText]) -> Draft:
    """Returns the best answer that the pages give; without sources, one that says that they give none."""
    terms = weighted_terms(question)
    found = [sentence for number, page in enumerate(pages) for sentence in _sentences(number, page, terms)]
    weights = {term: weight * _rarity(term, found) for term, weight in terms.items()}
    chosen = _choose(list(_scored(question, pages, found, weights)), weights)
    missing = [term for term in terms if not any(term in sentence.context for sentence in found)]
    covered, at_once = _covered([one.sentence for one in chosen], terms)
    if covered < ENOUGH or at_once < ENOUGH_AT_ONCE:
        return Draft(_no_answer(pages), 0.1 if pages else 0.05, [], covered, missing)
    order = _pages_by_score(chosen)
    chosen.sort(key=lambda one: (order.index(one.sentence.page), one.sentence.place))
    text = " ".join(one.sentence.text for one in chosen)
    return Draft(text, round(min(0.95, 0.2 + 0.75 * covered), 2), [pages[n].title for n in order], covered, missing)


def _covered(chosen: Sequence[Sentence], terms: Mapping[str, float]) -> tuple[float, float]:
    """Returns the share of the question that sentences cover, where scattered words count less, and the best one's."""
    whole = sum(terms.values()) or 1.0
    at_once = max((_total(sentence.context, terms) for sentence in chosen), default=0.0) / whole
    together = _total(_union(*(sentence.context for sentence in chosen)), terms) / whole
    return (together + 2 * at_once) / 3, at_once


def _no_answer(pages: Sequence[PageText]) -> str:
    read = ", ".join(page.title for page in pages)
    return f"The pages that I read ({read}) do not answer this question." if pages else "I found no page about this."


# --- sentences ----------------------------------------------------------------------------------


def _sentences(number: int, page: PageText, terms: Iterable[str]) -> Iterator[Sentence]:
    """Yields the sentences of a page without headings."""
    title = matched(terms, roots(page.title))
    heading: Match = {}
    place = 0
    for paragraph in page.text.splitlines():
        if headline := HEADLINE.fullmatch(paragraph.strip()):
            heading = matched(terms, roots(headline[1]))
            continue
        for count, text in enumerate(sentences(paragraph)):
            own = matched(terms, roots(text))
            yield Sentence(number, place, text, count > 0, heading, own, _union(title, heading, own))
            place += 1


def _scored(
    question: str, pages: Sequence[PageText], found: Sequence[Sentence], weights: Mapping[str, float]
) -> Iterator[ScoredSentence]:
    """Yields the whole sentences with their scores; a truncated page ends in the middle of one, which is left out."""
    named = [coverage(dict.fromkeys(roots(page.title), 1.0), weights) for page in pages]
    facts = [fact for asked, fact in FACTS if asked.search(question)]
    before = 0.0
    for sentence in found:
        own = _total(sentence.own, weights) + HEADING * _total(sentence.heading, weights)
        title = named[sentence.page]
        factor = 1 + TITLE * title + (OPENING * (1 + title) if sentence.place == 0 else 0.0)
        score = own + (CONTINUATION * before if sentence.continues else 0.0)
        before = own
        if len(sentence.text.split()) >= SHORTEST and sentence.text.endswith(SENTENCE_ENDS):
            yield ScoredSentence(sentence, score * factor * _form(sentence, facts))


def _form(sentence: Sentence, facts: Sequence[re.Pattern[str]]) -> float:
    """Returns a factor for the form: the right kind of fact, understandable by itself, not too long."""
    factor = RIGHT_FACT if any(fact.search(sentence.text) for fact in facts) else 1.0
    factor *= DEPENDENT if sentence.continues and REFERS_BACK.match(sentence.text) else 1.0
    return factor * min(1.0, LONG / len(sentence.text.split()))


def _choose(candidates: Sequence[ScoredSentence], weights: Mapping[str, float]) -> list[ScoredSentence]:
    """Returns a few sentences, best first, each of which adds something; none that matches nothing of the question."""
    rest = [one for one in candidates if one.score > 0]
    chosen: list[ScoredSentence] = []
    covered: Match = {}
    least_gain = 0.0

    def gain(one: ScoredSentence) -> float:
        own = one.sentence.own
        new = sum(weights[term] * max(0.0, match - covered.get(term, 0.0)) for term, match in own.items())
        adds = new * one.score / (_total(own, weights) or 1.0) + LEAST_GAIN * one.score
        return float(adds * SAME_PAGE ** sum(one.sentence.page == other.sentence.page for other in chosen))

    while rest and len(chosen) < MOST_SENTENCES:
        best = max(rest, key=gain)
        least_gain = least_gain or LEAST_GAIN * gain(best)
        chosen.append(best)
        covered = _union(covered, best.sentence.own)
        least_score = LEAST_SCORE * chosen[0].score
        rest = [one for one in rest if one is not best and (gain(one) >= least_gain or one.score >= least_score)]
    if len(chosen) == 1:  # the next sentence explains it
        page, place = chosen[0].sentence[:2]
        chosen += [one for one in candidates if one.sentence[:2] == (page, place + 1)]
    return chosen


def _pages_by_score(chosen: Sequence[ScoredSentence]) -> list[int]:
    """Returns the numbers of the pages that sentences come from, by the sum of their scores."""
    scores: dict[int, float] = {}
    for one in chosen:
        scores[one.sentence.page] = scores.get(one.sentence.page, 0.0) + one.score
    return sorted(scores, key=lambda number: (-scores[number], number))


# --- terms --------------------------------------------------------------------------------------


def _rarity(term: str, found: Sequence[Sentence]) -> float:
    """Returns how much a match of the term tells: most if hardly any sentence has it."""
    having = sum(sentence.own.get(term, 0.0) for sentence in found)
    return 1.0 + log((1 + len(found)) / (1 + having))


def _total(match: Match, weights: Mapping[str, float]) -> float:
    return sum(weights[term] * value for term, value in match.items())


def _union(*matches: Match) -> Match:
    """Returns the best match of each term."""
    found: dict[str, float] = {}
    for match in matches:
        for term, value in match.items():
            found[term] = max(value, found.get(term, 0.0))
    return found
