"""How well a grader agrees with a person who judged some of the same answers, for all answers of the file.

A figure that the labels do not define (precision without a pass, recall without labelled passes) is None, never 0.
"""

from __future__ import annotations

from typing import Any, Literal

from agenteval.review.weighting import FIGURES, Cells, Estimate, Stratum, cells_of, estimate, ratio
from agenteval.wire.calibration import (
    Agreement,
    AgreementIntervals,
    AgreementTable,
    CorrectedPassRate,
    VerdictCounts,
)

Scope = Literal["all", "passes", "failures"]

PASSES = (True, True, False, False)
FAILURES = (False, False, True, True)
ALWAYS_FAILS: Cells = (0.0, 0.0, 0.0, 1.0)


class LabelledVerdicts:
    """Verdicts of a grader on labelled answers, apart for those that are recorded as passes and as failures."""

    def __init__(self) -> None:
        self.passes, self.failures = AgreementTable(), AgreementTable()

    def count(self, *, recorded: bool, grader: bool, human: bool) -> None:
        """Counts an answer that both have judged."""
        count_pair(self.passes if recorded else self.failures, grader=grader, human=human)

    @property
    def table(self) -> AgreementTable:
        """The counts of both together, not weighted."""
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
        everything = (True, True, True, True)
        passes = Stratum(records.passed, cells_of(self.passes), PASSES if recorded else everything)
        failures = Stratum(records.failed, cells_of(self.failures), FAILURES if recorded else everything)
        return [stratum for stratum in (passes, failures) if stratum.labels]


def agreement_of(found: LabelledVerdicts, records: VerdictCounts, *, recorded: bool = True) -> Agreement:
    """Returns all figures of a grader, the recorded one or another; each label counts for its share of the records."""
    table, scope = found.table, found.scope
    strata = found.strata(records, recorded=recorded) if table.n else []
    figures = {name: estimate(name, strata) if claimed(name, scope, recorded) else Estimate() for name in FIGURES}
    if recorded and figures["grader_pass_rate"].value is not None:  # known of all records: no estimate
        figures["grader_pass_rate"] = Estimate(ratio(records.passed, records.passed + records.failed))
    values: dict[str, Any] = {name: figure.value for name, figure in figures.items()}
    intervals = {name: figure.interval for name, figure in figures.items()}
    return Agreement(
        n=table.n,
        scope=scope,
        interval=intervals.pop("agreement"),
        **values,
        intervals=AgreementIntervals(**intervals),
        table=table,
    )


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


def count_pair(table: AgreementTable, *, grader: bool, human: bool) -> None:
    """Counts an answer that both have judged."""
    cell = f"{'true' if grader == human else 'false'}_{'pass' if grader else 'fail'}"
    setattr(table, cell, getattr(table, cell) + 1)
