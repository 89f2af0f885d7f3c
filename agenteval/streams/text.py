"""Text that an agent wrote, made fit to show: it cannot drive a terminal, and is as wide as it looks."""

from __future__ import annotations

import re
import unicodedata

# C0 without tab and line ends, DEL, and C1, which some terminals obey as they do escape sequences.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_ASCII_CONTROLS = bytes(code for code in range(128) if _CONTROLS.match(chr(code)))
# Invisible characters that reorder a line (bidi overrides) or join what stands beside them (emoji
# sequences, variation selectors): terminals do not agree how wide the outcome is.
_INVISIBLE = re.compile("[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]")


def visible(text: str) -> str:
    """The text with each control character as its picture (␀, ␛, …); tabs and line ends stay."""
    if text.isascii() and len(text.encode().translate(None, _ASCII_CONTROLS)) == len(text):
        return text  # nearly every text; the pattern takes four times as long to say so
    return _CONTROLS.sub(_picture, text)


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    return "\u2421" if code == 0x7F else chr(0x2400 + code) if code < 0x20 else "\ufffd"


def one_line(text: str, limit: int) -> str:
    """The first `limit` characters or so on one line, without anything that could move the cursor."""
    start = text.lstrip()[: 2 * limit + 64]  # an output may be megabytes long
    return visible(_INVISIBLE.sub("", " ".join(start.split())))


def width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff":  # Hangul vowels join
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def clip(text: str, columns: int) -> str:
    """The text in at most that many columns, with … where something is left out."""
    if len(text) * 2 <= columns or width(text) <= columns:
        return text
    if text.isascii():
        return text[: columns - 1] + "…" if columns > 0 else ""
    used = 0
    for at, char in enumerate(text):
        used += _columns(char)
        if used > columns - 1:
            return text[:at] + "…" if columns > 0 else ""
    return text  # pragma: no cover - a text too wide has a character that is


def pad(text: str, columns: int) -> str:
    """The text, filled up with spaces on the right."""
    return text + " " * (columns - width(text))


# --- in markdown --------------------------------------------------------------------------------


def preview(text: str, limit: int) -> str:
    """The first `limit` characters, and ... where there are more."""
    return text[:limit] + "..." if len(text) > limit else text
