"""The report of ae-balance, as it is written."""

from agenteval.wire.records import Count, Wire


class BalanceCategory(Wire):
    """A value of the key, and the number of prompts that have it."""

    name: str
    """The value (numbers and the like as JSON), or (uncategorized) for prompts without one."""
    count: Count
    """Prompts that have it."""
    percentage: float
    """Their percentage of all prompts; with lists as values, the sum may exceed 100."""


class Cases(Wire):
    """Positive cases, which should work, and negative cases, for what must not happen."""

    positive: Count
    """Prompts whose `metadata.type`, or else `metadata.expected`, is positive."""
    negative: Count
    """Prompts whose `metadata.type`, or else `metadata.expected`, is negative."""
    other: Count
    """All other prompts."""
    ratio: float | None
    """positive / negative; null if there is no negative case."""


class Balance(Wire):
    """How evenly a set of prompts covers its categories."""

    total_cases: Count
    """The number of prompts."""
    key: str
    """The metadata key of the categories."""
    categories: list[BalanceCategory]
    """The categories, largest first; equal ones in the order of the input."""
    underrepresented: list[str]
    """Categories below the threshold of an even share."""
    uncategorized: Count
    """Prompts without a category."""
    cases: Cases
    """Positive and negative cases."""
    suggestions: list[str]
    """What to change, as sentences."""
