"""What the rule model knows of English: which words carry a question, which belong together, where a sentence ends."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

from agenteval.wikipedia.offline.ranking import STOP, stem, words

SYNONYMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "synonyms.txt")
SAME, LIKE = 1.0, 0.6  # how far a word counts that is the one asked for, and one that can stand for it
LIGHT = 0.35
MOST_TERMS = 300  # of a text that somebody pasted as a question

# Words of grammar, which say nothing about a subject, beside those that a search leaves out anyway.
GRAMMAR = STOP | frozenset(
    words(
        "according across actually after again against ago all almost already also although always among another "
        "around away because become becomes before behind being between both during each either else especially even "
        "ever every exactly get gets getting go goes going having he her here him his itself just let like might must "
        "never now off often once only other others ourselves out over perhaps please quite rather really same she "
        "simply since someone something sometimes still themselves though through thus today together toward towards "
        "until up upon us usually very via well whatever whether while within without yet yourself"
    )
)
# Words that many questions have, and that say little; any form of them.
LIGHT_WORDS = """
affect answer ask best better call cause certain come consider define definition describe differ difference different
discuss enough example explain explanation famous find first follow give good happen help idea important include
influence instead keep kind know lead less list long look lot main make many matter mean meaning more most much name
need new next nothing one own people person play point possible prefer put question reason relate result right role
say see seem several show sort take talk tell tend term thing think time too turn two type under use usual want way
whole word work
"""
ENDINGS = (
    *("ization", "ation", "ment", "ness", "ance", "ence", "able", "ible", "ally", "ing", "ion", "ive"),
    *("ity", "ful", "ous", "ize", "ty", "ed", "er", "or", "al", "ly", "ic", "y", "e"),
)
SHORTEST_ROOT = 4
SPELLINGS = (
    (re.compile(r"(?<=\w{3})our"), "or"),
    (re.compile(r"(?<=\w{3})is(?=e|ing|ation)"), "iz"),
    (re.compile(r"ability$"), "able"),
)
SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]”’]))\s+(?=[\"'(\[“‘]?[A-Z0-9])")
NO_END = re.compile(r"(?:\b[A-Z]|\b(?:Mr|Mrs|Ms|Dr|Prof|St|No|vs|etc|cf|ca|approx|e\.g|i\.e|U\.S|Inc|Ltd|Co|Jr|Sr))\.$")


# --- words --------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 14)
def root(word: str) -> str:
    """What inflected and derived forms of a word share, in one spelling; not always a word itself."""
    found = stem(word)
    for spelling, ours in SPELLINGS:
        found = spelling.sub(ours, found)
    for _ in range(2):
        shorter = (found.removesuffix(end) for end in ENDINGS if found.endswith(end))
        found = next((short for short in shorter if len(short) >= SHORTEST_ROOT), found)
    return found[:-1] if len(found) > SHORTEST_ROOT and found[-1] == found[-2] and found[-1] not in "sl" else found


def roots(text: str) -> list[str]:
    """The roots of the words of a text that say something, in order."""
    return [root(word) for word in words(text) if word not in GRAMMAR]


def content_words(text: str) -> list[str]:
    """The words of a text that say something, each once; all of them where it has no other."""
    found = list(dict.fromkeys(words(text)))
    return [word for word in found if word not in GRAMMAR] or found


def key_words(text: str) -> list[str]:
    """The words that carry a question, each once; its content words where it has no other."""
    found = content_words(text)
    return [word for word in found if root(word) not in light_roots()] or found


def weighted_terms(text: str) -> dict[str, float]:
    """Root → weight, for what a text asks about: light words weigh little."""
    return {term: LIGHT if term in light_roots() else 1.0 for term in map(root, content_words(text)[:MOST_TERMS])}


@cache
def light_roots() -> frozenset[str]:
    """The roots of the light words."""
    return frozenset(root(word) for word in words(LIGHT_WORDS))


@cache
def synonyms() -> Mapping[str, frozenset[str]]:
    """Root → roots that can stand for it."""
    groups: dict[str, set[str]] = {}
    for line in _synonym_lines():
        group = {root(word) for word in words(line)}
        for one in group:
            groups.setdefault(one, set()).update(group - {one})
    return {one: frozenset(others) for one, others in groups.items()}


@cache
def stand_ins() -> Mapping[str, str]:
    """Word → the first other word that can stand for it, by root."""
    found: dict[str, str] = {}
    for line in _synonym_lines():
        group = words(line)
        for word in group:
            other = next((one for one in group if root(one) != root(word)), None)
            if other:
                found.setdefault(root(word), other)
    return found


@cache
def _synonym_lines() -> list[str]:
    with open(SYNONYMS, encoding="utf-8") as file:
        return [line for line in file if not line.startswith("#")]


def likeness(term: str, found: frozenset[str]) -> float:
    """How far a root is among others: itself, one that can stand for it, or not."""
    if term in found:
        return SAME
    return LIKE if synonyms().get(term, frozenset()) & found else 0.0


def matched(terms: Iterable[str], found: Iterable[str]) -> dict[str, float]:
    """Term → how far it is among the roots found, for those that are."""
    there = frozenset(found)
    return {term: like for term in terms if (like := likeness(term, there))}


def coverage(terms: Mapping[str, float], found: Iterable[str]) -> float:
    """The share of the weighted terms that are among the roots found, 0 to 1; 0 where there are no terms."""
    whole = sum(terms.values())
    return sum(terms[term] * like for term, like in matched(terms, found).items()) / whole if whole else 0.0


# --- sentences ----------------------------------------------------------------------------------


def sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph; initials and common abbreviations do not end one."""
    found: list[str] = []
    for piece in SENTENCE_END.split(" ".join(paragraph.split())):
        if found and NO_END.search(found[-1]):
            found[-1] += f" {piece}"
        elif piece:
            found.append(piece)
    return found
