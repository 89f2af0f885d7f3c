"""The sources of an answer, the expected ones, and how well they match.

Everything here is pure and deterministic. Two titles name the same page if their `normal_title` is equal.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log2
from typing import Any, NamedTuple
from unicodedata import normalize
from urllib.parse import unquote

import msgspec

from agenteval.errors import BadRecord
from agenteval.streams.text import counted, first_few, one_line, preview
from agenteval.wire.records import Record

SHOWN = 5  # titles of each kind in the reasoning
TITLE_WIDTH = 80
CITED = ("sources_used", "sources")
EXPECTED = "expected_sources"
NAMES = ("title", "url", "name")
PAGE_TOOLS = re.compile(r"(get|read|open)_?page|fetch", re.IGNORECASE)
BRACES_TRIED = 1000

_DISAMBIGUATION = " (disambiguation)"
_LINK = re.compile(r"^(?:(?:https?:)?//)?(?:[\w.-]+(?::\d+)?/|/)?wiki/([^?#]+)", re.IGNORECASE)
_SCRIPT = re.compile(r"^(?:https?:)?//[^?#]*\?(?:[^#]*&)?title=([^&#]+)", re.IGNORECASE)
_LETTERS = str.maketrans(
    {"_": " "}
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-")
    | dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u02b9\u2032\u00b4`", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"')
)


# --- titles -------------------------------------------------------------------------------------


def normal_title(title: str) -> str:
    """Normalizes a title for comparison: a link's page, without case, extra spaces, typography or (disambiguation)."""
    text = title.strip()
    if link := _LINK.match(text) or _SCRIPT.match(text):
        text = link[1]
    text = normalize("NFC", unquote(text))  # a wiki forbids titles such as %41
    plain = " ".join(text.translate(_LETTERS).split()).casefold()
    return plain.removesuffix(_DISAMBIGUATION)


def titles_in(value: Any) -> list[str] | None:
    """Returns the titles in a list of strings or of objects with a title or url; None for anything else."""
    entries = [value] if isinstance(value, str | dict) else value
    if not isinstance(entries, list):
        return None
    return [title.strip() for title in map(_title_of, entries) if title and title.strip()]


def _title_of(entry: Any) -> str | None:
    if isinstance(entry, dict):
        entry = next((entry[name] for name in NAMES if isinstance(entry.get(name), str) and entry[name].strip()), None)
    return entry if isinstance(entry, str) else None


# --- the sources of a record --------------------------------------------------------------------


def expected_of(record: Record) -> list[str]:
    """Returns the expected titles, at the top level or in the metadata; raises BadRecord if they are not titles."""
    metadata = record.get("metadata")
    places = [record, metadata] if isinstance(metadata, dict) else [record]
    value: Any = next((place[EXPECTED] for place in places if place.get(EXPECTED) is not None), [])
    titles = titles_in(value)
    if titles is None or len(titles) != (len(value) if isinstance(value, list) else 1):
        raise BadRecord(f'"{EXPECTED}" must be a list of titles')
    return titles


def sources_of(record: Record, where: str = "auto", page_tools: Sequence[str] = ()) -> list[str]:
    """Returns the sources of an answer, best first: those that it cites or, if it has no such list, the pages read.

    `where` is auto, answer or trajectory. An empty list of sources counts as citing nothing.
    """
    cited = None if where == "trajectory" else _cited_sources(record)
    if cited is None and where != "answer":
        return [page.title for page in pages_read(record, page_tools)]
    return cited or []


def _cited_sources(record: Record) -> list[str] | None:
    """Returns the sources in the record, else in its output; None if neither has a list of sources."""
    output = record.get("output")
    for place in (record, (final_object(output) if isinstance(output, str) else None) or {}):
        for name in CITED:
            if (titles := titles_in(place.get(name))) is not None:
                return titles
    return None


def final_object(text: str) -> Record | None:
    """Returns the JSON object that a text is or ends with, in a code fence or not; None if there is none."""
    end = text.rstrip().removesuffix("```").rstrip()
    at = len(end)
    if not end.endswith("}"):
        return None
    if end.lstrip().startswith("{") and (whole := _object(end)) is not None:
        return whole
    for _ in range(BRACES_TRIED):  # from the right: the first that parses extends to the end of the text
        at = end.rfind("{", 0, at)
        if at < 0:
            return None
        if (found := _object(end[at:])) is not None:
            return found
    return None


def _object(text: str) -> Record | None:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


# --- the pages that the agent read --------------------------------------------------------------


class PageRead(NamedTuple):
    """A page that a tool call fetched: its title, and the title that the agent asked for."""

    title: str
    asked: str


def pages_read(record: Record, page_tools: Sequence[str] = ()) -> Iterator[PageRead]:
    """Yields the pages fetched in the trajectory, in order: by calls of page tools that completed without an error."""
    for step in record.get("trajectory") or ():
        if not isinstance(step, dict) or step.get("type") != "tool_call" or step.get("status") != "completed":
            continue
        name = step.get("name") or ""
        if name in page_tools if page_tools else PAGE_TOOLS.search(name):
            answer = _answer_of(step.get("output"))
            asked = (_title_of(step.get("input")) or "").strip()
            title = (_title_of(answer) or "").strip() or asked  # the wiki's own title: redirects are followed
            if title and not answer.get("error"):
                yield PageRead(title, asked or title)


def _answer_of(output: Any) -> Record:
    """Returns a tool's output, an object, its JSON text or a list of texts, as an object; {} for anything else."""
    if isinstance(output, list):
        texts = [part.get("text") for part in output if isinstance(part, dict)]
        output = "".join(text for text in texts if isinstance(text, str))
    if isinstance(output, str):
        output = _object(output)
    return output if isinstance(output, dict) else {}


def redirects_of(record: Record, page_tools: Sequence[str] = ()) -> dict[str, str]:
    """Maps each title that the wiki answered with another page to that page's title; both normalized."""
    pairs = ((normal_title(page.asked), normal_title(page.title)) for page in pages_read(record, page_tools))
    return {asked: title for asked, title in pairs if asked != title}


# --- metrics ------------------------------------------------------------------------------------


class RankedSources(NamedTuple):
    """The first k distinct sources of an answer, and the rank of every expected title among them."""

    sources: list[str]
    ranks: dict[str, int | None]
    k: int | None

    @property
    def found(self) -> list[str]:
        """The expected titles that are among the sources."""
        return [title for title, rank in self.ranks.items() if rank is not None]


def rank_expected(
    sources: Iterable[str], expected: Iterable[str], k: int | None = None, redirects: Mapping[str, str] | None = None
) -> RankedSources:
    """Ranks the expected titles among the sources, from 1; duplicates count once, at their best rank."""
    given = list(_distinct(sources, redirects or {}).items())[:k]
    ranks = {key: rank for rank, (key, _) in enumerate(given, 1)}
    wanted = _distinct(expected, redirects or {})
    return RankedSources([title for _, title in given], {title: ranks.get(key) for key, title in wanted.items()}, k)


def _distinct(titles: Iterable[str], redirects: Mapping[str, str]) -> dict[str, str]:
    """Maps each normalized title to its first spelling."""
    found: dict[str, str] = {}
    for title in titles:
        key = normal_title(title)
        found.setdefault(redirects.get(key, key), title)
    return found


def metrics(ranked: RankedSources) -> dict[str, float]:
    """Returns how well the sources (the first k) match the expected ones, of which there must be at least one.

    hit_rate is 1 if any was found, mrr is 1 / rank of the first, and ndcg the discounted gain, 1 / log2(rank + 1) for
    each, relative to that of the best order.
    """
    found = sorted(rank for rank in ranked.ranks.values() if rank)
    gain = sum(1 / log2(rank + 1) for rank in found)
    best = sum(1 / log2(rank + 1) for rank in range(1, len(ranked.ranks) + 1)[: ranked.k])
    return {
        "hit_rate": 1.0 if found else 0.0,
        "mrr": 1 / found[0] if found else 0.0,
        "precision": len(found) / len(ranked.sources) if ranked.sources else 0.0,
        "recall": len(found) / len(ranked.ranks),
        "ndcg": gain / best,
    }


# --- the grader ---------------------------------------------------------------------------------


def grade_sources(
    record: Record,
    *,
    where: str = "auto",
    k: int | None = None,
    min_recall: float = 0.0,
    page_tools: tuple[str, ...] = (),
) -> Record:
    """Passes if an expected source is among the sources; a record without expected sources is an error."""
    try:
        expected = expected_of(record)
    except BadRecord as error:
        return {"error": str(error)}
    if not expected:
        return {"error": 'no expected sources: put "expected_sources" into the prompt or its metadata'}
    sources = sources_of(record, where, page_tools)
    ranked = rank_expected(sources, expected, k, redirects_of(record, page_tools))
    figures = metrics(ranked)
    return {
        "pass": bool(ranked.found) and figures["recall"] >= min_recall,
        "score": figures["mrr"],
        "reasoning": _explain(ranked, figures["recall"], min_recall),
        "outcome": {
            **figures,
            "found": ranked.found,
            "expected": list(ranked.ranks),
            "sources": ranked.sources,
            "ranks": ranked.ranks,
            "k": k,
        },
    }


def _explain(ranked: RankedSources, recall: float, min_recall: float) -> str:
    """Returns which expected sources were found at which ranks, and which are missing."""
    found = [f"{_quoted(title)} at rank {rank}" for title, rank in ranked.ranks.items() if rank]
    missing = [_quoted(title) for title, rank in ranked.ranks.items() if not rank]
    among = f"among {counted(len(ranked.sources), 'source')}"
    parts = [f"found {first_few(found, SHOWN)} {among}"] if found else []
    if missing:
        parts.append(f"did not find {first_few(missing, SHOWN)}" + ("" if found else f" {among}"))
    if found and recall < min_recall:
        parts.append(f"recall {recall:.2f} is below {min_recall:g}")
    return "; ".join(parts)


def _quoted(title: str) -> str:
    return f'"{preview(one_line(title, TITLE_WIDTH), TITLE_WIDTH)}"'
