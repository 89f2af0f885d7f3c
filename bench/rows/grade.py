"""ae-grade: one process per record, and graders that take a line per record (--stream, Python and JavaScript)."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

from bench import findings, programs
from bench.findings import Estimate, Finding, at_least, at_most, either, estimate, ratio
from bench.measure import Job, Sample, peak, run_interleaved, seconds
from bench.programs import grader
from bench.setting import Setting

RECORDS = 2_000
TIMES = 0.7  # agent-eval-harness
BUSY_RECORDS, FASTER = 400, 1.7  # -j 2 than -j 1, with a grader that is bound by the CPU

STREAMED = 20_000
SINGLE = 200
RATE, MULTIPLE = 20_000, 50


def measure(setting: Setting) -> Iterator[Finding]:
    """ae-grade with a process per record, beside agent-eval-harness; -j 2 beside -j 1."""
    results = setting.file("results", setting.size(RECORDS))
    script = grader("fixed.sh")
    jobs = {
        "ours": Job([programs.tool("ae-grade"), results, "-g", script, "-j", "2"]),
        "xargs": Job(programs.xargs(2, script), stdin=f"{results}.items"),
    }
    if programs.has_harness():
        jobs["harness"] = Job(programs.harness("grade", results, "-g", script))
    found = run_interleaved(jobs, setting.repeat)
    ours = found["ours"]
    if "harness" in found:
        peaks = findings.side_by_side(peak(ours), peak(found["harness"]))
        against = ratio(ours, found["harness"])
        yield findings.of_ratio("grade", "ae-grade -j 2 / agent-eval-harness", against, TIMES, peaks)
    yield findings.of_ratio("grade", "ae-grade -j 2 / xargs -P 2", ratio(ours, found["xargs"]), None)
    yield _parallel(setting)


def _parallel(setting: Setting) -> Finding:
    """Compares -j 2 with -j 1 for a Python function that is bound by the CPU."""
    results = setting.file("results", setting.size(BUSY_RECORDS))
    command = [programs.tool("ae-grade"), results, "-g", grader("busy.py"), "-j"]
    found = run_interleaved({slots: Job([*command, slots]) for slots in "12"}, setting.repeat)
    faster = ratio(found["2"], found["1"]).clock.inverse()
    what = "-g busy.py, -j 1 / -j 2"
    return Finding("grade", what, findings.shown(faster), f">= {FASTER} x", at_least(faster, FASTER))


def measure_streams(setting: Setting) -> Iterator[Finding]:
    """ae-grade with graders that take a line per record: records per second.

    The goal is 20 000, or 50 times what the same grader reaches with one process per record.
    """
    count, few_count = setting.size(STREAMED), setting.size(SINGLE)
    loop = _loop_grader()
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
            peaks = findings.side_by_side(peak(samples))
            goal = f">={RATE // 1000}k|{MULTIPLE} x"
            yield Finding("stream", f"ae-grade {name}, {size} records", measured, goal, verdict, peaks=peaks)


def _shares(samples: list[Sample], count: int, singles: list[Sample], few: int) -> tuple[Estimate, Estimate]:
    """Returns the time as a share of that which the rate, and of that which the multiple of one process each allows."""
    walls = [sample.wall for sample in samples]
    multiple = [sample.wall * count / few / MULTIPLE for sample in singles]
    return estimate(walls, [count / RATE] * len(walls)), estimate(walls, multiple)


def _grade(records: str, *options: str) -> list[str]:
    return [programs.tool("ae-grade"), records, *options, "-g"]


def _path() -> str:
    return os.pathsep.join((os.path.join(programs.MODULES, ".bin"), os.environ.get("PATH", os.defpath)))


def _loop_grader() -> str:
    """Writes the looping grader with this interpreter in its #! line: a pyenv shim starts ten times as slowly."""
    path = programs.scratch("loop")
    with open(grader("loop.py"), encoding="utf-8") as source, open(path, "w", encoding="utf-8") as script:
        script.write(f"#!{sys.executable}\n{source.read()}")
    os.chmod(path, 0o755)
    return path
