"""Articles in files, found as in a wiki: by title, by redirect and by full-text search (SQLite's FTS5).

A file has three header lines (title, redirects, kind), a blank line and the text: paragraphs and `== headings ==`,
separated by blank lines. The bundled articles have titles and redirects of Wikipedia; the text is our own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

from agenteval.errors import UserError
from agenteval.wikipedia.offline.english import search_terms, stem

if TYPE_CHECKING:
    import sqlite3

ARTICLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "articles")
FILE = re.compile(
    r"title: (?P<title>\S.*)\nredirects:(?P<redirects>.*)\nkind: (?P<kind>article|disambiguation)\n\n(?P<text>\S[^\0]*)"
)
LINK = re.compile(r"\[\[([^\]|]+)\]\]")
HEADING = re.compile(r"(={2,6}) (.+) \1")

TITLE_WEIGHT, REDIRECT_WEIGHT, TEXT_WEIGHT = 5.0, 2.0, 1.0
SHORTEST_PREFIX = 4  # letters
SNIPPET_TOKENS = 30
MATCH_START, MATCH_END = "\x02", "\x03"  # around each match in a snippet
NO_FTS5 = "the offline wiki needs a Python whose sqlite3 module has FTS5"
CREATE = "CREATE VIRTUAL TABLE page USING fts5(title, redirects, text, tokenize = 'unicode61 remove_diacritics 2')"
SEARCH = f"""
    SELECT rowid, snippet(page, 2, '{MATCH_START}', '{MATCH_END}', '', {SNIPPET_TOKENS}) FROM page WHERE page MATCH ?
    ORDER BY rowid != ?, bm25(page, {TITLE_WEIGHT}, {REDIRECT_WEIGHT}, {TEXT_WEIGHT}), rowid LIMIT ?
"""


class Article(NamedTuple):
    """A page: its title, its redirects, and its blocks (paragraphs, headings and lists)."""

    number: int
    title: str
    redirects: tuple[str, ...]
    disambiguation: bool
    blocks: tuple[str, ...]

    @property
    def text(self) -> str:
        """The text without markup, laid out like an extract of MediaWiki: two blank lines before a heading."""
        lines = ["\n\n" + block if HEADING.fullmatch(block) else block for block in self.blocks]
        return LINK.sub(r"\1", "\n".join(lines)).lstrip("\n")

    @property
    def links(self) -> list[str]:
        """The titles it links to."""
        return [title for block in self.blocks for title in LINK.findall(block)]


class ArticleHit(NamedTuple):
    """A search result; each match in the snippet stands between MATCH_START and MATCH_END."""

    article: Article
    snippet: str


class Corpus:
    """Articles with an index; for one thread."""

    def __init__(self, articles: Iterable[Article]) -> None:
        self.articles = tuple(articles)
        self._by_title = {article.title: article for article in self.articles}
        self._redirects = {other: article.title for article in self.articles for other in article.redirects}

    def article(self, title: str) -> Article | None:
        """Returns the article with exactly this title, or None; redirects are not followed."""
        return self._by_title.get(title)

    def redirect_target(self, title: str) -> str | None:
        """Returns the title that a redirect leads to, or None if it is not a redirect."""
        return None if title in self._by_title else self._redirects.get(title)

    def search(self, query: str, limit: int) -> list[ArticleHit]:
        """Returns the articles that contain any word of the query, best first.

        An article with exactly this title (else redirect) comes first, then BM25 decides; ties keep the order of the
        articles. Wikipedia requires all words, but in a small corpus few queries would find anything.
        """
        terms = search_terms(query)
        if not terms:
            return []
        exact = self._by_terms.get(_title_key(query), -1)
        rows = self._index.execute(SEARCH, (" OR ".join(map(_pattern, terms)), exact, limit))
        return [ArticleHit(self.articles[row], snippet) for row, snippet in rows]

    @cached_property
    def _by_terms(self) -> dict[tuple[str, ...], int]:
        """Maps each title, as its search terms, to the article's place; a title takes precedence over a redirect."""
        found: dict[tuple[str, ...], int] = {}
        for place, article in enumerate(self.articles):
            found.setdefault(_title_key(article.title), place)
        for place, article in enumerate(self.articles):
            for other in article.redirects:
                found.setdefault(_title_key(other), place)
        return found

    @cached_property
    def _index(self) -> sqlite3.Connection:
        try:
            import sqlite3
        except ImportError as error:
            raise UserError(f"{NO_FTS5}: {error}") from None
        index = sqlite3.connect(":memory:")
        try:
            index.execute(CREATE)
        except sqlite3.OperationalError as error:
            raise UserError(f"{NO_FTS5}: {error}") from None
        rows = ((place, *_columns(article)) for place, article in enumerate(self.articles))
        index.executemany("INSERT INTO page (rowid, title, redirects, text) VALUES (?, ?, ?, ?)", rows)
        return index


def _pattern(term: str) -> str:
    """Returns the FTS5 pattern for a term: other forms begin with its stem, unless it is so short that much does."""
    return f'"{stem(term)}"*' if len(term) >= SHORTEST_PREFIX else f'"{term}"'


def _title_key(title: str) -> tuple[str, ...]:
    return tuple(map(stem, search_terms(title)))


def _columns(article: Article) -> tuple[str, str, str]:
    """Returns what is indexed: the title, the redirects, and the text on one line, headings without their marks."""
    lines = (HEADING.sub(r"\2", line) for line in article.text.splitlines() if line)
    return article.title, " | ".join(article.redirects), " ".join(lines)


def read_corpus(directory: str) -> Corpus:
    """Reads the articles in the .txt files of a directory, numbered from 1 in the order of the file names."""
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".txt"))
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror}") from None
    return Corpus(_read_article(number, os.path.join(directory, name)) for number, name in enumerate(names, 1))


@cache
def bundled() -> Corpus:
    """Returns the articles that ship with the suite, read once."""
    return read_corpus(ARTICLES)


def _read_article(number: int, path: str) -> Article:
    try:
        with open(path, encoding="utf-8") as file:
            found = FILE.fullmatch(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}") from None
    if not found:
        raise UserError(f"{path}: needs the lines title:, redirects: and kind: (article or disambiguation), then text")
    redirects = tuple(other.strip() for other in found["redirects"].split("|") if other.strip())
    blocks = tuple(block.strip() for block in found["text"].split("\n\n") if block.strip())
    return Article(number, found["title"].strip(), redirects, found["kind"] == "disambiguation", blocks)
