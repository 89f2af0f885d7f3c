"""Runs joined by prompt: which prompts they share, who wins a prompt, and how two runs differ on those that both have.

`analyse_pairs` is what both kinds of report are made of: for every two runs the differences of passes, scores and
pass^k, the prompts that changed sides, and the ratios of time, tokens and cost. The verdicts and intervals of each
measure are adjusted for the number of pairs.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import asdict

from agenteval.comparison.figures import run_k
from agenteval.comparison.row_table import ComparedRow, RowFigures, known_or_nan, replaced
from agenteval.comparison.rows import RunRows
from agenteval.statistics.intervals import LEVEL, geometric_ratio_interval, ratio_interval
from agenteval.statistics.paired import SIGNIFICANT, PairedTest, compare_paired, holm, holm_levels, signs
from agenteval.statistics.samples import geometric_mean, mean, pass_exp
from agenteval.statistics.sequential import place, sequential_test
from agenteval.wire.comparison import Pairwise, PassExpDifference
from agenteval.wire.differences import Category, CategoryRun, Difference, Flips, Ratio, Resources

T = TypeVar("T")

TIE = 1e-9
BORDER = 0.5  # a prompt passes in a run if more of its attempts do
FEWEST = 5  # with four prompts even a clean sweep has p = 0.0625
NO_CATEGORY = "(none)"  # prompts without the key

Rows = Mapping[str, RowFigures]
"""The rows of one prompt, by run."""
Scores = dict[str, float | None]
Measures = Mapping[str, "array[float]"]
"""A measure of each run, by its name: a number for each place of its table, NaN where it is not known."""


# --- the prompts of several runs ----------------------------------------------------------------


def prompt_ids(runs: Sequence[RunRows]) -> list[str]:
    """Every prompt that any run has, in the order of first appearance."""
    return list(dict.fromkeys(id for run in runs for id in run.rows))


class Listing(Sequence[T]):
    """A list that is made anew each time it is read: of many prompts it takes more memory than their rows."""

    def __init__(self, make: Callable[[], Iterator[T]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[T]:
        return self._make()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, at: Any) -> Any:
        return list(self)[at]


def shared_prompts(runs: Sequence[RunRows]) -> Iterator[tuple[str, dict[str, RowFigures]]]:
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
        for id, digest in zip(run.rows, run.rows.column("input_digest"), strict=True):
            if digest and first.setdefault(id, digest) != digest:
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
        rows = run.rows.only(run.rows)
        rows.update({id: not_passed(first.rows[id]) for id in lacks})
        filled.append(run._replace(rows=rows))
    return filled, missing


def not_passed(row: RowFigures) -> ComparedRow:
    """As many attempts as another run has, of which none passed and nothing else is known."""
    zeros = (0.0,) * len(row.scores)
    return replaced(row, passed=0, scores=zeros, durations=(), token_values=(), cost_values=(), pass_at_k=0.0)


# --- who wins a prompt --------------------------------------------------------------------------


class PromptScores(NamedTuple):
    """The scores of the runs on one prompt, to show, and what decides who wins (more is better); None if unknown."""

    scores: Scores
    standing: Scores
    reasoning: str | None = None
    grader_error: str | None = None
    alone: bool = False  # whether each standing would be the same if fewer runs had the prompt


Strategy = Callable[[str, Rows], PromptScores]
"""Scores the rows of one prompt, given its id and the rows by label."""


def by_scores(scores_of: Callable[[Rows], Scores]) -> Strategy:
    """The strategy by which the highest score wins, where the score of a run does not depend on other runs."""
    return lambda _id, rows: PromptScores(scores := scores_of(rows), scores, alone=True)


def winner(standing: Scores) -> str | None:
    """The label of the highest score; None on a tie, or if fewer than two have a score."""
    known = sorted([(value, label) for label, value in standing.items() if value is not None])
    return known[-1][1] if len(known) > 1 and known[-1][0] - known[-2][0] > TIE else None


class WinCounts:
    """Counts the prompts won by each of every two runs; `standing_of` is what decides between two rows."""

    def __init__(self, runs: Sequence[RunRows], standing_of: Callable[[str, Rows], Scores]) -> None:
        self._standing_of = standing_of
        self._won = {pair: [0, 0, 0] for pair in combinations([run.label for run in runs], 2)}  # by A, by B, ties

    def count(self, id: str, rows: Rows, standing: Scores, *, alone: bool) -> None:
        """Counts one prompt, given the standing of all its rows; `alone` if no run has a part in that of another."""
        for a, b in combinations(rows, 2):
            # Two by two: a third run has no part in who wins between them.
            between = standing if alone or len(rows) == 2 else self._standing_of(id, {a: rows[a], b: rows[b]})
            ours, theirs = between[a], between[b]
            if ours is not None and theirs is not None:
                self._won[a, b][0 if ours - theirs > TIE else 1 if theirs - ours > TIE else 2] += 1

    def pairwise(self) -> list[Pairwise]:
        """The wins so far."""
        return [
            Pairwise(run_a=a, run_b=b, n=sum(won), a_wins=won[0], b_wins=won[1], ties=won[2])
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


def analyse_pairs(
    runs: Sequence[RunRows], exponent: int | None = None, *, trials: bool = False, brief: bool = False
) -> list[PairAnalysis]:
    """The paired analysis of every two runs; `exponent` is the k of pass^k, else the smaller k of the two.

    A brief one has no flips and no resources.
    """
    pairs = list(combinations(runs, 2))
    rates, scores = measures(runs, "pass_rate"), measures(runs, "score")
    by_passes = decided([partial(paired_values, a, b, rates) for a, b in pairs])
    by_scores = decided([partial(paired_values, a, b, scores) for a, b in pairs])
    by_exp = pass_exp_differences(pairs, exponent) if trials else [None] * len(pairs)
    if brief:
        flipped = [Flips(only_a=[], only_b=[]) for _ in pairs]
        ratios = [Resources(latency=None, tokens=None, cost=None) for _ in pairs]
    else:
        flipped, took = [flips(paired_values(a, b, rates)) for a, b in pairs], amounts(runs)
        ratios = [resources(a, b, took) for a, b in pairs]
    return [PairAnalysis(*found) for found in zip(by_passes, by_scores, by_exp, flipped, ratios, strict=True)]


def measures(runs: Sequence[RunRows], name: str) -> Measures:
    """A measure of each run, by its name."""
    return {run.label: run.rows.measure(name) for run in runs}


def pass_exp_differences(pairs: Sequence[tuple[RunRows, RunRows]], exponent: int | None) -> list[PassExpDifference]:
    """The differences of pass^k, over the prompts that have so many graded trials in both runs."""
    ks = [exponent or min(run_k(a), run_k(b)) for a, b in pairs]
    by_k = {k: {run.label: pass_exps(run, k) for pair in pairs for run in pair} for k in set(ks)}
    found = decided([partial(paired_values, a, b, by_k[k]) for (a, b), k in zip(pairs, ks, strict=True)])
    return [PassExpDifference(k=k, **asdict(one)) for k, one in zip(ks, found, strict=True)]


def pass_exps(run: RunRows, k: int) -> "array[float]":
    """The unbiased pass^k of each row."""
    counts = zip(run.rows.columns["graded"], run.rows.columns["passed"], strict=True)
    return known_or_nan(pass_exp(graded, passed, k) for graded, passed in counts)


def paired_values(a: RunRows, b: RunRows, values: Measures, ids: Iterable[str] | None = None) -> PairedValues:
    """Pairs a measure of two runs by prompt; `ids` are some of the prompts of A."""
    found = PairedValues(a.label, b.label, [], [], [], [] if a.clustered else None, a.stopped or b.stopped)
    here, there, of_a, of_b = a.rows.places, b.rows.places, values[a.label], values[b.label]
    for id in here if ids is None else ids:
        at = there.get(id)
        if at is None:
            continue
        ours, theirs = of_a[here[id]], of_b[at]
        if ours == ours and theirs == theirs:  # neither is NaN
            found.ids.append(id)
            found.a.append(ours)
            found.b.append(theirs)
    return found._replace(clusters=a.clusters(found.ids))


def decided(pairs: Sequence[Callable[[], PairedValues]]) -> list[Difference]:
    """The differences of one measure, verdicts and intervals adjusted for their number by Holm's method.

    An interval excludes 0 if and only if the verdict names a run. That is why p values are never below what the
    interval of their level allows, which may in turn change the level of others. The values of a pair are joined when
    they are needed: those of all pairs take more memory than the runs.
    """
    levels, least = [LEVEL] * len(pairs), [0.0] * len(pairs)
    tests, changed = [PairedTest()] * len(pairs), list(range(len(pairs)))
    while True:
        for at in changed:
            tests[at] = paired_test(pairs[at](), levels[at])
        known = [at for at, test in enumerate(tests) if test.p is not None]
        least = [max(test.p or 0.0, before) for test, before in zip(tests, least, strict=True)]
        wanted = dict(zip(known, holm_levels([least[at] for at in known]), strict=True))
        changed = [at for at in known if levels[at] != wanted[at]]
        if not changed:
            break
        for at in changed:
            levels[at] = wanted[at]
    adjusted = dict(zip(known, holm([least[at] for at in known]), strict=True))
    return [difference(pair(), tests[at], adjusted.get(at)) for at, pair in enumerate(pairs)]


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
        change=None if test.mean is None else 0.0 - test.mean,  # equal runs: 0.0, not -0.0
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


def amounts(runs: Sequence[RunRows]) -> dict[str, Measures]:
    """What the runs took, by the name of the measure."""
    return {name: measures(runs, name) for name in ("duration", "pace", "tokens", "cost")}


def resources(a: RunRows, b: RunRows, took: Mapping[str, Measures]) -> Resources:
    """What A took divided by what B took, on the prompts in which both are known."""
    return Resources(
        latency=_ratio_of_times(paired_values(a, b, took["pace"]), paired_values(a, b, took["duration"])),
        tokens=_ratio_of_means(paired_values(a, b, took["tokens"])),
        cost=_ratio_of_costs(paired_values(a, b, took["cost"]), a, b),
    )


def _ratio_of_means(values: PairedValues) -> Ratio | None:
    above, below = mean(values.a), mean(values.b)
    if above is None:
        return None
    ratio, interval = above / below if below else None, ratio_interval(values.a, values.b, values.clusters)
    return Ratio(n=len(values.ids), mean_a=above, mean_b=below, ratio=ratio, interval=interval)


def _ratio_of_costs(costs: PairedValues, a: RunRows, b: RunRows) -> Ratio | None:
    found = _ratio_of_means(costs)
    if found is not None:
        estimated = {*a.ids_with("cost_estimated"), *b.ids_with("cost_estimated")}
        found.estimated = sum(id in estimated for id in costs.ids) or None
    return found


def _ratio_of_times(paces: PairedValues, times: PairedValues) -> Ratio | None:
    """The geometric mean of the ratios: times are skewed, and one slow prompt would rule the ratio of means.

    Of trials, too: the more of them there are, the higher the logarithm of their arithmetic mean is on average. Means
    are over the same prompts, those with a time above 0.
    """
    ratios = [ours / theirs for ours, theirs in zip(paces.a, paces.b, strict=True)]
    if not ratios:
        return None
    kept = set(paces.ids)
    means = [mean([value for id, value in zip(times.ids, side, strict=True) if id in kept]) for side in times[3:5]]
    ratio, interval = geometric_mean(ratios), geometric_ratio_interval(ratios, paces.clusters)
    return Ratio(n=len(ratios), mean_a=means[0], mean_b=means[1], ratio=ratio, interval=interval)


# --- categories ---------------------------------------------------------------------------------


def by_category(runs: Sequence[RunRows], figures: Callable[[RunRows], CategoryRun]) -> dict[str, Category] | None:
    """Each category, in order of appearance: each run, and every two runs; None if no record has one.

    A prompt is in the categories that its first record with any names: one, or all of a list.
    """
    categories_of: dict[str, tuple[str, ...]] = {}
    for run in runs:
        for id, categories in zip(run.rows, run.rows.column("categories"), strict=True):
            if categories:
                categories_of.setdefault(id, categories)
    if not categories_of:
        return None
    parts: dict[str, list[list[str]]] = {}  # the ids of each run
    for at, run in enumerate(runs):
        for id in run.rows:
            for category in categories_of.get(id, (NO_CATEGORY,)):
                parts.setdefault(category, [[] for _ in runs])[at].append(id)
    rates = measures(runs, "pass_rate")
    pairs = iter(
        decided(
            [
                partial(paired_values, a, b, rates, ids)
                for part in parts.values()
                for (a, ids), (b, _) in combinations(zip(runs, part, strict=True), 2)
            ]
        )
    )
    return {
        category: Category(
            runs={
                run.label: figures(run._replace(rows=run.rows.only(ids))) for run, ids in zip(runs, part, strict=True)
            },
            pairs=[next(pairs) for _ in combinations(part, 2)],
        )
        for category, part in parts.items()
    }
