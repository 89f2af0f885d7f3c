"""Search a wiki and read its pages, through the `wikipedia` package, which only this file imports.

The package sets no time limit, does not retry and ignores the status of an answer, and its search returns titles only.
So the search is a request of our own, each call has a time limit and is retried, and every failure becomes one line.
"""

import re
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from html import unescape
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from agenteval import __version__
from agenteval.errors import UserError
from agenteval.models.retry import LONGEST_WAIT, backoff, retry_after

T = TypeVar("T")

ENDPOINT = "/w/api.php"
USER_AGENT = f"agenteval/{__version__} (command-line agent evaluation)"
"""Wikimedia asks for the program and a contact address of its user: give your own."""

MOST_HITS = 50
LONGEST_QUERY = 300  # characters; Wikipedia refuses longer ones
LONGEST_TITLE = 255  # bytes
LONGEST_REASON = 200  # characters
BUSY = frozenset({"ratelimited", "maxlag", "readonly", "cirrussearch-too-busy-error", "search-backend-error"})

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
    """A page: its own title, after redirects; truncated if there was more text."""

    title: str
    url: str
    text: str
    truncated: bool


class WikiError(Exception):
    """The wiki gave no answer, for a reason in one line; `titles` are those of pages to read instead.

    A transient failure is worth a retry, after `wait` seconds if the server asks for that.
    """

    def __init__(
        self, why: str, titles: Iterable[str] = (), *, transient: bool = False, wait: float | None = None
    ) -> None:
        super().__init__(why)
        self.titles, self.transient, self.wait = list(titles), transient, wait


class NoPage(WikiError):
    """There is no such page; `titles` are similar ones."""


class Ambiguous(WikiError):
    """The title has several meanings, the pages named by `titles`."""


class Wiki:
    """Searches and reads a wiki; for the main thread only, because a timer limits each call.

    The API's address (by default that of Wikipedia in the language) may omit /w/api.php. A text_limit of 0 means no
    limit, pause is the least time between two calls.
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
        self.api_url = _address(language, api_url)
        self._shown_url = re.sub(r"//[^/@]*@", "//", self.api_url)  # without a password
        self._place = urlsplit(self._shown_url).netloc
        self.user_agent = (user_agent or USER_AGENT).strip()
        if not (self.user_agent.isascii() and self.user_agent.isprintable() and self.user_agent):
            raise UserError(
                f"{_quoted(self.user_agent)} cannot be a user agent: use only ASCII letters, digits and punctuation"
            )
        self.text_limit, self._pause, self._retries, self._timeout = text_limit, pause, retries, timeout
        self._sleep = sleep
        self._last_call = float("-inf")

    def search(self, query: str, most: int = 5) -> list[SearchHit]:
        """Returns the best matches in the wiki's order; a query that is too long loses its last words."""
        query = one_line(query)
        if len(query) > LONGEST_QUERY:
            query = query[: LONGEST_QUERY + 1].rpartition(" ")[0] or query[:LONGEST_QUERY]
        if not query:
            raise WikiError("there is nothing to search for: the query is empty")
        most = min(max(most, 1), MOST_HITS)
        params = {"list": "search", "srsearch": query, "srlimit": most, "srprop": "snippet", "srinfo": "totalhits"}
        try:
            found = self._retried(lambda: self._request(params))["query"]["search"]
            return [SearchHit(hit["title"], one_line(unescape(TAG.sub("", hit["snippet"])))) for hit in found][:most]
        except (KeyError, TypeError) as error:
            raise WikiError(f"{self._place}: the answer has an unexpected form ({error!r:.{LONGEST_REASON}})") from None

    def page(self, title: str) -> WikiPage:
        """Returns the page with this title or redirect; raises Ambiguous or NoPage."""
        import wikipedia  # type: ignore[import-untyped]

        wanted = one_line(title.partition("#")[0])
        if not wanted or ILLEGAL_IN_TITLE.search(wanted) or len(wanted.encode()) > LONGEST_TITLE:
            raise NoPage(f"{_quoted(title)} cannot be the title of a page", self._similar(title))
        # Settings are global in the package, and set_lang() knows only Wikipedia, over plain HTTP.
        wikipedia.wikipedia.API_URL = self.api_url
        wikipedia.set_user_agent(self.user_agent)
        try:
            found, content = self._retried(lambda: self._read(wikipedia, wanted))
        except wikipedia.PageError:
            raise NoPage(f"there is no page {_quoted(title)}", self._similar(wanted)) from None
        except wikipedia.DisambiguationError as error:
            options = [option.strip() for option in error.options if option.strip()] or self._similar(wanted)
            raise Ambiguous(f"{_quoted(title)} may mean several pages", dict.fromkeys(options)) from None
        text, truncated = truncate(content, self.text_limit)
        return WikiPage(found.title, found.url, text, truncated)

    def _similar(self, title: str) -> list[str]:
        """Returns the titles that a search for a title finds; none if that fails."""
        try:
            return [hit.title for hit in self.search(ILLEGAL_IN_TITLE.sub(" ", title))]
        except WikiError:
            return []

    # --- requests ---------------------------------------------------------------------------------

    def _read(self, wikipedia: Any, title: str) -> tuple[Any, str]:
        """Returns a page of the package and its text; if the package cannot read it, asks the API for the reason."""
        try:
            with warnings.catch_warnings(action="ignore"):  # bs4 complains about how the package calls it
                found = wikipedia.page(title, auto_suggest=False)
                return found, found.content or ""
        except ValueError:  # not JSON
            self._request({"titles": title})
            raise WikiError("the answer is not JSON", transient=True) from None
        except (KeyError, IndexError, TypeError, AttributeError, AssertionError, RecursionError):
            self._request({"titles": title})  # an error, or a title that cannot have a page (Special:Random, de:Apfel)
            raise wikipedia.PageError(title) from None

    def _request(self, params: dict[str, Any]) -> dict[str, Any]:
        """Returns the decoded answer of the API; raises WikiError if it is an error."""
        import requests

        params, headers = {"action": "query", "format": "json", **params}, {"User-Agent": self.user_agent}
        answer = requests.get(self.api_url, params=params, headers=headers, timeout=self._timeout)
        status, wait = answer.status_code, retry_after(answer.headers)
        if status != 200:
            why = f"answered {status} {answer.reason or ''}".rstrip()
            why += (
                f", and asks for a wait of {wait:.0f} s before the next request" if wait and wait > LONGEST_WAIT else ""
            )
            why += ": it may require a user agent with a contact address (--user-agent)" if status == 403 else ""
            why += f": is {self._shown_url} the URL of a MediaWiki API?" if status == 404 else ""
            raise WikiError(why, transient=status == 429 or (status >= 500 and status != 501), wait=wait)
        decoded: Any = None
        with suppress(ValueError):
            decoded = answer.json()
        if not isinstance(decoded, dict):
            raise WikiError(f"the answer is not from a MediaWiki API: {one_line(answer.text[:60]) or 'nothing'}")
        if error := decoded.get("error"):
            code, info = (error.get("code"), error.get("info")) if isinstance(error, dict) else (None, error)
            reason = one_line(str(info or code))[:LONGEST_REASON]
            raise WikiError(f"refused: {reason}", transient=code in BUSY, wait=wait)
        return decoded

    def _retried(self, call: Callable[[], T]) -> T:
        """Returns the result of a call, which is repeated after transient failures; raises WikiError."""
        attempt = 0
        while True:
            attempt += 1
            if (pause := self._last_call + self._pause - time.monotonic()) > 0:
                self._sleep(pause)
            self._last_call = time.monotonic()
            try:
                return self._attempt(call)
            except WikiError as failure:
                wait = backoff(attempt) if failure.wait is None else failure.wait
                if not failure.transient or wait > LONGEST_WAIT or attempt > self._retries:
                    attempts = f" (tried {attempt} times)" if attempt > 1 else ""
                    raise WikiError(f"{self._place}: {failure}{attempts}") from None
                self._sleep(wait)

    def _attempt(self, call: Callable[[], T]) -> T:
        from requests.exceptions import ChunkedEncodingError, ConnectionError, SSLError, Timeout

        deadline = time.monotonic() + self._timeout
        try:
            with time_limit(self._timeout):
                return call()
        except OSError as error:  # all errors of requests are
            if isinstance(error, Timeout | TimeoutError) or time.monotonic() >= deadline:
                raise WikiError(f"no answer within {self._timeout:g} s", transient=True) from None
            transient = isinstance(error, ConnectionError | ChunkedEncodingError) and not isinstance(error, SSLError)
            raise WikiError(f"cannot be reached: {_innermost(error)}", transient=transient) from None


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TimeoutError when the time is over; the timeout of requests restarts with each byte."""

    def too_late(_signum: int, _frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _innermost(error: BaseException) -> str:
    """Returns the message of the innermost error: each HTTP layer wraps that of the one below."""
    while isinstance(inner := getattr(error, "reason", None) or (error.args and error.args[0]), BaseException):
        error = inner
    found = re.search(r"\[Errno -?\d+\] ([^)]*)", str(error))
    return one_line(found[1] if found else str(error))[:LONGEST_REASON]


# --- texts ----------------------------------------------------------------------------------------


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
            raise UserError(f"{_quoted(language)} is not a Wikipedia language: give a code such as en, de or simple")
        return f"https://{language}.wikipedia.org{ENDPOINT}"
    with suppress(ValueError):
        parts = urlsplit(api_url.strip())
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts._replace(path=parts.path if parts.path.strip("/") else ENDPOINT, fragment="").geturl()
    raise UserError(f"{_quoted(api_url)} is not the URL of an API, such as https://en.wikipedia.org{ENDPOINT}")


def one_line(text: str) -> str:
    """Returns the text with single spaces, and with ? for lone surrogates, which a model's JSON may contain."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def _quoted(text: str) -> str:
    return f'"{one_line(text):.{LONGEST_REASON}}"'
