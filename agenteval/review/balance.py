"""How evenly a set of prompts covers its categories, and whether it has positive and negative cases."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from agenteval.streams.rows import grouped_metadata, groups_at
from agenteval.streams.text import first_few
from agenteval.wire.balance import Balance, BalanceCategory, Cases
from agenteval.wire.records import Record

NONE = "(uncategorized)"
FEW_CASES, FEW_PER_CATEGORY, DOMINANT = 20, 3, 50
NAMES_SHOWN = 10
KINDS = ("positive", "negative")
KIND_KEYS = ("type", "expected")


class PromptCounts:
    """Counts prompts by category; needs memory per category, not per prompt."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.total = self.uncategorized = 0
        self.counts: Counter[str] = Counter()
        self.kinds = dict.fromkeys(KINDS, 0)
        self.keys: dict[str, None] = {}

    def add(self, prompt: Record) -> None:
        """Counts a prompt."""
        metadata = grouped_metadata(prompt, self.key)
        self.total += 1
        names = [name for name in groups_at(metadata, self.key) if name != NONE]
        self.uncategorized += not names
        self.counts.update(names)
        if kind := kind_of(metadata):
            self.kinds[kind] += 1
        if len(self.keys) < NAMES_SHOWN:
            self.keys |= dict.fromkeys(metadata)

    def balance(self, threshold: float) -> Balance:
        """Returns the report; a category below `threshold` percent of an even share is underrepresented."""
        sizes = {**self.counts, **({NONE: self.uncategorized} if self.uncategorized else {})}
        ordered = sorted(sizes.items(), key=lambda size: -size[1])
        even = sum(self.counts.values()) / len(self.counts) if self.counts else 0.0
        few = [name for name, count in ordered if name != NONE and count * 100 < even * threshold]
        positive, negative = self.kinds.values()
        found = Balance(
            total_cases=self.total,
            key=self.key,
            categories=[
                BalanceCategory(name=name, count=n, percentage=rounded(100 * n / self.total, 1)) for name, n in ordered
            ],
            underrepresented=few,
            uncategorized=self.uncategorized,
            cases=Cases(
                positive=positive,
                negative=negative,
                other=self.total - positive - negative,
                ratio=rounded(positive / negative, 2) if negative else None,
            ),
            suggestions=[],
        )
        found.suggestions = list(suggestions(found, list(self.keys))) or ["The test set is well balanced"]
        return found


def kind_of(metadata: Mapping[str, Any]) -> str | None:
    """Returns positive or negative from the metadata; None if it has neither."""
    values = (metadata.get(key) for key in KIND_KEYS)
    words = (word.strip().lower() for word in values if isinstance(word, str))
    return next((word for word in words if word in KINDS), None)


def rounded(number: float, digits: int) -> float:
    """Returns the rounded number, as an integer if it has no decimals: 50 and not 50.0 in JSON."""
    value = round(number, digits)
    return int(value) if value == int(value) else value


# --- suggestions --------------------------------------------------------------------------------


def suggestions(found: Balance, keys: list[str]) -> Iterator[str]:
    """Yields what would improve the set; `keys` are the metadata keys found."""
    if not found.total_cases:
        yield "There are no test cases"
        return
    named = [category for category in found.categories if category.name != NONE]
    if found.underrepresented:
        yield f"Consider adding more test cases for: {first_few(found.underrepresented, NAMES_SHOWN)}"
    if named and named[0].count * 100 > DOMINANT * found.total_cases:
        yield f"{named[0].percentage:g}% of the cases are in '{named[0].name}': consider other categories"
    if tiny := [category.name for category in named if category.count < FEW_PER_CATEGORY]:
        yield f"Categories with fewer than {FEW_PER_CATEGORY} cases reveal little: {first_few(tiny, NAMES_SHOWN)}"
    if not named:
        there = f"; the keys found are: {first_few(keys, NAMES_SHOWN)}" if keys else ", nor any other metadata"
        yield f"No case has metadata.{found.key}{there}"
    elif found.uncategorized:
        yield f"Cases without metadata.{found.key}: {found.uncategorized}; categorize them"
    if not found.cases.negative:
        yield "No case is marked negative (metadata.type): add some for what must not happen"
    elif not found.cases.positive:
        yield "No case is marked positive (metadata.type): add some for what should work"
    if found.total_cases < FEW_CASES:
        yield f"With {found.total_cases} cases, differences are hard to tell from chance: consider adding more"
