"""ae-extract on 100 MB each of raw lines of several shapes."""

from __future__ import annotations

from collections.abc import Iterator

from bench import baselines, shapes, table
from bench.measure import Job, Sample, peak, ratio, run_interleaved
from bench.rows.extract import check_same
from bench.setting import Setting
from bench.table import Finding

SECRETS = {"without a secret": "", "with a secret": "sk-proj-4Qv0mJr8Zt2Lx6Yb1Nd9Kc3Hf7Gs5Pw"}  # in the environment


def measure(setting: Setting) -> Iterator[Finding]:
    """Compares each shape with agent-eval-harness and bare orjson, by the same schema; measures memory.

    Most users have a key in the environment, which ae-extract then looks for in all that it writes.
    """
    for name, shape in shapes.SHAPES.items():
        raw, schema = shapes.make(setting.data_folder(), name, setting.size(shape.records))
        ours = Job([baselines.tool("ae-extract"), raw, "-s", schema])
        alone = ours._replace(argv=[*ours.argv, "-j", "1"])
        jobs = {called: ours._replace(env={"OPENAI_API_KEY": secret}) for called, secret in SECRETS.items()}
        jobs |= {f"{called} -j 1": alone._replace(env={"OPENAI_API_KEY": secret}) for called, secret in SECRETS.items()}
        if baselines.has_harness():
            jobs["harness"] = Job(baselines.harness("extract", raw, "-s", schema))
        if baselines.has_orjson():
            jobs["floor"] = Job(baselines.floor(raw, name, script="floor_shapes.py"))
            check_same(setting, ours, jobs["floor"])
        found = run_interleaved(jobs, setting.repeat)
        for called in SECRETS:
            yield from _compare(f"{name} {called}", found[called], found[f"{called} -j 1"], found)


def _compare(called: str, ours: list[Sample], alone: list[Sample], found: dict[str, list[Sample]]) -> Iterator[Finding]:
    if "harness" in found:
        peaks = table.against(peak(ours), peak(found["harness"]))
        against = ratio(ours, found["harness"]), ratio(alone, found["harness"])
        yield from table.of_several("shapes", f"{called} / agent-eval-harness", *against, 0.7, peaks)
    if "floor" in found:
        against = ratio(ours, found["floor"]), ratio(alone, found["floor"])
        yield from table.of_several("shapes", f"{called} / orjson floor", *against, 1.5)
    yield table.of_memory("shapes", f"{called}, peak", peak(ours), 40)
