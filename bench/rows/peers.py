"""The whole job in other harnesses: 200 prompts, a trivial agent, a check of its output."""

from __future__ import annotations

from collections.abc import Iterator

from bench import findings, programs
from bench.findings import Finding, ratio
from bench.measure import Job, peak, run_interleaved
from bench.setting import Setting

PROMPTS = 200
SLOTS = 4
RESULTS = 10_000


def measure(setting: Setting) -> Iterator[Finding]:
    """ae-capture with a grader, beside other harnesses and what only starts processes; ae-summarize beside jq."""
    prompts = setting.file("prompts", setting.size(PROMPTS))
    jobs = programs.peer_jobs(prompts, SLOTS)
    found = run_interleaved({**jobs, **dict(programs.runners(prompts, SLOTS))}, setting.repeat)
    ours = found.pop("agenteval")
    for name, theirs in found.items():
        goal = 1.0 if name in jobs else None
        sizes = findings.side_by_side(peak(ours), peak(theirs))
        yield findings.of_ratio("peers", f"ae-capture -j {SLOTS} / {name}", ratio(ours, theirs), goal, sizes)
    if programs.has("jq"):
        yield from _reading(setting)


def _reading(setting: Setting) -> Iterator[Finding]:
    results = setting.file("results", setting.size(RESULTS))
    tools = {"ours": Job([programs.tool("ae-summarize"), results]), "jq": programs.jq(results)}
    found = run_interleaved(tools, setting.repeat)
    sizes = findings.side_by_side(peak(found["ours"]), peak(found["jq"]))
    yield findings.of_ratio("peers", "ae-summarize / jq -c .", ratio(found["ours"], found["jq"]), 1.0, sizes)
