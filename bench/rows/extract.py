"""Extract of 100 MB of raw lines."""

from __future__ import annotations

import json
from collections.abc import Iterator

from bench import contestants, table
from bench.measure import Broken, Job, peak, ratio, run, take_turns
from bench.setting import Setting, seed_schema
from bench.table import Finding

RECORDS = 2_450  # 100 MB of raw lines
GROWTH = 1.1


def measure(setting: Setting) -> Iterator[Finding]:
    """Against the seed's harness and the orjson floor; memory at this and, with --large, at four times the size."""
    count = setting.size(RECORDS)
    raw = setting.file("raw", count)
    jobs = {"ours": _ours(raw)}
    if contestants.has_seed():
        jobs["seed"] = Job(contestants.seed("extract", raw, "-s", seed_schema()))
    if contestants.has_orjson():
        jobs["floor"] = Job(contestants.floor(raw))
        jobs["bare"] = Job(contestants.floor(raw, "--bare"))
        _check_same(setting, jobs["ours"], jobs["floor"])
    found = take_turns(jobs, setting.repeat)
    ours = found["ours"]
    if "seed" in found:
        peaks = table.against(peak(ours), peak(found["seed"]))
        yield table.of_ratio("extract", "ae-extract / seed", ratio(ours, found["seed"]), 0.7, peaks)
    if "floor" in found:
        yield table.of_ratio("extract", "ae-extract / orjson floor (same records)", ratio(ours, found["floor"]), 1.4)
        yield table.of_ratio("extract", "ae-extract / orjson, nothing put together", ratio(ours, found["bare"]), None)
    yield table.of_memory("extract", f"ae-extract, peak at {count} records", peak(ours), 40)
    if setting.large:
        yield _growth(setting, peak(ours), count * 4)


def _ours(raw: str) -> Job:
    return Job([contestants.tool("ae-extract"), raw, "-s", "claude"])


def _growth(setting: Setting, before: int, count: int) -> Finding:
    after = run(_ours(setting.file("raw", count))).peak
    grown = after / before
    what = f"ae-extract, peak at {count} records / at a quarter"
    peaks = table.against(after, before)
    return Finding("extract", what, f"{grown:.2f} x", f"<= {GROWTH} x", grown <= GROWTH, peaks=peaks)


def _check_same(setting: Setting, ours: Job, floor: Job) -> None:
    """A floor that writes something else is no floor."""
    paths = setting.scratch("ours.jsonl"), setting.scratch("floor.jsonl")
    for job, path in zip((ours, floor), paths, strict=True):
        run(job._replace(stdout=path))
    with open(paths[0], "rb") as mine, open(paths[1], "rb") as theirs:
        for number, (one, other) in enumerate(zip(mine, theirs, strict=True), 1):
            if json.loads(one) != json.loads(other):
                raise Broken(f"ae-extract and the floor differ in record {number}: {' and '.join(paths)}")
