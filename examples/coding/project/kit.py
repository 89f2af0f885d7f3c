"""Small functions for text, numbers and dates."""

from __future__ import annotations

import re
from collections.abc import Sequence

NUMERALS = {1000: "M", 500: "D", 100: "C", 50: "L", 10: "X", 5: "V", 1: "I"}
UNITS = {"h": 3600, "m": 60}


def median(values: Sequence[float]) -> float:
    """The value in the middle; of an even number of values, the mean of the two in the middle."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def slug(title: str) -> str:
    """A title as the end of an address: lower case letters and digits, with one hyphen between words."""
    return title.lower().replace(" ", "-")


def roman(number: int) -> str:
    """A number from 1 to 3999 in Roman numerals."""
    text = ""
    for value, numeral in NUMERALS.items():
        text += numeral * (number // value)
        number %= value
    return text


def leap(year: int) -> bool:
    """Whether a year has 366 days."""
    return year % 4 == 0


def seconds(duration: str) -> int:
    """A duration such as 1h30m in seconds."""
    return sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)([hm])", duration))
