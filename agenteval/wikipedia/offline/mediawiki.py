"""The MediaWiki web API over a corpus: the part that readers of a wiki use, as MediaWiki answers it in JSON.

Served at `/w/api.php`: action=query (list=search; prop=info, pageprops, extracts, revisions, links; meta=siteinfo) and
action=opensearch, with parameters in the address or in a form, errors and warnings in MediaWiki's words. Other actions
and formats are errors. Two things differ on purpose: one word of a search suffices (Wikipedia wants all of them, which
a small corpus seldom has), and fullurl names the page of Wikipedia that the article stands for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from html import escape, unescape
from typing import Any
from urllib.parse import parse_qsl, quote

from agenteval.wikipedia.offline.corpus import HEADING, LINK, Article, Corpus, bundled
from agenteval.wikipedia.offline.ranking import Document, Index, best_window, matches, query_terms
from agenteval.wikipedia.offline.serving import App, Request, Response, json_response

ENDPOINT = "/w/api.php"
SITE = "https://en.wikipedia.org/wiki/"
WRITTEN = "2026-11-01T00:00:00Z"  # the date of every page, since none is kept
LONGEST_TITLE = 255  # bytes
LONGEST_SEARCH = 300
MOST_TITLES = 50
SNIPPET = 180
ILLEGAL = re.compile(r"[\x00-\x1f\x7f<>\[\]{}|]")
FORM = "application/x-www-form-urlencoded"

Json = dict[str, Any]


class ApiError(Exception):
    """What the API refuses, with MediaWiki's code for it."""

    def __init__(self, code: str, info: str) -> None:
        super().__init__(info)
        self.code = code


def mediawiki(corpus: Corpus | None = None) -> App:
    """An app that answers as a wiki with these articles; the bundled ones by default."""
    wiki = Library(corpus) if corpus else _bundled_library()

    def answer(request: Request) -> Response:
        if request.path != ENDPOINT:
            return Response(404, f"not found: the API is at {ENDPOINT}\n".encode(), "text/plain")
        try:
            return json_response(_act(wiki, _parameters(request)))
        except ApiError as error:
            told = {"code": error.code, "info": str(error), "*": f"See {ENDPOINT} for API usage."}
            return json_response({"error": told}, headers={"MediaWiki-API-Error": error.code})

    return answer


class Library:
    """A corpus and its index, which is made once."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._index = Index(Document(article.title, article.redirects, article.text) for article in corpus.articles)

    def search(self, query: str) -> list[Article]:
        """The articles that match, best first."""
        return [self.corpus.articles[number] for number in self._index.search(query)]

    def correction(self, query: str) -> str | None:
        """What the user may have meant to search for, or None."""
        return self._index.correction(query)

    def starting_with(self, beginning: str) -> list[str]:
        """The titles and redirects that begin so, whatever their case; titles first."""
        wanted = beginning.casefold()
        every = [[article.title for article in self.corpus.articles]]
        every.append([other for article in self.corpus.articles for other in article.redirects])
        return [title for titles in every for title in sorted(titles) if title.casefold().startswith(wanted)]


@cache
def _bundled_library() -> Library:
    return Library(bundled())


# --- actions ------------------------------------------------------------------------------------


def _parameters(request: Request) -> dict[str, str]:
    if request.method == "POST" and request.headers.get("content-type", "").startswith(FORM):
        return request.query | dict(parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True))
    return request.query


def _act(wiki: Library, given: dict[str, str]) -> Any:
    for name, served in (("format", "json"), ("formatversion", "1")):
        if given.get(name, served) != served:
            raise _bad_value(name, given[name])
    action = given.get("action", "help")
    if action not in ACTIONS:
        raise _bad_value("action", action)
    return ACTIONS[action](wiki, given)


def _opensearch(wiki: Library, given: dict[str, str]) -> Any:
    beginning = _required(given, "search")
    found = wiki.starting_with(normal_title(beginning))[: _limit(given, "limit")]
    return [beginning, found, ["" for _ in found], [_address(title) for title in found]]


def _query(wiki: Library, given: dict[str, str]) -> Json:
    result: Json = {}
    warnings: dict[str, str] = {}
    answer: Json = {"batchcomplete": ""}
    for name, known in (("list", LISTS), ("meta", METAS)):
        for value in _values(given, name, known, warnings):
            result |= known[value](wiki, given)
    props = _values(given, "prop", PROPS, warnings)
    if "titles" in given or "pageids" in given:
        result |= _pages(wiki, given, props)
    if warnings:
        answer["warnings"] = {"query": {"*": "\n".join(warnings.values())}}
    return answer | ({"query": result} if result else {})


def _values(given: dict[str, str], name: str, known: dict[str, Any], warnings: dict[str, str]) -> list[str]:
    """The values of a parameter that are served; the others become a warning, as MediaWiki has it."""
    values = [value for value in given.get(name, "").split("|") if value]
    unknown = [value for value in values if value not in known]
    if unknown:
        many = "s" if len(unknown) > 1 else ""
        warnings[name] = f'Unrecognized value{many} for parameter "{name}": {", ".join(unknown)}.'
    return [value for value in values if value in known]


# --- list and meta ------------------------------------------------------------------------------


def _search(wiki: Library, given: dict[str, str]) -> Json:
    query = _required(given, "srsearch")
    if len(query) > LONGEST_SEARCH:
        size = f"(Actual: {len(query)}; allowed: {LONGEST_SEARCH})"
        raise ApiError(
            "cirrussearch-query-too-long", f"Search request is longer than the maximum allowed length. {size}"
        )
    found = wiki.search(query)
    start = _number(given, "sroffset", 0)
    shown = given.get("srprop", "size|wordcount|timestamp|snippet").split("|")
    told = given.get("srinfo", "totalhits|suggestion").split("|")
    info: Json = {"totalhits": len(found)} if "totalhits" in told else {}
    meant = wiki.correction(query) if "suggestion" in told else None
    if meant:
        info |= {"suggestion": meant, "suggestionsnippet": escape(meant)}
    hits = [_hit(article, query, shown) for article in found[start : start + _limit(given, "srlimit")]]
    return ({"searchinfo": info} if info else {}) | {"search": hits}


def _hit(article: Article, query: str, shown: Sequence[str]) -> Json:
    facts = {
        "size": len(article.text.encode()),
        "wordcount": len(article.text.split()),
        "snippet": snippet(article.text, query) if "snippet" in shown else "",
        "timestamp": WRITTEN,
    }
    base = {"ns": 0, "title": article.title, "pageid": article.number}
    return base | {name: fact for name, fact in facts.items() if name in shown}


def snippet(text: str, query: str) -> str:
    """The stretch of a text that has most of the query, as HTML with each match in a span."""
    text = " ".join(line for line in text.split("\n") if line and not HEADING.fullmatch(line))
    spans = matches(text, query_terms(query))
    start = best_window(text, spans, SNIPPET)
    sentence = text.rfind(". ", 0, start) + 2 if ". " in text[:start] else 0
    start = sentence if start - sentence < SNIPPET // 3 else start
    end = start + SNIPPET
    if end < len(text) and " " in text[start:end]:
        end = text.rindex(" ", start, end)
    pieces, at = [], start
    for first, last in spans:
        if start <= first and last <= end:
            pieces += [escape(text[at:first]), f'<span class="searchmatch">{escape(text[first:last])}</span>']
            at = last
    return "".join([*pieces, escape(text[at:end])])


def _siteinfo(wiki: Library, given: dict[str, str]) -> Json:
    return {"general": {"sitename": "Wikipedia", "generator": "agenteval offline", "base": SITE, "lang": "en"}}


# --- pages --------------------------------------------------------------------------------------


def normal_title(title: str) -> str:
    """The title as a wiki writes it: spaces for underscores, none too many, no fragment, a capital first."""
    title = " ".join(title.replace("_", " ").partition("#")[0].split())
    return title[:1].upper() + title[1:]


def _pages(wiki: Library, given: dict[str, str], props: Sequence[str]) -> Json:
    result: Json = {}
    pages: Json = {}
    absent = 0
    find = _titled if "titles" in given else _numbered
    for asked in _asked(given):
        found = find(wiki, asked, given, result)
        if isinstance(found, Article):
            page: Json = {"pageid": found.number, "ns": 0, "title": found.title}
            for prop in props:
                page |= PROPS[prop](found, given)
            pages[str(found.number)] = page
        else:
            absent -= 1
            pages[str(found.get("pageid", absent))] = found
    return result | ({"pages": pages} if pages else {})


def _asked(given: dict[str, str]) -> list[str]:
    if "titles" in given and "pageids" in given:
        raise ApiError("invalidparammix", 'The parameters "titles" and "pageids" can not be used together.')
    name = "titles" if "titles" in given else "pageids"
    asked = [value for value in given[name].split("|") if value.strip()]
    if len(asked) > MOST_TITLES:
        raise ApiError("toomanyvalues", f'Too many values supplied for parameter "{name}". The limit is {MOST_TITLES}.')
    for value in asked if name == "pageids" else []:
        if not re.fullmatch(r"[0-9]{1,18}", value):
            raise ApiError("badinteger", f'Invalid value "{value}" for integer parameter "pageids".')
    return asked


def _numbered(wiki: Library, asked: str, given: dict[str, str], result: Json) -> Article | Json:
    return wiki.corpus.numbered(int(asked)) or {"pageid": int(asked), "missing": ""}


def _titled(wiki: Library, asked: str, given: dict[str, str], result: Json) -> Article | Json:
    """The article meant, or the page that tells that it is missing; changes to the title are noted in the result."""
    title = normal_title(asked)
    if wrong := _wrong_title(title):
        return {"title": asked, "invalidreason": wrong, "invalid": ""}
    if title != asked:
        result.setdefault("normalized", []).append({"from": asked, "to": title})
    target = wiki.corpus.target(title)
    if target and "redirects" in given:
        result.setdefault("redirects", []).append({"from": title, "to": target})
        title = target
    missing = {"ns": 0, "title": title, "redirect" if target else "missing": ""} | _addresses(title, given)
    return wiki.corpus.article(title) or missing


def _wrong_title(title: str) -> str | None:
    if found := ILLEGAL.search(title):
        return f'The requested page title contains invalid characters: "{found[0]}".'
    if len(title.encode("utf-8", "replace")) > LONGEST_TITLE:
        return (
            f"The requested page title is too long. It must be no longer than {LONGEST_TITLE} bytes in UTF-8 encoding."
        )
    return None if title else "The requested page title is empty or contains only the name of a namespace."


def _addresses(title: str, given: dict[str, str]) -> Json:
    wanted = "url" in given.get("inprop", "").split("|") and "info" in given.get("prop", "").split("|")
    return {"fullurl": _address(title), "canonicalurl": _address(title)} if wanted else {}


def _info(article: Article, given: dict[str, str]) -> Json:
    size = len(article.text.encode())
    facts = {"contentmodel": "wikitext", "pagelanguage": "en", "touched": WRITTEN, "lastrevid": article.number}
    return facts | {"length": size} | _addresses(article.title, given)


def _pageprops(article: Article, given: dict[str, str]) -> Json:
    wanted = given.get("ppprop", "disambiguation").split("|")
    return {"pageprops": {"disambiguation": ""}} if article.disambiguation and "disambiguation" in wanted else {}


def _extracts(article: Article, given: dict[str, str]) -> Json:
    text = article.intro if "exintro" in given else article.text
    if "exsentences" in given:
        text = " ".join(re.split(r"(?<=[.!?])\s+", text)[: _number(given, "exsentences", 1)])
    elif len(text) > _number(given, "exchars", len(text)):
        text = text[: _number(given, "exchars", 0)].rsplit(" ", 1)[0] + "..."
    return {"extract": text if "explaintext" in given else _html(text)}


def _revisions(article: Article, given: dict[str, str]) -> Json:
    wanted = given.get("rvprop", "ids|timestamp|flags|comment|user").split("|")
    revision: Json = {"revid": article.number, "parentid": 0} if "ids" in wanted else {}
    if "timestamp" in wanted:
        revision["timestamp"] = WRITTEN
    if "content" in wanted:
        source = "\n\n".join(article.blocks)
        revision |= {"contentformat": "text/x-wiki", "contentmodel": "wikitext"}
        revision["*"] = _html(source) if "rvparse" in given else source
    return {"revisions": [revision]}


def _links(article: Article, given: dict[str, str]) -> Json:
    links = sorted(set(article.links))[: _limit(given, "pllimit")]
    return {"links": [{"ns": 0, "title": title} for title in links]} if links else {}


def _html(text: str) -> str:
    return "\n".join(_block(block.strip()) for block in re.split(r"\n\n+|\n(?![*])", text) if block.strip())


def _block(block: str) -> str:
    if heading := HEADING.fullmatch(block):
        return f"<h{len(heading[1])}>{escape(heading[2])}</h{len(heading[1])}>"
    html = LINK.sub(lambda link: _anchor(unescape(link[1])), escape(block))
    if html.startswith("* "):
        return "<ul>" + "".join(f"<li>{line.removeprefix('* ')}</li>" for line in html.split("\n")) + "</ul>"
    return f"<p>{html}</p>"


def _anchor(title: str) -> str:
    return f'<a href="/wiki/{_path(title)}" title="{escape(title)}">{escape(title)}</a>'


# --- parameters ---------------------------------------------------------------------------------


def _required(given: dict[str, str], name: str) -> str:
    if not given.get(name, "").strip():
        raise ApiError("missingparam", f'The "{name}" parameter must be set.')
    return given[name]


def _limit(given: dict[str, str], name: str) -> int:
    if given.get(name) == "max":
        return 500
    return min(max(_number(given, name, 10), 1), 500)


def _number(given: dict[str, str], name: str, otherwise: int) -> int:
    value = given.get(name, str(otherwise))
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise ApiError("badinteger", f'Invalid value "{value}" for integer parameter "{name}".')
    return int(value)


def _bad_value(name: str, value: str) -> ApiError:
    return ApiError("badvalue", f'Unrecognized value for parameter "{name}": {value}.')


def _address(title: str) -> str:
    return SITE + _path(title)


def _path(title: str) -> str:
    return quote(title.replace(" ", "_"), safe="/:@!$*(),;~'")


Prop = Callable[[Article, dict[str, str]], Json]
Part = Callable[[Library, dict[str, str]], Json]

ACTIONS: dict[str, Callable[[Library, dict[str, str]], Any]] = {"query": _query, "opensearch": _opensearch}
LISTS: dict[str, Part] = {"search": _search}
METAS: dict[str, Part] = {"siteinfo": _siteinfo}
PROPS: dict[str, Prop] = {
    "info": _info,
    "pageprops": _pageprops,
    "extracts": _extracts,
    "revisions": _revisions,
    "links": _links,
}
