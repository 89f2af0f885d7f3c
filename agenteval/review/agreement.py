"""How well a grader agrees with a person who judged some of the answers, estimated for all answers of the file.

A person may label failures only, or many failures and few passes. The number of records with each verdict is known, so
each label stands for its share of the records with that verdict. A figure that the labels do not define (precision
without a pass, recall without labelled passes) is None, never 0.

Interval: each rate that a figure is computed from is moved to the bounds of its Wilson interval, and the changes of the
figure are added as squares (MOVER: Newcombe 1998, Zou and Donner 2008). Where every record has a label, and for a
grader other than the recorded one, whose verdicts make more than two kinds of label, it is Wilson's interval with the
effective number of labels: the number of equally weighted labels that has the same variance (by the delta method).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from agenteval.statistics.distributions import t_quantile
from agenteval.statistics.intervals import TAIL, Z, mean_interval, wilson
from agenteval.wire.calibration import (
    Agreement,
    AgreementIntervals,
    AgreementTable,
    CorrectedDifference,
    CorrectedPassRate,
    VerdictCounts,
)
from agenteval.wire.records import Interval

Scope = Literal["all", "passes", "failures"]  # the recorded verdicts that have labels
Cells = Sequence[float]
"""True pass, false pass, false fail, true fail: the grader's verdict, and whether the person agrees."""
PASSES = (True, True, False, False)
FAILURES = (False, False, True, True)
ANY = (True, True, True, True)
ALWAYS_FAILS: Cells = (0.0, 0.0, 0.0, 1.0)
STEP = 1e-6
NEGLIGIBLE = 1e-6
MOST_DEPENDENT = 3.0  # the largest factor by which dependence within prompts may change a variance
PSEUDO = 0.5  # added to each cell that can occur, for the variance only: nothing is certain from a few labels


class Stratum(NamedTuple):
    """The labels of records with one recorded verdict, and how many such records there are."""

    size: int
    counts: Cells
    possible: Sequence[bool] = ANY
    known: bool = False  # the counts are those of all records, not of a sample

    @property
    def labels(self) -> float:
        """The number of labels."""
        return sum(self.counts)

    def shares(self) -> Cells:
        """Returns the share of each cell, smoothed."""
        extra = [PSEUDO * (possible and not self.known) for possible in self.possible]
        total = self.labels + sum(extra)
        return [(count + more) / total for count, more in zip(self.counts, extra, strict=True)]


class Estimate(NamedTuple):
    """A figure and its 95% interval; None if the labels do not define it."""

    value: float | None = None
    interval: Interval | None = None


Figure = Callable[[Cells], float | None]


def ratio(part: float, whole: float) -> float | None:
    """Returns part / whole; None if whole is 0."""
    return part / whole if whole > 0 else None


def kappa(cells: Cells) -> float | None:
    """Returns Cohen's kappa; None if both always agree by chance alone."""
    tp, fp, ff, tf = cells
    n = sum(cells)
    by_chance = (tp + ff) * (tp + fp) + (fp + tf) * (ff + tf)  # times n²
    if by_chance >= n * n * (1 - 1e-12):
        return None
    return (n * (tp + tf) - by_chance) / (n * n - by_chance)


def gwet_ac1(cells: Cells) -> float | None:
    """Returns Gwet's AC1, which stays meaningful if nearly all answers have one verdict; None without labels."""
    tp, fp, ff, tf = cells
    n = sum(cells)
    if not n:
        return None
    passes = (2 * tp + fp + ff) / (2 * n)
    by_chance = 2 * passes * (1 - passes)
    return ((tp + tf) / n - by_chance) / (1 - by_chance)


FIGURES: dict[str, Figure] = {
    "agreement": lambda c: ratio(c[0] + c[3], sum(c)),
    "kappa": kappa,
    "ac1": gwet_ac1,
    "human_pass_rate": lambda c: ratio(c[0] + c[2], sum(c)),
    "grader_pass_rate": lambda c: ratio(c[0] + c[1], sum(c)),
    "precision": lambda c: ratio(c[0], c[0] + c[1]),
    "recall": lambda c: ratio(c[0], c[0] + c[2]),
    "failure_precision": lambda c: ratio(c[3], c[2] + c[3]),
    "failure_recall": lambda c: ratio(c[3], c[1] + c[3]),
}
FROM_MINUS_ONE = ("kappa", "ac1")


def cells_of(table: AgreementTable) -> Cells:
    """Returns the counts of a table."""
    return table.true_pass, table.false_pass, table.false_fail, table.true_fail


def estimate(name: str, strata: Sequence[Stratum]) -> Estimate:
    """Returns a figure of all records, from the labels of each stratum; every stratum with records has labels."""
    strata = [stratum for stratum in strata if stratum.size]
    figure = FIGURES[name]
    sizes, counts = [float(stratum.size) for stratum in strata], [stratum.counts for stratum in strata]
    value = figure(_weighted(sizes, counts)) if strata else None
    if value is None:
        return Estimate()
    low = -1.0 if name in FROM_MINUS_ONE else 0.0
    two_kinds = all(stratum.known or sum(stratum.possible) == 2 for stratum in strata)
    if two_kinds and not complete(strata):
        down, up = distances(figure, strata, value)
        return Estimate(value, (max(low, value - down), min(1.0, value + up)))
    centre, variance, quantile = smoothed(figure, strata)
    share, middle = (value - low) / (1 - low), (centre - low) / (1 - low)
    effective = math.fsum(stratum.labels for stratum in strata)
    if variance > 0 and 0 < middle < 1:
        effective = middle * (1 - middle) * (1 - low) ** 2 / variance
    bounds = wilson(share, effective, quantile)
    return Estimate(value, (low + bounds[0] * (1 - low), low + bounds[1] * (1 - low)))


def distances(figure: Figure, strata: Sequence[Stratum], value: float) -> tuple[float, float]:
    """Returns how far the bounds are below and above a figure, from the rates of right labels and of verdicts.

    The records are a sample of all that could be asked, so that the share of each verdict varies, too.
    """
    sizes = [float(stratum.size) for stratum in strata]
    cells = [stratum.counts for stratum in strata]
    moved: list[list[float | None]] = []
    for at, stratum in enumerate(strata):
        if not stratum.known:
            first, second = (place for place in range(4) if stratum.possible[place])
            ends = wilson(stratum.counts[first] / stratum.labels, stratum.labels, Z)
            others = [[end if n == first else 1 - end if n == second else 0.0 for n in range(4)] for end in ends]
            moved.append([figure(_weighted(sizes, [*cells[:at], other, *cells[at + 1 :]])) for other in others])
        if rest := math.fsum(sizes[at + 1 :]):  # the share of this verdict among the remaining records
            ends = wilson(sizes[at] / (sizes[at] + rest), sizes[at] + rest, Z)
            shares = [end * (sizes[at] + rest) for end in ends]
            moved.append([figure(_weighted(_resized(sizes, at, share), cells)) for share in shares])
    known = [[end for end in ends if end is not None] for ends in moved]
    down = math.fsum(max(0.0, *(value - end for end in ends)) ** 2 for ends in known if ends)
    up = math.fsum(max(0.0, *(end - value for end in ends)) ** 2 for ends in known if ends)
    return math.sqrt(down), math.sqrt(up)


def _resized(sizes: Sequence[float], at: int, size: float) -> list[float]:
    """Returns the sizes with one of them replaced; those after it are scaled so that the total stays the same."""
    left = math.fsum(sizes[at:])
    scale = (left - size) / (left - sizes[at])
    return [*sizes[:at], size, *(later * scale for later in sizes[at + 1 :])]


def _weighted(sizes: Sequence[float], cells: Sequence[Cells]) -> Cells:
    """Returns how many of all records are in each cell, given the sizes of the strata and counts or shares of each."""
    pairs = [(size, cells, math.fsum(cells)) for size, cells in zip(sizes, cells, strict=True)]
    return [math.fsum(size * cells[at] / total for size, cells, total in pairs) for at in range(4)]


def smoothed(figure: Figure, strata: Sequence[Stratum]) -> tuple[float, float, float]:
    """Returns a figure, its variance by the delta method, and the quantile for its interval, from smoothed shares.

    The records are a sample of all that could be asked, and the labels are a sample of the records: both vary.
    """
    total = sum(stratum.size for stratum in strata)
    shares = [(stratum.size / total, stratum.shares()) for stratum in strata]
    centre = [math.fsum(weight * cells[at] for weight, cells in shares) for at in range(4)]
    slopes = gradient(figure, centre)
    parts, means = [], []
    for stratum, (weight, cells) in zip(strata, shares, strict=True):
        mean = math.fsum(slope * cell for slope, cell in zip(slopes, cells, strict=True))
        square = math.fsum(slope**2 * cell for slope, cell in zip(slopes, cells, strict=True))
        if not stratum.known:
            parts.append((weight**2 * max(0.0, square - mean**2) / stratum.labels, stratum.labels))
        means.append((weight, mean))
    overall = math.fsum(weight * mean for weight, mean in means)
    between = math.fsum(weight * (mean - overall) ** 2 for weight, mean in means) / total
    variance = math.fsum(part for part, _ in parts) + between
    return figure(centre) or 0.0, variance, Z if complete(strata) else quantile_of(parts, variance)


def complete(strata: Sequence[Stratum]) -> bool:
    """Whether every record has a label."""
    return all(stratum.known or stratum.labels == stratum.size for stratum in strata)


def quantile_of(parts: Sequence[tuple[float, float]], variance: float) -> float:
    """Returns Student's t by Satterthwaite's degrees of freedom, if labels of several strata contribute to a figure.

    With one stratum the figure is a plain rate, for which Wilson's interval needs no correction.
    """
    if sum(part > variance * NEGLIGIBLE for part, _ in parts) < 2:
        return Z
    spread = math.fsum(part**2 / max(1.0, labels - 1) for part, labels in parts)
    return t_quantile(TAIL, max(1, int(variance**2 / spread)))


def gradient(figure: Figure, cells: Cells) -> list[float]:
    """Returns the slope of a figure in each cell."""
    slopes = []
    for at in range(4):
        above, below = list(cells), list(cells)
        above[at], below[at] = cells[at] + STEP, cells[at] - STEP
        slopes.append(((figure(above) or 0.0) - (figure(below) or 0.0)) / (2 * STEP))
    return slopes


# --- graders against labels -------------------------------------------------------------------------


class LabelledVerdicts:
    """Verdicts of a grader on labelled answers, separately for recorded passes and recorded failures."""

    def __init__(self) -> None:
        self.passes, self.failures = AgreementTable(), AgreementTable()

    def count(self, *, recorded: bool, grader: bool, human: bool) -> None:
        """Counts an answer that both have judged."""
        table = self.passes if recorded else self.failures
        cell = f"{'true' if grader == human else 'false'}_{'pass' if grader else 'fail'}"
        setattr(table, cell, getattr(table, cell) + 1)

    @property
    def table(self) -> AgreementTable:
        """The counts of both together, unweighted."""
        pairs = zip(cells_of(self.passes), cells_of(self.failures), strict=True)
        tp, fp, ff, tf = (int(passes + failures) for passes, failures in pairs)
        return AgreementTable(true_pass=tp, false_pass=fp, false_fail=ff, true_fail=tf)

    @property
    def scope(self) -> Scope:
        """Which records the figures are about: all, if both passes and failures have labels."""
        if not self.passes.n:
            return "failures"
        return "all" if self.failures.n else "passes"

    def strata(self, records: VerdictCounts, *, recorded: bool) -> list[Stratum]:
        """The labels by recorded verdict; the recorded grader itself passes what is recorded as a pass."""
        passes = Stratum(records.passed, cells_of(self.passes), PASSES if recorded else ANY)
        failures = Stratum(records.failed, cells_of(self.failures), FAILURES if recorded else ANY)
        return [stratum for stratum in (passes, failures) if stratum.labels]


def agreement_of(found: LabelledVerdicts, records: VerdictCounts, *, recorded: bool = True) -> Agreement:
    """Returns all figures of a grader, the recorded one or another; each label counts for its share of the records."""
    table, scope = found.table, found.scope
    strata = found.strata(records, recorded=recorded) if table.n else []
    figures = {name: estimate(name, strata) if claimed(name, scope, recorded) else Estimate() for name in FIGURES}
    if recorded and figures["grader_pass_rate"].value is not None:  # known for all records, not estimated
        figures["grader_pass_rate"] = Estimate(ratio(records.passed, records.passed + records.failed))
    values: dict[str, Any] = {name: figure.value for name, figure in figures.items()}
    intervals = {name: figure.interval for name, figure in figures.items()}
    interval = intervals.pop("agreement")
    every = AgreementIntervals(**intervals)
    return Agreement(n=table.n, scope=scope, interval=interval, **values, intervals=every, table=table)


def claimed(name: str, scope: Scope, recorded: bool) -> bool:
    """Whether labels of that scope say anything about a figure of all records."""
    if scope == "all" or name == "agreement":
        return True
    return recorded and name == {"passes": "precision", "failures": "failure_precision"}[scope]


def corrected_pass_rate(found: LabelledVerdicts, records: VerdictCounts) -> CorrectedPassRate:
    """Returns the pass rate of the run as the person would grade it: agents that failed do not pass."""
    total = records.passed + records.failed + records.errors
    unknown = (records.passed and not found.passes.n) or (records.failed and not found.failures.n)
    failed = Stratum(records.errors, ALWAYS_FAILS, known=True)
    strata = [*found.strata(records, recorded=True), failed]
    value, interval = Estimate() if unknown or not found.table.n else estimate("human_pass_rate", strata)
    return CorrectedPassRate(
        recorded=ratio(records.passed, total),
        corrected=value,
        interval=interval,
        n=total,
        labelled_passes=found.passes.n,
        labelled_failures=found.failures.n,
    )


# --- two runs -------------------------------------------------------------------------------------


class LabelledAnswer(NamedTuple):
    """An answer that the person judged: its prompt, the recorded verdict, and the person's."""

    prompt: str
    recorded: bool
    human: bool


class JudgedRun(NamedTuple):
    """The verdicts on the answers of each prompt, and the labels of some of them."""

    prompts: Mapping[str, VerdictCounts]
    labels: Sequence[LabelledAnswer]


def corrected_difference(run: JudgedRun, baseline: JudgedRun) -> CorrectedDifference | None:
    """Returns how much more the person would pass in a run than in the baseline; None if they share no prompt.

    The estimate is prediction-powered: the grader's verdict on every answer is replaced by the share of right answers
    that the labels show for such a verdict, separately in each run, and the prompts are paired. Interval: the distances
    to the Wilson bounds of these shares and to the bounds of the paired differences are added as squares, and scaled by
    the change in variance because labels and verdicts of one prompt depend on each other.
    """
    ids = [id for id in run.prompts if all(graded(side.prompts.get(id)) for side in (run, baseline))]
    if not ids:
        return None
    recorded = math.fsum(share(run, id, True) - share(baseline, id, True) for id in ids) / len(ids)
    differences = dict.fromkeys(ids, 0.0)
    influence: dict[str, float] = {}  # how much each prompt moves the estimate
    down = up = apart = 0.0  # apart: the variance if all labels were independent
    for side, sign in ((run, 1), (baseline, -1)):
        for verdict in (True, False):
            labels = [label for label in side.labels if label.recorded is verdict]
            weight = math.fsum(share(side, id, verdict) for id in ids) / len(ids)
            if not weight:
                continue
            if not labels:
                return CorrectedDifference(n=len(ids), recorded=recorded, corrected=None, interval=None)
            right = sum(label.human for label in labels) / len(labels)
            low, high = (weight * abs(end - right) for end in wilson(right, len(labels)))
            down, up = down + (low if sign > 0 else high) ** 2, up + (high if sign > 0 else low) ** 2
            for label in labels:
                moved = sign * weight * (label.human - right) / len(labels)
                influence[label.prompt] = influence.get(label.prompt, 0.0) + moved
                apart += moved**2
            for id in ids:
                differences[id] += sign * right * share(side, id, verdict)
    value = math.fsum(differences.values()) / len(ids)
    paired = mean_interval(list(differences.values()))
    assert paired is not None, "there are prompts"
    down, up = down + (value - paired.low) ** 2, up + (paired.high - value) ** 2
    for id, difference in differences.items():
        moved = (difference - value) / len(ids)
        influence[id] = influence.get(id, 0.0) + moved
        apart += moved**2
    together = math.fsum(moved**2 for moved in influence.values())
    scale = min(MOST_DEPENDENT, max(1 / MOST_DEPENDENT, together / apart)) if apart else 1.0
    interval = max(-1.0, value - math.sqrt(scale * down)), min(1.0, value + math.sqrt(scale * up))
    return CorrectedDifference(n=len(ids), recorded=recorded, corrected=value, interval=interval)


def graded(counts: VerdictCounts | None) -> int:
    """The number of answers with a verdict, including those of agents that failed."""
    return counts.passed + counts.failed + counts.errors if counts else 0


def share(run: JudgedRun, id: str, verdict: bool) -> float:
    """The share of a prompt's answers that are recorded as passes, or as failures; failed agents are neither."""
    counts = run.prompts[id]
    return (counts.passed if verdict else counts.failed) / graded(counts)
