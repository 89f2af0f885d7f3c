"""The report of ae-balance, as it stands on the wire."""

from agenteval.wire.records import Count, Wire


class BalanceCategory(Wire):
    """One value of the key, and how many prompts have it."""

    name: str
    """The value; numbers and the like as JSON; (uncategorized) for prompts without one."""
    count: Count
    """Prompts that have it."""
    percentage: float
    """Their share of all prompts; with lists as values the shares come to more than 100."""


class Cases(Wire):
    """Prompts that ask for something, beside prompts that show what must not happen."""

    positive: Count
    """Prompts with `metadata.type`, else `metadata.expected`, positive."""
    negative: Count
    """Prompts with `metadata.type`, else `metadata.expected`, negative."""
    other: Count
    """All other prompts."""
    ratio: float | None
    """positive / negative; null where there is no negative one."""


class Balance(Wire):
    """How evenly a set of prompts covers its categories."""

    total_cases: Count
    """How many prompts there are."""
    key: str
    """The metadata key that was looked at."""
    categories: list[BalanceCategory]
    """The categories, largest first; equal ones as they first appear."""
    underrepresented: list[str]
    """Categories with less than the threshold's part of an even share."""
    uncategorized: Count
    """Prompts without a category."""
    cases: Cases
    """Positive and negative cases."""
    suggestions: list[str]
    """What to do about it, in words."""
