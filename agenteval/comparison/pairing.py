"""Runs joined by prompt: which prompts they share, who wins a prompt, and how two runs differ on those that both have.

`analyse_pairs` is what both kinds of report are made of: for every two runs the differences of passes, scores and
pass^k, the prompts that changed sides, and the ratios of time, tokens and cost. The verdicts and intervals of each
measure are adjusted for the number of pairs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from msgspec.structs import asdict, replace

from agenteval.comparison.figures import run_k
from agenteval.comparison.rows import ComparedRow, RunRows
from agenteval.statistics.intervals import LEVEL, geometric_ratio_interval, ratio_interval
from agenteval.statistics.paired import SIGNIFICANT, PairedTest, compare_paired, holm, holm_levels, signs
from agenteval.statistics.samples import geometric_mean, mean, pass_exp
from agenteval.statistics.sequential import place, sequential_test
from agenteval.wire.comparison import Pairwise, PassExpDifference
from agenteval.wire.differences import Category, CategoryRun, Difference, Flips, Ratio, Resources

TIE = 1e-9
BORDER = 0.5  # a prompt passes in a run if more of its attempts do
FEWEST = 5  # with four prompts even a clean sweep has p = 0.0625
NO_CATEGORY = "(none)"  # prompts without the key

Rows = Mapping[str, ComparedRow]
"""The rows of one prompt, by run."""
Scores = dict[str, float | None]
ValueOf = Callable[[ComparedRow], float | None]
"""Reads a value of a row; None if it is not known."""


# --- the prompts of several runs ----------------------------------------------------------------


def prompt_ids(runs: Sequence[RunRows]) -> list[str]:
    """Every prompt that any run has, in the order of first appearance."""
    return list(dict.fromkeys(id for run in runs for id in run.rows))


def shared_prompts(runs: Sequence[RunRows]) -> Iterator[tuple[str, dict[str, ComparedRow]]]:
    """Yields the prompts that two runs or more have, with their rows by label."""
    for id in prompt_ids(runs):
        rows = {run.label: row for run in runs if (row := run.rows.get(id)) is not None}
        if len(rows) > 1:
            yield id, rows


def missing_prompts(runs: Sequence[RunRows]) -> dict[str, list[str]]:
    """For each run that lacks any: the ids of the prompts that only other runs have."""
    ids = prompt_ids(runs)
    lacking = {}
    for run in runs:
        if len(run.rows) < len(ids):
            changed = set(run.changed)
            lacking[run.label] = [id for id in ids if id not in run.rows and id not in changed]
    return {label: lacks for label, lacks in lacking.items() if lacks}


def without_changed_inputs(runs: Sequence[RunRows]) -> list[RunRows]:
    """The runs without the prompts whose input is not that of the first run that has them."""
    first: dict[str, int] = {}
    kept = []
    for run in runs:
        changed = []
        for id, row in run.rows.items():
            if row.input_digest and first.setdefault(id, row.input_digest) != row.input_digest:
                changed.append(id)
        for id in changed:
            del run.rows[id]
        kept.append(run._replace(changed=changed))
    return kept


def with_stops(runs: Sequence[RunRows]) -> list[RunRows]:
    """The runs, with those marked that have a rule for stopping early and lack prompts: they were stopped."""
    ids = set(prompt_ids(runs))
    return [run._replace(stopped=run.has_stop_rule and len(run.rows) + len(run.changed) < len(ids)) for run in runs]


def with_missing(runs: Sequence[RunRows]) -> tuple[list[RunRows], dict[str, list[str]]]:
    """The runs with prompts that only the first one has counted as not passed, and the ids of these.

    A run that was stopped early, or has no prompt of the first one, is left as it is.
    """
    first, *others = runs
    filled, missing = [first], {}
    for run in others:
        left_out = set(run.changed)
        lacks = [id for id in first.rows if id not in run.rows and id not in left_out]
        if not lacks or run.stopped or not run.rows.keys() & first.rows.keys():
            filled.append(run)
            continue
        missing[run.label] = lacks
        filled.append(run._replace(rows=run.rows | {id: not_passed(first.rows[id]) for id in lacks}))
    return filled, missing


def not_passed(row: ComparedRow) -> ComparedRow:
    """As many attempts as another run has, of which none passed and nothing else is known."""
    zeros = (0.0,) * len(row.scores)
    return replace(row, passed=0, scores=zeros, durations=(), token_values=(), cost_values=(), pass_at_k=0.0)


# --- who wins a prompt --------------------------------------------------------------------------


class PromptScores(NamedTuple):
    """The scores of the runs on one prompt, to show, and what decides who wins (more is better); None if unknown."""

    scores: Scores
    standing: Scores
    reasoning: str | None = None
    grader_error: str | None = None


Strategy = Callable[[str, Rows], PromptScores]
"""Scores the rows of one prompt, given its id and the rows by label."""


def by_scores(scores_of: Callable[[Rows], Scores]) -> Strategy:
    """The strategy by which the highest score wins."""
    return lambda _id, rows: PromptScores(scores := scores_of(rows), scores)


def winner(standing: Scores) -> str | None:
    """The label of the highest score; None on a tie, or if fewer than two have a score."""
    known = sorted([(value, label) for label, value in standing.items() if value is not None])
    return known[-1][1] if len(known) > 1 and known[-1][0] - known[-2][0] > TIE else None


class WinCounts:
    """Counts the prompts won by each of every two runs; `standing_of` is what decides between two rows."""

    def __init__(self, runs: Sequence[RunRows], standing_of: Callable[[str, Rows], Scores]) -> None:
        self._standing_of = standing_of
        self._won: dict[tuple[str, ...], dict[str | None, int]] = {
            (a, b): {a: 0, b: 0, None: 0} for a, b in combinations([run.label for run in runs], 2)
        }

    def count(self, id: str, rows: Rows, standing: Scores) -> str | None:
        """Counts one prompt, given the standing of all its rows; returns the run that won it."""
        best = winner(standing)
        if len(rows) == 2:
            self._count(standing, best)
            return best
        for a, b in combinations(rows, 2):  # two by two: a third run has no part in who wins between them
            alone = self._standing_of(id, {a: rows[a], b: rows[b]})
            self._count(alone, winner(alone))
        return best

    def _count(self, standing: Scores, best: str | None) -> None:
        if None not in standing.values():
            self._won[tuple(standing)][best] += 1

    def pairwise(self) -> list[Pairwise]:
        """The wins so far."""
        return [
            Pairwise(run_a=a, run_b=b, n=sum(won.values()), a_wins=won[a], b_wins=won[b], ties=won[None])
            for (a, b), won in self._won.items()
        ]


# --- two runs on the same prompts ---------------------------------------------------------------


class PairedValues(NamedTuple):
    """The values of two runs on the prompts in which both are known."""

    run_a: str
    run_b: str
    ids: list[str]
    a: list[float]
    b: list[float]
    clusters: list[str] | None = None
    stopped: bool = False  # whether a run was stopped early, once the answer was known

    @property
    def differences(self) -> list[float]:
        """A's value minus B's, for each prompt."""
        return [ours - theirs for ours, theirs in zip(self.a, self.b, strict=True)]


class PairAnalysis(NamedTuple):
    """What both kinds of report say of two runs, a difference for each measure."""

    passes: Difference
    scores: Difference
    pass_exp: PassExpDifference | None
    flips: Flips
    resources: Resources


def analyse_pairs(runs: Sequence[RunRows], exponent: int | None = None, *, trials: bool = False) -> list[PairAnalysis]:
    """The paired analysis of every two runs; `exponent` is the k of pass^k, else the smaller k of the two."""
    pairs = list(combinations(runs, 2))
    passes = [paired_values(a, b, lambda row: row.pass_rate) for a, b in pairs]
    by_passes = decided(passes)
    by_scores = decided([paired_values(a, b, lambda row: row.score) for a, b in pairs])
    by_exp = pass_exp_differences(pairs, exponent) if trials else [None] * len(pairs)
    found = zip(pairs, passes, by_passes, by_scores, by_exp, strict=True)
    return [
        PairAnalysis(of_passes, of_scores, of_exp, flips(values), resources(a, b))
        for (a, b), values, of_passes, of_scores, of_exp in found
    ]


def pass_exp_differences(pairs: Sequence[tuple[RunRows, RunRows]], exponent: int | None) -> list[PassExpDifference]:
    """The differences of pass^k, over the prompts that have so many graded trials in both runs."""
    ks = [exponent or min(run_k(a), run_k(b)) for a, b in pairs]
    values = [
        paired_values(a, b, lambda row, k=k: pass_exp(row.graded, row.passed, k))  # type: ignore[misc]
        for (a, b), k in zip(pairs, ks, strict=True)
    ]
    return [PassExpDifference(k=k, **asdict(found)) for k, found in zip(ks, decided(values), strict=True)]


def paired_values(a: RunRows, b: RunRows, value_of: ValueOf) -> PairedValues:
    """Pairs a value of two runs by prompt."""
    stopped = a.stopped or b.stopped
    found = PairedValues(a.label, b.label, [], [], [], [] if a.clustered else None, stopped)
    for id, row in a.rows.items():
        other = b.rows.get(id)
        if other is None or (ours := value_of(row)) is None or (theirs := value_of(other)) is None:
            continue
        found.ids.append(id)
        found.a.append(ours)
        found.b.append(theirs)
        if found.clusters is not None:
            found.clusters.append(row.cluster_name(id))
    return found


def decided(pairs: Sequence[PairedValues]) -> list[Difference]:
    """The differences of one measure, verdicts and intervals adjusted for their number by Holm's method.

    An interval excludes 0 if and only if the verdict names a run. That is why p values are never below what the
    interval of their level allows, which may in turn change the level of others.
    """
    levels, least = [LEVEL] * len(pairs), [0.0] * len(pairs)
    while True:
        tests = [paired_test(pair, level) for pair, level in zip(pairs, levels, strict=True)]
        known = [at for at, test in enumerate(tests) if test.p is not None]
        least = [max(test.p or 0.0, before) for test, before in zip(tests, least, strict=True)]
        wanted = holm_levels([least[at] for at in known])
        if wanted == [levels[at] for at in known]:
            break
        for at, level in zip(known, wanted, strict=True):
            levels[at] = level
    adjusted = dict(zip(known, holm([least[at] for at in known]), strict=True))
    return [difference(pair, test, adjusted.get(at)) for at, (pair, test) in enumerate(zip(pairs, tests, strict=True))]


def paired_test(values: PairedValues, level: float) -> PairedTest:
    """The test of one pair; of a run that was stopped early, one that holds whenever it stops."""
    if not values.stopped:
        return compare_paired(values.differences, values.clusters, level)
    order = sorted(range(len(values.ids)), key=lambda at: place(values.ids[at]))
    found = values.differences
    return sequential_test([found[at] for at in order], level)


def difference(values: PairedValues, test: PairedTest, adjusted: float | None) -> Difference:
    """A difference on the wire, with the run that is shown to be better."""
    found = values.differences
    wins, losses = signs(found)
    better = None
    if adjusted is not None and adjusted < SIGNIFICANT and test.mean:
        better = values.run_a if test.mean > 0 else values.run_b
    return Difference(
        run_a=values.run_a,
        run_b=values.run_b,
        n=len(found),
        mean_a=mean(values.a),
        mean_b=mean(values.b),
        mean_difference=test.mean,
        interval=test.interval,
        change=None if test.mean is None else -test.mean,
        change_interval=(-test.interval.high, -test.interval.low) if test.interval else None,
        wins=wins,
        losses=losses,
        ties=len(found) - wins - losses,
        minimum_detectable_difference=test.detectable,
        prompts_needed=test.needed,
        p=test.p,
        adjusted_p=adjusted,
        better=better,
        verdict=outcome_words(len(found), better, same=not wins and not losses),
    )


def is_known(found: Difference, margin: float | None) -> bool:
    """Whether it is known which run is better, or that B is at most the margin worse: else a run was not stopped early
    but broken off."""
    within = margin is not None and found.interval is not None and found.interval.high <= margin
    return found.better is not None or within


def outcome_words(n: int, better: str | None, *, same: bool = False) -> str:
    """The outcome of one test in words."""
    if n == 0:
        return "no prompt is graded in both"
    if better is not None:
        return f"{better} better"
    if n < FEWEST:
        return "too few prompts to tell"
    return f"equal on all {n} prompts" if same else "no difference shown"


def flips(passes: PairedValues) -> Flips:
    """The prompts that only one of the two runs passed: its value is above the border, the other's is not."""
    sides = [(id, a > BORDER, b > BORDER) for id, a, b in zip(passes.ids, passes.a, passes.b, strict=True)]
    return Flips(only_a=[id for id, a, b in sides if a and not b], only_b=[id for id, a, b in sides if b and not a])


# --- time, tokens and cost of two runs ----------------------------------------------------------


def resources(a: RunRows, b: RunRows) -> Resources:
    """What A took divided by what B took, on the prompts in which both are known."""
    costs = paired_values(a, b, lambda row: row.cost)
    cost = _ratio_of_means(costs)
    if cost is not None:
        cost.estimated = sum(a.rows[id].cost_estimated or b.rows[id].cost_estimated for id in costs.ids) or None
    return Resources(
        latency=_ratio_of_times(a, b),
        tokens=_ratio_of_means(paired_values(a, b, lambda row: row.tokens)),
        cost=cost,
    )


def _ratio_of_means(values: PairedValues) -> Ratio | None:
    above, below = mean(values.a), mean(values.b)
    if above is None:
        return None
    ratio, interval = above / below if below else None, ratio_interval(values.a, values.b, values.clusters)
    return Ratio(n=len(values.ids), mean_a=above, mean_b=below, ratio=ratio, interval=interval)


def _ratio_of_times(a: RunRows, b: RunRows) -> Ratio | None:
    """The geometric mean of the ratios: times are skewed, and one slow prompt would rule the ratio of means.

    Of trials, too: the more of them there are, the higher the logarithm of their arithmetic mean is on average.
    """
    values = paired_values(a, b, lambda row: geometric_mean([value for value in row.durations if value > 0]))
    means = [mean([run.rows[id].duration or 0.0 for id in values.ids]) for run in (a, b)]
    ratios = [ours / theirs for ours, theirs in zip(values.a, values.b, strict=True)]
    if not ratios:
        return None
    ratio, interval = geometric_mean(ratios), geometric_ratio_interval(ratios, values.clusters)
    return Ratio(n=len(ratios), mean_a=means[0], mean_b=means[1], ratio=ratio, interval=interval)


# --- categories ---------------------------------------------------------------------------------


def by_category(runs: Sequence[RunRows], figures: Callable[[RunRows], CategoryRun]) -> dict[str, Category] | None:
    """Each category, in order of appearance: each run, and every two runs; None if no record has one.

    A prompt is in the categories that its first record with any names: one, or all of a list.
    """
    categories_of: dict[str, tuple[str, ...]] = {}
    for run in runs:
        for id, row in run.rows.items():
            if row.categories:
                categories_of.setdefault(id, row.categories)
    if not categories_of:
        return None
    parts: dict[str, list[RunRows]] = {}
    for at, run in enumerate(runs):
        for id, row in run.rows.items():
            for category in categories_of.get(id, (NO_CATEGORY,)):
                if category not in parts:
                    parts[category] = [other._replace(rows={}) for other in runs]
                parts[category][at].rows[id] = row
    both = [(a, b) for part in parts.values() for a, b in combinations(part, 2)]
    pairs = iter(decided([paired_values(a, b, lambda row: row.pass_rate) for a, b in both]))
    return {
        category: Category(
            runs={run.label: figures(run) for run in part},
            pairs=[next(pairs) for _ in combinations(part, 2)],
        )
        for category, part in parts.items()
    }
