"""The report of ae-history, as it is written."""

from agenteval.wire.differences import ConfidenceInterval
from agenteval.wire.records import Count, Interval, Milliseconds, Rate, Wire


class HistoryRun(Wire, kw_only=True):
    """One run of a history."""

    number: Count
    """Its place in the history, from 1."""
    name: str
    """Its name in reports: its label or the name of its file, followed by its number if another run has the same
    name."""
    run_id: str | None = None
    """Its `metadata.runId`."""
    label: str | None = None
    """Its `--label`."""
    file: str
    """The file that it was read from."""
    started: str | None = None
    """When its first agent started, ISO 8601; omitted if no record says so."""
    agent: str | None = None
    """Name of the agent."""
    model: str | None = None
    """Name of the model."""
    agent_version: str | None = None
    """Version of the agent."""
    marks: list[str] = []
    """What differs from the run before: agent, model, version."""
    prompts: Count
    """Prompts that it has."""
    graded: Count
    """Prompts that are graded."""
    pass_rate: Rate | None
    """Mean pass rate of the graded prompts; null if there is none."""
    interval: ConfidenceInterval | None
    """95% interval of the pass rate."""
    shared: Count = 0
    """Prompts that are also graded in the run before, with the same input."""
    change: float | None = None
    """Pass rate minus that of the run before, over the shared prompts; `changes` lists the changes that are shown."""
    change_interval: Interval | None = None
    """95% interval of this change by itself, not adjusted for the number of runs."""
    p50: Milliseconds | None
    """Median duration of an answer; null if unknown."""
    tokens: float | None
    """Input and output tokens of all answers together."""
    cost: float | None
    """Cost of all answers together, in US dollars."""
    cost_estimated: bool = False
    """Whether part of the cost is estimated from the model's list price."""


class HistoryChange(Wire):
    """A change that is shown: the runs before it and after it, each up to the next change."""

    number: Count
    """Number of the first run after the change."""
    shown_after: Count
    """Number of the run after which it was shown."""
    before: tuple[Count, Count]
    """Numbers of the first and last run before it."""
    after: tuple[Count, Count]
    """Numbers of the first and last run after it."""
    prompts: Count
    """Prompts that are graded on both sides, with the same input."""
    pass_rate_before: Rate
    """Mean pass rate of these prompts before."""
    pass_rate_after: Rate
    """Mean pass rate of these prompts after."""
    difference: float
    """After minus before."""
    p: Rate
    """Chance of a change at least this large at this run if nothing had changed."""
    adjusted_p: Rate
    """The same, adjusted for all runs and all looks at the history; a change is shown if this is below 0.05."""
    lost: list[str]
    """Prompts that passed more than half of the time before the change but not after it."""
    gained: list[str]
    """Prompts that pass more than half of the time after the change but did not before it."""
    sentence: str
    """The change in words."""


class History(Wire):
    """How an evaluation developed over many runs, in chronological order."""

    generated_at: str
    """When the report was made."""
    summary: str
    """The result in one line."""
    runs: list[HistoryRun]
    """The runs, earliest first."""
    changes: list[HistoryChange]
    """The changes that are shown; at most 5% of histories in which nothing changes show one."""
    baseline: str | None = None
    """The run that the last one was compared with, if --fail-if-worse asked for it."""
    reasons: list[str] | None = None
    """Why the last run does not pass --fail-if-worse; empty if it does."""
