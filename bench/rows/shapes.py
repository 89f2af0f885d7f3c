"""ae-extract on 100 MB each of raw lines of several shapes."""

from __future__ import annotations

from collections.abc import Iterator

from bench import baselines, shapes, table
from bench.measure import Job, peak, ratio, run_interleaved
from bench.rows.extract import check_same
from bench.setting import Setting
from bench.table import Finding


def measure(setting: Setting) -> Iterator[Finding]:
    """Compares each shape with agent-eval-harness and bare orjson, by the same schema; measures memory."""
    for name, shape in shapes.SHAPES.items():
        raw, schema = shapes.make(setting.data_folder(), name, setting.size(shape.records))
        jobs = {"ours": Job([baselines.tool("ae-extract"), raw, "-s", schema])}
        if baselines.has_harness():
            jobs["harness"] = Job(baselines.harness("extract", raw, "-s", schema))
        if baselines.has_orjson():
            jobs["floor"] = Job(baselines.floor(raw, name, script="floor_shapes.py"))
            check_same(setting, jobs["ours"], jobs["floor"])
        found = run_interleaved(jobs, setting.repeat)
        ours = found["ours"]
        if "harness" in found:
            peaks = table.against(peak(ours), peak(found["harness"]))
            what = f"ae-extract, {name} / agent-eval-harness"
            yield table.of_ratio("shapes", what, ratio(ours, found["harness"]), 0.7, peaks)
        if "floor" in found:
            yield table.of_ratio("shapes", f"ae-extract, {name} / orjson floor", ratio(ours, found["floor"]), 1.5)
        yield table.of_memory("shapes", f"ae-extract, {name}, peak", peak(ours), 40)
