"""ae-ray on this machine, beside the same filter with as many slots and no Ray."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from statistics import median
from typing import NamedTuple

from bench import findings, programs
from bench import measure as measuring
from bench.findings import Finding
from bench.measure import Job, Sample
from bench.setting import Setting

SLOTS = 2
ROUNDS = 3  # at most: each of them starts a cluster for every filter
# filter → kind of record, how many, options; ae-extract has no -j
FILTERS: dict[str, tuple[str, int, Sequence[str]]] = {
    "ae-run": ("prompts", 2_000, ("--simple", "/bin/echo {}", "-j")),
    "ae-grade": ("small-results", 5_000, ("-g", "ae-grader-hint", "-j")),
    "ae-extract": ("tiny-raw", 5_000, ("-s", "claude")),
}


class Streamed(NamedTuple):
    """One run, watched at its output: seconds until the first record, and records per second from then on."""

    start: float
    rate: float
    sample: Sample


def measure(setting: Setting) -> Iterator[Finding]:
    """ae-ray beside the same filter alone: seconds until the first record, and records per second after it."""
    if missing():
        return
    for name, (kind, full, options) in FILTERS.items():
        if setting.quick and name != "ae-run":
            return  # every filter starts a cluster, which takes seconds
        records = setting.file(kind, setting.size(full))
        plain = Job([programs.tool(name), records, *_with_slots(options, SLOTS)])
        local = [programs.tool("ae-ray"), records, "--address", "local", "-j", str(SLOTS), "--"]
        on_ray = Job([*local, programs.tool(name), *_with_slots(options, 1)])
        rounds = [(stream(on_ray), stream(plain)) for _ in range(min(setting.repeat, ROUNDS))]
        for called, job, found in zip(
            (f"ae-ray, {name}", name), (on_ray, plain), zip(*rounds, strict=True), strict=True
        ):
            measuring.measured.append(measuring.figures(called, job, [one.sample for one in found]))
        yield from _findings(f"ae-ray -j {SLOTS} -- {name}", rounds)


def _findings(called: str, rounds: Sequence[tuple[Streamed, Streamed]]) -> Iterator[Finding]:
    ours, plain = zip(*rounds, strict=True)
    peaks = findings.side_by_side(*(measuring.peak([one.sample for one in found]) for found in (ours, plain)))
    start = median(one.start for one in ours), median(one.start for one in plain)
    rate = median(one.rate for one in ours), median(one.rate for one in plain)
    yield Finding("ray", f"{called}, first record / alone", f"{start[0]:.1f} s / {start[1]:.1f} s")
    yield Finding("ray", f"{called}, after it / alone", f"{rate[0]:.0f}/s / {rate[1]:.0f}/s", peaks=peaks)


def missing() -> list[str]:
    """Returns a line if Ray is not installed: it is an extra, not a peer, so the bench does not install it."""
    return [] if _has_ray() else ["Ray is not installed (pip install 'agenteval[ray]')"]


@cache
def _has_ray() -> bool:
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('ray') is None)"
    return subprocess.run([programs.tool("python"), "-P", "-c", code]).returncode == 0


def _with_slots(options: Sequence[str], slots: int) -> list[str]:
    return [*options, str(slots)] if options[-1] == "-j" else [*options]


def stream(job: Job) -> Streamed:
    """Runs a job and notes when its first and its last record come."""
    begin = time.perf_counter()
    first = last = 0.0
    before = after = 0
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(job.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr)
        assert process.stdout is not None
        while chunk := os.read(process.stdout.fileno(), 1 << 16):
            last = time.perf_counter()
            if first:
                after += chunk.count(b"\n")
            else:
                first, before = last, chunk.count(b"\n")
        process.stdout.close()
        sample = measuring.reap(process, begin)
        if process.returncode != 0:
            raise measuring.failure(job, process.returncode, stderr)
    return Streamed(first - begin, after / (last - first) if after else before / sample.wall, sample)
