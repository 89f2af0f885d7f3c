"""Format -f csv and summarize of 57 MB of results."""

from __future__ import annotations

import os
from collections.abc import Iterator

from bench import contestants, table
from bench.measure import Job, peak, ratio, take_turns
from bench.setting import Setting
from bench.table import Finding

RESULTS = 20_000
COMMANDS = {"ae-format": ("format", "-f", "csv"), "ae-summarize": ("summarize",)}


def measure(setting: Setting) -> Iterator[Finding]:
    """Each against the seed's harness; a tool that is not there yet is passed over."""
    results = setting.file("results", setting.size(RESULTS))
    for name, (command, *options) in COMMANDS.items():
        if not os.path.exists(contestants.tool(name)):
            yield Finding("format", f"{name}: not there yet", "-")
            continue
        jobs = {"ours": Job([contestants.tool(name), results, *options])}
        if contestants.has_seed():
            jobs["seed"] = Job(contestants.seed(command, results, *options))
        found = take_turns(jobs, setting.repeat)
        ours = found["ours"]
        called = " ".join((name, *options))
        if "seed" in found:
            peaks = table.against(peak(ours), peak(found["seed"]))
            yield table.of_ratio("format", f"{called} / seed", ratio(ours, found["seed"]), 1.0, peaks)
        yield table.of_memory("format", f"{called}, peak", peak(ours), 40)
