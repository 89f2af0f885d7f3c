"""A comparison report as markdown: the verdict in words first, then the figures behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Protocol

from agenteval.reports.markup import inline
from agenteval.wire.comparison import ComparisonReport, Interval, Latency, Pairwise, Performance, ReportMeta

NOTHING = "–"
PROMPTS_SHOWN = 10
MISSING_SHOWN = 20
WON_BY = {
    "weighted": "the weighted score of quality, speed and reliability",
    "statistical": "the grader's score",
    "custom": "the comparison grader's ranking",
}


class Won(Protocol):
    """A prompt, and the run that won it."""

    id: str
    winner: str | None


class Compared(Protocol):
    """Two runs and the difference between them."""

    run_a: str
    run_b: str
    n: int
    mean_difference: float | None
    interval: Interval | None
    minimum_detectable_difference: float | None
    better: str | None
    verdict: str


def markdown(report: ComparisonReport) -> str:
    """The whole report, as text."""
    sections = [
        head("Comparison Report", report.meta),
        verdicts(report.statistics.pairs, "scores"),
        quality_section(report),
        performance_section(report.performance, report.meta),
        reliability_section(report),
        wins_section(report),
        tests_section(report),
        prompts_section(report),
        missing_section(report.meta),
    ]
    return page(sections)


def page(sections: Iterable[Sequence[str]]) -> str:
    """The sections that have anything to say, a blank line after each."""
    return "\n".join(line for section in sections if section for line in [*section, ""])


# --- the parts ----------------------------------------------------------------------------------


def head(title: str, meta: ReportMeta, *more: str) -> list[str]:
    """Title, and what was compared."""
    facts = [
        f"Runs: {', '.join(map(inline, meta.runs))}",
        f"Prompts: {meta.prompt_count} in all, {meta.prompts_with_all_runs} in every run",
        *more,
        f"Strategy: {meta.strategy}{_settings(meta)}",
        f"Generated: {meta.generated_at}",
    ]
    if meta.grader_errors:
        facts.append(f"Grader errors: {meta.grader_errors} prompts could not be ranked")
    return [f"# {title}", "", *(f"- {fact}" for fact in facts)]


def _settings(meta: ReportMeta) -> str:
    if meta.weights:
        return f" ({', '.join(f'{term} {weight:g}' for term, weight in meta.weights.items())})"
    return f" ({meta.bootstrap_iterations} resamples, seed {meta.seed})" if meta.bootstrap_iterations else ""


def verdicts(pairs: Iterable[Compared], of: str) -> list[str]:
    """For every two runs, in words: which is better, by how much, and how sure that is."""
    said = [verdict_line(pair, of) for pair in pairs]
    if len(said) == 1:
        return ["## Verdict", "", *said]
    caution = f"Each of the {len(said)} pairs is judged at 5 % by itself: of 20 such pairs, one differs by luck alone."
    return ["## Verdict", "", *(f"- {line}" for line in said), "", caution]


def verdict_line(pair: Compared, of: str) -> str:
    """One pair's verdict with the difference, better minus worse, and what it rests on."""
    names = (pair.run_a, pair.run_b) if pair.better != pair.run_b else (pair.run_b, pair.run_a)
    first, second = map(inline, names)
    claim = f"{first} is better than {second}" if pair.better is not None else f"{first} and {second}: {pair.verdict}"
    if pair.mean_difference is None:
        return f"**{claim}.**"
    turn = -1 if pair.better == pair.run_b else 1
    text = f"**{claim}.** Paired difference of {of} ({first} - {second}) {signed(turn * pair.mean_difference)}"
    if pair.interval:
        low, high = sorted(turn * end for end in pair.interval)
        text += f", 95 % interval {signed(low)} to {signed(high)}"
    text += f", on {pair.n} prompt{'' if pair.n == 1 else 's'} graded in both."
    if pair.better is None and pair.minimum_detectable_difference is not None:
        text += f" So few could well miss a true difference below {pair.minimum_detectable_difference:.3f}."
    return text


def quality_section(report: ComparisonReport) -> list[str]:
    """Scores and passes of each run, with the number they are over."""
    interval = ["95 % interval"] if report.meta.bootstrap_iterations else []
    header = ["Run", "Mean score", *interval, "Pass rate", *interval]
    rows = []
    for label, found in report.quality.items():
        score, rate = [number(found.avg_score)], [percent(found.pass_rate)]
        if found.confidence_intervals:
            score.append(span(found.confidence_intervals.avg_score))
            rate.append(percent_span(found.confidence_intervals.pass_rate))
        counts = (found.pass_count, found.fail_count, found.n, found.ungraded, found.grader_errors)
        rows.append([inline(label), *score, *rate, *map(str, counts)])
    return ["## Quality", "", *table([*header, "Passed", "Failed", "Graded", "Ungraded", "Grader errors"], rows)]


def performance_section(performance: Mapping[str, Performance], meta: ReportMeta) -> list[str]:
    """Latency of each run in milliseconds; the time to the first response where it is known."""
    interval = ["95 % interval"] if meta.bootstrap_iterations else []
    header = ["Run", "n", "p50", "p90", "p99", "Min", "Max", "Mean"]
    rows, first = [], []
    for label, found in performance.items():
        cells = [inline(label), *_latency_cells(found.latency)]
        if found.confidence_intervals:
            cells.append(span(found.confidence_intervals.latency_mean, 0))
        rows.append([*cells, number(found.total_duration, 0)])
        if found.first_response:
            first.append([inline(label), *_latency_cells(found.first_response)])
    lines = ["## Latency (ms)", "", *table([*header, *interval, "Total"], rows)]
    return [*lines, "", "First response (ms):", "", *table(header, first)] if first else lines


def _latency_cells(found: Latency) -> list[str]:
    values = (found.p50, found.p90, found.p99, found.min, found.max, found.mean)
    return [str(found.n), *(number(value, 0) for value in values)]


def reliability_section(report: ComparisonReport) -> list[str]:
    """What went wrong in each run."""
    header = ["Run", "Results", "Tool errors", "Tool error rate", "Timeouts", "Timeout rate", "Completed", "Steps"]
    rows = []
    for label, found in report.reliability.items():
        steps = number(report.trajectory_info[label].avg_step_count, 1)
        errors = [str(found.tool_errors), percent(found.tool_error_rate)]
        timeouts = [str(found.timeouts), percent(found.timeout_rate)]
        rows.append([inline(label), str(found.n), *errors, *timeouts, percent(found.completion_rate), steps])
    return ["## Reliability", "", *table(header, rows)]


def wins_section(report: ComparisonReport) -> list[str]:
    """Prompts won by the strategy."""
    return ["## Head to head", "", *wins_table(WON_BY[report.meta.strategy], report.head_to_head.pairwise)]


def wins_table(by: str, pairwise: Iterable[Pairwise]) -> list[str]:
    """Prompts won by each of every two runs."""
    rows = [
        [inline(pair.run_a), inline(pair.run_b), *map(str, (pair.a_wins, pair.b_wins, pair.ties, pair.n))]
        for pair in pairwise
    ]
    return [f"Prompts won, by {by}:", "", *table(["A", "B", "A wins", "B wins", "Ties", "Compared"], rows, names=2)]


def tests_section(report: ComparisonReport) -> list[str]:
    """The paired tests on the grader's scores and passes."""
    bootstrap = ["Bootstrap"] if report.meta.bootstrap_iterations else []
    header = ["A", "B", "n", "A - B", "95 % interval", *bootstrap]
    rows = []
    for pair in report.statistics.pairs:
        cells = [inline(pair.run_a), inline(pair.run_b), str(pair.n), signed(pair.mean_difference)]
        cells += [span(pair.interval), *(span(pair.bootstrap_interval) for _ in bootstrap)]
        test = pair.mcnemar
        cells += [str(test.b), str(test.c), f"{test.p:.3g}", number(pair.minimum_detectable_difference)]
        rows.append(cells)
    lines = ["The grader's scores and passes, paired by prompt:", ""]
    return [*lines, *table([*header, "Only A passed", "Only B passed", "McNemar p", "Detectable"], rows, names=2)]


def prompts_section(report: ComparisonReport) -> list[str]:
    """The prompts on which the runs are furthest apart."""
    return differing_prompts(((prompt, prompt.scores) for prompt in report.head_to_head.prompts), report.meta)


def differing_prompts(prompts: Iterable[tuple[Won, Mapping[str, float | None]]], meta: ReportMeta) -> list[str]:
    """The prompts whose values are furthest apart, with the values of all runs."""
    spreads = ((spread(values), prompt, values) for prompt, values in prompts)
    apart = nlargest(PROMPTS_SHOWN, (found for found in spreads if found[0]), key=lambda found: found[0])
    if not apart:
        return []
    rows = [
        [
            inline(prompt.id),
            *(number(values.get(label)) for label in meta.runs),
            inline(prompt.winner) if prompt.winner is not None else NOTHING,
        ]
        for _, prompt, values in apart
    ]
    title = "## Prompts that differ most" if len(apart) > 1 else "## The prompt that differs"
    return [title, "", *table(["Prompt", *map(inline, meta.runs), "Winner"], rows)]


def spread(values: Mapping[str, float | None]) -> float:
    """How far apart the highest and the lowest are."""
    known = [value for value in values.values() if value is not None]
    return max(known) - min(known) if known else 0.0


def missing_section(meta: ReportMeta) -> list[str]:
    """The prompts that a run lacks, by name up to a point."""
    if not meta.missing:
        return []
    lines = ["## Missing prompts", ""]
    for label, ids in meta.missing.items():
        more = f" and {len(ids) - MISSING_SHOWN} more" if len(ids) > MISSING_SHOWN else ""
        lines.append(f"- **{inline(label)}** lacks {len(ids)}: {', '.join(map(inline, ids[:MISSING_SHOWN]))}{more}")
    return lines


# --- cells --------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> list[str]:
    """The lines of a table: the first columns are names, the rest numbers, which stand to the right."""
    rule = ["---"] * names + ["---:"] * (len(header) - names)
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *rows)]


def number(value: float | None, digits: int = 3) -> str:
    """The number, or a dash for what is not known."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    """A rate as a percentage."""
    return NOTHING if value is None else f"{value:.1%}"


def span(interval: Interval | None, digits: int = 3) -> str:
    """An interval, low to high."""
    return NOTHING if interval is None else f"{interval[0]:.{digits}f} to {interval[1]:.{digits}f}"


def percent_span(interval: Interval | None) -> str:
    """An interval of a rate, low to high."""
    return NOTHING if interval is None else f"{interval[0]:.1%} to {interval[1]:.1%}"


def signed(value: float | None) -> str:
    """A difference, with its sign."""
    return NOTHING if value is None else f"{value:+z.3f}"
