"""Markdown: agents' text, escaped so that it is never markup; tables and pages."""

import re
from collections.abc import Iterable, Sequence

from agenteval.streams.text import visible

# What means something inside a line of markdown, in this order: what one replacement adds, no later one replaces.
_ESCAPED = {"\\": "\\\\", "&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "<br>"}
_ESCAPED |= {char: f"\\{char}" for char in "`*[]|#~$"}
_UNDERSCORE = re.compile(r"_(?:(?![^\W_])|(?<![^\W_]_))")  # not one inside a word: test_001
# What is linked or notified without any markup: @name, #1, addresses, www. An invisible character breaks it.
# Each alternative starts with a character: then re skips the others five times as fast.
_LIVE = re.compile(r"@(?=\w)|#(?=\d)|:(?=//)|w(?<!\ww)[wW]{2}(?=\.)|W(?<!\wW)[wW]{2}(?=\.)")
_JOINER = "\u2060"


def fenced(text: str, language: str) -> str:
    """The text as it is, between fences longer than any it contains."""
    return between_fences(visible(normal_line_ends(text)), language)


def normal_line_ends(text: str) -> str:
    """The text with CR LF and CR as LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def between_fences(text: str, language: str) -> str:
    """The same for text whose line ends are normal; control characters are kept."""
    longest = max(map(len, re.findall("`+", text))) if "```" in text else 2
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def inline(text: str) -> str:
    """The text on one line, without markup; its lines are separated by <br>."""
    words = text.strip()
    if "  " in words or not words.isprintable():
        words = visible("\n".join(filter(None, (" ".join(line.split()) for line in words.splitlines()))))
    for char, escaped in _ESCAPED.items():
        if char in words:
            words = words.replace(char, escaped)
    if "_" in words:
        words = _UNDERSCORE.sub(r"\\_", words)
    return _LIVE.sub(_broken, words)


def _broken(found: re.Match[str]) -> str:
    return found[0] + _JOINER


def table(header: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> list[str]:
    """The lines of a table: the first columns hold names, the others numbers, aligned to the right."""
    rule = ["---"] * names + ["---:"] * (len(header) - names)
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *rows)]


def page(sections: Iterable[Sequence[str]]) -> str:
    """The lines of the sections that are not empty, a blank line after each section."""
    return "\n".join(line for section in sections if section for line in [*section, ""])
