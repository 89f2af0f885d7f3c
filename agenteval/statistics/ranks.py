"""The places that several runs may have, from the pairs of which one is shown to be better."""

from collections.abc import Collection, Sequence


def rank_intervals(names: Sequence[str], better: Collection[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """First and last place of each; `better` has pairs of which the first is shown to be better than the second.

    If all pairs are adjusted together so that none is wrong in 95 % of comparisons, then all these intervals hold in
    as many: of runs that are equally good, each may have any of the places that they share.
    """
    return {
        name: (1 + sum(other == name for _, other in better), len(names) - sum(one == name for one, _ in better))
        for name in names
    }
