"""What a comparison grader's preference means for the verdict and the gate where nothing is graded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agenteval.comparison.analysis.differences import words
from agenteval.comparison.analysis.gate import GateSettings
from agenteval.streams.text import counted
from agenteval.wire.preference import Preference, PreferredRun


class JudgedPair(Protocol):
    """The statistics of two runs, of results or of trials."""

    run_a: str
    run_b: str
    n: int
    better: str | None
    verdict: str
    sentences: list[str]


def decide_by_preference(pairs: Sequence[JudgedPair], found: Preference) -> None:
    """Adds a sentence on the preference to every pair; where no prompt is graded in both, it is the verdict."""
    for pair, preferred in zip(pairs, found.pairs, strict=True):
        if not pair.n and preferred.n:
            pair.better, pair.verdict = preferred.better, words(preferred.n, preferred.better)
        pair.sentences = [preference_sentence(preferred), *pair.sentences]


def preference_sentence(pair: PreferredRun) -> str:
    """Who is preferred, the winner first."""
    if not pair.n:
        return "The comparison grader ranked no prompt."
    a, b = (pair.run_a, pair.a_wins), (pair.run_b, pair.b_wins)
    (first, wins), (second, losses) = (b, a) if pair.better == pair.run_b else (a, b)
    claim = f"prefers {first}" if pair.better else "does not prefer either"
    counts = f"{first} on {wins}, {second} on {losses} of {counted(pair.n, 'prompt')}, {counted(pair.ties, 'tie')}"
    return f"The comparison grader {claim}: {counts} (sign test, p {pair.adjusted_p:.2g})."


def preference_gate(found: Preference, first: str, prompts: int, settings: GateSettings) -> list[str]:
    """The reasons for which a run does not pass the gate where only a comparison grader has seen the runs."""
    reasons = []
    for pair in found.pairs:
        if pair.run_a != first:
            continue
        if pair.n < max(1, settings.min_compared * prompts - 1e-9):
            reasons.append(f"{pair.run_b} cannot be compared with {first}: {pair.n} of {prompts} prompts are ranked")
        elif pair.better == first:
            reasons.append(f"{pair.run_b} is worse than {first}. {preference_sentence(pair)}")
        elif settings.proof and pair.better != pair.run_b:
            reasons.append(f"{pair.run_b} is not shown to be better than {first}. {preference_sentence(pair)}")
    return reasons
