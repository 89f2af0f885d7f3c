"""Reports of 20 000 results (57 MB): ae-compare of two such runs, ae-format and ae-summarize."""

from __future__ import annotations

from collections.abc import Iterator

from bench import findings, programs
from bench.findings import Finding, ratio
from bench.measure import Job, peak, run_interleaved
from bench.setting import Setting

RESULTS = 20_000
COMPARE, COMPARE_MEMORY = 0.7, 120
FORMS = (("format", "-f", "csv"), ("format", "-f", "markdown"), ("summarize",), ("summarize", "--markdown"))
FORM, FORM_MEMORY = 1.0, 40


def measure_compare(setting: Setting) -> Iterator[Finding]:
    """ae-compare of two runs, beside agent-eval-harness; both with 1000 bootstrap resamples."""
    count = setting.size(RESULTS)
    runs = [setting.file("results", count), setting.file("other-results", count)]
    yield from _measure(setting, "compare", ["compare", *runs, "--strategy", "statistical"], COMPARE, COMPARE_MEMORY)


def measure_forms(setting: Setting) -> Iterator[Finding]:
    """ae-format and ae-summarize, beside agent-eval-harness; peak memory."""
    results = setting.file("results", setting.size(RESULTS))
    for command, *options in FORMS:
        yield from _measure(setting, "format", [command, results, *options], FORM, FORM_MEMORY)


def _measure(setting: Setting, row: str, words: list[str], goal: float, memory: int) -> Iterator[Finding]:
    command, *arguments = words
    jobs = {"ours": Job([programs.tool(f"ae-{command}"), *arguments])}
    if programs.has_harness():
        jobs["harness"] = Job(programs.harness(command, *arguments))
    found = run_interleaved(jobs, setting.repeat)
    ours = found["ours"]
    called = " ".join([f"ae-{command}", *(word for word in arguments if "/" not in word)])
    if "harness" in found:
        peaks = findings.side_by_side(peak(ours), peak(found["harness"]))
        yield findings.of_ratio(row, f"{called} / agent-eval-harness", ratio(ours, found["harness"]), goal, peaks)
    yield findings.of_memory(row, f"{called}, peak", peak(ours), memory)
