"""Articles in files, as a wiki knows them: by title, by redirect and by number.

A file is three header lines (title, redirects, kind), a blank line and the text: paragraphs and `== headings ==`, a
blank line between them. Those that ship with the suite have titles and redirects of Wikipedia; the text is our own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from agenteval.errors import UserError

ARTICLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "articles")
FILE = re.compile(
    r"title: (?P<title>\S.*)\nredirects:(?P<redirects>.*)\nkind: (?P<kind>article|disambiguation)\n\n(?P<text>\S[^\0]*)"
)
LINK = re.compile(r"\[\[([^\]|]+)\]\]")
HEADING = re.compile(r"(={2,6}) (.+) \1")


class Article(NamedTuple):
    """A page: its title, its other titles, and its blocks (paragraphs, headings and lists)."""

    number: int
    title: str
    redirects: tuple[str, ...]
    disambiguation: bool
    blocks: tuple[str, ...]

    @property
    def text(self) -> str:
        """The text without markup, laid out as an extract of MediaWiki: a line per paragraph, room before a heading."""
        lines = ["\n\n" + block if HEADING.fullmatch(block) else block for block in self.blocks]
        return LINK.sub(r"\1", "\n".join(lines)).lstrip("\n")

    @property
    def intro(self) -> str:
        """The text before the first heading."""
        return self.text.split("\n\n\n==")[0]

    @property
    def links(self) -> list[str]:
        """The titles it links to."""
        return [title for block in self.blocks for title in LINK.findall(block)]


class Corpus:
    """Articles, found by any of their titles."""

    def __init__(self, articles: Iterable[Article]) -> None:
        self.articles = tuple(articles)
        self._by_title = {article.title: article for article in self.articles}
        self._by_number = {article.number: article for article in self.articles}
        self._redirects = {other: article.title for article in self.articles for other in article.redirects}

    def article(self, title: str) -> Article | None:
        """The article with exactly this title (redirects do not count), or None."""
        return self._by_title.get(title)

    def numbered(self, number: int) -> Article | None:
        """The article with this number, or None."""
        return self._by_number.get(number)

    def target(self, title: str) -> str | None:
        """The title that a redirect leads to, or None where this is no redirect."""
        return None if title in self._by_title else self._redirects.get(title)


def read_corpus(directory: str) -> Corpus:
    """The articles in the .txt files of a directory, numbered in the order of their names."""
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".txt"))
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror}") from None
    return Corpus(_read(number, os.path.join(directory, name)) for number, name in enumerate(names, 1))


@cache
def bundled() -> Corpus:
    """The articles that ship with the suite, read once."""
    return read_corpus(ARTICLES)


def _read(number: int, path: str) -> Article:
    try:
        with open(path, encoding="utf-8") as file:
            found = FILE.fullmatch(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}") from None
    if not found:
        raise UserError(f"{path}: wants the lines title:, redirects: and kind: (article or disambiguation), then text")
    redirects = tuple(other.strip() for other in found["redirects"].split("|") if other.strip())
    blocks = tuple(block.strip() for block in found["text"].split("\n\n") if block.strip())
    return Article(number, found["title"].strip(), redirects, found["kind"] == "disambiguation", blocks)
