"""Agreement of a grader with a person: by hand, against other implementations, and covered as often as promised."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from agenteval.review.agreement import LabelledVerdicts, agreement_of, corrected_pass_rate, gwet_ac1, kappa
from agenteval.wire.calibration import Agreement, AgreementTable, VerdictCounts

FIGURES = "kappa ac1 human_pass_rate precision recall failure_precision failure_recall"
Counts = tuple[int, int, int, int]


def table(true_pass: int, false_pass: int, false_fail: int, true_fail: int) -> AgreementTable:
    return AgreementTable(true_pass=true_pass, false_pass=false_pass, false_fail=false_fail, true_fail=true_fail)


def labelled(counts: Counts) -> LabelledVerdicts:
    """Labels of the recorded verdicts."""
    found = LabelledVerdicts()
    found.passes, found.failures = table(counts[0], counts[1], 0, 0), table(0, 0, counts[2], counts[3])
    return found


def agreement(counts: Counts, records: VerdictCounts | None = None) -> Agreement:
    """The figures of the recorded verdicts; without counts of the records, all of them have labels."""
    every = VerdictCounts(passed=counts[0] + counts[1], failed=counts[2] + counts[3])
    return agreement_of(labelled(counts), records or every)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((20, 5, 10, 15), 0.4),  # observed 0.70, by chance 0.5 * 0.6 + 0.5 * 0.4
        ((45, 15, 25, 15), (0.60 - 0.54) / 0.46),
        ((25, 35, 5, 35), (0.60 - 0.46) / 0.54),  # the same agreement, other base rates
        ((5, 0, 0, 5), 1.0),
        ((0, 5, 5, 0), -1.0),
        ((0, 0, 3, 7), 0.0),  # a grader that fails everything agrees as often as chance would
        ((0, 4, 0, 0), 0.0),
        ((4, 0, 0, 0), None),  # both only ever say pass: chance would agree as well
        ((0, 0, 0, 4), None),
        ((0, 0, 0, 0), None),
        ((1, 0, 0, 0), None),
    ],
)
def test_kappa(counts: Counts, expected: float | None) -> None:
    assert kappa(counts) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((118, 5, 2, 0), (0.944 - 0.05443) / (1 - 0.05443)),  # Gwet (2008), table 2: kappa is -0.02 here
        ((20, 5, 10, 15), 0.41 / 1.01),
        ((4, 0, 0, 0), 1.0),
        ((0, 0, 0, 0), None),
    ],
)
def test_gwet_ac1(counts: Counts, expected: float | None) -> None:
    assert gwet_ac1(counts) == (None if expected is None else pytest.approx(expected, abs=1e-4))


def test_all_figures() -> None:
    found = agreement((6, 2, 1, 11))
    assert (found.n, found.agreement, found.human_pass_rate, found.grader_pass_rate) == (20, 17 / 20, 7 / 20, 8 / 20)
    assert (found.precision, found.recall) == (6 / 8, 6 / 7)
    assert (found.failure_precision, found.failure_recall) == (11 / 12, 11 / 13)
    assert found.interval == pytest.approx((0.6396, 0.9476), abs=1e-4), "Wilson's, as all records have labels"
    assert found.kappa == pytest.approx((0.85 - (0.35 * 0.4 + 0.65 * 0.6)) / (1 - 0.53))


@pytest.mark.parametrize(
    ("counts", "undefined"),
    [
        ((0, 0, 0, 0), f"agreement interval grader_pass_rate {FIGURES}"),
        ((3, 0, 0, 0), "grader_pass_rate kappa ac1 human_pass_rate recall failure_precision failure_recall"),
        ((0, 0, 0, 3), "grader_pass_rate kappa ac1 human_pass_rate precision recall failure_recall"),
        ((0, 0, 3, 3), "grader_pass_rate kappa ac1 human_pass_rate precision recall failure_recall"),
        ((3, 0, 0, 1), ""),
        ((3, 0, 1, 0), "failure_recall"),
        ((0, 1, 0, 1), "recall"),
        ((1, 1, 1, 1), ""),
    ],
)
def test_what_cannot_be_told_is_none_and_not_zero(counts: Counts, undefined: str) -> None:
    found = agreement(counts)
    fields = [name for name in found.__struct_fields__ if getattr(found, name) is None]
    assert sorted(fields) == sorted(undefined.split())
    bounds = {name: getattr(found.intervals, name) for name in FIGURES.split()}
    assert {name for name, bound in bounds.items() if bound is None} == set(undefined.split()) & set(bounds)
    assert all(bound[0] < bound[1] for bound in bounds.values() if bound), "no interval of width 0"


def test_a_table_counts_pairs() -> None:
    found = LabelledVerdicts()
    for grader, human in [(True, True), (True, False), (True, False), (False, True), (False, False)]:
        found.count(recorded=grader, grader=grader, human=human)
    counted = found.table
    assert counted == table(1, 2, 1, 1)
    assert (counted.n, counted.human_passes, counted.grader_passes) == (5, 2, 3)


# --- weighted to the whole file -----------------------------------------------------------------

RECORDS = VerdictCounts(passed=800, failed=200)
LABELS = (18, 6, 3, 37)


def test_weighted_figures_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="an independent implementation (extra: references)")
    grader = [True] * 24 + [False] * 40
    human = [True] * 18 + [False] * 6 + [True] * 3 + [False] * 37
    weights = [800 / 24] * 24 + [200 / 40] * 40
    found = agreement(LABELS, RECORDS)
    given = {"y_true": human, "y_pred": grader, "sample_weight": weights}
    assert found.agreement == pytest.approx(metrics.accuracy_score(**given))
    assert found.kappa == pytest.approx(metrics.cohen_kappa_score(human, grader, sample_weight=weights))
    assert found.precision == pytest.approx(metrics.precision_score(**given))
    assert found.recall == pytest.approx(metrics.recall_score(**given))
    assert found.failure_precision == pytest.approx(metrics.precision_score(**given, pos_label=False))
    assert found.failure_recall == pytest.approx(metrics.recall_score(**given, pos_label=False))


def test_simple_intervals_are_those_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats", reason="an independent implementation (extra: references)")
    expected = stats.binomtest(37, 40).proportion_ci(method="wilson")
    found = agreement(LABELS, RECORDS).intervals.failure_precision
    assert found == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_the_corrected_pass_rate_is_rogan_and_gladens_and_the_prediction_powered_one() -> None:
    """Sensitivity and specificity of the weighted table; and the recorded rate plus the weighted mean error."""
    found = corrected_pass_rate(labelled(LABELS), RECORDS)
    weighted = agreement(LABELS, RECORDS)
    sensitivity, specificity = weighted.recall or 0.0, weighted.failure_recall or 0.0
    assert found.corrected == pytest.approx((0.8 + specificity - 1) / (sensitivity + specificity - 1))
    assert found.corrected == pytest.approx(0.8 + 0.8 * (-6 / 24) + 0.2 * (3 / 40))
    assert (found.recorded, found.n, found.labelled_passes, found.labelled_failures) == (0.8, 1000, 24, 40)


def test_agents_that_failed_do_not_pass() -> None:
    failed = VerdictCounts(passed=800, failed=200, errors=1000)
    found = corrected_pass_rate(labelled(LABELS), failed)
    assert found.corrected == pytest.approx((0.8 * 18 / 24 + 0.2 * 3 / 40) / 2) and found.recorded == 0.4


def test_failures_alone_do_not_tell_the_pass_rate() -> None:
    found = corrected_pass_rate(labelled((0, 0, 3, 37)), RECORDS)
    assert (found.recorded, found.corrected, found.interval) == (0.8, None, None)
    only = corrected_pass_rate(labelled((0, 0, 3, 37)), VerdictCounts(failed=200))
    assert only.corrected == 3 / 40, "of a run without a pass, they do"


def test_a_second_grader_is_weighted_by_the_recorded_verdict() -> None:
    found = LabelledVerdicts()
    found.passes, found.failures = table(10, 2, 3, 5), table(1, 2, 4, 13)
    weighted = agreement_of(found, RECORDS, recorded=False)
    assert weighted.agreement == pytest.approx(0.8 * 15 / 20 + 0.2 * 14 / 20)
    assert weighted.grader_pass_rate == pytest.approx(0.8 * 12 / 20 + 0.2 * 3 / 20)
    assert weighted.intervals.grader_pass_rate is not None and weighted.table == table(11, 4, 7, 18)


def sample(population: Sequence[tuple[bool, bool]], each: int, draw: random.Random) -> LabelledVerdicts:
    """Labels of so many recorded passes and failures, drawn at random."""
    found = LabelledVerdicts()
    for verdict in (True, False):
        of = [pair for pair in population if pair[0] == verdict]
        for grader, human in draw.sample(of, min(each, len(of))):
            found.count(recorded=verdict, grader=grader, human=human)
    return found


def test_intervals_cover_what_they_should() -> None:
    """A judge that misses most failures: 43% of them are found, though nearly all labelled failures are right."""
    draw, runs, each = random.Random(13), 400, 40
    truth = {"human_pass_rate": 0.8, "failure_recall": 0.43, "agreement": 0.8 * 0.95 + 0.2 * 0.43}
    covered = dict.fromkeys([*truth, "corrected"], 0)
    for _ in range(runs):
        humans = [draw.random() < 0.8 for _ in range(300)]
        records = [(draw.random() < (0.95 if human else 0.57), human) for human in humans]
        labels = sample(records, each, draw)
        passed = sum(grader for grader, _ in records)
        counts = VerdictCounts(passed=passed, failed=300 - passed)
        found, corrected = agreement_of(labels, counts), corrected_pass_rate(labels, counts)
        bounds = {name: getattr(found.intervals, name, None) or found.interval for name in truth}
        for name, bound in {**bounds, "corrected": corrected.interval}.items():
            assert bound is not None
            covered[name] += bound[0] <= truth.get(name, 0.8) <= bound[1]
    assert all(0.91 <= count / runs <= 0.99 for count in covered.values()), covered
