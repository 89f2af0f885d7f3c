"""Markdown: text of agents in it, which is never markup, tables and pages."""

import re
from collections.abc import Iterable, Sequence

from agenteval.streams.text import visible

# What means something inside a line of markdown, in this order: what one replacement adds, no later one replaces.
_ESCAPED = {"\\": "\\\\", "&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "<br>"}
_ESCAPED |= {char: f"\\{char}" for char in "`*[]|#~$"}
_UNDERSCORE = re.compile(r"_(?:(?![^\W_])|(?<![^\W_]_))")  # not one inside a word: test_001
_BETWEEN = "\0"  # texts that are escaped together: none has one once it is visible
_LINE_END = re.compile(r"\r\n?")
_BACKTICKS = re.compile("`+")


def fenced(text: str, language: str) -> str:
    """The text as it is, between fences longer than any it contains."""
    return between_fences(visible(normal_line_ends(text)), language)


def normal_line_ends(text: str) -> str:
    """The text with CR LF and CR as LF."""
    return _LINE_END.sub("\n", text) if "\r" in text else text


def between_fences(text: str, language: str) -> str:
    """The same for text whose line ends are normal; control characters are kept."""
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)))) if "`" in text else "```"
    return f"{fence}{language}\n{text}\n{fence}"


def inline(text: str) -> str:
    """The text as the words of one line: nothing in it is markup, its own lines are kept apart by <br>."""
    return inline_all((text,))[0]


def inline_all(texts: Sequence[str]) -> list[str]:
    """The same for many texts at once: most have nothing to escape, and one search shows that for all of them."""
    shown = _escape_simple([text.strip() for text in texts])
    if len(shown) == len(texts) and "".join(shown).isprintable():
        return shown
    return _escape_simple(list(map(_words, texts)))  # some text has controls, unusual blanks or line ends


def _escape_simple(texts: list[str]) -> list[str]:
    """Escapes stripped texts, in which one blank or line end is left between words."""
    words = _BETWEEN.join(texts).replace("\t", " ")
    while "  " in words:
        words = words.replace("  ", " ")
    if "\n" in words:
        words = words.replace(" \n", "\n").replace("\n ", "\n")
        while "\n\n" in words:
            words = words.replace("\n\n", "\n")
    return _escape(words).split(_BETWEEN)


def _words(text: str) -> str:
    """The visible words of any text, with one blank or line end between them."""
    stripped = text.strip()
    if stripped.isprintable():
        return stripped
    return visible("\n".join(filter(None, map(" ".join, map(str.split, stripped.splitlines())))))


def _escape(words: str) -> str:
    for char, escaped in _ESCAPED.items():
        if char in words:
            words = words.replace(char, escaped)
    return _UNDERSCORE.sub(r"\\_", words) if "_" in words else words


def table(header: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> list[str]:
    """The lines of a table: the first columns hold names, the others numbers, aligned to the right."""
    rule = ["---"] * names + ["---:"] * (len(header) - names)
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *rows)]


def page(sections: Iterable[Sequence[str]]) -> str:
    """The lines of the sections that are not empty, a blank line after each section."""
    return "\n".join(line for section in sections if section for line in [*section, ""])
