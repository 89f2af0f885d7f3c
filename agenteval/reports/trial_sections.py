"""A comparison of trials as sections of markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenteval.reports.comparison_sections import (
    INTERVAL,
    by_run,
    difference_cells,
    difference_titles,
    differing_prompts,
    head,
    intervals_title,
    missing_section,
    performance_section,
    verdicts,
    wins_table,
)
from agenteval.reports.figures import number, percent, percent_span, span
from agenteval.reports.markup import inline, table
from agenteval.reports.preference_sections import preference_section
from agenteval.wire.trials_comparison import Flakiness, RunStatistics, TrialsComparisonReport, TrialsMeta

STEPS = (1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500)  # a table has no room for every number of trials
WON_BY = {
    "weighted": "the weighted score of capability, reliability and consistency",
    "statistical": "the pass rate",
    "custom": "the comparison grader's ranking",
}


def trial_sections(report: TrialsComparisonReport) -> list[list[str]]:
    """All sections, the verdict first."""
    meta = report.meta
    once, every = "## Capability (passAtK: at least once in k trials)", "## Reliability (passExpK: in all of k trials)"
    return [
        head("Trials Comparison Report", meta, f"Trials: {trials_per_prompt(meta)}"),
        preference_section(report.preference),
        verdicts(report.statistics.pairs, "pass rates"),
        rates_section(report),
        spread_section(once, meta, report.capability, "pass_at_k", "Prompts"),
        spread_section(every, meta, report.reliability, "pass_exp_k", "Prompts"),
        estimates_section(report),
        flakiness_section(report),
        flaky_prompts_section(report),
        spread_section("## Quality (scores)", meta, report.quality, "score", "Trials") if report.quality else [],
        performance_section(report.performance, meta),
        wins_section(report),
        differences_section(report),
        differing_prompts(((prompt, prompt.pass_rate) for prompt in report.per_prompt), meta),
        missing_section(meta),
    ]


def trials_per_prompt(meta: TrialsMeta) -> str:
    """How many trials a prompt has; where k differs, which k each run has."""
    if meta.trials_per_prompt is None:
        return "none"
    if not meta.mixed_k:
        return f"{meta.trials_per_prompt} per prompt"
    runs = (f"{inline(label)} {' and '.join(counts)}" for label, counts in meta.mixed_k.items())
    return f"k differs ({', '.join(runs)}); a prompt is won at the smallest k that its runs have"


# --- each run -----------------------------------------------------------------------------------


def rates_section(report: TrialsComparisonReport) -> list[str]:
    """Pass rates, their clustered intervals and what they are over."""
    bootstrap = ["Bootstrap"] if report.meta.bootstrap_iterations else []

    def cells(found: RunStatistics) -> list[str]:
        rates = [percent(found.pass_rate), percent_span(found.interval)]
        rates += [percent_span(found.bootstrap_interval) for _ in bootstrap]
        counts = (found.prompts, found.trials, found.passed_trials, found.graded_trials)
        others = (found.failed_trials, found.ungraded_trials, found.grader_errors)
        return [*rates, *map(str, counts + others)]

    header = ["Pass rate", INTERVAL, *bootstrap, "Prompts", "Trials", "Passed", "Graded", "Agent failed", "Ungraded"]
    lines = by_run("## Pass rate", [*header, "Grader errors"], report.statistics.runs, cells)
    return [*lines, "", "The trials of a prompt are a cluster: the interval rests on the prompts, not on the trials."]


def spread_section(title: str, meta: TrialsMeta, runs: Mapping[str, Any], of: str, over: str) -> list[str]:
    """Mean, median and quartiles of one value of each run; `of` is the end of the names of its fields."""

    def cells(found: Any) -> list[str]:
        average, *others = (number(getattr(found, f"{part}_{of}")) for part in ("avg", "median", "p25", "p75"))
        intervals = found.confidence_intervals
        return [average, *([span(getattr(intervals, f"avg_{of}"))] if intervals else []), *others, str(found.n)]

    return by_run(title, ["Mean", *intervals_title(meta), "Median", "p25", "p75", over], runs, cells)


def estimates_section(report: TrialsComparisonReport) -> list[str]:
    """The unbiased estimates for 1 to k trials, of which one or all pass."""
    most = max((int(j) for found in report.capability.values() for j in found.pass_at), default=0)
    if most < 2:
        return []
    shown = [str(j) for j in sorted({*STEPS, most}) if j <= most]
    once = {label: found.pass_at for label, found in report.capability.items()}
    every = {label: found.pass_exp for label, found in report.reliability.items()}
    rows = [
        [inline(label), what, *(number(means.get(j)) for j in shown)]
        for what, runs in (("pass@j", once), ("pass^j", every))
        for label, means in runs.items()
    ]
    lines = ["Unbiased estimates: of j trials one passes (pass@j), all pass (pass^j):", ""]
    return [*lines, *table(["Run", "j", *shown], rows, names=2)]


def flakiness_section(report: TrialsComparisonReport) -> list[str]:
    """The difference between once and every time, in each run."""

    def cells(found: Flakiness) -> list[str]:
        means = [number(found.avg_flakiness), number(found.median_flakiness)]
        return [*means, str(found.flaky_prompt_count), str(found.n)]

    header = ["Mean", "Median", "Flaky prompts", "Prompts"]
    return by_run("## Flakiness (passAtK - passExpK)", header, report.flakiness, cells)


def flaky_prompts_section(report: TrialsComparisonReport) -> list[str]:
    """The most flaky prompts of each run."""
    rows = [
        [inline(label), inline(prompt.id), number(prompt.flakiness), percent(prompt.pass_rate)]
        for label, found in report.flakiness.items()
        for prompt in found.top_flaky_prompts
    ]
    return ["Most flaky:", "", *table(["Run", "Prompt", "Flakiness", "Pass rate"], rows, names=2)] if rows else []


# --- run against run ----------------------------------------------------------------------------


def wins_section(report: TrialsComparisonReport) -> list[str]:
    """Prompts won: by the strategy, by passAtK and by passExpK."""
    wins = report.head_to_head
    lines = ["## Head to head", "", *wins_table(WON_BY[report.meta.strategy], wins.overall), ""]
    lines += [*wins_table("capability (passAtK)", wins.capability), ""]
    return [*lines, *wins_table("reliability (passExpK)", wins.reliability)]


def differences_section(report: TrialsComparisonReport) -> list[str]:
    """The paired differences of pass rates and scores."""
    rows = []
    for pair in report.statistics.pairs:
        for of, found in (("pass rate", pair), ("mean score", pair.score)):
            if found:
                counts = map(str, (found.wins, found.losses, found.ties))
                cells = [inline(pair.run_a), inline(pair.run_b), of, *difference_cells(found, report.meta), *counts]
                rows.append([*cells, number(found.minimum_detectable_difference)])
    header = ["A", "B", "Of", *difference_titles(report.meta), "A higher", "B higher", "Equal", "Detectable"]
    return ["Paired by prompt:", "", *table(header, rows, names=3)]
