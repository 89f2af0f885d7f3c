"""The difference of a value between two runs on the same prompts, and who is shown to be better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agenteval.comparison.pairing import RunRows
from agenteval.statistics import samples as stats
from agenteval.statistics.paired import SIGNIFICANT, TIE, compare_paired, holm, signs
from agenteval.wire.differences import Difference, Flips

FEWEST = 5  # with four prompts even a clean sweep has p = 0.0625

ValueOf = Callable[[Any], float | None]
"""Reads a value of a row; None if it is not known."""


class PairedValues(NamedTuple):
    """The values of two runs on the prompts in which both are known."""

    run_a: str
    run_b: str
    ids: list[str]
    a: list[float]
    b: list[float]
    clusters: list[str] | None = None

    @property
    def differences(self) -> list[float]:
        """A's value minus B's, for each prompt."""
        return [ours - theirs for ours, theirs in zip(self.a, self.b, strict=True)]


def paired_values(a: RunRows[Any], b: RunRows[Any], value_of: ValueOf, *, clustered: bool = False) -> PairedValues:
    """Pairs a value of two runs by prompt; `clustered` names the cluster of each prompt, its own id if it has none."""
    found = PairedValues(a.label, b.label, [], [], [], [] if clustered else None)
    for id, row in a.rows.items():
        other = b.rows.get(id)
        if other is None or (ours := value_of(row)) is None or (theirs := value_of(other)) is None:
            continue
        found.ids.append(id)
        found.a.append(ours)
        found.b.append(theirs)
        if found.clusters is not None:
            found.clusters.append(cluster_name(id, row))
    return found


def cluster_name(id: str, row: Any) -> str:
    """The cluster of a prompt; a prompt without one is a cluster of its own."""
    return f"={row.cluster}" if row.cluster is not None else f"#{id}"


def difference(values: PairedValues) -> Difference:
    """The paired analysis of the values; decide() names the run that is better."""
    found = values.differences
    test = compare_paired(found, values.clusters)
    wins, losses = signs(found)
    return Difference(
        run_a=values.run_a,
        run_b=values.run_b,
        n=len(found),
        mean_a=stats.mean(values.a),
        mean_b=stats.mean(values.b),
        mean_difference=test.mean,
        interval=test.interval,
        wins=wins,
        losses=losses,
        ties=len(found) - wins - losses,
        minimum_detectable_difference=test.detectable,
        p=test.p,
        better=None,
        verdict=words(len(found), None),
    )


def same_test(scores: PairedValues, passes: PairedValues) -> bool:
    """Whether the differences of scores are those of passes times a factor: testing both is testing one twice."""
    if scores.ids != passes.ids:
        return False
    pairs = list(zip(scores.differences, passes.differences, strict=True))
    factor = next((abs(score / passed) for score, passed in pairs if abs(passed) > TIE), 1.0)
    return all(abs(score - factor * passed) < TIE for score, passed in pairs)


def decide(tests: Sequence[Difference], same: Sequence[tuple[Difference, Difference]] = ()) -> None:
    """Adjusts the p values of all tests of a report by Holm's method, and names the runs shown to be better.

    In `same`, the first of two differences is the same test as the second, in another unit.
    """
    tested = [test for test in tests if test.p is not None and not any(test is twin for twin, _ in same)]
    for test, adjusted in zip(tested, holm([test.p or 0.0 for test in tested]), strict=True):
        _conclude(test, adjusted)
    for twin, original in same:
        if original.adjusted_p is not None:
            _conclude(twin, original.adjusted_p)


def _conclude(test: Difference, adjusted: float) -> None:
    test.adjusted_p = adjusted
    if adjusted < SIGNIFICANT and test.mean_difference:
        test.better = test.run_a if test.mean_difference > 0 else test.run_b
    test.verdict = words(test.n, test.better)


def words(n: int, better: str | None) -> str:
    """The outcome of one test in words."""
    if n == 0:
        return "no prompt is graded in both"
    if better is not None:
        return f"{better} better"
    return "too few prompts to tell" if n < FEWEST else "no difference shown"


def flips(passes: PairedValues, border: float = 0.5) -> Flips:
    """The prompts that only one of the two runs passed: its value is above the border, the other's is not."""
    sides = [(id, a > border, b > border) for id, a, b in zip(passes.ids, passes.a, passes.b, strict=True)]
    return Flips(only_a=[id for id, a, b in sides if a and not b], only_b=[id for id, a, b in sides if b and not a])
