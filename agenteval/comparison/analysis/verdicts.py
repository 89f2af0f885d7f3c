"""The outcome of a comparison of two runs in sentences."""

from __future__ import annotations

from agenteval.comparison.analysis.differences import words
from agenteval.streams.text import counted
from agenteval.wire.differences import Difference, Ratio, Resources

SHOWS = "is the smallest difference this many prompts would show 4 times in 5"


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
    if not found.n:
        return f"{found.run_a} and {found.run_b}: no prompt is graded in both."
    first, second, a, b, low, high = _better_first(found)
    claim = (
        f"{first} passes more often than {second}" if found.better else f"{found.verdict.capitalize()} in pass rates"
    )
    rates = f"{first} {a:.1%}, {second} {b:.1%} of {counted(found.n, 'prompt')} graded in both"
    text = f"{claim}: {rates}; difference {points(a - b)}, {_interval_words(points(low), points(high), found)}."
    least = found.minimum_detectable_difference
    if found.better is None and least is not None:
        text += f" {least * 100:.1f} points {SHOWS}."
    return text + _margin_words(found, margin)


def scores_sentence(found: Difference) -> str:
    """Who scores higher, with both means and the interval of the difference."""
    first, second, a, b, low, high = _better_first(found)
    claim = f"{first} scores higher than {second}" if found.better else f"{found.verdict.capitalize()} in scores"
    means = f"mean {a:.3f} and {b:.3f} on {counted(found.n, 'prompt')}"
    text = f"{claim}: {means}; difference {a - b:+z.3f}, {_interval_words(f'{low:+z.3f}', f'{high:+z.3f}', found)}."
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


def _better_first(found: Difference) -> tuple[str, str, float, float, float, float]:
    """Names, means and the bounds of the difference, first minus second; the first is A unless B is better."""
    a, b = found.mean_a or 0.0, found.mean_b or 0.0
    low, high = (found.interval.low, found.interval.high) if found.interval else (-1.0, 1.0)
    if found.better == found.run_b:
        return found.run_b, found.run_a, b, a, -high, -low
    return found.run_a, found.run_b, a, b, low, high


def _interval_words(low: str, high: str, found: Difference) -> str:
    adjusted = found.adjusted_p is not None and found.adjusted_p != found.p
    p = f", p {found.p:.2g}" if found.p is not None else ""
    p += f", adjusted for all tests {found.adjusted_p:.2g}" if adjusted else ""
    return f"95 % interval {low.removesuffix(' points')} to {high}{p}"


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
