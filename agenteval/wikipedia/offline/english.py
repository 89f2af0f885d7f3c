"""What the offline search and the rule model know of English: words, stop words, roots, synonyms and sentences."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

SYNONYMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "synonyms.txt")
SAME, SYNONYM = 1.0, 0.6  # how much a word counts that is the one asked for, and one that can replace it
LIGHT = 0.35
MOST_TERMS = 300  # of a long text that was pasted as a question

WORD = re.compile(r"[^\W_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}][^\W_]+)*")
POSSESSIVE = re.compile(r"['\N{RIGHT SINGLE QUOTATION MARK}]s?$")
STOP_WORDS = frozenset(
    WORD.findall(
        """a about an and any are as at be been but by can could did do does for from had has have how i if in into is
        it its may me my no not of on or our shall should so some such than that the their them then there these they
        this those to was we were what when where which who whom whose why will with would you your"""
    )
)
# Words of grammar, which name no subject, besides the stop words of a search.
GRAMMAR = STOP_WORDS | frozenset(
    WORD.findall(
        """according across actually after again against ago all almost already also although always among another
        around away because become becomes before behind being between both during each either else especially even
        ever every exactly get gets getting go goes going having he her here him his itself just let like might must
        never now off often once only other others ourselves out over perhaps please quite rather really same she
        simply since someone something sometimes still themselves though through thus today together toward towards
        until up upon us usually very via well whatever whether while within without yet yourself"""
    )
)
# Words that occur in many questions and tell little about the subject; in any form.
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
ABBREVIATION = re.compile(
    r"(?:\b[A-Z]|\b(?:Mr|Mrs|Ms|Dr|Prof|St|No|vs|etc|cf|ca|approx|e\.g|i\.e|U\.S|Inc|Ltd|Co|Jr|Sr))\.$"
)


# --- words --------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    """Returns the words of a text in lower case, without accents and possessive endings."""
    found = WORD.findall(unicodedata.normalize("NFC", text).lower())
    return [word if word.isascii() and word.isalnum() else _plain(word) for word in found]


def _plain(word: str) -> str:
    decomposed = unicodedata.normalize("NFKD", POSSESSIVE.sub("", word))
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def search_terms(query: str) -> list[str]:
    """Returns the words of a query without stop words; all words if there are no others."""
    found = words(query)
    return [word for word in found if word not in STOP_WORDS] or found


def stem(word: str) -> str:
    """Returns the word without an English plural ending."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes", "iases")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "ias")):
        return word[:-1]
    return word


@lru_cache(maxsize=1 << 14)
def root(word: str) -> str:
    """Returns what inflected and derived forms of a word have in common, in one spelling; not always a word."""
    found = stem(word)
    for spelling, ours in SPELLINGS:
        found = spelling.sub(ours, found)
    for _ in range(2):
        shorter = (found.removesuffix(end) for end in ENDINGS if found.endswith(end))
        found = next((short for short in shorter if len(short) >= SHORTEST_ROOT), found)
    return found[:-1] if len(found) > SHORTEST_ROOT and found[-1] == found[-2] and found[-1] not in "sl" else found


def roots(text: str) -> list[str]:
    """Returns the roots of the words of a text, in order, without words of grammar."""
    return [root(word) for word in words(text) if word not in GRAMMAR]


def content_words(text: str) -> list[str]:
    """Returns the words of a text without words of grammar, each once; all words if there are no others."""
    found = list(dict.fromkeys(words(text)))
    return [word for word in found if word not in GRAMMAR] or found


def key_words(text: str) -> list[str]:
    """Returns the content words of a question without light words, each once; all content words if no others."""
    found = content_words(text)
    return [word for word in found if root(word) not in light_roots()] or found


def weighted_terms(text: str) -> dict[str, float]:
    """Maps the roots of the content words of a text to their weights: light words weigh little."""
    return {term: LIGHT if term in light_roots() else 1.0 for term in map(root, content_words(text)[:MOST_TERMS])}


@cache
def light_roots() -> frozenset[str]:
    """Returns the roots of the light words."""
    return frozenset(root(word) for word in words(LIGHT_WORDS))


@cache
def synonyms() -> Mapping[str, frozenset[str]]:
    """Maps a root to the roots of its synonyms."""
    groups: dict[str, set[str]] = {}
    for line in _synonym_lines():
        group = {root(word) for word in words(line)}
        for one in group:
            groups.setdefault(one, set()).update(group - {one})
    return {one: frozenset(others) for one, others in groups.items()}


@cache
def replacements() -> Mapping[str, str]:
    """Maps a root to the first word that is a synonym of it."""
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


def matched(terms: Iterable[str], found: Iterable[str]) -> dict[str, float]:
    """Maps the terms that are among the roots found to SAME, or to SYNONYM if only a synonym is."""
    present = frozenset(found)
    return {
        term: SAME if term in present else SYNONYM
        for term in terms
        if term in present or synonyms().get(term, frozenset()) & present
    }


def coverage(terms: Mapping[str, float], found: Iterable[str]) -> float:
    """Returns the share of the weighted terms that are among the roots found, 0 to 1; 0 if there are no terms."""
    whole = sum(terms.values())
    return sum(terms[term] * match for term, match in matched(terms, found).items()) / whole if whole else 0.0


# --- sentences ----------------------------------------------------------------------------------


def sentences(paragraph: str) -> list[str]:
    """Splits a paragraph into sentences; initials and common abbreviations do not end one."""
    found: list[str] = []
    for piece in SENTENCE_END.split(" ".join(paragraph.split())):
        if found and ABBREVIATION.search(found[-1]):
            found[-1] += f" {piece}"
        elif piece:
            found.append(piece)
    return found
