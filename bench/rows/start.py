"""Start-up time: ae-extract of one record."""

from __future__ import annotations

import os
from collections.abc import Iterator

from bench import findings, programs
from bench.findings import Finding, ratio
from bench.measure import Job, peak, run_interleaved
from bench.setting import Setting

STARTS = 5  # rounds per --repeat: a single start is too short to time reliably
CLOCK, CPU = 1.25, 1.0


def measure(setting: Setting) -> Iterator[Finding]:
    """ae-extract of one record, installed and from bin/, beside agent-eval-harness."""
    raw = setting.file("small-raw", 1)
    ours = {
        ".venv/bin/ae-extract": programs.tool("ae-extract"),
        "bin/ae-extract": os.path.join(programs.ROOT, "bin", "ae-extract"),
    }
    jobs = {name: Job([path, raw, "-s", "claude"]) for name, path in ours.items()}
    jobs["python"] = Job([programs.tool("python"), "-c", "pass"])
    if programs.has_harness():
        jobs["harness"] = Job(programs.harness("extract", raw, "-s", programs.harness_schema()))
    found = run_interleaved(jobs, setting.repeat * STARTS)
    for name in ours if "harness" in found else ():
        what, against = f"{name} / agent-eval-harness", ratio(found[name], found["harness"])
        peaks = findings.side_by_side(peak(found[name]), peak(found["harness"]))
        yield findings.of_ratio("start", what, against, CLOCK, peaks)
        yield findings.of_cpu("start", what, against, CPU)
    for name in ours:
        yield findings.of_ratio("start", f"{name} / python -c pass", ratio(found[name], found["python"]), None)
