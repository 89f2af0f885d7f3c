"""The summary of a run, or of a group of it, as text: names and values of what is known."""

from collections.abc import Collection, Iterable

from agenteval.comparison.run_summary import COST, Grades, RunSummary
from agenteval.reports.figures import UNKNOWN, duration_text, outcomes, percent, percent_span, whole
from agenteval.statistics.samples import percentile
from agenteval.wire.records import Interval

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
TOKENS = {"input_tokens": "Input tokens", "output_tokens": "Output tokens", "cached_tokens": "Cached tokens"}
# The figures of a group, in the order of its cells: title in a document → title on a terminal, which is narrow.
GROUP_TITLES = {
    "Passed": "PASSED",
    "Pass rate": "PASS RATE",
    "95% interval": "95% INTERVAL",
    "Average score": "SCORE",
    "Agents failed": "FAILED",
}
TRIGGER_TITLES = {"Precision": "PRECISION", "Recall": "RECALL"}  # of loading a skill, where prompts say shouldTrigger


def grade_facts(summary: RunSummary) -> list[tuple[str, str]]:
    """Names and values of what the graders found; without a grade there is no rate."""
    grades, not_passed = summary.overall(), summary.grades.failed - summary.graded_failures
    records = outcomes(grades.passed, not_passed, summary.agent_failures, summary.ungraded, summary.grader_errors)
    trials = summary.trials
    facts = [("Records", f"{summary.records:,}{records}")]
    if trials is not None:
        facts = [("Prompts", f"{trials.prompts:,}"), ("Trials", f"{summary.records:,}{records}")]
    if grades.count:
        facts.append(("Pass rate", pass_rate(grades, summary.interval)))
        for found in trials.estimates() if trials else ():
            sure = f"95% interval {percent_span(found.interval)} " if found.interval else ""
            facts.append((found.name, f"{percent(found.value)}, {sure}{found.over}"))
        facts.append(("Average score", f"{grades.score.value:.3f} over {grades.count:,}"))
    if summary.labelled:
        facts.append(("By a person", f"{summary.labelled:,}, of which {summary.overruled:,} overrule the graders"))
    if summary.triggers:
        rates = summary.trigger_rates().items()
        shown = (f"{name} {percent(right / of) if of else UNKNOWN} ({right:,}/{of:,})" for name, (right, of) in rates)
        facts.append(("Skill loaded", ", ".join(shown)))
    return facts


def run_facts(summary: RunSummary) -> list[tuple[str, str]]:
    """Names and values of how the agent did; what was not measured is left out."""
    facts = []
    if summary.tool_errors:
        facts.append(("Tool errors", f"in {summary.tool_errors:,} of {summary.records:,} records"))
    if summary.durations:
        ordered = sorted(summary.durations)
        shown = (f"{name} {duration_text(percentile(ordered, p) or 0)}" for name, p in PERCENTILES.items())
        facts.append(("Duration", f"{', '.join(shown)}, over {len(ordered):,}"))
    if back := summary.clocks_set_back:
        facts.append(("Negative duration", f"in {back:,} of {summary.records:,} records: the clock was set back"))
    for name, title in TOKENS.items():
        if (mean := summary.measured[name]).count:
            facts.append((title, f"{whole(mean.total)}, mean {whole(mean.value)} over {mean.count:,}"))
    if (cost := summary.measured[COST]).count:
        facts.append(("Cost", f"${cost.total:,.4f}, mean ${cost.value:,.4f} over {cost.count:,}"))
    return facts


def pass_rate(grades: Grades, interval: Interval | None) -> str:
    """How many pass of how many, the pass rate with its 95% interval; of trials it is the mean of the prompts'."""
    unequal = len({graded for graded, _ in grades.prompts}) > 1
    rate = percent(grades.rate) + ", the mean of the prompts'" * unequal
    return f"{grades.passed:,}/{grades.count:,} ({rate}), 95% interval {percent_span(interval)}"


def group_titles(groups: Iterable[RunSummary]) -> dict[str, str]:
    """The titles of the figures of categories; those of loading a skill only if it is known of one of them."""
    return {**GROUP_TITLES, **(TRIGGER_TITLES if any(group.triggers for group in groups) else {})}


def group_cells(summary: RunSummary, titles: Collection[str]) -> tuple[str, ...]:
    """The figures of one category: passes, their rate with its interval, the mean score, agents that failed."""
    grades, failed = summary.overall(), f"{summary.agent_failures:,}"
    rates = [f"{right:,}/{of:,}" if of else UNKNOWN for right, of in summary.trigger_rates().values()]
    last = (failed, *rates) if len(titles) > len(GROUP_TITLES) else (failed,)
    if not grades.count:
        return (f"0/0 of {summary.records:,}", UNKNOWN, UNKNOWN, UNKNOWN, *last)
    passed = f"{grades.passed:,}/{grades.count:,}"
    return (passed, percent(grades.rate), percent_span(summary.interval), f"{grades.score.value:.3f}", *last)
