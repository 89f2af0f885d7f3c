"""Full-text search over a handful of documents: BM25, with what stands in a title counting for more.

The score of a term is its rarity times how often a document has it, with diminishing returns and long documents held
back (Robertson and Zaragoza 2009, with fields weighted before saturation). Every term may be missing: the more match,
the better. The same query gives the same order always; of two equal scores the earlier document wins.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from math import log
from typing import NamedTuple

SATURATION = 1.2
LENGTH_MATTERS = 0.75
TITLE = 5.0
OTHER_TITLE = 2.0
CLOSE = 0.75  # how like a word must be to one we know to be proposed for it

WORD = re.compile(r"[^\W_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}][^\W_]+)*")
POSSESSIVE = re.compile(r"['\N{RIGHT SINGLE QUOTATION MARK}]s?$")
STOP = frozenset(
    WORD.findall(
        """a about an and any are as at be been but by can could did do does for from had has have how i if in into is
        it its may me my no not of on or our shall should so some such than that the their them then there these they
        this those to was we were what when where which who whom whose why will with would you your"""
    )
)


class Document(NamedTuple):
    """What is searched: a title, further titles, a text."""

    title: str
    others: Sequence[str]
    text: str


class Index:
    """Documents, prepared to be searched."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self._words: set[str] = set()
        self._titled: dict[tuple[str, ...], int] = {}
        lengths = []
        documents = list(documents)
        for number, document in enumerate(documents):
            weights = self._weigh(document)
            lengths.append(sum(weights.values()))
            for term, weight in weights.items():
                self._postings[term].append((number, weight))
        for number, title in _titles_first(documents):
            self._titled.setdefault(tuple(query_terms(title)), number)
        mean = sum(lengths) / len(lengths) if lengths else 1.0
        self._damping = [SATURATION * (1 - LENGTH_MATTERS + LENGTH_MATTERS * length / mean) for length in lengths]

    def search(self, query: str) -> list[int]:
        """The numbers of the documents that have anything of the query, best first: before all, the one so titled."""
        wanted = query_terms(query)
        scores: dict[int, float] = defaultdict(float)
        for term, times in Counter(wanted).items():
            postings = self._postings.get(term, [])
            rarity = log(1 + (len(self._damping) - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, weight in postings:
                scores[number] += times * rarity * weight * (1 + SATURATION) / (weight + self._damping[number])
        titled = self._titled.get(tuple(wanted))
        return sorted(scores, key=lambda number: (number != titled, -scores[number], number))

    def correction(self, query: str) -> str | None:
        """The query with a similar word for each one that stands nowhere; None where that changes nothing."""
        corrected = WORD.sub(lambda found: self._similar(found[0]), query)
        return None if corrected == query else corrected.lower()

    def _weigh(self, document: Document) -> dict[str, float]:
        weights: dict[str, float] = defaultdict(float)
        for text, weight in ((document.title, TITLE), (" ".join(document.others), OTHER_TITLE), (document.text, 1.0)):
            for word, times in Counter(words(text)).items():
                self._words.add(word)
                weights[stem(word)] += weight * times
        return weights

    def _similar(self, word: str) -> str:
        plain = words(word)[0]
        if plain in STOP or stem(plain) in self._postings:
            return word
        return next(iter(get_close_matches(plain, self._words, n=1, cutoff=CLOSE)), word)


def _titles_first(documents: Sequence[Document]) -> Iterator[tuple[int, str]]:
    """Each title with its document's number; further titles come after all the titles, and yield to them."""
    yield from ((number, document.title) for number, document in enumerate(documents))
    yield from ((number, other) for number, document in enumerate(documents) for other in document.others)


def words(text: str) -> list[str]:
    """The words of a text in lower case, without accents and possessive endings."""
    found = WORD.findall(unicodedata.normalize("NFC", text).lower())
    return [word if word.isascii() and word.isalnum() else _plain(word) for word in found]


def query_terms(query: str) -> list[str]:
    """The terms of a query, without the words that any text has; all of them where there are no others."""
    found = words(query)
    return [stem(word) for word in found if word not in STOP] or [stem(word) for word in found]


def matches(text: str, wanted: Iterable[str]) -> list[tuple[int, int]]:
    """Where in the text the words stand whose terms are wanted: start and end of each."""
    wanted = frozenset(wanted)
    return [found.span() for found in WORD.finditer(text) if stem(words(found[0])[0]) in wanted]


def best_window(text: str, spans: Sequence[tuple[int, int]], width: int) -> int:
    """Where a stretch of that width begins that has the most different matches; 0 where there are none."""

    def variety(start: int) -> int:
        return len({text[a:b].lower() for a, b in spans if start <= a and b <= start + width})

    return max((start for start, _ in spans), key=variety, default=0)


def stem(word: str) -> str:
    """The word without an English plural ending."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes", "iases")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "ias")):
        return word[:-1]
    return word


def _plain(word: str) -> str:
    decomposed = unicodedata.normalize("NFKD", POSSESSIVE.sub("", word))
    return "".join(sign for sign in decomposed if not unicodedata.combining(sign))
