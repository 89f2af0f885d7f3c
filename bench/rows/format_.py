"""Format -f csv and summarize of 57 MB of results."""

from __future__ import annotations

from collections.abc import Iterator

from bench import contestants, table
from bench.measure import Job, peak, ratio, take_turns
from bench.setting import Setting
from bench.table import Finding

RESULTS = 20_000
COMMANDS = (("format", "-f", "csv"), ("summarize",))
NO_GOAL = (("summarize", "--markdown"),)  # ours escapes what it shows, the seed's does not


def measure(setting: Setting) -> Iterator[Finding]:
    """Each against the seed's harness."""
    results = setting.file("results", setting.size(RESULTS))
    for words in (*COMMANDS, *NO_GOAL):
        command, *options = words
        jobs = {"ours": Job([contestants.tool(f"ae-{command}"), results, *options])}
        if contestants.has_seed():
            jobs["seed"] = Job(contestants.seed(command, results, *options))
        found = take_turns(jobs, setting.repeat)
        ours = found["ours"]
        called = " ".join((f"ae-{command}", *options))
        if "seed" in found:
            peaks = table.against(peak(ours), peak(found["seed"]))
            goal = 1.0 if words in COMMANDS else None
            yield table.of_ratio("format", f"{called} / seed", ratio(ours, found["seed"]), goal, peaks)
        yield table.of_memory("format", f"{called}, peak", peak(ours), 40)
