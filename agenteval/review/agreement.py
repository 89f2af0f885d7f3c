"""How well a grader agrees with a person who judged the same answers, as pure functions of a 2x2 table.

What cannot be said of a table (precision without a pass, kappa where nobody ever differs) is None, never 0.
"""

from __future__ import annotations

from agenteval.comparison.statistics import wilson
from agenteval.wire.records import Rate, Wire


class Table(Wire, omit_defaults=False):
    """How often the grader and the person said what."""

    true_pass: int = 0
    """Both say pass."""
    false_pass: int = 0
    """The grader passes what the person fails."""
    false_fail: int = 0
    """The grader fails what the person passes."""
    true_fail: int = 0
    """Both say fail."""

    def add(self, *, grader: bool, human: bool) -> None:
        """One more answer that both have judged."""
        cell = f"{'true' if grader == human else 'false'}_{'pass' if grader else 'fail'}"
        setattr(self, cell, getattr(self, cell) + 1)

    @property
    def n(self) -> int:
        """How many answers both have judged."""
        return self.true_pass + self.false_pass + self.false_fail + self.true_fail

    @property
    def human_passes(self) -> int:
        """How many the person passes."""
        return self.true_pass + self.false_fail

    @property
    def grader_passes(self) -> int:
        """How many the grader passes."""
        return self.true_pass + self.false_pass


class Agreement(Wire):
    """A grader held against a person's labels; null is what so few labels cannot tell."""

    n: int
    """Answers that the person labelled pass or fail and the grader graded."""
    agreement: Rate | None
    """Share of them on which both say the same."""
    interval: tuple[float, float] | None
    """95 % Wilson interval of that share."""
    kappa: float | None
    """Cohen's kappa: agreement beyond chance; 1 is perfect, 0 what chance gives, null where both only ever say one."""
    human_pass_rate: Rate | None
    """Base rate: share that the person passes."""
    grader_pass_rate: Rate | None
    """Share that the grader passes."""
    precision: Rate | None
    """Of what the grader passes, the share that the person passes too."""
    recall: Rate | None
    """Of what the person passes, the share that the grader passes too."""
    failure_precision: Rate | None
    """Of what the grader fails, the share that the person fails too."""
    failure_recall: Rate | None
    """Of what the person fails, the share that the grader fails too."""
    table: Table
    """The counts behind it."""


def agreement_of(table: Table) -> Agreement:
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


def kappa(table: Table) -> float | None:
    """Cohen's kappa; None where chance alone would make the two agree always."""
    n, human, grader = table.n, table.human_passes, table.grader_passes
    by_chance = human * grader + (n - human) * (n - grader)  # times n², so that all stay whole numbers
    if by_chance == n * n:
        return None
    return (n * (table.true_pass + table.true_fail) - by_chance) / (n * n - by_chance)
