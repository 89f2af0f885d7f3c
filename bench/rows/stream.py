"""ae-grade with long-lived graders: --stream, Python and JavaScript functions."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from bench import baselines, table
from bench.estimate import Estimate, at_most, either, estimate
from bench.measure import Job, Sample, peak, run_interleaved, seconds
from bench.setting import Setting, grader, loop_grader
from bench.table import Finding

RECORDS = 20_000
SINGLE = 200
RATE = 20_000
TIMES = 50


def measure(setting: Setting) -> Iterator[Finding]:
    """Measures records per second; the goal is 20 000, or 50 times the same grader with one process per record."""
    count, few_count = setting.size(RECORDS), setting.size(SINGLE)
    loop = loop_grader(setting)
    for kind, size in (("results", "2.9 KB"), ("small-results", "110 B")):
        records, few = setting.file(kind, count), setting.file(kind, few_count)
        jobs = {
            "single": Job([*_grade(few), loop]),
            "alone": Job([loop], stdin=records),
            "--stream": Job([*_grade(records, "--stream"), loop]),
            "Python function": Job([*_grade(records), grader("hosted.py")]),
        }
        if runtime := next((name for name in ("bun", "node") if shutil.which(name, path=_path())), None):
            jobs[f"JavaScript ({runtime})"] = Job([*_grade(records), grader("hosted.mjs")], env={"PATH": _path()})
        found = run_interleaved(jobs, setting.repeat)
        singles = found.pop("single")
        single = few_count / seconds(singles)
        yield Finding("stream", f"the grader alone, {size} records", f"{count / seconds(found.pop('alone')):.0f}/s")
        for name, samples in found.items():
            rate = count / seconds(samples)
            verdict = either(*(at_most(one, 1) for one in _shares(samples, count, singles, few_count)))
            measured = f"{rate:.0f}/s, {rate / single:.0f} x"
            peaks = table.against(peak(samples))
            goal = f">={RATE // 1000}k|{TIMES} x"
            yield Finding("stream", f"ae-grade {name}, {size} records", measured, goal, verdict, peaks=peaks)


def _shares(samples: list[Sample], count: int, singles: list[Sample], few: int) -> tuple[Estimate, Estimate]:
    """Returns the time as a share of that which the rate, and of that which the multiple of one process each allows."""
    walls = [sample.wall for sample in samples]
    multiple = [sample.wall * count / few / TIMES for sample in singles]
    return estimate(walls, [count / RATE] * len(walls)), estimate(walls, multiple)


def _grade(records: str, *options: str) -> list[str]:
    return [baselines.tool("ae-grade"), records, *options, "-g"]


def _path() -> str:
    return os.pathsep.join((os.path.join(baselines.MODULES, ".bin"), os.environ.get("PATH", os.defpath)))
