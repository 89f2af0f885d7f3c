"""How well a grader agrees with a person who judged the same answers, as pure functions of a 2x2 table.

What cannot be said of a table (precision without a pass, kappa where nobody ever differs) is None, never 0.
"""

from __future__ import annotations

from agenteval.comparison.statistics import wilson
from agenteval.wire.calibration import Agreement, AgreementTable


def agreement_of(table: AgreementTable) -> Agreement:
    """All figures of a table."""
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


def share(part: int, whole: int) -> float | None:
    """part / whole; None of nothing."""
    return part / whole if whole else None


def kappa(table: AgreementTable) -> float | None:
    """Cohen's kappa; None where chance alone would make the two agree always."""
    n, human, grader = table.n, table.human_passes, table.grader_passes
    by_chance = human * grader + (n - human) * (n - grader)  # times n², so that all stay whole numbers
    if by_chance == n * n:
        return None
    return (n * (table.true_pass + table.true_fail) - by_chance) / (n * n - by_chance)
