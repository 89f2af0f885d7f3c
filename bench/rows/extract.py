"""ae-extract on 100 MB of raw lines."""

from __future__ import annotations

import json
from collections.abc import Iterator

from bench import baselines, table
from bench.estimate import met
from bench.measure import Job, JobFailed, peak, ratio, run, run_interleaved
from bench.setting import Setting, harness_schema
from bench.table import Finding

RECORDS = 2_450  # 100 MB of raw lines
GROWTH = 1.1


def measure(setting: Setting) -> Iterator[Finding]:
    """Compares with agent-eval-harness and bare orjson; measures memory, with --large also at four times the size."""
    count = setting.size(RECORDS)
    raw = setting.file("raw", count)
    jobs = {"ours": _ours(raw), "alone": _ours(raw, "-j", "1")}
    if baselines.has_harness():
        jobs["harness"] = Job(baselines.harness("extract", raw, "-s", harness_schema()))
    if baselines.has_orjson():
        jobs["floor"] = Job(baselines.floor(raw))
        jobs["bare"] = Job(baselines.floor(raw, "--bare"))
        check_same(setting, jobs["ours"], jobs["floor"])
    found = run_interleaved(jobs, setting.repeat)
    ours, alone = found["ours"], found["alone"]
    if "harness" in found:
        peaks = table.against(peak(ours), peak(found["harness"]))
        against = ratio(ours, found["harness"]), ratio(alone, found["harness"])
        yield from table.of_several("extract", "ae-extract / agent-eval-harness", *against, 0.7, peaks)
    if "floor" in found:
        what = "ae-extract / orjson floor (same records)"
        yield from table.of_several("extract", what, ratio(ours, found["floor"]), ratio(alone, found["floor"]), 1.4)
        yield table.of_ratio("extract", "ae-extract / orjson, parsing only", ratio(ours, found["bare"]), None)
    yield table.of_memory("extract", f"ae-extract, peak at {count} records", peak(ours), 40)
    if setting.large:
        yield _growth(setting, peak(ours), count * 4)


def _ours(raw: str, *options: str) -> Job:
    return Job([baselines.tool("ae-extract"), raw, "-s", "claude", *options])


def _growth(setting: Setting, before: int, count: int) -> Finding:
    after = run(_ours(setting.file("raw", count))).peak
    grown = after / before
    what = f"ae-extract, peak at {count} records / at a quarter"
    peaks = table.against(after, before)
    return Finding("extract", what, f"{grown:.2f} x", f"<= {GROWTH} x", met(grown <= GROWTH), peaks=peaks)


def check_same(setting: Setting, ours: Job, floor: Job) -> None:
    """Checks that the orjson version writes the same records as ae-extract: otherwise the ratio means nothing."""
    paths = setting.scratch("ours.jsonl"), setting.scratch("floor.jsonl")
    for job, path in zip((ours, floor), paths, strict=True):
        run(job._replace(stdout=path))
    with open(paths[0], "rb") as mine, open(paths[1], "rb") as theirs:
        for number, (one, other) in enumerate(zip(mine, theirs, strict=True), 1):
            if json.loads(one) != json.loads(other):
                raise JobFailed(f"ae-extract and the floor differ in record {number}: {' and '.join(paths)}")
