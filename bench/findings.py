"""What was found: ratios over interleaved rounds, how much of them is noise, whether they meet a goal; the table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from bench.measure import MB, Sample

Verdict = Literal["yes", "NO", "noise"]
FEWEST = 3  # rounds from which on their differences say how large the noise is
# Two standard errors of a median: 1.4826 MAD is a standard deviation, a median varies 1.2533 times as much as a mean.
TWO_ERRORS = 2 * 1.4826 * 1.2533


class Estimate(NamedTuple):
    """Of the rounds' ratios the median, smallest and largest; `best` is that of the smallest values.

    `noise` is how far the median may be off, in the same unit: two standard errors, by the median absolute deviation.
    """

    middle: float
    best: float
    low: float
    high: float
    noise: float

    def inverse(self) -> Estimate:
        """Returns the estimate of how many times as much the others are."""
        noise = self.noise / self.middle**2
        return Estimate(1 / self.middle, 1 / self.best, 1 / self.high, 1 / self.low, noise)

    def divided(self, by: float) -> Estimate:
        """Returns the estimate in a unit that is so many times as large."""
        return Estimate(*(value / by for value in self))


def estimate(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """Divides our values by theirs, round by round; fewer than three rounds say nothing about the noise."""
    rounds = [a / b for a, b in zip(ours, theirs, strict=True)]
    middle = statistics.median(rounds)
    deviation = statistics.median(abs(one - middle) for one in rounds)
    noise = TWO_ERRORS * deviation / math.sqrt(len(rounds)) if len(rounds) >= FEWEST else math.inf
    return Estimate(middle, min(ours) / min(theirs), min(rounds), max(rounds), noise)


class Ratio(NamedTuple):
    """Our times divided by theirs: by the clock, and of CPU time."""

    clock: Estimate
    cpu: Estimate


def ratio(ours: Sequence[Sample], theirs: Sequence[Sample]) -> Ratio:
    """Divides our times by theirs, round by round."""
    clock = estimate([a.wall for a in ours], [b.wall for b in theirs])
    return Ratio(clock, estimate([a.cpu for a in ours], [b.cpu for b in theirs]))


def at_most(found: Estimate, goal: float) -> Verdict:
    """Returns whether a goal is met by the median; a miss counts if median and minimum miss it by more than the noise.

    Other load makes some rounds slower, never faster: so the ratio of the shortest times is the second opinion.
    """
    if found.middle <= goal:
        return "yes"
    return "NO" if min(found.middle, found.best) > goal + found.noise else "noise"


def at_least(found: Estimate, goal: float) -> Verdict:
    """Returns the same for a ratio that should be large."""
    if found.middle >= goal:
        return "yes"
    return "NO" if max(found.middle, found.best) < goal - found.noise else "noise"


def either(*verdicts: Verdict) -> Verdict:
    """Returns whether one of several goals is met."""
    return "yes" if "yes" in verdicts else "noise" if "noise" in verdicts else "NO"


def met(holds: bool) -> Verdict:
    """Returns the verdict on what does not vary from round to round."""
    return "yes" if holds else "NO"


# --- the table -----------------------------------------------------------------------------------

COLUMNS = ("row", "what", "measured", "goal", "met", "cpu", "peak MB")
WIDTHS = (10, 62, 38, 12, 5, 6, 0)


class Finding(NamedTuple):
    """One line of the table; without a goal there is no verdict."""

    row: str
    what: str
    measured: str
    goal: str = ""
    verdict: Verdict | None = None
    cpu: str = ""
    peaks: str = ""


def of_ratio(row: str, what: str, found: Ratio, goal: float | None, peaks: str = "") -> Finding:
    """Returns the finding for a ratio of times by the clock; smaller is better."""
    cpu = f"{found.cpu.middle:.2f}"
    if goal is None:
        return Finding(row, what, shown(found.clock), cpu=cpu, peaks=peaks)
    return Finding(row, what, shown(found.clock), f"<= {goal} x", at_most(found.clock, goal), cpu, peaks)


def of_cpu(row: str, what: str, found: Ratio, goal: float) -> Finding:
    """Returns the finding for a ratio of CPU times; smaller is better."""
    return Finding(row, f"{what}, CPU time", shown(found.cpu), f"<= {goal} x", at_most(found.cpu, goal))


def shown(found: Estimate) -> str:
    """Returns an estimate as text."""
    noise = f" ±{found.noise:.2f}" if math.isfinite(found.noise) else ""
    return f"{found.middle:.2f} x{noise}, best {found.best:.2f} ({found.low:.2f}–{found.high:.2f})"


def of_memory(row: str, what: str, size: int, goal: int | None, peaks: str = "") -> Finding:
    """Returns the finding for peak resident memory, given in bytes; the goal is in MB."""
    measured = f"{size / MB:.1f} MB"
    if goal is None:
        return Finding(row, what, measured, peaks=peaks)
    return Finding(row, what, measured, f"<= {goal} MB", met(size <= goal * MB), peaks=peaks)


def side_by_side(ours: int, *others: int) -> str:
    """Returns peaks side by side in MB, ours first."""
    return " / ".join(f"{size / MB:.0f}" for size in (ours, *others))


def line(cells: tuple[str, ...]) -> str:
    """Returns one line of the table."""
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


def heading() -> str:
    """Returns the header line."""
    return line(COLUMNS)


def show(found: Finding) -> str:
    """Returns the finding as a line of the table."""
    return line((found.row, found.what, found.measured, found.goal, found.verdict or "-", found.cpu, found.peaks))


def tally(findings: list[Finding]) -> str:
    """Returns how many goals were met."""
    verdicts = [finding.verdict for finding in findings if finding.verdict]
    missed = f"{verdicts.count('noise')} missed by less than the noise, {verdicts.count('NO')} by more"
    return f"{verdicts.count('yes')} of {len(verdicts)} goals met, {missed}"
