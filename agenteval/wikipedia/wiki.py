"""Search a wiki and fetch its pages, through the `wikipedia` package (which alone this file imports, with requests).

The package keeps language, address, user agent and its caches in module globals, asks without a time limit and never
twice. So each Wiki loads a copy of its module for itself, and puts a transport of its own below it: one session that
has a time limit, pauses between requests, and asks again where a server is busy or gone for a moment.
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
from agenteval.errors import UserError
from agenteval.models.retry import LONGEST_WAIT, backoff, on_this_machine, retry_after

ENDPOINT = "/w/api.php"
USER_AGENT = f"agenteval/{__version__} (command-line agent evaluation)"
"""Wikimedia asks for the program and a way to reach whoever runs it: give your own, with a mail or web address."""

MOST_HITS = 50
LONGEST_QUERY = 300  # signs, more are refused by Wikipedia
LONGEST_TITLE = 255  # bytes
BUSY = frozenset({"ratelimited", "maxlag", "readonly", "cirrussearch-too-busy-error", "search-backend-error"})

LANGUAGE = re.compile(r"[a-z]{2,}(-[a-z0-9]+)*")
NO_TITLE = re.compile(r"[\x00-\x1f\x7f<>\[\]{}|]")
TAG = re.compile(r"<[^>]*>")
SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s)|[。！？]")
HEADING = re.compile(r"=+ .* =+")

Json = dict[str, Any]


class SearchHit(NamedTuple):
    """A page that a search found, with a line of its text around the match."""

    title: str
    snippet: str


class WikiPage(NamedTuple):
    """A page: its own title, after redirects, beside the one asked for; truncated tells that there was more text."""

    title: str
    url: str
    text: str
    asked: str
    truncated: bool


class WikiError(Exception):
    """Why the wiki gave no answer, in one line."""


class NoPage(WikiError):
    """There is no such page; the suggestions are titles of pages that are there."""

    def __init__(self, message: str, suggestions: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.suggestions = list(suggestions)


class Ambiguous(WikiError):
    """The title names several things; the options are the titles of their pages."""

    def __init__(self, message: str, options: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.options = list(options)


def needs_wikipedia() -> None:
    """Nothing where the package is installed, else a UserError that says how to install it."""
    try:
        import requests  # noqa: F401
        import wikipedia  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        raise UserError(f"needs the Wikipedia client ({error}): pip install 'agenteval[wikipedia]'") from None


class Wiki:
    """A wiki that is searched and read; two of them share nothing. For one thread at a time.

    The API's address (by default that of Wikipedia in the language) may leave out /w/api.php. A text_limit of 0 is
    none, pause is the least time between two requests, retries are those after the first attempt.
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
    ) -> None:
        needs_wikipedia()
        self.api_url = _address(language, api_url)
        self.text_limit = text_limit
        self._library = _own_library()
        self._library.API_URL = self.api_url
        self._library.USER_AGENT = _agent_name(user_agent or USER_AGENT)
        self._library.requests = _Transport(self.api_url, pause, retries, timeout, sleep)

    def search(self, query: str, count: int = 5) -> list[SearchHit]:
        """The pages that match best, in the wiki's order; a query too long for a wiki loses its last words."""
        query = _one_line(query)
        if len(query) > LONGEST_QUERY:
            query = query[: LONGEST_QUERY + 1].rpartition(" ")[0] or query[:LONGEST_QUERY]
        if not query:
            raise WikiError("there is nothing to search for: the query is empty")
        count = min(max(count, 1), MOST_HITS)
        # The package's own search() leaves the snippets out.
        asked = {"list": "search", "srsearch": query, "srlimit": count, "srprop": "snippet", "srinfo": "totalhits"}
        with _sense(self.api_url):
            found = self._library._wiki_request(asked)["query"]["search"]
            return [SearchHit(hit["title"], _plain(hit.get("snippet", ""))) for hit in found][:count]

    def page(self, title: str) -> WikiPage:
        """The page with this title or redirect; Ambiguous where it lists several, NoPage where there is none."""
        wanted = _one_line(title.partition("#")[0])
        if not wanted or NO_TITLE.search(wanted) or len(wanted.encode()) > LONGEST_TITLE:
            raise NoPage(f"{_quoted(title)} cannot be the title of a page", self._like(title))
        try:
            with _sense(self.api_url):
                found = self._library.page(wanted, auto_suggest=False)
                text, truncated = cut(found.content, self.text_limit)
                return WikiPage(found.title, found.url, text, title, truncated)
        except self._library.PageError:
            raise NoPage(f"there is no page {_quoted(title)}", self._like(wanted)) from None
        except self._library.DisambiguationError as error:
            options = [option.strip() for option in error.options if option.strip()] or self._links(wanted)
            raise Ambiguous(f"{_quoted(title)} may mean several pages", dict.fromkeys(options)) from None

    def _links(self, title: str) -> list[str]:
        """The titles that a page links to, for a wiki whose lists the package cannot read; none where that fails."""
        asked = {"prop": "links", "titles": title, "redirects": "", "plnamespace": 0, "pllimit": MOST_HITS}
        try:
            with _sense(self.api_url):
                pages = self._library._wiki_request(asked)["query"]["pages"]
                return [link["title"] for page in pages.values() for link in page["links"]]
        except WikiError:
            return []

    def _like(self, title: str) -> list[str]:
        """The titles of pages that a search for a title finds; none where that fails too."""
        try:
            return [hit.title for hit in self.search(NO_TITLE.sub(" ", title))]
        except WikiError:
            return []


def cut(text: str, limit: int) -> tuple[str, bool]:
    """The text up to the last paragraph, else sentence, else word that ends within the limit, and whether that is less.

    An end too far from the limit is no good: too much would be lost. Headings over nothing are dropped.
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


class _Trouble(Exception):
    """Why an attempt gave nothing, whether another may, and how long the server wants us to wait before it."""

    def __init__(self, why: str, *, passing: bool = False, wait: float | None = None) -> None:
        super().__init__(why)
        self.passing = passing
        self.wait = wait


class _Answer(NamedTuple):
    """What the package expects of requests."""

    value: Json

    def json(self) -> Json:
        return self.value


class _Transport:
    """What the package calls in the place of requests."""

    def __init__(
        self, url: str, pause: float, retries: int, timeout: float, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        import requests

        self._errors = requests.exceptions
        self._session = requests.Session()
        self._session.trust_env = not on_this_machine(url)  # a proxy is not asked for what is here
        self._pause, self._retries, self._timeout, self._sleep = pause, retries, timeout, sleep
        self._last = float("-inf")

    def get(self, url: str, params: Json, headers: dict[str, str]) -> _Answer:
        """The answer to a request, after as many attempts as it takes and is allowed; else a WikiError."""
        for tries in range(1, max(self._retries, 0) + 2):
            self._keep_pause()
            try:
                return _Answer(self._ask(url, params, headers))
            except _Trouble as trouble:
                wait = backoff(tries) if trouble.wait is None else trouble.wait
                if not trouble.passing or wait > LONGEST_WAIT or tries > self._retries:
                    times = f" (asked {tries} times)" if tries > 1 else ""
                    raise WikiError(f"{_host(url)}: {trouble}{times}") from None
                self._sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _keep_pause(self) -> None:
        wait = self._last + self._pause - time.monotonic()
        if wait > 0:
            self._sleep(wait)
        self._last = time.monotonic()

    def _ask(self, url: str, params: Json, headers: dict[str, str]) -> Json:
        try:
            response = self._session.get(url, params=params, headers=headers, timeout=self._timeout)
        except self._errors.Timeout:
            raise _Trouble(f"no answer within {self._timeout:g} s", passing=True) from None
        except self._errors.SSLError as error:
            raise _Trouble(f"no secure connection: {_reason(error)}") from None
        except (self._errors.ConnectionError, self._errors.ChunkedEncodingError) as error:
            raise _Trouble(f"cannot be reached: {_reason(error)}", passing=True) from None
        except (self._errors.RequestException, ValueError) as error:
            raise _Trouble(_reason(error)) from None
        if response.status_code != 200:
            raise _refused(response)
        return _checked(response)


def _refused(response: Any) -> _Trouble:
    status, wait = response.status_code, retry_after(response.headers)
    why = f"answered {status} {response.reason or ''}".rstrip()
    if wait is not None and wait > LONGEST_WAIT:
        why += f", and wants {wait:.0f} s before the next request"
    if status == 403:
        why += ": it may want a user agent that says how to reach you"
    if status == 404:
        why += f": is {response.url.partition('?')[0]} the address of a MediaWiki API?"
    return _Trouble(why, passing=status == 429 or (status >= 500 and status != 501), wait=wait)


def _checked(response: Any) -> Json:
    """The answer, unless it is none, or an error that came as an answer."""
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        beginning = _one_line(response.text[:60])
        raise _Trouble(f"answered what is no MediaWiki API's answer: {beginning or 'nothing'}")
    if error := answer.get("error"):
        code, info = (error.get("code"), error.get("info")) if isinstance(error, dict) else (None, error)
        raise _Trouble(f"refused: {_short(info or code)}", passing=code in BUSY, wait=retry_after(response.headers))
    _mark_missing(answer.get("query"))
    return answer


def _mark_missing(query: Any) -> None:
    """Say "missing", which the package understands, of pages that cannot be: invalid, special, or of another wiki."""
    if not isinstance(query, dict):
        return
    if "interwiki" in query:
        query.setdefault("pages", {"-1": {"missing": ""}})
    pages = query.get("pages")
    for page in pages.values() if isinstance(pages, dict) else ():
        if isinstance(page, dict) and ("invalid" in page or "special" in page):
            page["missing"] = ""


@contextmanager
def _sense(url: str) -> Iterator[None]:
    """What the package raises when an answer lacks what it looks for becomes a WikiError."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, AssertionError, ValueError, RecursionError) as error:
        what = f"{type(error).__name__}: {_short(error)}"
        raise WikiError(f"{_host(url)}: answered something that makes no sense ({what})") from None


def _own_library() -> Any:
    """A copy of the package's module that nobody else has, and that needs no guess at a parser of HTML."""
    spec = find_spec("wikipedia.wikipedia")
    assert spec and spec.loader, "needs_wikipedia has imported it"
    library: Any = module_from_spec(spec)
    spec.loader.exec_module(library)
    library.BeautifulSoup = partial(library.BeautifulSoup, features="html.parser")
    return library


def _address(language: str, api_url: str | None) -> str:
    if api_url is None:
        if not LANGUAGE.fullmatch(language):
            raise UserError(f"{_quoted(language)} is no language of Wikipedia: give a code as en, de or simple")
        return f"https://{language}.wikipedia.org{ENDPOINT}"
    try:
        parts = urlsplit(api_url.strip())
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise UserError(f"{_quoted(api_url)} is no address of an API, such as https://en.wikipedia.org{ENDPOINT}")
    return parts._replace(path=parts.path if parts.path.strip("/") else ENDPOINT, fragment="").geturl()


def _agent_name(name: str) -> str:
    if not (name.isascii() and name.isprintable() and name.strip()):
        raise UserError(f"{_quoted(name)} cannot be a user agent: plain letters, digits and signs only")
    return name.strip()


def _plain(html: str) -> str:
    return _one_line(unescape(TAG.sub("", html)))


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def _reason(error: BaseException) -> str:
    """The innermost of what the layers below say of a failure: they wrap it in one another's words."""
    while isinstance(inner := getattr(error, "reason", None) or (error.args and error.args[0]), BaseException):
        error = inner
    found = re.search(r"\[Errno -?\d+\] ([^)]*)", str(error))
    return _short(found[1] if found else str(error))


def _short(value: object) -> str:
    text = _one_line(str(value))
    return text if len(text) <= 200 else text[:200] + "…"


def _one_line(text: str) -> str:
    """The text with single spaces, and without the halves of signs that a model's JSON may hold."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def _quoted(text: str) -> str:
    return f'"{_short(text)}"'
