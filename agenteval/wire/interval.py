"""A confidence interval, on the wire."""

from agenteval.wire.records import Count, Rate, Wire


class ConfidenceInterval(Wire):
    """The values that are compatible with the data; how it was computed is in docs/statistics.md."""

    low: float
    """Lower bound."""
    high: float
    """Upper bound."""
    level: Rate
    """How often such an interval contains the true value: 0.95."""
    n: Count
    """Values that it is over: prompts, or trials, or records."""
    method: str
    """Name of the method: wilson, t, order statistics and the like."""
