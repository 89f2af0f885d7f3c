"""Agreement of a grader with a person, against values computed by hand."""

from __future__ import annotations

import pytest

from agenteval.review.agreement import agreement_of, count_pair, kappa
from agenteval.wire.calibration import AgreementTable

RATES = "precision recall failure_precision failure_recall"


def table(true_pass: int, false_pass: int, false_fail: int, true_fail: int) -> AgreementTable:
    return AgreementTable(true_pass=true_pass, false_pass=false_pass, false_fail=false_fail, true_fail=true_fail)


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
def test_kappa(counts: tuple[int, int, int, int], expected: float | None) -> None:
    assert kappa(table(*counts)) == (None if expected is None else pytest.approx(expected))


def test_all_figures() -> None:
    found = agreement_of(table(6, 2, 1, 11))
    assert (found.n, found.agreement, found.human_pass_rate, found.grader_pass_rate) == (20, 17 / 20, 7 / 20, 8 / 20)
    assert (found.precision, found.recall) == (6 / 8, 6 / 7)
    assert (found.failure_precision, found.failure_recall) == (11 / 12, 11 / 13)
    assert found.interval == pytest.approx((0.6396, 0.9476), abs=1e-4)
    assert found.kappa == pytest.approx((0.85 - (0.35 * 0.4 + 0.65 * 0.6)) / (1 - 0.53))


@pytest.mark.parametrize(
    ("counts", "undefined"),
    [
        ((0, 0, 0, 0), f"agreement interval kappa human_pass_rate grader_pass_rate {RATES}"),
        ((3, 0, 0, 0), "kappa failure_precision failure_recall"),
        ((0, 0, 0, 3), "kappa precision recall"),
        ((0, 0, 3, 3), "precision"),
        ((0, 3, 0, 3), "recall"),
        ((3, 3, 0, 0), "failure_precision"),
        ((3, 0, 3, 0), "failure_recall"),
        ((1, 1, 1, 1), ""),
    ],
)
def test_what_cannot_be_told_is_none_and_not_zero(counts: tuple[int, int, int, int], undefined: str) -> None:
    found = agreement_of(table(*counts))
    fields = [name for name in found.__struct_fields__ if getattr(found, name) is None]
    assert sorted(fields) == sorted(undefined.split())


def test_a_table_counts_pairs() -> None:
    counted = AgreementTable()
    for grader, human in [(True, True), (True, False), (True, False), (False, True), (False, False)]:
        count_pair(counted, grader=grader, human=human)
    assert counted == table(1, 2, 1, 1)
    assert (counted.n, counted.human_passes, counted.grader_passes) == (5, 2, 3)
