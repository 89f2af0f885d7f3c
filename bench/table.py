"""The table of findings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from bench.estimate import Estimate, Verdict, at_most, met
from bench.measure import MB, Ratio

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


def of_both(row: str, what: str, found: Ratio, goal: float, peaks: str = "") -> Iterator[Finding]:
    """Yields the findings for a goal that holds by the clock and of CPU time."""
    yield of_ratio(row, what, found, goal, peaks)
    yield of_cpu(row, what, found, goal)


def of_several(row: str, what: str, found: Ratio, alone: Ratio, goal: float, peaks: str = "") -> Iterator[Finding]:
    """Yields the same for a tool of several processes; the goal of CPU time holds for one of them alone (-j 1)."""
    yield of_ratio(row, what, found, goal, peaks)
    yield of_ratio(row, f"{what}, -j 1", alone, None)
    yield of_cpu(row, f"{what}, -j 1", alone, goal)


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


def against(ours: int, *others: int) -> str:
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
