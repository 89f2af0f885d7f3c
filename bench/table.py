"""The table of findings."""

from __future__ import annotations

from typing import NamedTuple

from bench.measure import MB, Ratio

COLUMNS = ("row", "what", "measured", "goal", "met", "cpu", "peak MB")
WIDTHS = (10, 50, 22, 12, 5, 6, 0)


class Finding(NamedTuple):
    """One line of the table; `met` is None where there is no goal."""

    row: str
    what: str
    measured: str
    goal: str = ""
    met: bool | None = None
    cpu: str = ""
    peaks: str = ""


def of_ratio(row: str, what: str, found: Ratio, goal: float | None, peaks: str = "") -> Finding:
    """Returns the finding for a ratio of times; smaller is better."""
    measured = f"{found.middle:.2f} x ({found.low:.2f}–{found.high:.2f})"
    cpu = f"{found.cpu:.2f}"
    if goal is None:
        return Finding(row, what, measured, cpu=cpu, peaks=peaks)
    return Finding(row, what, measured, f"<= {goal} x", found.middle <= goal, cpu, peaks)


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
    met = {True: "yes", False: "NO", None: "-"}[found.met]
    return line((found.row, found.what, found.measured, found.goal, met, found.cpu, found.peaks))
