"""A comparison of results as sections of markdown."""

from __future__ import annotations

from agenteval.reports.comparison_sections import (
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
from agenteval.wire.comparison import ComparisonReport, PairStatistics, Quality, Reliability

WON_BY = {
    "weighted": "the weighted score of quality, speed and reliability",
    "statistical": "the grader's score",
    "custom": "the comparison grader's ranking",
}


def result_sections(report: ComparisonReport) -> list[list[str]]:
    """All sections, the verdict first."""
    meta = report.meta
    return [
        head("Comparison Report", meta),
        preference_section(report.preference),
        verdicts(report.statistics.pairs, "scores"),
        quality_section(report),
        performance_section(report.performance, meta),
        reliability_section(report),
        ["## Head to head", "", *wins_table(WON_BY[meta.strategy], report.head_to_head.pairwise)],
        tests_section(report),
        differing_prompts(((prompt, prompt.scores) for prompt in report.head_to_head.prompts), meta),
        missing_section(meta),
    ]


def quality_section(report: ComparisonReport) -> list[str]:
    """Scores and passes of each run, and how many records they are over."""

    def cells(found: Quality) -> list[str]:
        intervals = found.confidence_intervals
        score = [number(found.avg_score), *([span(intervals.avg_score)] if intervals else [])]
        rate = [percent(found.pass_rate), *([percent_span(intervals.pass_rate)] if intervals else [])]
        counts = (found.pass_count, found.fail_count, found.errors, found.n, found.ungraded, found.grader_errors)
        return [*score, *rate, *map(str, counts)]

    interval = intervals_title(report.meta)
    counts = ["Passed", "Not passed", "Agents failed", "Graded", "Ungraded", "Grader errors"]
    return by_run("## Quality", ["Mean score", *interval, "Pass rate", *interval, *counts], report.quality, cells)


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
    """The paired tests of the grader's scores and passes."""

    def cells(pair: PairStatistics) -> list[str]:
        test = pair.mcnemar
        passed = [str(test.b), str(test.c), f"{test.p:.3g}"]
        names = [inline(pair.run_a), inline(pair.run_b)]
        return [*names, *difference_cells(pair, report.meta), *passed, number(pair.minimum_detectable_difference)]

    header = ["A", "B", *difference_titles(report.meta), "Only A passed", "Only B passed", "McNemar p", "Detectable"]
    lines = ["The grader's scores and passes, paired by prompt:", ""]
    return [*lines, *table(header, map(cells, report.statistics.pairs), names=2)]
