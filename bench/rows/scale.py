"""Ten times the input: the time of every tool is linear and its memory flat, alone and in a pipeline."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench import findings
from bench.findings import Finding, Ratio, met, ratio
from bench.measure import Job, JobFailed, peak, reap, run_interleaved
from bench.programs import tool
from bench.setting import Setting

TIMES = 10
LONGER = 1.15  # of the time for a tenth, times ten
GROWTH = 1.1  # of memory
PIPELINE_RECORDS = 100_000


class Work(NamedTuple):
    """A tool, the kind and number of its records, and its options."""

    name: str
    kind: str
    records: int
    options: Sequence[str] = ()
    keeps_rows: bool = False  # whether it has to keep a row or an id of each record


ECHO = ("--simple", "/bin/echo {}", "-j", "2")
WORK = (
    Work("ae-run", "prompts", 3_000, ECHO),
    Work("ae-capture", "prompts", 3_000, (*ECHO, "-g", "ae-grader-hint")),
    Work("ae-trials", "prompts", 1_000, (*ECHO, "-k", "3", "-g", "ae-grader-hint")),
    Work("ae-extract", "small-raw", 20_000, ("-s", "claude")),
    Work("ae-grade", "results", 20_000, ("-g", "ae-grader-hint")),
    Work("ae-grader-hint", "results", 20_000),
    Work("ae-grader-tools", "results", 20_000, ("--require", "Bash")),
    Work("ae-summarize", "results", 20_000),
    Work("ae-format", "results", 20_000, ("-f", "csv")),
    Work("ae-format", "results", 20_000, ("-f", "markdown")),
    Work("ae-format", "results", 20_000, ("-f", "table")),
    Work("ae-format", "results", 20_000, ("-f", "junit")),
    Work("ae-format", "results", 20_000, ("-f", "html")),
    Work("ae-show", "results", 20_000),
    Work("ae-calibrate", "results", 20_000),
    Work("ae-gate", "results", 20_000, ("--min", "passRate=0"), keeps_rows=True),  # ids, to report repeated ones
    Work("ae-balance", "prompts", 100_000, keeps_rows=True),
    Work("ae-merge", "results", 20_000, keeps_rows=True),
    Work("ae-score", "results", 20_000, keeps_rows=True),
    Work("ae-compare", "results", 20_000, keeps_rows=True),
)


def measure(setting: Setting) -> Iterator[Finding]:
    """Every tool on ten times the input: time per record and peak memory, beside those of a tenth."""
    for work in WORK:
        many = setting.size(work.records)
        sizes = {"many": many, "few": many // TIMES}
        found = run_interleaved({name: _job(setting, work, size) for name, size in sizes.items()}, setting.repeat)
        called = " ".join([work.name, *(option for option in work.options if option.startswith("-f"))])
        called += f" {work.options[-1]}" if called.endswith("-f") else ""
        longer = ratio(found["many"], found["few"])
        per_record = Ratio(*(part.divided(TIMES) for part in longer))
        peaks = findings.side_by_side(peak(found["many"]), peak(found["few"]))
        what = f"{called}, time per record: {many:,} / {sizes['few']:,} records"
        yield findings.of_ratio("scale", what, per_record, LONGER, peaks)
        if not work.keeps_rows:
            before, after = ([sample.peak for sample in found[name]] for name in ("few", "many"))
            yield _growth("scale", f"{called}, peak memory: the same", max(after), before)


def _job(setting: Setting, work: Work, count: int) -> Job:
    files = [setting.file(work.kind, count)]
    if work.name == "ae-compare":
        files.append(setting.file("other-results", count))
    return Job([tool(work.name), *files, *work.options])


def _growth(row: str, what: str, after: int, before: Sequence[int]) -> Finding:
    """Returns how memory grows; how full buffers become differs between runs, so their spread counts as noise."""
    grown, noise = after / max(before), (max(before) - min(before)) / max(before)
    verdict = "noise" if GROWTH < grown <= GROWTH + noise else met(grown <= GROWTH)
    peaks = findings.side_by_side(after, max(before))
    return Finding(row, what, f"{grown:.2f} x ±{noise:.2f}", f"<= {GROWTH} x", verdict, peaks=peaks)


def measure_pipeline(setting: Setting) -> Iterator[Finding]:
    """The peak memory of each stage of ae-extract | ae-grade | ae-format, on ten times the input."""
    many = setting.size(PIPELINE_RECORDS)
    few = many // TIMES
    after = _peaks(setting.file("small-raw", many))
    before = [_peaks(setting.file("small-raw", few)) for _ in range(setting.repeat)]
    for name, size in after.items():
        what = f"{name} in a pipeline, peak memory: {many:,} / {few:,} records"
        yield _growth("pipeline", what, size, [peaks[name] for peaks in before])


def _peaks(raw: str) -> dict[str, int]:
    """Returns the peak of each stage in bytes."""
    stages = {
        "cat": ["cat", raw],
        "ae-extract": [tool("ae-extract"), "-s", "claude"],
        "ae-grade": [tool("ae-grade"), "-g", "ae-grader-hint"],
        "ae-format": [tool("ae-format"), "-f", "csv"],
    }
    running: dict[str, subprocess.Popen[bytes]] = {}
    source: int = subprocess.DEVNULL
    last = list(stages)[-1]
    for name, argv in stages.items():
        sink = subprocess.DEVNULL if name == last else subprocess.PIPE
        process = subprocess.Popen(argv, stdin=source, stdout=sink)
        if source != subprocess.DEVNULL:
            os.close(source)  # our copy would keep the pipe open after its reader has exited
        if process.stdout is not None:
            source = os.dup(process.stdout.fileno())
            process.stdout.close()
        running[name] = process
    start = time.perf_counter()
    found = {name: reap(process, start).peak for name, process in running.items()}
    if bad := [name for name, process in running.items() if process.returncode]:
        raise JobFailed(f"{', '.join(bad)} failed")
    del found["cat"]
    return found
