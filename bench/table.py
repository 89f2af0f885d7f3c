"""The table of findings."""

from __future__ import annotations

from typing import NamedTuple

from bench.measure import MB, Ratio

COLUMNS = ("row", "what", "measured", "goal", "met", "cpu", "peak MB")
WIDTHS = (10, 50, 28, 12, 5, 6, 0)


class Finding(NamedTuple):
    """One line of the table; `met` is None where there is no goal, or where it is missed by less than the noise."""

    row: str
    what: str
    measured: str
    goal: str = ""
    met: bool | None = None
    cpu: str = ""
    peaks: str = ""
    noisy: bool = False


def judged(middle: float, low: float, goal: float) -> tuple[bool | None, bool]:
    """Whether the goal is met, and whether that is not known: the median misses it, but a round has met it."""
    return (None, True) if low <= goal < middle else (middle <= goal, False)


def of_ratio(row: str, what: str, found: Ratio, goal: float | None, peaks: str = "") -> Finding:
    """Returns the finding for a ratio of times; smaller is better."""
    measured = f"{found.middle:.2f} x, best {found.best:.2f} ({found.low:.2f}–{found.high:.2f})"
    cpu = f"{found.cpu:.2f}"
    if goal is None:
        return Finding(row, what, measured, cpu=cpu, peaks=peaks)
    met, noisy = judged(found.middle, found.low, goal)
    return Finding(row, what, measured, f"<= {goal} x", met, cpu, peaks, noisy)


def of_cpu(row: str, what: str, found: Ratio, goal: float) -> Finding:
    """Returns the finding for a ratio of CPU times; smaller is better."""
    met, noisy = judged(found.cpu, found.cpu_low, goal)
    return Finding(row, what, f"{found.cpu:.2f} x (from {found.cpu_low:.2f})", f"<= {goal} x", met, noisy=noisy)


def of_memory(row: str, what: str, size: int, goal: int | None, peaks: str = "") -> Finding:
    """Returns the finding for peak resident memory, given in bytes; the goal is in MB."""
    measured = f"{size / MB:.1f} MB"
    if goal is None:
        return Finding(row, what, measured, peaks=peaks)
    return Finding(row, what, measured, f"<= {goal} MB", size <= goal * MB, peaks=peaks)


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
    met = "noise" if found.noisy else {True: "yes", False: "NO", None: "-"}[found.met]
    return line((found.row, found.what, found.measured, found.goal, met, found.cpu, found.peaks))
