"""Text for a terminal: colours, and lines broken at its width."""

from __future__ import annotations

from collections.abc import Iterator

from agenteval.streams.text import width

GREEN, RED, YELLOW, CYAN = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[36m"
BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def paint(text: str, color: str, wanted: bool) -> str:
    """The text in that colour, if colours are wanted."""
    return f"{color}{text}{PLAIN}" if wanted and text else text


def wrap(text: str, columns: int) -> list[str]:
    """One line of text as lines of at most so many columns, broken at spaces where that is possible."""
    lines, line, room = [], "", max(2, columns)  # 2: a wide character must fit
    for word in _pieces(text, room):
        if line and width(line) + width(word.rstrip()) > room:
            lines.append(line.rstrip())
            line, word = "", word.lstrip()
        line += word
    return [*lines, line.rstrip()]


def _pieces(text: str, room: int) -> Iterator[str]:
    """The words of a text, each with the spaces before it; a word that is too wide in parts."""
    word, used = "", 0
    for char in text:
        size = width(char)
        if (char == " " and word.strip()) or used + size > room:
            yield word
            word, used = "", 0
        word, used = word + char, used + size
    if word:
        yield word


def hanging(title: str, text: str, column: int, columns: int) -> list[str]:
    """A title and its text, which begins in that column and is wrapped there; below the title on a narrow terminal."""
    if columns - column < 24:
        return [title, *("  " + line for line in wrap(text, columns - 2))]
    first, *more = wrap(text, columns - column)
    return [title + " " * (column - width(title)) + first, *(" " * column + line for line in more)]
