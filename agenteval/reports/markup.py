"""Markdown: text of agents in it, which is never markup, tables and pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agenteval.streams.text import visible

_ACTIVE = re.compile(r"[\\`*\[\]|#~$_&<>\n]")  # what means something inside a line of markdown
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "<br>"}
_LINE_END = re.compile(r"\r\n?")
_BACKTICKS = re.compile("`+")


def fenced(text: str, language: str) -> str:
    """The text as it is, between fences longer than any it contains."""
    shown = visible(_LINE_END.sub("\n", text))
    runs = map(len, _BACKTICKS.findall(shown)) if "`" in shown else ()
    fence = "`" * max(3, 1 + max(runs, default=0))
    return f"{fence}{language}\n{shown}\n{fence}"


def inline(text: str) -> str:
    """The text as the words of one line: nothing in it is markup, its own lines are kept apart by <br>."""
    if text.isprintable():  # one line, without controls
        words = " ".join(text.split())
    else:
        lines = (" ".join(line.split()) for line in text.splitlines())
        words = visible("\n".join(filter(None, lines)))
    return _ACTIVE.sub(_escape, words)


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char == "_":
        text, at = found.string, found.start()
        if 0 < at < len(text) - 1 and text[at - 1].isalnum() and text[at + 1].isalnum():
            return char  # test_001 is no markup
    return _HTML.get(char) or "\\" + char


def table(header: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> list[str]:
    """The lines of a table: the first columns hold names, the others numbers, aligned to the right."""
    rule = ["---"] * names + ["---:"] * (len(header) - names)
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *rows)]


def page(sections: Iterable[Sequence[str]]) -> str:
    """The lines of the sections that are not empty, a blank line after each section."""
    return "\n".join(line for section in sections if section for line in [*section, ""])
