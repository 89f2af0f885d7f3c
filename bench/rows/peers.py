"""The whole job in other harnesses: 200 prompts, a trivial agent, a check of its output."""

from __future__ import annotations

from collections.abc import Iterator

from bench import baselines, peers, table
from bench.measure import Job, peak, ratio, run_interleaved
from bench.rows.run import echo_schema
from bench.setting import Setting
from bench.table import Finding

PROMPTS = 200
SLOTS = 4
RESULTS = 10_000


def measure(setting: Setting) -> Iterator[Finding]:
    """Compares with every harness that can be installed, with what only starts processes, and with jq."""
    prompts = setting.file("prompts", setting.size(PROMPTS))
    echo_schema(setting)
    jobs = peers.jobs(setting, prompts, SLOTS)
    found = run_interleaved({**jobs, **dict(peers.runners(prompts, SLOTS))}, setting.repeat)
    ours = found.pop("agenteval")
    for name, theirs in found.items():
        goal = 1.0 if name in jobs else None
        sizes = table.against(peak(ours), peak(theirs))
        yield table.of_ratio("peers", f"ae-capture -j {SLOTS} / {name}", ratio(ours, theirs), goal, sizes)
    if peers.has("jq"):
        yield from _reading(setting)


def _reading(setting: Setting) -> Iterator[Finding]:
    results = setting.file("results", setting.size(RESULTS))
    tools = {"ours": Job([baselines.tool("ae-summarize"), results]), "jq": peers.jq(results)}
    found = run_interleaved(tools, setting.repeat)
    sizes = table.against(peak(found["ours"]), peak(found["jq"]))
    yield table.of_ratio("peers", "ae-summarize / jq -c .", ratio(found["ours"], found["jq"]), 1.0, sizes)
