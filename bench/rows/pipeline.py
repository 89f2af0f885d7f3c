"""Peak memory of each stage of a pipeline at 10 000 and at 100 000 records."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

from bench import table
from bench.baselines import tool
from bench.estimate import met
from bench.measure import JobFailed, reap
from bench.setting import Setting
from bench.table import Finding

RECORDS = 100_000
GROWTH = 1.1


def measure(setting: Setting) -> Iterator[Finding]:
    """Checks that ae-extract | ae-grade | ae-format need no more memory for ten times the records.

    How full the buffers between processes become differs from run to run: the largest peak of some short runs counts.
    """
    many = setting.size(RECORDS)
    few = many // 10
    after = _peaks(setting.file("small-raw", many))
    short = [_peaks(setting.file("small-raw", few)) for _ in range(setting.repeat)]
    for name, peak in after.items():
        before = [peaks[name] for peaks in short]
        grown, noise = peak / max(before), (max(before) - min(before)) / max(before)
        what = f"{name}, peak at {many} records / at {few}"
        verdict = "noise" if GROWTH < grown <= GROWTH + noise else met(grown <= GROWTH)
        peaks = table.against(peak, max(before))
        yield Finding("pipeline", what, f"{grown:.2f} x ±{noise:.2f}", f"<= {GROWTH} x", verdict, peaks=peaks)


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
