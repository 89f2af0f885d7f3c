"""A comparison of results as sections of markdown."""

from __future__ import annotations

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
from agenteval.wire.comparison import ComparisonReport, PairStatistics, Quality, Reliability
from agenteval.wire.differences import Difference

WON_BY = {
    "weighted": "the weighted score of quality, speed and reliability (equal grades are a tie)",
    "statistical": "the grader's score",
    "custom": "the comparison grader's ranking",
}


def result_sections(report: ComparisonReport) -> list[list[str]]:
    """All sections, the verdict first."""
    meta = report.meta
    return [
        head("Comparison Report", meta),
        preference_section(report.preference),
        verdicts(report.statistics.pairs),
        quality_section(report),
        categories_section(report.by_category, meta),
        flips_section(report.statistics.pairs),
        performance_section(report.performance, meta),
        usage_section(report.usage),
        reliability_section(report),
        wins_section(report),
        tests_section(report),
        differing_prompts(((prompt, prompt.scores) for prompt in report.head_to_head.prompts), meta),
        missing_section(meta),
    ]


def quality_section(report: ComparisonReport) -> list[str]:
    """Passes and scores of each run with their intervals, and how many records they are over."""

    def cells(found: Quality) -> list[str]:
        rate = [percent(found.pass_rate), percent_interval(found.pass_interval)]
        score = [number(found.avg_score), interval_text(found.score_interval)]
        counts = (found.pass_count, found.fail_count, found.errors, found.n, found.ungraded, found.grader_errors)
        return [*rate, *score, *map(str, counts)]

    counts = ["Passed", "Not passed", "Agents failed", "Graded", "Ungraded", "Grader errors"]
    lines = by_run("## Quality", ["Pass rate", INTERVAL, "Mean score", INTERVAL, *counts], report.quality, cells)
    if len({found.n for found in report.quality.values()}) > 1 or report.meta.missing:
        lines += ["", "Each run is over its own graded records; the verdict is over the prompts graded in both."]
    return lines


def wins_section(report: ComparisonReport) -> list[str]:
    """Prompts won: by the grades, then by the strategy if it is another."""
    wins, strategy = report.head_to_head, report.meta.strategy
    lines = ["## Head to head", ""]
    if wins.quality and any(pair.n for pair in wins.quality):
        lines += wins_table("the grades", wins.quality)
        if strategy == "statistical":
            return lines
        lines.append("")
    return [*lines, *wins_table(WON_BY[strategy], wins.pairwise)]


def reliability_section(report: ComparisonReport) -> list[str]:
    """Errors, timeouts and completions of each run, and the mean number of steps."""
    header = ["Results", "Tool errors", "Tool error rate", "Timeouts", "Timeout rate", "Completed", "Steps"]
    steps = {label: number(found.avg_step_count, 1) for label, found in report.trajectory_info.items()}
    runs = {label: (found, steps[label]) for label, found in report.reliability.items()}

    def cells(run: tuple[Reliability, str]) -> list[str]:
        found, steps = run
        errors = [str(found.tool_errors), percent(found.tool_error_rate)]
        timeouts = [str(found.timeouts), percent(found.timeout_rate)]
        return [str(found.n), *errors, *timeouts, percent(found.completion_rate), steps]

    return by_run("## Reliability", header, runs, cells)


def tests_section(report: ComparisonReport) -> list[str]:
    """The paired tests of passes and scores."""

    def cells(pair: PairStatistics, of: str, found: Difference, passed: list[str]) -> list[str]:
        names = [inline(pair.run_a), inline(pair.run_b), of]
        return [*names, *difference_cells(found), *passed, number(found.minimum_detectable_difference)]

    rows = []
    for pair in report.statistics.pairs:
        only = [str(pair.mcnemar.b), str(pair.mcnemar.c)]
        rows += [cells(pair, "passes", pair.pass_rate, only), cells(pair, "score", pair, ["", ""])]
    header = ["A", "B", "Of", *DIFFERENCE_TITLES, "Only A passed", "Only B passed", "Would show"]
    lines = ["Passes (mid-p McNemar test) and scores (t test), paired by prompt:", ""]
    return [*lines, *table(header, rows, names=3), "", WOULD_SHOW]
