"""ae-run on 2 000 prompts with a trivial agent."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

from bench import baselines, table
from bench.estimate import met
from bench.measure import MB, Job, peak, ratio, run, run_interleaved, watch
from bench.setting import Setting
from bench.table import Finding

PROMPTS = 2_000
SLOTS = (1, 2, 4, 8)
CROWD = 500


def measure(setting: Setting) -> Iterator[Finding]:
    """Compares with xargs -P N at the same N; then runs 500 agents at once."""
    prompts = setting.file("prompts", setting.size(PROMPTS))
    agents = {"--simple": ["--simple", "/bin/echo {}"], "-s": ["-s", echo_schema(setting)]}
    for (called, agent), slots in itertools.product(agents.items(), SLOTS):
        ours = Job([baselines.tool("ae-run"), prompts, *agent, "-j", str(slots)])
        theirs = Job(baselines.xargs(slots, "/bin/echo"), stdin=f"{prompts}.items")
        found = run_interleaved({"ours": ours, "xargs": theirs}, setting.repeat)
        against = ratio(found["ours"], found["xargs"])
        what = f"ae-run {called} -j {slots} / xargs -P {slots}"
        yield table.of_ratio("run", what, against, 1.3, table.against(peak(found["ours"])))
        yield table.of_cpu("run", what, against, 1.15)
    own, guardian = watch(ours)
    yield Finding("run", "peak of ae-run alone, and of its guardian", f"{own / MB:.1f} MB, {guardian / MB:.1f} MB")
    yield from _crowd(setting)


def echo_schema(setting: Setting) -> str:
    """Writes an adapter schema whose agent is echo; returns its path."""
    path = setting.scratch("echo.json")
    schema = {
        "version": 1,
        "name": "echo",
        "command": ["/bin/echo"],
        "sessionMode": "stream",
        "prompt": {"flag": ""},
        "output": {"flag": "", "value": ""},
        "outputEvents": [],
        "result": {"matchPath": "$.type", "matchValue": "result", "contentPath": "$.result"},
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(schema, file)
    return path


def _crowd(setting: Setting) -> Iterator[Finding]:
    prompts = setting.file("prompts", CROWD)
    raw = setting.scratch("crowd.jsonl")
    argv = [baselines.tool("ae-run"), prompts, "--shell", "exec sleep 1", "-j", str(CROWD)]
    ours = run(Job(argv, stdout=raw))
    theirs = run(Job(baselines.xargs(CROWD, "sh", "-c", "exec sleep 1"), stdin=f"{prompts}.items"))
    with open(raw, "rb") as lines:
        records = [json.loads(line) for line in lines]
    good = sum(record["exitCode"] == 0 and "errors" not in record for record in records)
    peaks = table.against(ours.peak)
    yield Finding("run", f"`sleep 1` -j {CROWD}: records without an error", str(good), f"{CROWD}", met(good == CROWD))
    yield table.of_ratio("run", f"the same / xargs -P {CROWD}", ratio([ours], [theirs]), None, peaks)
