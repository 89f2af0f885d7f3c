"""ae-run of 2 000 prompts with a trivial agent, on an idle and on a busy machine; 500 agents at once."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench import findings, programs
from bench.findings import Finding, met, ratio
from bench.measure import MB, Job, peak, run_interleaved, watch
from bench.setting import Setting

PROMPTS = 2_000
SLOTS = (1, 2, 8)
TIMES = 1.5  # xargs
CROWD, CROWD_MEMORY = 500, 40
BUSY_SLOTS, BUSY_TIMES = 8, 1.0


def measure(setting: Setting) -> Iterator[Finding]:
    """ae-run with a trivial agent, beside xargs -P N at the same N; 500 agents at once; a busy machine."""
    prompts = setting.file("prompts", setting.size(PROMPTS))
    agents = {"--simple": ["--simple", "/bin/echo {}"], "-s": ["-s", programs.echo_schema()]}
    for (called, agent), slots in itertools.product(agents.items(), SLOTS):
        yield _beside_xargs(setting, f"ae-run {called}", prompts, agent, slots, TIMES)
    yield from _crowd(setting)
    with _busy_machine():
        yield _beside_xargs(setting, "busy machine: ae-run", prompts, agents["--simple"], BUSY_SLOTS, BUSY_TIMES)


def _beside_xargs(setting: Setting, called: str, prompts: str, agent: list[str], slots: int, goal: float) -> Finding:
    jobs = {
        "ours": Job([programs.tool("ae-run"), prompts, *agent, "-j", str(slots)]),
        "xargs": Job(programs.xargs(slots, "/bin/echo"), stdin=f"{prompts}.items"),
    }
    found = run_interleaved(jobs, setting.repeat)
    what, peaks = f"{called} -j {slots} / xargs -P {slots}", findings.side_by_side(peak(found["ours"]))
    return findings.of_ratio("run", what, ratio(found["ours"], found["xargs"]), goal, peaks)


def _crowd(setting: Setting) -> Iterator[Finding]:
    """Runs 500 agents at once: all succeed, and the tool and its guardian stay small."""
    prompts, raw = setting.file("prompts", CROWD), programs.scratch("crowd.jsonl")
    agent = ["--shell", "exec sleep 2", "-j", str(CROWD)]
    own, guardian = watch(Job([programs.tool("ae-run"), prompts, *agent], stdout=raw))
    with open(raw, "rb") as lines:
        records = [json.loads(line) for line in lines]
    good = sum(record["exitCode"] == 0 and "errors" not in record for record in records)
    what = f"{CROWD} agents at once"
    yield Finding("run", f"{what}: records without an error", str(good), f"{CROWD}", met(good == CROWD))
    peaks = f"guardian {guardian / MB:.0f}"
    yield findings.of_memory("run", f"{what}: peak of ae-run", own, CROWD_MEMORY, peaks)


@contextmanager
def _busy_machine() -> Iterator[None]:
    """Keeps every processor busy with four endless loops."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
