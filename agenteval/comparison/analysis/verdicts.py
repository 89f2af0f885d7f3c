"""The outcome of a comparison of two runs in sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from agenteval.comparison.analysis.differences import words
from agenteval.streams.text import counted
from agenteval.wire.differences import Difference, Ratio, Resources

LEAST_P = 0.0001  # below, digits say nothing
SHOWS = "is the smallest difference this many prompts would show 4 times in 5"


class Change(NamedTuple):
    """How much the later run of a pair is above the earlier one, with the bounds of the interval: B minus A."""

    value: float | None
    bounds: tuple[float, float] | None


def change(found: Difference) -> Change:
    """The difference as all sentences, tables and pages give it; the JSON has A minus B."""
    value = None if found.mean_difference is None else -found.mean_difference
    return Change(value, (-found.interval.high, -found.interval.low) if found.interval else None)


def overall(passes: Difference, scores: Difference | None) -> tuple[str | None, str]:
    """The run that is better and the verdict in words: by passes first, then by scores."""
    by_scores = scores.better if scores else None
    if passes.better and by_scores and passes.better != by_scores:
        return None, f"{passes.better} passes more, {by_scores} scores higher"
    better = passes.better or by_scores
    return better, words(passes.n or (scores.n if scores else 0), better)


def sentences(passes: Difference, scores: Difference | None, resources: Resources, margin: float | None) -> list[str]:
    """One sentence on passes, one on scores if there are any, one on time, tokens and cost if they are known."""
    lines = [passes_sentence(passes, margin)]
    if scores and scores.n:
        lines.append(scores_sentence(scores))
    return [*lines, *resources_sentence(passes.run_a, passes.run_b, resources)]


def passes_sentence(found: Difference, margin: float | None) -> str:
    """Who passes more often, with both rates, the interval of the difference and, if none is shown, what would be."""
    a, b = found.run_a, found.run_b
    if not found.n:
        return f"{a} and {b}: no prompt is graded in both."
    more = "more" if found.better == b else "less"
    claim = f"{b} passes {more} often than {a}" if found.better else f"{found.verdict.capitalize()} in pass rates"
    rates = f"{a} {found.mean_a or 0.0:.1%}, then {b} {found.mean_b or 0.0:.1%}"
    shown = change_words(found, points)
    text = f"{claim}: {rates} of {counted(found.n, 'prompt')} graded in both; difference {shown}{_p_words(found)}."
    least = found.minimum_detectable_difference
    if found.better is None and least is not None:
        text += f" {least * 100:.1f} points {SHOWS}."
    return text + _margin_words(found, margin)


def scores_sentence(found: Difference) -> str:
    """Who scores higher, with both means and the interval of the difference."""
    higher = "higher" if found.better == found.run_b else "lower"
    claim = f"{found.run_b} scores {higher} than {found.run_a}"
    if not found.better:
        claim = f"{found.verdict.capitalize()} in scores"
    means = f"mean {found.mean_a or 0.0:.3f}, then {found.mean_b or 0.0:.3f} on {counted(found.n, 'prompt')}"
    text = f"{claim}: {means}; difference {change_words(found, '{:+z.3f}'.format)}{_p_words(found)}."
    least = found.minimum_detectable_difference
    return text + (f" {least:.3f} {SHOWS}." if found.better is None and least is not None else "")


def resources_sentence(run_a: str, run_b: str, found: Resources) -> list[str]:
    """How many times the cost, the tokens and the time of A run B takes; nothing if none is known in both."""
    parts = [
        text
        for ratio, noun in ((found.cost, "the cost"), (found.tokens, "the tokens"), (found.latency, "the time"))
        if (text := _times(ratio, noun))
    ]
    return [f"{run_b} takes {', '.join(parts)} of {run_a}."] if parts else []


def points(difference: float) -> str:
    """A difference of rates in percentage points, with its sign."""
    return f"{difference * 100:+z.1f} points"


def change_words(found: Difference, show: Callable[[float], str]) -> str:
    """The difference with its sign and its interval, the later run minus the earlier one."""
    value, bounds = change(found)
    text = show(value or 0.0)
    return f"{text}, 95 % interval {show(bounds[0]).removesuffix(' points')} to {show(bounds[1])}" if bounds else text


def _p_words(found: Difference) -> str:
    adjusted = found.adjusted_p is not None and found.adjusted_p != found.p
    text = f", {p_text(found.p)}" if found.p is not None else ""
    return text + (f", adjusted for all tests {p_text(found.adjusted_p).removeprefix('p ')}" if adjusted else "")


def p_text(p: float | None) -> str:
    """A p value with its sign: `p 0.013`; a tiny one is never 0."""
    return "" if p is None else f"p {p:.2g}" if p >= LEAST_P else f"p < {LEAST_P:g}"


def _margin_words(found: Difference, margin: float | None) -> str:
    if margin is None or found.interval is None or found.better == found.run_a:
        return ""
    shown = "It is shown" if found.interval.high <= margin else "It is not shown"
    return f" {shown} that {found.run_b} is at most {margin * 100:g} points worse."


def _times(found: Ratio | None, noun: str) -> str:
    if found is None or not found.ratio:
        return ""
    text = f"{1 / found.ratio:.2f} x {noun}"
    if found.interval:
        text += f" (95 % interval {1 / found.interval.high:.2f} to {1 / found.interval.low:.2f})"
    return text + (" (estimated)" if found.estimated else "")
