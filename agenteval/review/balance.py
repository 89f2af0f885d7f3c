"""How evenly a set of prompts covers its categories, and whether it asks for what must not happen too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from agenteval.streams.jsonl import encode
from agenteval.streams.text import clip, one_line, pad, width
from agenteval.wire.balance import Balance, BalanceCategory, Cases
from agenteval.wire.records import Record

NONE = "(uncategorized)"
FEW_CASES, FEW_PER_CATEGORY, DOMINANT = 20, 3, 50
NAMES_SHOWN = 10
KINDS = ("positive", "negative")
KIND_KEYS = ("type", "expected")
MOST_NAME = 24
BAR, SHORT_BAR = "█", "▌"


class Census:
    """Counts prompts; grows with the number of categories only."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.total = self.uncategorized = 0
        self.counts: dict[str, int] = {}
        self.kinds = dict.fromkeys(KINDS, 0)
        self.keys: dict[str, None] = {}

    def add(self, prompt: Record) -> None:
        """One more prompt."""
        metadata = prompt.get("metadata") or {}
        self.total += 1
        names = categories_of(value_at(metadata, self.key))
        self.uncategorized += not names
        for name in names:
            self.counts[name] = self.counts.get(name, 0) + 1
        if kind := kind_of(metadata):
            self.kinds[kind] += 1
        if len(self.keys) < NAMES_SHOWN:
            self.keys |= dict.fromkeys(metadata)

    def balance(self, threshold: float) -> Balance:
        """What the counts come to; `threshold` is the percentage of an even share that is enough."""
        sizes = {**self.counts, **({NONE: self.uncategorized} if self.uncategorized else {})}
        ordered = sorted(sizes.items(), key=lambda size: -size[1])
        even = sum(self.counts.values()) / len(self.counts) if self.counts else 0.0
        few = [name for name, count in ordered if name != NONE and count * 100 < even * threshold]
        positive, negative = self.kinds.values()
        found = Balance(
            total_cases=self.total,
            key=self.key,
            categories=[BalanceCategory(name=name, count=n, percentage=percent(n, self.total)) for name, n in ordered],
            underrepresented=few,
            uncategorized=self.uncategorized,
            cases=Cases(
                positive=positive,
                negative=negative,
                other=self.total - positive - negative,
                ratio=tidy(positive / negative, 2) if negative else None,
            ),
            suggestions=[],
        )
        found.suggestions = list(suggestions(found, list(self.keys))) or ["The test set is well balanced"]
        return found


# --- one prompt ---------------------------------------------------------------------------------


def value_at(metadata: Mapping[str, Any], key: str) -> Any:
    """The value of a key, else of the keys between its dots; None where there is none."""
    if key in metadata:
        return metadata[key]
    value: Any = metadata
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def categories_of(value: Any) -> list[str]:
    """The categories that a value names, each once: one, those in a list, or none."""
    values = value if isinstance(value, list) else [value]
    names = [one.strip() if isinstance(one, str) else encode(one).decode() for one in values if one is not None]
    return [name for name in dict.fromkeys(names) if name and name != NONE]


def kind_of(metadata: Mapping[str, Any]) -> str | None:
    """positive or negative, as the metadata says; None where it says neither."""
    said = (metadata.get(key) for key in KIND_KEYS)
    words = (word.strip().lower() for word in said if isinstance(word, str))
    return next((word for word in words if word in KINDS), None)


def percent(part: int, whole: int) -> float:
    """The percentage with one decimal, a whole number where it is one."""
    return tidy(100 * part / whole, 1)


def tidy(number: float, digits: int) -> float:
    """The number rounded, and an integer where nothing stands behind the point."""
    rounded = round(number, digits)
    return int(rounded) if rounded == int(rounded) else rounded


# --- words --------------------------------------------------------------------------------------


def suggestions(found: Balance, keys: list[str]) -> Iterator[str]:
    """What would make the set better; `keys` are metadata keys that there are."""
    if not found.total_cases:
        yield "There are no test cases"
        return
    named = [category for category in found.categories if category.name != NONE]
    if found.underrepresented:
        yield f"Consider adding more test cases for: {listed(found.underrepresented)}"
    if named and named[0].count * 100 > DOMINANT * found.total_cases:
        yield f"{named[0].percentage:g}% of the cases are in '{named[0].name}': consider other categories"
    if tiny := [category.name for category in named if category.count < FEW_PER_CATEGORY]:
        yield f"Fewer than {FEW_PER_CATEGORY} cases prove little: {listed(tiny)}"
    if not named:
        there = f"; there are: {listed(keys)}" if keys else ", nor any other metadata"
        yield f"No case has metadata.{found.key}{there}"
    elif found.uncategorized:
        yield f"Cases without metadata.{found.key}: {found.uncategorized}; label them"
    if not found.cases.negative:
        yield "No case is marked negative (metadata.type): add some for what must not happen"
    elif not found.cases.positive:
        yield "No case is marked positive (metadata.type): add some for what should work"
    if found.total_cases < FEW_CASES:
        yield f"With {found.total_cases} cases differences are hard to tell from luck: consider adding more"


def listed(names: Iterable[str]) -> str:
    """The names with commas between them, only the first of many."""
    every = list(names)
    more = f" and {len(every) - NAMES_SHOWN} more" if len(every) > NAMES_SHOWN else ""
    return ", ".join(islice(every, NAMES_SHOWN)) + more


# --- a picture ----------------------------------------------------------------------------------


def chart(found: Balance, columns: int) -> list[str]:
    """A bar per category, the longest as long as the columns allow; few ones are marked."""
    names = [one_line(category.name, MOST_NAME) for category in found.categories]
    name_size = min(MOST_NAME, max(map(width, names), default=0))
    count_size = len(f"{max((category.count for category in found.categories), default=0):,}")
    lines = []
    for name, category in zip(names, found.categories, strict=True):
        head = f"{pad(clip(name, name_size), name_size)}  {category.count:>{count_size},}  {category.percentage:>5.1f}%"
        mark = "  few" if category.name in found.underrepresented else ""
        room = columns - 1 - len("  few") - name_size - count_size - 12
        line = f"{head}  {bar(category.count, found.categories[0].count, room)}{mark}"
        lines.append(clip(line.rstrip(), columns - 1))
    return lines


def bar(count: int, largest: int, room: int) -> str:
    """As many blocks as the count is of the largest; something is never nothing."""
    return BAR * (count * max(0, room) // largest) or (SHORT_BAR if room > 0 else "")
