"""The plan of ae-plan, as it is written."""

from typing import Literal

from agenteval.wire.records import Count, Rate, Wire

Source = Literal["assumed", "measured"]


class PassVariance(Wire):
    """Where the variance of passes comes from; the first two add up to rate * (1 - rate)."""

    between: float
    """Variance of the prompts' own pass rates: some are harder than others."""
    within: float
    """Variance between trials of the same prompt: what more trials average out."""
    share_between: Rate
    """Share of the variance that is between prompts."""
    share_source: Source
    """Whether that share was measured in a pilot with trials, or assumed."""
    difference: float
    """Variance of the prompts' true differences between the two runs: what only more prompts average out."""
    correlation: float
    """How similar the prompts' difficulty is for both runs; 1: the same."""
    correlation_source: Source
    """Whether it was measured in two pilots with trials, or assumed."""
    seen: float | None = None
    """Mean square of a prompt's difference between the two pilots, with their number of trials; omitted unless there
    are two."""


class PilotRun(Wire):
    """A run that the plan is based on."""

    name: str
    """Name of its file."""
    prompts: Count
    """Prompts with a graded trial."""
    trials: Count
    """Graded trials."""
    pass_rate: Rate
    """Mean pass rate of the prompts."""


class PlanOption(Wire):
    """What is needed with this many trials per prompt."""

    k: Count
    """Trials per prompt."""
    prompts: Count
    """Prompts that detect the difference with the requested power."""
    runs: Count
    """Runs of each of the two agents: prompts times trials."""
    prompts_range: tuple[Count, Count] | None = None
    """The range of `prompts`, by the 95% interval of what the pilots measure; omitted without a pilot."""
    detectable: float | None = None
    """The smallest difference that the available prompts detect; omitted if it is unknown, or if they detect none."""


class EvaluationPlan(Wire, kw_only=True):
    """How many prompts and trials it takes to detect a difference between two pass rates."""

    detect: Rate
    """The difference to detect."""
    power: Rate
    """The probability of detecting it, if it exists."""
    level: Rate
    """Confidence level of the comparison."""
    rate: Rate
    """Pass rate of the first run."""
    rate_source: Source
    """Whether it was measured in a pilot, or given."""
    variance: PassVariance
    """Where the variance comes from."""
    options: list[PlanOption]
    """What is needed for each number of trials."""
    least_prompts: Count
    """The fewest prompts that can suffice, however many trials each has."""
    available: Count | None = None
    """Number of prompts available: as given, or else those of the pilot."""
    pilots: list[PilotRun] = []
    """The runs that the plan is based on."""
    advice: list[str]
    """The plan in words."""
