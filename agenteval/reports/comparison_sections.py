"""Sections of markdown that comparisons of results and of trials share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import TypeVar

from agenteval.comparison.analysis.verdicts import change, p_text
from agenteval.reports.figures import UNKNOWN, interval_text, number, percent, percent_interval, signed, span, whole
from agenteval.reports.markup import inline, table
from agenteval.streams.text import first_few
from agenteval.wire.comparison import Latency, PairStatistics, Pairwise, Performance, PromptComparison, ReportMeta
from agenteval.wire.differences import Category, Difference, Usage
from agenteval.wire.trials_comparison import TrialsPairStatistics, TrialsPrompt

PROMPTS_SHOWN = 10
MISSING_SHOWN = 20
INTERVAL = "95 % interval"
WOULD_SHOW = "Would show: the smallest difference this many prompts would show 4 times in 5."

T = TypeVar("T")


def head(title: str, meta: ReportMeta, *more: str) -> list[str]:
    """Title, and what was compared."""
    facts = [
        f"Runs: {', '.join(map(inline, meta.runs))}",
        f"Prompts: {meta.prompt_count} in all, {meta.prompts_with_all_runs} in every run",
        *more,
        *([f"Clusters: prompts with the same {inline(meta.cluster_by)}"] if meta.cluster_by else []),
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


# --- the verdict --------------------------------------------------------------------------------


def verdicts(pairs: Sequence[PairStatistics | TrialsPairStatistics]) -> list[str]:
    """For every two runs: which is better, then a sentence each on passes, scores, and what it takes."""
    lines = ["## Verdict"]
    for pair in pairs:
        a, b = inline(pair.run_a), inline(pair.run_b)
        if pair.better is None:
            claim = f"{a} and {b}: {inline(pair.verdict)}."
        else:
            claim = f"{b} is {'better' if pair.better == pair.run_b else 'worse'} than {a}."
        lines += ["", f"**{claim}**", "", *(f"- {inline(sentence)}" for sentence in pair.sentences)]
    if len(pairs) > 1:
        lines += ["", f"The verdicts are adjusted for all tests of the {len(pairs)} pairs (Holm's method)."]
    return lines


# --- each run -----------------------------------------------------------------------------------


def by_run(title: str, header: Sequence[str], runs: Mapping[str, T], cells: Callable[[T], list[str]]) -> list[str]:
    """A section with a row of cells for each run."""
    rows = [[inline(label), *cells(found)] for label, found in runs.items()]
    return [title, "", *table(["Run", *header], rows)]


def performance_section(performance: Mapping[str, Performance], meta: ReportMeta) -> list[str]:
    """Latency of each run in milliseconds, and the time to the first response where it is known."""

    def cells(found: Performance) -> list[str]:
        intervals = found.confidence_intervals
        interval = [span(intervals.latency_mean, 0)] if intervals else []
        return [*_latency_cells(found.latency), *interval, number(found.total_duration, 0)]

    header = ["n", "p50", INTERVAL, "p90", INTERVAL, "p99", "Min", "Max", "Mean"]
    mean = [INTERVAL] if meta.bootstrap_iterations else []
    lines = by_run("## Latency (ms)", [*header, *mean, "Total"], performance, cells)
    first = {label: found.first_response for label, found in performance.items() if found.first_response}
    return [*lines, "", *by_run("First response (ms):", header, first, _latency_cells)] if first else lines


def _latency_cells(found: Latency) -> list[str]:
    middle = [number(found.p50, 0), interval_text(found.p50_interval, 0)]
    slow = [number(found.p90, 0), interval_text(found.p90_interval, 0)]
    return [
        str(found.n),
        *middle,
        *slow,
        *(number(value, 0) for value in (found.p99, found.min, found.max, found.mean)),
    ]


def usage_section(usage: Mapping[str, Usage] | None) -> list[str]:
    """Tokens and cost of each run, if any is known."""
    if not usage:
        return []

    def cells(found: Usage) -> list[str]:
        tokens, cost = found.tokens, found.cost
        counts = [whole(tokens.total), whole(tokens.mean), str(tokens.n)] if tokens else [UNKNOWN] * 3
        dollars = [number(cost.total, 4), number(cost.mean, 4), str(cost.n)] if cost else [UNKNOWN] * 3
        return [*counts, *dollars, str(cost.estimated or 0) if cost else UNKNOWN]

    header = ["Tokens", "Mean", "n", "Cost (USD)", "Mean", "n", "Estimated"]
    lines = by_run("## Tokens and cost", header, usage, cells)
    if any(found.cost and found.cost.estimated for found in usage.values()):
        lines += ["", "Estimated costs are tokens times the list price of the model (genai-prices), not a bill."]
    return lines


def categories_section(categories: Mapping[str, Category] | None, meta: ReportMeta) -> list[str]:
    """Pass rates in each category, with their intervals, and what is shown of every two runs."""
    if not categories:
        return []
    rows = [
        [inline(name), inline(label), percent(run.pass_rate), percent_interval(run.interval), number(run.avg_score)]
        + [interval_text(run.score_interval), str(run.n)]
        for name, category in categories.items()
        for label, run in category.runs.items()
    ]
    header = ["Category", "Run", "Pass rate", INTERVAL, "Mean score", INTERVAL, "Graded"]
    lines = [f"## By {inline(meta.by or 'category')}", "", *table(header, rows, names=2), ""]
    pairs = [
        [inline(name), inline(pair.run_a), inline(pair.run_b), *difference_cells(pair), inline(pair.verdict)]
        for name, category in categories.items()
        for pair in category.pairs
    ]
    title = ["Category", "A", "B", *DIFFERENCE_TITLES, "Verdict"]
    lines += ["Pass rates, paired by prompt; verdicts are adjusted for all of this table:", ""]
    return [*lines, *table(title, pairs, names=3)]


# --- run against run ----------------------------------------------------------------------------


def wins_table(by: str, pairwise: Iterable[Pairwise]) -> list[str]:
    """Prompts won by each of every two runs."""
    rows = [
        [inline(pair.run_a), inline(pair.run_b), *map(str, (pair.a_wins, pair.b_wins, pair.ties, pair.n))]
        for pair in pairwise
    ]
    return [f"Prompts won, by {by}:", "", *table(["A", "B", "A wins", "B wins", "Ties", "Compared"], rows, names=2)]


DIFFERENCE_TITLES = ("n", "Mean A", "Mean B", "B - A", INTERVAL, "p", "Adjusted p")


def difference_cells(found: Difference) -> list[str]:
    """Both means, their difference with its interval and p values, and the number of prompts that they are over."""
    value, bounds = change(found)
    sure = f"{signed(bounds[0])} to {signed(bounds[1])}" if bounds else UNKNOWN
    means = [number(found.mean_a), number(found.mean_b), signed(value), sure]
    tests = [p_text(p).removeprefix("p ") or UNKNOWN for p in (found.p, found.adjusted_p)]
    return [str(found.n), *means, *tests]


def flips_section(pairs: Iterable[PairStatistics | TrialsPairStatistics]) -> list[str]:
    """The prompts that only one of two runs passed: the first few ids and how many more."""
    lines = []
    for pair in pairs:
        for label, other, ids in (
            (pair.run_a, pair.run_b, pair.flips.only_a),
            (pair.run_b, pair.run_a, pair.flips.only_b),
        ):
            if ids:
                shown = first_few([inline(id) for id in ids], MISSING_SHOWN)
                lines.append(f"- Passed in **{inline(label)}**, not in {inline(other)} ({len(ids)}): {shown}")
    return ["## Prompts that changed sides", "", *lines] if lines else []


# --- prompts ------------------------------------------------------------------------------------


def differing_prompts(
    prompts: Iterable[tuple[PromptComparison | TrialsPrompt, Mapping[str, float | None]]], meta: ReportMeta
) -> list[str]:
    """The prompts whose values are furthest apart, with the values of all runs."""
    spreads = ((spread(values), prompt, values) for prompt, values in prompts)
    apart = nlargest(PROMPTS_SHOWN, (found for found in spreads if found[0]), key=lambda found: found[0])
    if not apart:
        return []
    rows = []
    for _, prompt, values in apart:
        winner = UNKNOWN if prompt.winner is None else inline(prompt.winner)
        rows.append([inline(prompt.id), *(number(values.get(label)) for label in meta.runs), winner])
    title = "## Prompts that differ most" if len(apart) > 1 else "## The prompt that differs"
    return [title, "", *table(["Prompt", *map(inline, meta.runs), "Winner"], rows)]


def spread(values: Mapping[str, float | None]) -> float:
    """How far apart the highest and the lowest value are."""
    known = [value for value in values.values() if value is not None]
    return max(known) - min(known) if known else 0.0


def missing_section(meta: ReportMeta) -> list[str]:
    """The prompts that a run lacks, or asks otherwise: the first few ids and how many more."""
    lines = [f"- **{inline(label)}** lacks {_ids(ids)}" for label, ids in meta.missing.items()]
    lines += [
        f"- **{inline(label)}** has another input, so these are left out: {_ids(ids)}"
        for label, ids in (meta.changed_input or {}).items()
    ]
    return ["## Missing prompts", "", *lines] if lines else []


def _ids(ids: Sequence[str]) -> str:
    return f"{len(ids)}: {first_few([inline(id) for id in ids], MISSING_SHOWN)}"
