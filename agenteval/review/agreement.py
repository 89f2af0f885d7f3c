"""How well a grader agrees with a person who judged the same answers, as pure functions of a 2x2 table.

A figure that a table does not define (precision without a pass, kappa if chance agreement is total) is None, never 0.
"""

from __future__ import annotations

from agenteval.comparison.statistics import wilson
from agenteval.wire.calibration import Agreement, AgreementTable


def agreement_of(table: AgreementTable) -> Agreement:
    """Returns all figures of a table."""
    n, agreed = table.n, table.true_pass + table.true_fail
    return Agreement(
        n=n,
        agreement=share(agreed, n),
        interval=wilson(agreed, n) if n else None,
        kappa=kappa(table),
        human_pass_rate=share(table.human_passes, n),
        grader_pass_rate=share(table.grader_passes, n),
        precision=share(table.true_pass, table.grader_passes),
        recall=share(table.true_pass, table.human_passes),
        failure_precision=share(table.true_fail, n - table.grader_passes),
        failure_recall=share(table.true_fail, n - table.human_passes),
        table=table,
    )


def count_pair(table: AgreementTable, *, grader: bool, human: bool) -> None:
    """Counts an answer that both have judged."""
    cell = f"{'true' if grader == human else 'false'}_{'pass' if grader else 'fail'}"
    setattr(table, cell, getattr(table, cell) + 1)


def share(part: int, whole: int) -> float | None:
    """Returns part / whole; None if whole is 0."""
    return part / whole if whole else None


def kappa(table: AgreementTable) -> float | None:
    """Returns Cohen's kappa; None if both always agree by chance alone."""
    n, human, grader = table.n, table.human_passes, table.grader_passes
    by_chance = human * grader + (n - human) * (n - grader)  # times n², to compute with integers
    if by_chance == n * n:
        return None
    return (n * (table.true_pass + table.true_fail) - by_chance) / (n * n - by_chance)
