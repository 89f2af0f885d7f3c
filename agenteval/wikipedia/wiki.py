"""Search a wiki and fetch its pages, through the `wikipedia` package, which this file alone imports.

The package keeps its settings and caches in module globals, sets no time limit and never retries. So each Wiki loads
its own copy of the module, in which `fetch` takes the place of requests: by default HTTP requests with a time limit,
pauses and retries (http_api.py).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from html import unescape
from importlib.util import find_spec, module_from_spec
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from agenteval import __version__
from agenteval.errors import MissingExtra, UserError
from agenteval.wikipedia.http_api import Fetch, HttpApi, Json, WikiError, host, one_line, short

ENDPOINT = "/w/api.php"
USER_AGENT = f"agenteval/{__version__} (command-line agent evaluation)"
"""Wikimedia asks for the program and a contact address of its user: give your own."""

MOST_HITS = 50
LONGEST_QUERY = 300  # characters; Wikipedia refuses longer ones
LONGEST_TITLE = 255  # bytes

LANGUAGE = re.compile(r"[a-z]{2,}(-[a-z0-9]+)*")
ILLEGAL_IN_TITLE = re.compile(r"[\x00-\x1f\x7f<>\[\]{}|]")
TAG = re.compile(r"<[^<>]*>")
SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s)|[。！？]")
HEADING = re.compile(r"=+ .* =+")


class SearchHit(NamedTuple):
    """A page that a search found, with the part of its text that matches."""

    title: str
    snippet: str


class WikiPage(NamedTuple):
    """A page: its own title, after redirects, and the one asked for; truncated if there was more text."""

    title: str
    url: str
    text: str
    asked: str
    truncated: bool


class NoPage(WikiError):
    """There is no such page; the suggestions are titles of existing pages."""

    def __init__(self, message: str, suggestions: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.suggestions = list(suggestions)


class Ambiguous(WikiError):
    """The title has several meanings; the options are the titles of their pages."""

    def __init__(self, message: str, options: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.options = list(options)


def needs_wikipedia() -> None:
    """Raises a UserError that says what to install if the wikipedia package is missing."""
    try:
        import wikipedia  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        raise MissingExtra(f"needs the Wikipedia client ({error})", "wikipedia") from None


class Wiki:
    """Searches and reads a wiki; instances share nothing. For one thread at a time.

    The API's address (by default that of Wikipedia in the language) may omit /w/api.php. A text_limit of 0 means no
    limit, pause is the least time between two requests. With `fetch`, requests go there and not over HTTP.
    """

    def __init__(
        self,
        *,
        language: str = "en",
        api_url: str | None = None,
        user_agent: str | None = None,
        text_limit: int = 6000,
        pause: float = 0.0,
        retries: int = 3,
        timeout: float = 20.0,
        sleep: Callable[[float], object] = time.sleep,
        fetch: Fetch | None = None,
    ) -> None:
        needs_wikipedia()
        self.api_url = _address(language, api_url)
        self.text_limit = text_limit
        if fetch is None:
            name = _agent_name(user_agent or USER_AGENT)
            api = HttpApi(self.api_url, name, pause=pause, retries=retries, timeout=timeout, sleep=sleep)
            fetch = api.fetch
        self._library = _own_library()
        self._library.requests = _Requests(fetch)

    def search(self, query: str, count: int = 5) -> list[SearchHit]:
        """Returns the best matches in the wiki's order; a query that is too long loses its last words."""
        query = one_line(query)
        if len(query) > LONGEST_QUERY:
            query = query[: LONGEST_QUERY + 1].rpartition(" ")[0] or query[:LONGEST_QUERY]
        if not query:
            raise WikiError("there is nothing to search for: the query is empty")
        count = min(max(count, 1), MOST_HITS)
        # The package's own search() returns no snippets.
        params = {"list": "search", "srsearch": query, "srlimit": count, "srprop": "snippet", "srinfo": "totalhits"}
        with self._unexpected_answers():
            found = self._library._wiki_request(params)["query"]["search"]
            return [SearchHit(hit["title"], _plain(hit.get("snippet", ""))) for hit in found][:count]

    def page(self, title: str) -> WikiPage:
        """Returns the page with this title or redirect; raises Ambiguous or NoPage."""
        wanted = one_line(title.partition("#")[0])
        if not wanted or ILLEGAL_IN_TITLE.search(wanted) or len(wanted.encode()) > LONGEST_TITLE:
            raise NoPage(f"{_quoted(title)} cannot be the title of a page", self._similar(title))
        try:
            with self._unexpected_answers():
                found = self._library.page(wanted, auto_suggest=False)
                text, truncated = truncate(found.content, self.text_limit)
                return WikiPage(found.title, found.url, text, title, truncated)
        except self._library.PageError:
            raise NoPage(f"there is no page {_quoted(title)}", self._similar(wanted)) from None
        except self._library.DisambiguationError as error:
            options = [option.strip() for option in error.options if option.strip()] or self._links(wanted)
            raise Ambiguous(f"{_quoted(title)} may mean several pages", dict.fromkeys(options)) from None

    def _links(self, title: str) -> list[str]:
        """Returns the titles that a page links to, if the package cannot read its list; none if that fails."""
        params = {"prop": "links", "titles": title, "redirects": "", "plnamespace": 0, "pllimit": MOST_HITS}
        try:
            with self._unexpected_answers():
                pages = self._library._wiki_request(params)["query"]["pages"]
                return [link["title"] for page in pages.values() for link in page["links"]]
        except WikiError:
            return []

    def _similar(self, title: str) -> list[str]:
        """Returns the titles that a search for a title finds; none if that fails."""
        try:
            return [hit.title for hit in self.search(ILLEGAL_IN_TITLE.sub(" ", title))]
        except WikiError:
            return []

    @contextmanager
    def _unexpected_answers(self) -> Iterator[None]:
        """Turns what the package raises when an answer lacks an expected field into a WikiError."""
        try:
            yield
        except (KeyError, IndexError, TypeError, AttributeError, AssertionError, ValueError, RecursionError) as error:
            what = f"{type(error).__name__}: {short(error)}"
            raise WikiError(f"{host(self.api_url)}: the answer has an unexpected form ({what})") from None


# --- the package --------------------------------------------------------------------------------


class _Answer(NamedTuple):
    """A response, as far as the package uses it."""

    value: Json

    def json(self) -> Json:
        return self.value


class _Requests(NamedTuple):
    """Takes the place of the requests module in the package."""

    fetch: Fetch

    def get(self, _url: str, params: Json, headers: Json) -> _Answer:
        answer = self.fetch(params)
        _mark_missing(answer.get("query"))
        return _Answer(answer)


def _mark_missing(query: Any) -> None:
    """Marks pages that cannot exist (invalid, special, of another wiki) as missing, which the package understands."""
    if not isinstance(query, dict):
        return
    if "interwiki" in query:
        query.setdefault("pages", {"-1": {"missing": ""}})
    pages = query.get("pages")
    for page in pages.values() if isinstance(pages, dict) else ():
        if isinstance(page, dict) and ("invalid" in page or "special" in page):
            page["missing"] = ""


def _own_library() -> Any:
    """Returns a new copy of the package's module that does not guess a parser of HTML."""
    spec = find_spec("wikipedia.wikipedia")
    assert spec and spec.loader, "needs_wikipedia has imported it"
    library: Any = module_from_spec(spec)
    spec.loader.exec_module(library)
    library.BeautifulSoup = partial(library.BeautifulSoup, features="html.parser")
    return library


# --- texts --------------------------------------------------------------------------------------


def truncate(text: str, limit: int) -> tuple[str, bool]:
    """Returns the text up to the last paragraph, sentence or word that ends within the limit, and whether it is cut.

    An end too far from the limit is not used: too much would be lost. Headings without text below are dropped.
    """
    text = _without_last_headings(text)
    if limit <= 0 or len(text) <= limit:
        return text, False
    head = text[: limit + 1]
    sentences = [found.end() for found in SENTENCE_END.finditer(head, limit // 2) if found.end() <= limit]
    ends = [head.rfind("\n", limit * 4 // 5), sentences[-1] if sentences else -1, head.rfind(" ", limit // 2)]
    end = next((end for end in ends if end > 0), limit)
    return _without_last_headings(head[:end]), True


def _without_last_headings(text: str) -> str:
    lines = text.split("\n")
    while lines and (not lines[-1].strip() or HEADING.fullmatch(lines[-1].strip())):
        lines.pop()
    return "\n".join(lines).strip()


def _address(language: str, api_url: str | None) -> str:
    if api_url is None:
        if not LANGUAGE.fullmatch(language):
            raise UserError(f"{_quoted(language)} is not a language of Wikipedia: give a code such as en, de or simple")
        return f"https://{language}.wikipedia.org{ENDPOINT}"
    try:
        parts = urlsplit(api_url.strip())
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise UserError(f"{_quoted(api_url)} is not the address of an API, such as https://en.wikipedia.org{ENDPOINT}")
    return parts._replace(path=parts.path if parts.path.strip("/") else ENDPOINT, fragment="").geturl()


def _agent_name(name: str) -> str:
    if not (name.isascii() and name.isprintable() and name.strip()):
        raise UserError(f"{_quoted(name)} cannot be a user agent: ASCII letters, digits and signs only")
    return name.strip()


def _plain(html: str) -> str:
    return one_line(unescape(TAG.sub("", html)))


def _quoted(text: str) -> str:
    return f'"{short(text)}"'
