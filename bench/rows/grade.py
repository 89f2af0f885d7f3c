"""ae-grade on 2 000 records, one process each."""

from __future__ import annotations

from collections.abc import Iterator

from bench import baselines, table
from bench.measure import MB, Job, peak, ratio, run_interleaved, watch
from bench.setting import Setting, grader
from bench.table import Finding

RECORDS = 2_000
SLOTS = (1, 2, 4)


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
        yield table.of_ratio("grade", what, ratio(ours, found["xargs"]), 1.3, peaks)
        if "harness" in found:
            peaks = table.against(peak(ours), peak(found["harness"]))
            yield table.of_ratio(
                "grade", "ae-grade -j 2 / agent-eval-harness", ratio(ours, found["harness"]), 0.5, peaks
            )
    own, guardian = watch(jobs["ours"])
    yield Finding("grade", "peak of ae-grade alone, and of its guardian", f"{own / MB:.1f} MB, {guardian / MB:.1f} MB")
