"""How the suite scales: 1 000 to 1 000 000 records, and 1 to 500 agents at a time; drawn into docs/."""

from __future__ import annotations

import os
from collections.abc import Iterator

from bench import baselines, chart, measure, peers
from bench.baselines import ROOT
from bench.chart import Series
from bench.measure import MB, Job, Sample
from bench.setting import Setting
from bench.table import Finding

RECORDS = (1_000, 10_000, 100_000, 1_000_000)
SLOTS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
NAP = 0.5  # seconds that each agent takes: they mostly wait, as real ones do
DOCS = os.path.join(ROOT, "docs")


def draw(setting: Setting) -> Iterator[Finding]:
    """Draws all curves; yields how the peak memory of each tool grows from the fewest to the most records."""
    times, sizes = _records(setting)
    _save("bench-seconds.svg", chart.draw("Seconds for so many records", "records", "s", times))
    _save("bench-memory.svg", chart.draw("Peak memory for so many records", "records", "MB", sizes))
    for time, size in zip(times, sizes, strict=True):
        (count, seconds), (_, peak) = time.points[-1], size.points[-1]
        yield Finding("curves", f"{time.name}, {count:,.0f} records", f"{count / seconds:,.0f}/s", peaks=f"{peak:.0f}")
    rates = _slots(setting)
    _save(
        "bench-agents.svg", chart.draw("Agents of half a second that end in a second", "at a time (-j)", "1/s", rates)
    )
    for rate in rates:
        slots, ended = rate.points[-1]
        yield Finding("curves", f"{rate.name}, {slots:.0f} agents at a time", f"{ended:,.0f}/s")


def _records(setting: Setting) -> tuple[list[Series], list[Series]]:
    """Returns seconds and peak memory of tools that read small records."""
    found: dict[str, list[tuple[float, Sample]]] = {}
    for count in (setting.size(count) for count in RECORDS):
        raw, graded = setting.file("tiny-raw", count), setting.file("small-results", count)
        jobs = {
            "ae-extract": Job([baselines.tool("ae-extract"), raw, "-s", "claude"]),
            "ae-grade": Job([baselines.tool("ae-grade"), graded, "-g", "ae-grader-hint"]),
            "ae-summarize": Job([baselines.tool("ae-summarize"), graded]),
            "ae-format -f csv": Job([baselines.tool("ae-format"), graded, "-f", "csv"]),
        }
        if peers.has("jq"):
            jobs["jq -c ."] = peers.jq(graded)
        for name, job in jobs.items():
            sample = measure.run(job)
            measure.measured.append(measure.figures(f"{name}, {count} records", job, [sample]))
            found.setdefault(name, []).append((count, sample))
    times = [Series(name, [(count, one.wall) for count, one in points]) for name, points in found.items()]
    return times, [Series(name, [(count, one.peak / MB) for count, one in points]) for name, points in found.items()]


def _slots(setting: Setting) -> list[Series]:
    """Returns how many agents end in a second, by how many run at a time; agents that wait half a second."""
    found: dict[str, list[tuple[float, float]]] = {}
    for slots in (slots for slots in SLOTS if not setting.quick or slots <= 50):
        count = max(4, 4 * slots)
        prompts = setting.file("prompts", count)
        agent = f"sh -c 'exec sleep {NAP}' {{}}"
        jobs = {
            "ae-run": Job([baselines.tool("ae-run"), prompts, "--simple", agent, "-j", str(slots)]),
            "xargs -P": Job(baselines.xargs(slots, "sh", "-c", f"exec sleep {NAP}"), stdin=f"{prompts}.items"),
        }
        for name, job in jobs.items():
            sample = measure.run(job)
            measure.measured.append(measure.figures(f"{name}, {slots} at a time", job, [sample]))
            found.setdefault(name, []).append((slots, count / sample.wall))
    ideal = Series("without any cost", [(slots, slots / NAP) for slots, _ in found["ae-run"]])
    return [*(Series(name, points) for name, points in found.items()), ideal]


def _save(name: str, drawing: str) -> None:
    with open(os.path.join(DOCS, name), "w", encoding="utf-8") as file:
        file.write(drawing)
