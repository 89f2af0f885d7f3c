"""Measures single processes, and several commands in interleaved rounds."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, NamedTuple

MB = 1 << 20
LIMIT = 600.0  # seconds after which a job is ended, and counts as failed
verbose = False  # print every sample on stderr
measured: list[dict[str, object]] = []  # every command of the interleaved runs with its samples, for results.json


class Job(NamedTuple):
    """A command to be measured; its output is discarded unless `stdout` names a file."""

    argv: Sequence[str]
    stdin: str = os.devnull
    stdout: str = os.devnull
    env: Mapping[str, str] = {}


class Sample(NamedTuple):
    """One run: wall-clock seconds, CPU seconds (children included), peak resident bytes."""

    wall: float
    cpu: float
    peak: int


class JobFailed(Exception):
    """A job exited with an error, so there is nothing to measure."""


def run(job: Job) -> Sample:
    """Runs the job to completion; raises JobFailed with the tail of its stderr on a non-zero exit code."""
    with open(job.stdin, "rb") as stdin, open(job.stdout, "wb") as stdout, tempfile.TemporaryFile() as stderr:
        start = time.perf_counter()
        process = subprocess.Popen(job.argv, stdin=stdin, stdout=stdout, stderr=stderr, env={**os.environ, **job.env})
        timer = threading.Timer(LIMIT, process.kill)
        timer.start()
        sample = reap(process, start)
        timer.cancel()
        if process.returncode != 0:
            raise failure(job, process.returncode, stderr)
    if verbose:
        names = " ".join(os.path.basename(word) for word in job.argv)[:100]
        print(f"{sample.wall:8.3f} s {sample.cpu:8.3f} cpu {sample.peak / MB:6.1f} MB  {names}", file=sys.stderr)
    return sample


def failure(job: Job, code: int, stderr: IO[bytes]) -> JobFailed:
    """Returns the error of a job that exited with a code other than 0, with the end of what it wrote to stderr."""
    stderr.seek(0)
    tail = stderr.read().decode(errors="replace").strip()[-300:]
    return JobFailed(f"{' '.join(job.argv)[:200]}: exit {code}: {tail}")


def reap(process: subprocess.Popen[bytes], start: float) -> Sample:
    """Waits for a process with wait4; its peak covers the process and the children it waited for."""
    _pid, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    return Sample(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def run_interleaved(jobs: Mapping[str, Job], repeat: int) -> dict[str, list[Sample]]:
    """Runs A, B, C, A, B, C, … so that other load affects all jobs alike, after a warm-up; one round has none."""
    samples: dict[str, list[Sample]] = {name: [] for name in jobs}
    for job in jobs.values() if repeat > 1 else ():
        run(job)
    for _ in range(repeat):
        for name, job in jobs.items():
            samples[name].append(run(job))
    measured.extend(figures(name, jobs[name], found) for name, found in samples.items())
    return samples


def figures(name: str, job: Job, samples: Sequence[Sample]) -> dict[str, object]:
    """Returns the samples of one command, for results.json."""
    words = [os.path.basename(word) if os.sep in word else word for word in job.argv]
    return {
        "name": name,
        "command": " ".join(words)[:200],
        "seconds": [round(one.wall, 4) for one in samples],
        "cpuSeconds": [round(one.cpu, 4) for one in samples],
        "peakMb": round(max(one.peak for one in samples) / MB, 1),
    }


def peak(samples: list[Sample]) -> int:
    """Returns the largest peak in bytes."""
    return max(sample.peak for sample in samples)


def seconds(samples: list[Sample]) -> float:
    """Returns the median wall-clock time."""
    return statistics.median(sample.wall for sample in samples)


def watch(job: Job) -> tuple[int, int]:
    """Returns peak resident bytes of the process alone and of its largest child (the guardian), polled from /proc."""
    own = child = 0
    with open(job.stdin, "rb") as stdin, open(job.stdout, "wb") as stdout:
        process = subprocess.Popen(job.argv, stdin=stdin, stdout=stdout, env={**os.environ, **job.env})
        while process.poll() is None:
            own = max(own, _high_water(process.pid))
            child = max([child, *map(_high_water, _children(process.pid))])
            time.sleep(0.01)
    return own, child


def _high_water(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # it has ended
    return 0


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []
