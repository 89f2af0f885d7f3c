"""The gate of a comparison: whether a run is shown to be worse than the first, or there is too little to tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agenteval.comparison.analysis.verdicts import change_words, points
from agenteval.statistics.paired import SIGNIFICANT, holm
from agenteval.wire.differences import Difference


class GateSettings(NamedTuple):
    """What a run must be: not shown to be worse, and with `proof` shown to be at most `margin` worse."""

    proof: bool = False
    margin: float = 0.05
    min_compared: float = 0.9


class GateMeasure(NamedTuple):
    """A rate that the gate looks at, of each run against the first."""

    name: str
    pairs: Sequence[Difference]


def check_gate(
    first: str, others: Sequence[str], graded: int, measures: Sequence[GateMeasure], settings: GateSettings
) -> list[str]:
    """The reasons for which a run does not pass the gate, one sentence each; `graded` counts the first run's prompts.

    The first measure is that which says how many prompts are compared.
    """
    reasons = []
    for label in others:
        compared = next((pair.n for pair in measures[0].pairs if pair.run_b == label), 0)
        reason = too_little(first, label, graded, compared, settings.min_compared)
        if reason:
            reasons.append(reason)
    if reasons:
        return reasons
    for looks, measure in enumerate(measures, 1):
        adjusted = holm([1.0 if pair.p is None else pair.p for pair in measure.pairs])
        for pair, p in zip(measure.pairs, adjusted, strict=True):
            reason = _reason(measure.name, pair, p * looks, settings)  # each look is one more chance of a false alarm
            if reason:
                reasons.append(reason)
    return reasons


def too_little(first: str, label: str, graded: int, compared: int, share: float) -> str:
    """Why nothing can be concluded, if too few prompts of the first run are compared; else an empty text."""
    if not graded:
        return f"{label} cannot be compared with {first}: no prompt of {first} is graded"
    if not compared:
        return f"{label} cannot be compared with {first}: no prompt is graded in both"
    if compared < share * graded - 1e-9:
        return (
            f"{label} cannot be compared with {first}: only {compared} of the {graded} prompts graded in {first} are "
            f"graded in both ({compared / graded:.1%}, and --min-compared asks for {share:.0%})"
        )
    return ""


def _reason(name: str, pair: Difference, adjusted: float, settings: GateSettings) -> str:
    if pair.interval is None:
        return f"{pair.run_b} cannot be compared with {pair.run_a} by {name}: no prompt has it in both" * settings.proof
    figures = (
        f"{name} {pair.mean_b or 0.0:.1%} against {pair.mean_a or 0.0:.1%} on {pair.n} prompts graded in both, "
        f"difference {change_words(pair, points)}"
    )
    if pair.interval.low > 0 and adjusted < SIGNIFICANT:
        return f"{pair.run_b} is worse than {pair.run_a}: {figures}"
    if settings.proof and pair.interval.high > settings.margin:
        margin = f"at most {settings.margin * 100:g} points worse than {pair.run_a}"
        return f"{pair.run_b} is not shown to be {margin}: {figures}"
    return ""
