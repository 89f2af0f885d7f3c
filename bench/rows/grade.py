"""ae-grade on 2 000 records, one process each."""

from __future__ import annotations

from collections.abc import Iterator

from bench import baselines, table
from bench.estimate import at_least
from bench.measure import MB, Job, peak, ratio, run_interleaved, watch
from bench.setting import Setting, grader
from bench.table import Finding

RECORDS = 2_000
SLOTS = (1, 2, 4, 8)
BUSY_RECORDS = 400
FASTER = 1.7  # -j 2 than -j 1, with a grader that is bound by the CPU


def measure(setting: Setting) -> Iterator[Finding]:
    """Compares with xargs -P N, which passes each record as an argument, and with agent-eval-harness at -j 2."""
    results = setting.file("results", setting.size(RECORDS))
    script = grader("fixed.sh")
    for slots in SLOTS:
        jobs = {
            "ours": Job([baselines.tool("ae-grade"), results, "-g", script, "-j", str(slots)]),
            "xargs": Job(baselines.xargs(slots, script), stdin=f"{results}.items"),
        }
        if slots == 2 and baselines.has_harness():
            jobs["harness"] = Job(baselines.harness("grade", results, "-g", script))
        found = run_interleaved(jobs, setting.repeat)
        ours = found["ours"]
        peaks = table.against(peak(ours))
        what = f"ae-grade -j {slots} / xargs -P {slots}"
        against = ratio(ours, found["xargs"])
        yield table.of_ratio("grade", what, against, 1.3, peaks)
        yield table.of_cpu("grade", what, against, 1.15)
        if "harness" in found:
            peaks = table.against(peak(ours), peak(found["harness"]))
            yield table.of_ratio(
                "grade", "ae-grade -j 2 / agent-eval-harness", ratio(ours, found["harness"]), 0.6, peaks
            )
    yield _busy(setting)
    own, guardian = watch(jobs["ours"])
    yield Finding("grade", "peak of ae-grade alone, and of its guardian", f"{own / MB:.1f} MB, {guardian / MB:.1f} MB")


def _busy(setting: Setting) -> Finding:
    """Compares -j 2 with -j 1 for a Python function that is bound by the CPU."""
    results = setting.file("results", setting.size(BUSY_RECORDS))
    command = [baselines.tool("ae-grade"), results, "-g", grader("busy.py"), "-j"]
    found = run_interleaved({slots: Job([*command, slots]) for slots in "12"}, setting.repeat)
    gained = ratio(found["2"], found["1"])
    faster = gained.clock.inverse()
    what = "-g busy.py, -j 1 / -j 2"
    return Finding(
        "grade", what, table.shown(faster), f">= {FASTER} x", at_least(faster, FASTER), f"{1 / gained.cpu.middle:.2f}"
    )
