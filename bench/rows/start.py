"""Start-up time: ae-extract on one record."""

from __future__ import annotations

import os
from collections.abc import Iterator

from bench import baselines, table
from bench.measure import Job, peak, ratio, run_interleaved
from bench.setting import Setting, harness_schema
from bench.table import Finding

STARTS = 5  # rounds per --repeat: a single start is too short to time reliably on a busy machine


def measure(setting: Setting) -> Iterator[Finding]:
    """Compares the installed executable and the launcher in bin/ with agent-eval-harness."""
    raw = setting.file("small-raw", 1)
    launcher = os.path.join(baselines.ROOT, "bin", "ae-extract")
    jobs = {
        "ours": Job([baselines.tool("ae-extract"), raw, "-s", "claude"]),
        "bin": Job([launcher, raw, "-s", "claude"]),
    }
    if baselines.has_harness():
        jobs["harness"] = Job(baselines.harness("extract", raw, "-s", harness_schema()))
    jobs["python"] = Job([os.path.join(baselines.ROOT, ".venv", "bin", "python"), "-c", "pass"])
    found = run_interleaved(jobs, setting.repeat * STARTS)
    if "harness" in found:
        for name, called in (("ours", ".venv/bin/ae-extract"), ("bin", "bin/ae-extract")):
            peaks = table.against(peak(found[name]), peak(found["harness"]))
            yield table.of_ratio(
                "start", f"{called} / agent-eval-harness", ratio(found[name], found["harness"]), 0.85, peaks
            )
    yield table.of_ratio("start", ".venv/bin/ae-extract / python -c pass", ratio(found["ours"], found["python"]), None)
