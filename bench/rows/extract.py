"""ae-extract of 100 MB of raw lines: a transcript of Claude Code, and the five shapes of shapes.py."""

from __future__ import annotations

import json
from collections.abc import Iterator

from bench import findings, programs, shapes
from bench.findings import Finding, ratio
from bench.measure import Job, JobFailed, peak, run, run_interleaved
from bench.setting import Setting

RECORDS = 2_450  # 100 MB of raw lines
CLOCK, CPU = 0.9, 1.0  # of agent-eval-harness
FLOOR = 2.0  # of the CPU time of the orjson version
MEMORY = 40
# As most users have: ae-extract looks for it in all that it writes.
KEY = {"OPENAI_API_KEY": "sk-proj-4Qv0mJr8Zt2Lx6Yb1Nd9Kc3Hf7Gs5Pw"}


def measure(setting: Setting) -> Iterator[Finding]:
    """ae-extract of 100 MB of each kind of data, beside agent-eval-harness and bare orjson; peak memory."""
    raw = setting.file("raw", setting.size(RECORDS))
    yield from _measure(setting, "claude", raw, "claude", programs.harness_schema())
    for name, shape in shapes.SHAPES.items():
        raw, schema = shapes.make(setting.data_folder(), name, setting.size(shape.records))
        yield from _measure(setting, name, raw, schema, schema)


def _measure(setting: Setting, name: str, raw: str, schema: str, harness_schema: str) -> Iterator[Finding]:
    jobs = {"ours": Job([programs.tool("ae-extract"), raw, "-s", schema], env=KEY)}
    if programs.has_harness():
        jobs["harness"] = Job(programs.harness("extract", raw, "-s", harness_schema))
    if programs.has_orjson():
        jobs["floor"] = Job(programs.floor(raw, name))
        _check_same(jobs["ours"], jobs["floor"])
    found = run_interleaved(jobs, setting.repeat)
    ours = found["ours"]
    if "harness" in found:
        what, against = f"{name}: ae-extract / agent-eval-harness", ratio(ours, found["harness"])
        peaks = findings.side_by_side(peak(ours), peak(found["harness"]))
        yield findings.of_ratio("extract", what, against, CLOCK, peaks)
        yield findings.of_cpu("extract", what, against, CPU)
    if "floor" in found:
        yield findings.of_cpu("extract", f"{name}: ae-extract / orjson floor", ratio(ours, found["floor"]), FLOOR)
    yield findings.of_memory("extract", f"{name}: ae-extract, peak", peak(ours), MEMORY)


def _check_same(ours: Job, floor: Job) -> None:
    """Checks that the orjson version writes the same records as ae-extract: otherwise the ratio means nothing."""
    paths = programs.scratch("ours.jsonl"), programs.scratch("floor.jsonl")
    for job, path in zip((ours, floor), paths, strict=True):
        run(job._replace(stdout=path))
    with open(paths[0], "rb") as mine, open(paths[1], "rb") as theirs:
        for number, (one, other) in enumerate(zip(mine, theirs, strict=True), 1):
            if json.loads(one) != json.loads(other):
                raise JobFailed(f"ae-extract and the floor differ in record {number}: {' and '.join(paths)}")
