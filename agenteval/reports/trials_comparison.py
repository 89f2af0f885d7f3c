"""A trials comparison report as markdown: the verdict in words first, then the figures behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agenteval.reports.comparison import (
    differing_prompts,
    head,
    missing_section,
    number,
    page,
    percent,
    percent_span,
    performance_section,
    signed,
    span,
    table,
    verdicts,
    wins_table,
)
from agenteval.reports.markup import inline
from agenteval.wire.comparison import Difference, Interval
from agenteval.wire.trials_comparison import TrialsComparisonReport, TrialsMeta

STEPS = (1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500)  # a table has no room for every number of trials
WON_BY = {
    "weighted": "the weighted score of capability, reliability and consistency",
    "statistical": "the pass rate",
    "custom": "the comparison grader's ranking",
}


def trials_markdown(report: TrialsComparisonReport) -> str:
    """The whole report, as text."""
    return page(
        [
            head("Trials Comparison Report", report.meta, f"Trials: {trials_per_prompt(report.meta)}"),
            verdicts(report.statistics.pairs, "pass rates"),
            rates_section(report),
            capability_section(report),
            reliability_section(report),
            estimates_section(report),
            flakiness_section(report),
            flaky_prompts_section(report),
            quality_section(report),
            performance_section(report.performance, report.meta),
            wins_section(report),
            differences_section(report),
            differing_prompts(((prompt, prompt.pass_rate) for prompt in report.per_prompt), report.meta),
            missing_section(report.meta),
        ]
    )


def trials_per_prompt(meta: TrialsMeta) -> str:
    """How many trials a prompt has, or that this is not the same everywhere."""
    if meta.trials_per_prompt is None:
        return "none"
    if not meta.mixed_k:
        return f"{meta.trials_per_prompt} per prompt"
    runs = (f"{inline(label)} {' and '.join(counts)}" for label, counts in meta.mixed_k.items())
    return f"k is not the same everywhere ({', '.join(runs)}); a prompt is won at the smallest k there"


# --- the parts ----------------------------------------------------------------------------------


def rates_section(report: TrialsComparisonReport) -> list[str]:
    """Pass rates, their clustered intervals and what they are over."""
    bootstrap = ["Bootstrap"] if report.meta.bootstrap_iterations else []
    header = ["Run", "Pass rate", "95 % interval", *bootstrap, "Prompts", "Trials", "Passed", "Graded"]
    rows = []
    for label, found in report.statistics.runs.items():
        cells = [inline(label), percent(found.pass_rate), percent_span(found.interval)]
        cells += [percent_span(found.bootstrap_interval) for _ in bootstrap]
        counts = (found.prompts, found.trials, found.passed_trials, found.graded_trials)
        others = (found.failed_trials, found.ungraded_trials, found.grader_errors)
        rows.append([*cells, *map(str, counts + others)])
    lines = ["## Pass rate", "", *table([*header, "Agent failed", "Ungraded", "Grader errors"], rows)]
    return [*lines, "", "The trials of a prompt are a cluster: the interval rests on the prompts, not on the trials."]


def capability_section(report: TrialsComparisonReport) -> list[str]:
    """passAtK of each run."""
    rows = []
    for label, found in report.capability.items():
        values = (found.avg_pass_at_k, found.median_pass_at_k, found.p25_pass_at_k, found.p75_pass_at_k)
        interval = found.confidence_intervals.avg_pass_at_k if found.confidence_intervals else None
        rows.append(_spread_row(report, label, values, interval, found.n))
    return ["## Capability (passAtK: at least once in k trials)", "", *_spread_table(report, "Prompts", rows)]


def reliability_section(report: TrialsComparisonReport) -> list[str]:
    """passExpK of each run."""
    rows = []
    for label, found in report.reliability.items():
        values = (found.avg_pass_exp_k, found.median_pass_exp_k, found.p25_pass_exp_k, found.p75_pass_exp_k)
        interval = found.confidence_intervals.avg_pass_exp_k if found.confidence_intervals else None
        rows.append(_spread_row(report, label, values, interval, found.n))
    return ["## Reliability (passExpK: in all of k trials)", "", *_spread_table(report, "Prompts", rows)]


def quality_section(report: TrialsComparisonReport) -> list[str]:
    """Scores of each run that has any."""
    if not report.quality:
        return []
    rows = []
    for label, found in report.quality.items():
        values = (found.avg_score, found.median_score, found.p25_score, found.p75_score)
        interval = found.confidence_intervals.avg_score if found.confidence_intervals else None
        rows.append(_spread_row(report, label, values, interval, found.n))
    return ["## Quality (scores)", "", *_spread_table(report, "Trials", rows)]


def _spread_row(
    report: TrialsComparisonReport, label: str, values: Sequence[float | None], interval: Interval | None, n: int
) -> list[str]:
    average, *others = map(number, values)
    shown = [span(interval)] if report.meta.bootstrap_iterations else []
    return [inline(label), average, *shown, *others, str(n)]


def _spread_table(report: TrialsComparisonReport, over: str, rows: Sequence[Sequence[str]]) -> list[str]:
    interval = ["95 % interval"] if report.meta.bootstrap_iterations else []
    return table(["Run", "Mean", *interval, "Median", "p25", "p75", over], rows)


def estimates_section(report: TrialsComparisonReport) -> list[str]:
    """The unbiased estimates for 1 to k trials, one or all of which pass."""
    most = max((int(j) for found in report.capability.values() for j in found.pass_at), default=0)
    if most < 2:
        return []
    shown = [str(j) for j in sorted({*STEPS, most}) if j <= most]
    rows = [_estimates_row(label, "pass@j", found.pass_at, shown) for label, found in report.capability.items()]
    rows += [_estimates_row(label, "pass^j", found.pass_exp, shown) for label, found in report.reliability.items()]
    lines = ["Unbiased estimates: of j trials one passes (pass@j), all pass (pass^j):", ""]
    return [*lines, *table(["Run", "j", *shown], rows, names=2)]


def _estimates_row(label: str, what: str, means: Mapping[str, float], shown: Sequence[str]) -> list[str]:
    return [inline(label), what, *(number(means.get(j)) for j in shown)]


def flakiness_section(report: TrialsComparisonReport) -> list[str]:
    """How far once is from every time, in each run."""
    rows = [
        [inline(label), number(found.avg_flakiness), number(found.median_flakiness)]
        + [str(found.flaky_prompt_count), str(found.n)]
        for label, found in report.flakiness.items()
    ]
    header = ["Run", "Mean", "Median", "Flaky prompts", "Prompts"]
    return ["## Flakiness (passAtK - passExpK)", "", *table(header, rows)]


def flaky_prompts_section(report: TrialsComparisonReport) -> list[str]:
    """The most flaky prompts of each run, by name."""
    rows = [
        [inline(label), inline(prompt.id), number(prompt.flakiness), percent(prompt.pass_rate)]
        for label, found in report.flakiness.items()
        for prompt in found.top_flaky_prompts
    ]
    return ["Most flaky:", "", *table(["Run", "Prompt", "Flakiness", "Pass rate"], rows, names=2)] if rows else []


def wins_section(report: TrialsComparisonReport) -> list[str]:
    """Prompts won, by each way to see it."""
    wins = report.head_to_head
    lines = ["## Head to head", "", *wins_table(WON_BY[report.meta.strategy], wins.overall), ""]
    lines += [*wins_table("capability (passAtK)", wins.capability), ""]
    return [*lines, *wins_table("reliability (passExpK)", wins.reliability)]


def differences_section(report: TrialsComparisonReport) -> list[str]:
    """The paired differences of pass rates and scores."""
    bootstrap = ["Bootstrap"] if report.meta.bootstrap_iterations else []
    header = ["A", "B", "Of", "n", "A - B", "95 % interval", *bootstrap, "A higher", "B higher", "Equal", "Detectable"]
    rows = []
    for pair in report.statistics.pairs:
        names = [inline(pair.run_a), inline(pair.run_b)]
        rows.append([*names, "pass rate", *_difference_cells(pair, bool(bootstrap))])
        if pair.score:
            rows.append([*names, "mean score", *_difference_cells(pair.score, bool(bootstrap))])
    return ["Paired by prompt:", "", *table(header, rows, names=3)]


def _difference_cells(found: Difference, bootstrap: bool) -> list[str]:
    cells = [str(found.n), signed(found.mean_difference), span(found.interval)]
    cells += [span(found.bootstrap_interval)] if bootstrap else []
    return [*cells, *map(str, (found.wins, found.losses, found.ties)), number(found.minimum_detectable_difference)]
