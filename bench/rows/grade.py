"""Grade of 2 000 records, one process each."""

from __future__ import annotations

from collections.abc import Iterator

from bench import contestants, table
from bench.measure import MB, Job, peak, ratio, take_turns, watch
from bench.setting import Setting, grader
from bench.table import Finding

RECORDS = 2_000
SLOTS = (1, 2, 4)


def measure(setting: Setting) -> Iterator[Finding]:
    """Against xargs -P N, which hands each record over as an argument, and against the seed's harness at -j 2."""
    results = setting.file("results", setting.size(RECORDS))
    script = grader("fixed.sh")
    for slots in SLOTS:
        jobs = {
            "ours": Job([contestants.tool("ae-grade"), results, "-g", script, "-j", str(slots)]),
            "xargs": Job(contestants.xargs(slots, script), stdin=f"{results}.items"),
        }
        if slots == 2 and contestants.has_seed():
            jobs["seed"] = Job(contestants.seed("grade", results, "-g", script))
        found = take_turns(jobs, setting.repeat)
        ours = found["ours"]
        peaks = table.against(peak(ours))
        what = f"ae-grade -j {slots} / xargs -P {slots}"
        yield table.of_ratio("grade", what, ratio(ours, found["xargs"]), 1.3, peaks)
        if "seed" in found:
            peaks = table.against(peak(ours), peak(found["seed"]))
            yield table.of_ratio("grade", "ae-grade -j 2 / seed", ratio(ours, found["seed"]), 0.5, peaks)
    own, guardian = watch(jobs["ours"])
    yield Finding("grade", "peak of ae-grade alone, and of its guardian", f"{own / MB:.1f} MB, {guardian / MB:.1f} MB")
