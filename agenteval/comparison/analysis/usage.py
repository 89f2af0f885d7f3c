"""Time, tokens and cost: of each run, and of two runs on the same prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agenteval.comparison.analysis.differences import ValueOf, paired_values
from agenteval.comparison.pairing import RunRows
from agenteval.statistics import samples as stats
from agenteval.statistics.intervals import geometric_ratio_interval, percentile_interval, ratio_interval
from agenteval.wire.differences import Ratio, Resources, Usage, UsageAmount


def usage(runs: Sequence[RunRows[Any]]) -> dict[str, Usage] | None:
    """Tokens and cost of each run; None if no record of any run has them."""
    found = {run.label: _usage_of(run) for run in runs}
    return found if any(run.tokens or run.cost for run in found.values()) else None


def _usage_of(run: RunRows[Any]) -> Usage:
    tokens = [value for row in run.rows.values() for value in row.token_values]
    costs = [value for row in run.rows.values() for value in row.cost_values]
    estimated = sum(len(row.cost_values) for row in run.rows.values() if row.cost_estimated)
    return Usage(tokens=amount(tokens), cost=amount(costs, estimated or None))


def amount(values: Sequence[float], estimated: int | None = None) -> UsageAmount | None:
    """Sum, mean and median; None over nothing."""
    ordered = sorted(values)
    middle, centre = stats.percentile(ordered, 0.5), stats.mean(ordered)
    if middle is None or centre is None:
        return None
    return UsageAmount(
        n=len(ordered),
        total=sum(ordered),
        mean=centre,
        p50=middle,
        p50_interval=percentile_interval(ordered, 0.5),
        estimated=estimated,
    )


def resources(a: RunRows[Any], b: RunRows[Any]) -> Resources:
    """What A took divided by what B took, on the prompts in which both are known."""
    cost = _ratio_of_means(a, b, lambda row: row.cost)
    if cost and cost.n:
        known = [id for id, row in a.rows.items() if row.cost is not None and id in b.rows]
        guessed = sum(
            a.rows[id].cost_estimated or b.rows[id].cost_estimated for id in known if b.rows[id].cost is not None
        )
        cost.estimated = guessed or None
    return Resources(latency=_ratio_of_times(a, b), tokens=_ratio_of_means(a, b, lambda row: row.tokens), cost=cost)


def _ratio_of_means(a: RunRows[Any], b: RunRows[Any], value_of: ValueOf) -> Ratio | None:
    values = paired_values(a, b, value_of)
    above, below = stats.mean(values.a), stats.mean(values.b)
    if above is None:
        return None
    ratio, interval = above / below if below else None, ratio_interval(values.a, values.b)
    return Ratio(n=len(values.ids), mean_a=above, mean_b=below, ratio=ratio, interval=interval)


def _ratio_of_times(a: RunRows[Any], b: RunRows[Any]) -> Ratio | None:
    """The geometric mean of the ratios: times are skewed, and one slow prompt would rule the ratio of means."""
    values = paired_values(a, b, lambda row: row.mean_duration or None)
    above, below = stats.mean(values.a), stats.mean(values.b)
    if above is None:
        return None
    ratios = [ours / theirs for ours, theirs in zip(values.a, values.b, strict=True)]
    ratio, interval = stats.geometric_mean(ratios), geometric_ratio_interval(ratios)
    return Ratio(n=len(ratios), mean_a=above, mean_b=below, ratio=ratio, interval=interval)
