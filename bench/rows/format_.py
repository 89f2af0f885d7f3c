"""ae-format -f csv and markdown, and both forms of ae-summarize, on 57 MB of results."""

from __future__ import annotations

from collections.abc import Iterator

from bench import baselines, table
from bench.measure import Job, peak, ratio, run_interleaved
from bench.setting import Setting
from bench.table import Finding

RESULTS = 20_000
COMMANDS = (("format", "-f", "csv"), ("format", "-f", "markdown"), ("summarize",), ("summarize", "--markdown"))


def measure(setting: Setting) -> Iterator[Finding]:
    """Compares each command with agent-eval-harness."""
    results = setting.file("results", setting.size(RESULTS))
    for words in COMMANDS:
        command, *options = words
        jobs = {"ours": Job([baselines.tool(f"ae-{command}"), results, *options])}
        if baselines.has_harness():
            jobs["harness"] = Job(baselines.harness(command, results, *options))
        found = run_interleaved(jobs, setting.repeat)
        ours = found["ours"]
        called = " ".join((f"ae-{command}", *options))
        if "harness" in found:
            peaks = table.against(peak(ours), peak(found["harness"]))
            against = ratio(ours, found["harness"])
            yield from table.of_both("format", f"{called} / agent-eval-harness", against, 1.0, peaks)
        yield table.of_memory("format", f"{called}, peak", peak(ours), 40)
