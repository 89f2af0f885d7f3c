"""Plain text for people: an agent's text without control characters, columns of a terminal, lists, indented JSON."""

import os
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence

import msgspec

from agenteval.streams.jsonl import encode

GAP = "  "
NO_TERMINAL = 100  # columns of a table that goes to a file or a pipe
MOST_DIGITS = 20  # of a count, a size or a time: 64 bits have no more

# Bidi controls: they reorder the text beside them.
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# C0 without tab and line ends, DEL, C1, which some terminals interpret as escape sequences, and halves of surrogate
# pairs, which Python makes of bytes in a file name that are not UTF-8.
_CONTROLS = f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff{_BIDI}]"
# The same and carriage returns within a line, but not the escape sequences for colours, which are ours.
_ON_TERMINAL = f"\x1b(?!\\[[0-9;]*m)|\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\ud800-\udfff{_BIDI}]"
# Invisible characters that reorder a line (bidi overrides) or join their neighbours (emoji sequences, variation
# selectors): terminals differ in how wide they draw them.
_INVISIBLE = "[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"


def visible(text: str) -> str:
    """The text with each control character except tabs and line ends replaced by its picture (␀, ␛, …).

    Those that change the direction of writing and those that cannot be encoded become U+FFFD.
    """
    return text if text.isprintable() else re.sub(_CONTROLS, _picture, text)


def visible_bytes(text: str) -> bytes:
    """The same in UTF-8."""
    return visible(text).encode()


def for_terminal(text: str) -> str:
    """The same for a terminal, with colours; all text of others must pass through this function."""
    return text if text.isprintable() else re.sub(_ON_TERMINAL, _picture, text)


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    return "\u2421" if code == 0x7F else chr(0x2400 + code) if code < 0x20 else "\ufffd"


def one_line(text: str, limit: int) -> str:
    """About the first `limit` characters, on one line and without control characters."""
    start = text.lstrip()[: 2 * limit + 64]  # an output may be megabytes long
    return visible(re.sub(_INVISIBLE, "", " ".join(start.split())))


# --- columns of a terminal ----------------------------------------------------------------------


def terminal_columns(otherwise: int = NO_TERMINAL) -> int:
    """The width of the terminal on stdout: $COLUMNS if it is set, `otherwise` if there is no terminal."""
    if columns := whole_number(os.environ.get("COLUMNS", "")):
        return columns
    try:
        return os.get_terminal_size(1).columns or otherwise
    except OSError:
        return otherwise


def width(text: str) -> int:
    """How many columns the text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff":  # Hangul vowels join
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def clip(text: str, columns: int) -> str:
    """The text in at most that many columns, with … in place of what is left out."""
    if len(text) * 2 <= columns or width(text) <= columns:
        return text
    used = 0
    for at, char in enumerate(text):
        used += _columns(char)
        if used > columns - 1:
            return text[:at] + "…" if columns > 0 else ""
    return text  # pragma: no cover - a text too wide has a character that is


def pad(text: str, columns: int) -> str:
    """The text, padded with spaces on the right."""
    return text + " " * (columns - width(text))


def in_columns(cells: Sequence[str], sizes: Sequence[int], right: Collection[int] = ()) -> str:
    """One line of a table: each cell cut or padded to its size, those in `right` aligned to the right.

    A column of size 0 is left out; the line has no spaces at its end.
    """
    fitted = []
    for at, (cell, size) in enumerate(zip(cells, sizes, strict=True)):
        if size:
            cell = clip(cell, size)
            if at in right:
                cell = " " * (size - width(cell)) + cell
            elif at < len(sizes) - 1:
                cell = pad(cell, size)
            fitted.append(cell)
    return GAP.join(fitted).rstrip()


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """The lines of a table whose columns are as wide as their widest cell."""
    sizes = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return [in_columns(row, sizes, right) for row in rows]


def as_lines(lines: Iterable[str]) -> bytes:
    """The lines, each with its line end."""
    return "".join(f"{line}\n" for line in lines).encode()


# --- words and values ---------------------------------------------------------------------------


def whole_number(text: str) -> int | None:
    """The number written in ASCII digits; None for other text, and for more digits than a count has."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


def number_in(text: str) -> float:
    """Returns the number in a text, or nan, which compares with nothing, if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def parse_milliseconds(text: str) -> float:
    """Returns a time above 0: milliseconds, or a number with a unit."""
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    number = number_in(text.removesuffix(unit)) * UNITS.get(unit, 1)
    if not 0 < number < float("inf"):  # float() accepts "nan" and "inf", too
        raise ValueError(f"{text!r} is not a time, such as 500ms, 30s, 5m or 2h; a bare number is milliseconds")
    return number


UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}  # ms before s: both end in s


def preview(text: str, limit: int) -> str:
    """The first `limit` characters, and ... if there are more."""
    return text[:limit] + "..." if len(text) > limit else text


def first_few(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first texts and how many more there are: `a, b and 3 more`."""
    left_out = len(texts) - most
    return separator.join(texts[:most]) + (f" and {left_out:,} more" if left_out > 0 else "")


def counted(count: int, noun: str) -> str:
    """A count with its noun: `1 record`, `2,000 records`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def plain_text(value: object) -> str:
    """A string as it is, any other value as JSON."""
    return value if isinstance(value, str) else encode(value).decode()


def pretty_json(value: object) -> bytes:
    """The value as JSON on indented lines."""
    return msgspec.json.format(encode(value), indent=2) + b"\n"


def screen_lines(text: str) -> list[str]:
    """The lines of a text without anything that could control a terminal: tabs as spaces, line ends normal."""
    shown = visible(re.sub(_INVISIBLE, "", text.replace("\r\n", "\n"))).replace("\r", "␍")
    return [line.expandtabs(4) for line in re.split("[\n\u2028\u2029]", shown)]
