"""A comparison of trials as sections of markdown."""

from __future__ import annotations

from agenteval.comparison.trial_rows import STEPS
from agenteval.reports.comparison_sections import (
    DIFFERENCE_TITLES,
    INTERVAL,
    WOULD_SHOW,
    by_run,
    categories_section,
    difference_cells,
    differing_prompts,
    flips_section,
    head,
    missing_section,
    performance_section,
    usage_section,
    verdicts,
    wins_table,
)
from agenteval.reports.figures import interval_text, number, percent, percent_interval
from agenteval.reports.markup import inline, table
from agenteval.reports.preference_sections import preference_section
from agenteval.wire.trials_comparison import (
    Capability,
    Flakiness,
    RunStatistics,
    TrialQuality,
    TrialReliability,
    TrialsComparisonReport,
    TrialsMeta,
)

WON_BY = {
    "weighted": "the weighted score of capability, reliability and consistency",
    "statistical": "the pass rate",
    "custom": "the comparison grader's ranking",
}


def trial_sections(report: TrialsComparisonReport) -> list[list[str]]:
    """All sections, the verdict first."""
    meta = report.meta
    return [
        head("Trials Comparison Report", meta, f"Trials: {trials_per_prompt(meta)}"),
        preference_section(report.preference),
        verdicts(report.statistics.pairs),
        rates_section(report),
        estimates_section(report),
        categories_section(report.by_category, meta),
        flips_section(report.statistics.pairs),
        flakiness_section(report),
        flaky_prompts_section(report),
        quality_section(report),
        performance_section(report.performance, meta),
        usage_section(report.usage),
        ["## Head to head", "", *wins_table(WON_BY[meta.strategy], report.head_to_head.overall)],
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

    def cells(found: RunStatistics) -> list[str]:
        counts = (found.prompts, found.trials, found.passed_trials, found.graded_trials)
        others = (found.failed_trials, found.ungraded_trials, found.grader_errors)
        return [percent(found.pass_rate), percent_interval(found.interval), *map(str, counts + others)]

    header = ["Pass rate", INTERVAL, "Prompts", "Trials", "Passed", "Graded", "Agent failed", "Ungraded"]
    lines = by_run("## Pass rate", [*header, "Grader errors"], report.statistics.runs, cells)
    return [*lines, "", "The trials of a prompt are a cluster: the interval rests on the prompts, not on the trials."]


def estimates_section(report: TrialsComparisonReport) -> list[str]:
    """pass@j and pass^j with their intervals, each over the prompts that have j graded trials."""
    most = max((int(j) for found in report.capability.values() for j in found.pass_at), default=0)
    if most < 2:
        return []
    shown = [str(j) for j in sorted({*STEPS, most}) if 1 < j <= most]
    rows = []
    for j in shown:
        for label, once in report.capability.items():
            every = report.reliability[label]
            if j in once.pass_at:
                rows.append([inline(label), j, *_estimate_cells(once, every, j), str(once.pass_at_n[j])])
    header = ["Run", "j", "pass@j", INTERVAL, "pass^j", INTERVAL, "Prompts with j trials"]
    title = "## Passed once (pass@j), passed every time (pass^j), of j trials"
    return [title, "", *table(header, rows), "", "Unbiased estimates (docs/statistics.md)."]


def _estimate_cells(once: Capability, every: TrialReliability, j: str) -> list[str]:
    return [
        *(number(once.pass_at[j]), interval_text(once.pass_at_intervals.get(j))),
        *(number(every.pass_exp.get(j)), interval_text(every.pass_exp_intervals.get(j))),
    ]


def quality_section(report: TrialsComparisonReport) -> list[str]:
    """Mean score with its interval, median and quartiles of each run that has scores."""
    if not report.quality:
        return []

    def cells(found: TrialQuality) -> list[str]:
        others = (number(value) for value in (found.median_score, found.p25_score, found.p75_score))
        return [number(found.avg_score), interval_text(found.score_interval), *others, str(found.n)]

    header = ["Mean", INTERVAL, "Median", "p25", "p75", "Trials"]
    return by_run("## Quality (scores)", header, report.quality, cells)


def flakiness_section(report: TrialsComparisonReport) -> list[str]:
    """How many prompts pass sometimes, not always, in each run."""

    def cells(found: Flakiness) -> list[str]:
        share = found.flaky_prompt_count / found.n if found.n else None
        return [str(found.flaky_prompt_count), percent(share), str(found.n)]

    return by_run("## Flakiness", ["Flaky prompts", "Share", "Prompts"], report.flakiness, cells)


def flaky_prompts_section(report: TrialsComparisonReport) -> list[str]:
    """The most flaky prompts of each run."""
    rows = [
        [inline(label), inline(prompt.id), percent(prompt.pass_rate)]
        for label, found in report.flakiness.items()
        for prompt in found.top_flaky_prompts
    ]
    return ["Most flaky:", "", *table(["Run", "Prompt", "Pass rate"], rows, names=2)] if rows else []


# --- run against run ----------------------------------------------------------------------------


def differences_section(report: TrialsComparisonReport) -> list[str]:
    """The paired differences of pass rates, pass^k and scores."""
    rows = []
    for pair in report.statistics.pairs:
        every = pair.pass_exp if pair.pass_exp and pair.pass_exp.k > 1 else None
        for of, found in (("pass rate", pair), (f"pass^{every.k}" if every else "", every), ("score", pair.score)):
            if found:
                counts = map(str, (found.wins, found.losses, found.ties))
                cells = [inline(pair.run_a), inline(pair.run_b), of, *difference_cells(found), *counts]
                rows.append([*cells, number(found.minimum_detectable_difference)])
    header = ["A", "B", "Of", *DIFFERENCE_TITLES, "A higher", "B higher", "Equal", "Would show"]
    return ["Paired by prompt:", "", *table(header, rows, names=3), "", WOULD_SHOW]
