"""The bench: what it compares is equal, and a goal counts as missed by more than the noise that its rounds show."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from bench import data, measure, shapes
from bench.findings import (
    Estimate,
    Finding,
    Verdict,
    at_least,
    at_most,
    either,
    estimate,
    of_cpu,
    of_ratio,
    ratio,
    tally,
)
from bench.measure import Job, JobFailed, Sample, run_interleaved
from bench.run import exit_status
from tests.support.tool import ROOT, run

GOAL = 1.5


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([1.4, 1.4, 1.4, 1.4, 1.4], "yes"),
        ([1.4, 1.4, 1.4, 9.0, 9.0], "yes"),  # two rounds under load
        ([1.6, 1.6, 1.6, 1.6, 1.6], "NO"),
        ([1.6, 1.59, 1.61, 1.6, 1.6], "NO"),
        ([1.6, 1.6, 1.6, 1.6, 9.0], "NO"),  # a slow round is no excuse for the others
        ([1.4, 1.6, 1.7, 1.8, 1.9], "noise"),
        ([1.49, 1.51, 1.51, 1.51, 1.51], "noise"),  # the median misses it, the shortest times do not
        ([1.55, 1.51, 1.60, 1.52, 1.65], "noise"),  # missed by less than the rounds differ
        ([1.6], "noise"),  # one round shows no noise
        ([1.6, 1.6], "noise"),
        ([1.4], "yes"),
    ],
)
def test_a_goal_is_missed_by_more_than_the_noise(ours: list[float], verdict: str) -> None:
    found = estimate(ours, [1.0] * len(ours))
    assert at_most(found, GOAL) == verdict
    assert at_least(found.inverse(), 1 / GOAL) == verdict


def test_load_that_slows_both_sides_of_a_round_is_no_noise() -> None:
    found = estimate([1.6, 3.2, 4.8], [1.0, 2.0, 3.0])
    assert [*found] == pytest.approx([1.6, 1.6, 1.6, 1.6, 0.0])


def test_more_rounds_show_a_smaller_miss() -> None:
    few = estimate([1.50, 1.56, 1.62], [1.0] * 3)
    many = estimate([1.50, 1.56, 1.62] * 12, [1.0] * 36)
    assert many.noise < few.noise
    assert math.isinf(estimate([1.0, 2.0], [1.0, 1.0]).noise)


def test_the_inverse_of_a_ratio_has_the_same_relative_noise() -> None:
    found = Estimate(2.0, 1.6, 1.0, 4.0, 0.2)
    assert [*found.inverse()] == pytest.approx([0.5, 0.625, 0.25, 1.0, 0.05])


def test_one_of_two_goals_is_enough() -> None:
    assert either("NO", "yes") == "yes"
    assert either("NO", "noise") == "noise"
    assert either("NO", "NO") == "NO"


def test_clock_and_cpu_are_judged_apart() -> None:
    ours = [Sample(wall=2.0, cpu=1.0, peak=0)] * 3
    theirs = [Sample(wall=1.0, cpu=1.0, peak=0)] * 3
    found = ratio(ours, theirs)
    assert of_ratio("run", "", found, 1.3).verdict == "NO"
    assert of_cpu("run", "", found, 1.15).verdict == "yes"
    assert of_ratio("run", "", found, None).verdict is None


@pytest.mark.parametrize(
    ("verdicts", "status"), [([], 0), (["yes", None], 0), (["yes", "noise"], 0), (["yes", "NO", "noise"], 1)]
)
def test_only_a_miss_beyond_the_noise_is_an_exit_status_of_1(verdicts: list[Verdict | None], status: int) -> None:
    findings = [Finding("run", "", "", verdict=verdict) for verdict in verdicts]
    assert exit_status(findings) == status
    assert f"{verdicts.count('NO')} by more" in tally(findings)


def floor(raw: Path, kind: str) -> list[object]:
    """Returns what a version of ae-extract with bare orjson writes."""
    packages = os.path.dirname(os.path.dirname(orjson.__file__))
    command = [sys.executable, "-S", "-E", str(ROOT / "bench" / "floor.py"), packages, str(raw), kind]
    return [json.loads(line) for line in subprocess.run(command, capture_output=True, check=True).stdout.splitlines()]


def test_the_floor_writes_what_ae_extract_writes_of_claude(tmp_path: Path) -> None:
    """If an adapter schema changes what is extracted, the bench compares different work."""
    raw = tmp_path / "raw.jsonl"
    data.write("raw", 5, str(raw))
    found = floor(raw, "claude")
    assert len(found) == 5 and run("ae-extract", raw, "-s", "claude").expect(0).records == found


@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_the_floor_writes_what_ae_extract_writes_of_each_shape(shape: str, tmp_path: Path) -> None:
    raw, schema = shapes.make(str(tmp_path), shape, 3)
    found = floor(Path(raw), shape)
    assert len(found) == 3 and run("ae-extract", raw, "-s", schema).expect(0).records == found


def test_one_round_has_no_warm_up(tmp_path: Path) -> None:
    count = tmp_path / "count"
    jobs = {"one": Job(["sh", "-c", f"echo >> {count}"])}
    for rounds, runs in ((1, 1), (2, 3)):
        count.write_bytes(b"")
        assert len(run_interleaved(jobs, rounds)["one"]) == rounds
        assert count.stat().st_size == runs


def test_a_job_that_does_not_end_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "LIMIT", 0.2)
    begin = time.monotonic()
    with pytest.raises(JobFailed, match="exit -9"):
        measure.run(Job(["sleep", "100"]))
    assert time.monotonic() - begin < 50
