"""The start: extract of one record."""

from __future__ import annotations

import os
from collections.abc import Iterator

from bench import contestants, table
from bench.measure import Job, peak, ratio, take_turns
from bench.setting import Setting, seed_schema
from bench.table import Finding

STARTS = 5  # so many times the repeats: one start is short, and the clock of a busy machine coarse


def measure(setting: Setting) -> Iterator[Finding]:
    """The installed executable and the launcher in bin/ against the seed's harness."""
    raw = setting.file("small-raw", 1)
    launcher = os.path.join(contestants.ROOT, "bin", "ae-extract")
    jobs = {
        "ours": Job([contestants.tool("ae-extract"), raw, "-s", "claude"]),
        "bin": Job([launcher, raw, "-s", "claude"]),
    }
    if contestants.has_seed():
        jobs["seed"] = Job(contestants.seed("extract", raw, "-s", seed_schema()))
    jobs["python"] = Job([os.path.join(contestants.ROOT, ".venv", "bin", "python"), "-c", "pass"])
    found = take_turns(jobs, setting.repeat * STARTS)
    if "seed" in found:
        for name, called in (("ours", ".venv/bin/ae-extract"), ("bin", "bin/ae-extract")):
            peaks = table.against(peak(found[name]), peak(found["seed"]))
            yield table.of_ratio("start", f"{called} / seed", ratio(found[name], found["seed"]), 0.9, peaks)
    yield table.of_ratio("start", ".venv/bin/ae-extract / python -c pass", ratio(found["ours"], found["python"]), None)
