"""The MediaWiki API over a corpus, without HTTP: answers the requests that wiki.py and the wikipedia package make.

That is action=query with list=search (srsearch, srlimit) or with one title (titles, redirects) and
prop=info|pageprops|extracts|revisions|links. The client checks titles and queries before it asks, so there are no API
errors. fullurl is the address of the Wikipedia page whose place the article takes.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any
from urllib.parse import quote

from agenteval.wikipedia.offline.corpus import MATCH_END, MATCH_START, Article, ArticleHit, Corpus

SITE = "https://en.wikipedia.org/wiki/"

Json = dict[str, Any]


def answer(corpus: Corpus, request: Json) -> Json:
    """Returns the decoded answer to the parameters of a request."""
    if request.get("list") == "search":
        hits = corpus.search(request["srsearch"], int(request["srlimit"]))
        return {"query": {"search": [_search_result(hit) for hit in hits]}}
    return {"query": _page_query(corpus, request)}


def _search_result(hit: ArticleHit) -> Json:
    snippet = escape(hit.snippet).replace(MATCH_START, '<span class="searchmatch">').replace(MATCH_END, "</span>")
    return {"ns": 0, "title": hit.article.title, "pageid": hit.article.number, "snippet": snippet}


def _page_query(corpus: Corpus, request: Json) -> Json:
    asked = request["titles"]
    title = normal_title(asked)
    query: Json = {"normalized": [{"from": asked, "to": title}]} if title != asked else {}
    if "redirects" in request and (target := corpus.redirect_target(title)):
        query["redirects"] = [{"from": title, "to": target}]
        title = target
    article = corpus.article(title)
    if article is None:
        return query | {"pages": {"-1": {"ns": 0, "title": title, "missing": ""}}}
    page: Json = {"pageid": article.number, "ns": 0, "title": title}
    for name in request["prop"].split("|"):
        page |= PROPS[name](article)
    return query | {"pages": {str(article.number): page}}


def normal_title(title: str) -> str:
    """Returns the title as a wiki writes it: spaces for underscores, none doubled, no fragment, a capital first."""
    title = " ".join(title.replace("_", " ").partition("#")[0].split())
    return title[:1].upper() + title[1:]


def _revisions(article: Article) -> Json:
    """Returns the only revision; of its HTML, the package reads the list items with links."""
    items = "".join(f"<li><a>{escape(title)}</a></li>" for title in article.links)
    return {"revisions": [{"revid": article.number, "parentid": 0, "*": f"<ul>{items}</ul>"}]}


PROPS: dict[str, Callable[[Article], Json]] = {
    "info": lambda article: {"fullurl": SITE + quote(article.title.replace(" ", "_"), safe="/:@!$*(),;~'")},
    "pageprops": lambda article: {"pageprops": {"disambiguation": ""}} if article.disambiguation else {},
    "extracts": lambda article: {"extract": article.text},
    "revisions": _revisions,
    "links": lambda article: {"links": [{"ns": 0, "title": title} for title in sorted(set(article.links))]},
}
