"""Sections of markdown that comparisons of results and of trials share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import TypeVar

from agenteval.reports.figures import UNKNOWN, number, signed, span
from agenteval.reports.markup import inline, table
from agenteval.streams.text import counted, first_few
from agenteval.wire.comparison import Difference, Latency, Pairwise, Performance, PromptComparison, ReportMeta
from agenteval.wire.trials_comparison import TrialsPrompt

PROMPTS_SHOWN = 10
MISSING_SHOWN = 20
INTERVAL = "95 % interval"

T = TypeVar("T")


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


# --- the verdict --------------------------------------------------------------------------------


def verdicts(pairs: Iterable[Difference], of: str) -> list[str]:
    """For every two runs, in words: which is better, by how much, and how sure that is."""
    lines = [verdict_line(pair, of) for pair in pairs]
    if len(lines) == 1:
        return ["## Verdict", "", *lines]
    caution = (
        f"Each of the {len(lines)} pairs is tested at 5 % by itself: of 20 pairs without a true difference, "
        "one is called better by chance."
    )
    return ["## Verdict", "", *(f"- {line}" for line in lines), "", caution]


def verdict_line(pair: Difference, of: str) -> str:
    """One pair's verdict with the difference, better minus worse, and its interval."""
    names = (pair.run_a, pair.run_b) if pair.better != pair.run_b else (pair.run_b, pair.run_a)
    first, second = map(inline, names)
    claim = f"{first} is better than {second}" if pair.better is not None else f"{first} and {second}: {pair.verdict}"
    if pair.mean_difference is None:
        return f"**{claim}.**"
    sign = -1 if pair.better == pair.run_b else 1
    text = f"**{claim}.** Paired difference of {of} ({first} - {second}) {signed(sign * pair.mean_difference)}"
    if pair.interval:
        low, high = sorted(sign * end for end in pair.interval)
        text += f", {INTERVAL} {signed(low)} to {signed(high)}"
    text += f", on {counted(pair.n, 'prompt')} graded in both."
    if pair.better is None and pair.minimum_detectable_difference is not None:
        least = number(pair.minimum_detectable_difference)
        text += f" A true difference below {least} could well be missed with so few prompts."
    return text


# --- each run -----------------------------------------------------------------------------------


def intervals_title(meta: ReportMeta) -> list[str]:
    """The title of a column of bootstrap intervals, if there are any."""
    return [INTERVAL] if meta.bootstrap_iterations else []


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

    header = ["n", "p50", "p90", "p99", "Min", "Max", "Mean"]
    lines = by_run("## Latency (ms)", [*header, *intervals_title(meta), "Total"], performance, cells)
    first = {label: found.first_response for label, found in performance.items() if found.first_response}
    return [*lines, "", *by_run("First response (ms):", header, first, _latency_cells)] if first else lines


def _latency_cells(found: Latency) -> list[str]:
    values = (found.p50, found.p90, found.p99, found.min, found.max, found.mean)
    return [str(found.n), *(number(value, 0) for value in values)]


# --- run against run ----------------------------------------------------------------------------


def wins_table(by: str, pairwise: Iterable[Pairwise]) -> list[str]:
    """Prompts won by each of every two runs."""
    rows = [
        [inline(pair.run_a), inline(pair.run_b), *map(str, (pair.a_wins, pair.b_wins, pair.ties, pair.n))]
        for pair in pairwise
    ]
    return [f"Prompts won, by {by}:", "", *table(["A", "B", "A wins", "B wins", "Ties", "Compared"], rows, names=2)]


def difference_titles(meta: ReportMeta) -> list[str]:
    """The titles of difference_cells."""
    return ["n", "A - B", INTERVAL, *(["Bootstrap"] if meta.bootstrap_iterations else [])]


def difference_cells(found: Difference, meta: ReportMeta) -> list[str]:
    """A paired difference, its intervals and the number of prompts it is over."""
    bootstrap = [span(found.bootstrap_interval)] if meta.bootstrap_iterations else []
    return [str(found.n), signed(found.mean_difference), span(found.interval), *bootstrap]


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
    """The prompts that a run lacks: the first few ids and how many more."""
    if not meta.missing:
        return []
    lines = ["## Missing prompts", ""]
    for label, ids in meta.missing.items():
        lines.append(f"- **{inline(label)}** lacks {len(ids)}: {first_few([inline(id) for id in ids], MISSING_SHOWN)}")
    return lines
