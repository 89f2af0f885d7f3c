"""The answers of a comparison grader on all prompts → who is preferred, whether that is luck, and position bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from agenteval.comparison.preference.orders import PromptRanking, preferred
from agenteval.statistics.bradley_terry import fit_strengths
from agenteval.statistics.paired import SIGNIFICANT, holm, sign_test
from agenteval.streams.text import counted
from agenteval.wire.preference import PositionBias, Preference, PreferredRun, RunStrength

FEWEST = 6  # with five prompts even a clean sweep has p = 0.0625


def preference_of(labels: Sequence[str], rankings: Mapping[str, PromptRanking]) -> Preference:
    """Returns what the answers say about the runs."""
    ranked = [ranking for ranking in rankings.values() if ranking.error is None]
    reversed_too = any(ranking.reversed_ranks is not None for ranking in ranked)
    return Preference(
        orders=2 if reversed_too else 1,
        pairs=preferred_runs(labels, ranked),
        position_bias=position_bias(labels, ranked) if reversed_too else None,
        strengths=strengths_of(labels, ranked) if len(labels) > 2 else None,
    )


def preferred_runs(labels: Sequence[str], ranked: Sequence[PromptRanking]) -> list[PreferredRun]:
    """Returns the wins of every two runs, tested by sign and adjusted for the number of pairs."""
    pairs = list(combinations(labels, 2))
    outcomes = [[won for ranking in ranked if (won := ranking.outcome(a, b)) is not None] for a, b in pairs]
    p_values = [sign_test(found.count(1), found.count(-1)) for found in outcomes]
    rows = []
    for (a, b), found, p, adjusted in zip(pairs, outcomes, p_values, holm(p_values), strict=True):
        wins, losses = found.count(1), found.count(-1)
        better = (a if wins > losses else b) if adjusted < SIGNIFICANT else None
        row = PreferredRun(
            run_a=a,
            run_b=b,
            n=len(found),
            a_wins=wins,
            b_wins=losses,
            ties=found.count(0),
            p=p,
            adjusted_p=adjusted,
            better=better,
            verdict=verdict(len(found), better),
        )
        rows.append(row)
    return rows


def verdict(n: int, better: str | None) -> str:
    """The outcome of a pair in words."""
    if n == 0:
        return "no prompt is ranked"
    if better is not None:
        return f"{better} wins"
    return "too few prompts to tell" if n < FEWEST else "no winner shown"


def position_bias(labels: Sequence[str], ranked: Sequence[PromptRanking]) -> PositionBias:
    """Counts the pairs in which the place decided; every prompt was shown in both orders."""
    n = consistent = first = second = 0
    for ranking in ranked:
        shown = [label for label in labels if label in ranking.ranks]
        for a, b in combinations(shown, 2):  # A is shown first, and then B
            before, after = preferred(ranking.ranks, a, b), preferred(ranking.reversed_ranks or {}, a, b)
            if before is None or after is None:
                continue
            n += 1
            consistent += before == after
            first += (before, after) == (1, -1)
            second += (before, after) == (-1, 1)
    return PositionBias(
        n=n, consistent=consistent, first_preferred=first, second_preferred=second, p=sign_test(first, second)
    )


def strengths_of(labels: Sequence[str], ranked: Sequence[PromptRanking]) -> list[RunStrength]:
    """Returns the strengths of the runs, the strongest first; the order of prompts does not matter."""
    pairs = list(combinations(range(len(labels)), 2))
    prompts = [
        {(i, j): (1 + outcome) / 2 for i, j in pairs if (outcome := ranking.outcome(labels[i], labels[j])) is not None}
        for ranking in ranked
    ]
    prompts = [outcomes for outcomes in prompts if outcomes]
    rows = []
    for at, fitted in enumerate(fit_strengths(len(labels), prompts) if prompts else ()):
        games = (item for outcomes in prompts for item in outcomes.items())
        points = [won if i == at else 1 - won for (i, j), won in games if at in (i, j)]
        if points:
            rate = sum(points) / len(points)
            rows.append(RunStrength(run=labels[at], strength=fitted.value, interval=fitted.interval, win_rate=rate))
    return sorted(rows, key=lambda row: -row.strength)


def remarks(found: Preference) -> list[str]:
    """What a reader of the wins should know about the comparison grader."""
    bias = found.position_bias
    if bias is None or not bias.n or bias.p >= SIGNIFICANT:
        return []
    place = "first" if bias.first_preferred > bias.second_preferred else "second"
    most = max(bias.first_preferred, bias.second_preferred)
    often = f"on {most} of {counted(bias.n, 'pair')} it preferred the run shown {place}, whichever that was"
    return [f"the comparison grader is biased by position: {often} (p = {bias.p:.2g}); these count as ties"]
