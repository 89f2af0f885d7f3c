"""Compare of two runs of 20 000 results."""

from __future__ import annotations

from collections.abc import Iterator

from bench import contestants, table
from bench.measure import Job, peak, ratio, take_turns
from bench.setting import Setting
from bench.table import Finding

RESULTS = 20_000


def measure(setting: Setting) -> Iterator[Finding]:
    """Against the seed's harness, both with 1000 bootstrap resamples."""
    count = setting.size(RESULTS)
    runs = [setting.file("results", count), setting.file("other-results", count)]
    jobs = {"ours": Job([contestants.tool("ae-compare"), *runs, "--strategy", "statistical"])}
    if contestants.has_seed():
        jobs["seed"] = Job(contestants.seed("compare", *runs, "--strategy", "statistical"))
    found = take_turns(jobs, setting.repeat)
    ours = found["ours"]
    if "seed" in found:
        peaks = table.against(peak(ours), peak(found["seed"]))
        yield table.of_ratio("compare", "ae-compare / seed", ratio(ours, found["seed"]), 0.4, peaks)
    yield table.of_memory("compare", f"ae-compare, peak at 2 x {count} results", peak(ours), 120)
