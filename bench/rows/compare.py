"""ae-compare on two runs of 20 000 results."""

from __future__ import annotations

from collections.abc import Iterator

from bench import baselines, table
from bench.measure import Job, peak, ratio, run_interleaved
from bench.setting import Setting
from bench.table import Finding

RESULTS = 20_000


def measure(setting: Setting) -> Iterator[Finding]:
    """Compares with agent-eval-harness, both with 1000 bootstrap resamples."""
    count = setting.size(RESULTS)
    runs = [setting.file("results", count), setting.file("other-results", count)]
    jobs = {"ours": Job([baselines.tool("ae-compare"), *runs, "--strategy", "statistical"])}
    if baselines.has_harness():
        jobs["harness"] = Job(baselines.harness("compare", *runs, "--strategy", "statistical"))
    found = run_interleaved(jobs, setting.repeat)
    ours = found["ours"]
    if "harness" in found:
        peaks = table.against(peak(ours), peak(found["harness"]))
        yield table.of_ratio("compare", "ae-compare / agent-eval-harness", ratio(ours, found["harness"]), 0.4, peaks)
    yield table.of_memory("compare", f"ae-compare, peak at 2 x {count} results", peak(ours), 120)
