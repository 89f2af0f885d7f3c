"""What a comparison grader prefers, as sections of markdown."""

from __future__ import annotations

from agenteval.reports.figures import number, percent, span
from agenteval.reports.markup import inline, table
from agenteval.streams.text import counted
from agenteval.wire.preference import PositionBias, Preference, PreferredRun


def preference_section(found: Preference | None) -> list[str]:
    """Who wins by the comparison grader, how sure that is, and whether the order mattered."""
    if found is None:
        return []
    lines = [preference_line(pair) for pair in found.pairs]
    if len(lines) > 1:
        lines = [f"- {line}" for line in lines]
    parts = ["## The comparison grader's verdict", "", *lines]
    if found.strengths:
        rows = [
            [inline(row.run), number(row.strength, 2), span(row.interval, 2), percent(row.win_rate)]
            for row in found.strengths
        ]
        title = "Bradley-Terry strengths (log odds to be preferred to an average run):"
        parts += ["", title, "", *table(["Run", "Strength", "95 % interval", "Won"], rows)]
    bias = found.position_bias
    orders = position_line(bias) if bias else "Asked in one order only: a preference for a place counts."
    return [*parts, "", orders]


def preference_line(pair: PreferredRun) -> str:
    """The verdict on one pair, with the wins and the test."""
    names = (pair.run_a, pair.run_b) if pair.better != pair.run_b else (pair.run_b, pair.run_a)
    first, second = map(inline, names)
    claim = f"{first} wins against {second}" if pair.better is not None else f"{first} and {second}: {pair.verdict}"
    wins = (pair.a_wins, pair.b_wins) if pair.better != pair.run_b else (pair.b_wins, pair.a_wins)
    of = f"{counted(pair.n, 'prompt')}, {counted(pair.ties, 'tie')}"
    counts = f"{first} is preferred on {wins[0]}, {second} on {wins[1]} of {of}"
    adjusted = f", by Holm {p_text(pair.adjusted_p)}" if pair.adjusted_p != pair.p else ""
    return f"**{claim}.** {counts} (sign test: {p_text(pair.p)}{adjusted})."


def p_text(p: float) -> str:
    """A p value: `p = 0.012`, `p < 0.001`."""
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def position_line(bias: PositionBias) -> str:
    """How often the order of the runs decided."""
    if not bias.n:
        return "No pair was ranked in both orders."
    changed = bias.n - bias.consistent
    text = f"Asked in both orders, {changed} of {counted(bias.n, 'answer')} changed with the order and count as ties"
    if changed:
        text += f": {bias.first_preferred} for the run shown first, {bias.second_preferred} for the one shown second"
        text += f" (sign test: {p_text(bias.p)})"
    return f"{text}."
