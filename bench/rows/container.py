"""ae-run and ae-grade in a cgroup of their own, as in a container.

There, Linux does not schedule each session as a group of its own (sched(7), autogroup), and so a tool competes with
each of its processes for a processor.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench import baselines, table
from bench.measure import Job, ratio, run_interleaved
from bench.setting import Setting, grader
from bench.table import Finding

COUNT = 2_000
SLOTS = (2, 4, 8)
NAME = "agenteval-bench"
FOLDERS = ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup")  # of version 1, and of version 2


def missing() -> list[str]:
    """Returns a line if no cgroup can be made here."""
    return [] if _folder() else ["no cgroup with the cpu controller can be made (that takes root)"]


def measure(setting: Setting) -> Iterator[Finding]:
    """Compares with xargs -P N in the same cgroup."""
    if missing():
        return
    prompts, results = (setting.file(kind, setting.size(COUNT)) for kind in ("prompts", "results"))
    script = grader("fixed.sh")
    tools = {
        "ae-run": ([prompts, "--simple", "/bin/echo {}"], ["/bin/echo"], f"{prompts}.items"),
        "ae-grade": ([results, "-g", script], [script], f"{results}.items"),
    }
    with _cgroup() as group:
        for name, (options, command, items) in tools.items():
            for slots in SLOTS:
                ours = Job(_inside(group, [baselines.tool(name), *options, "-j", str(slots)]))
                theirs = Job(_inside(group, baselines.xargs(slots, *command)), stdin=items)
                found = run_interleaved({"ours": ours, "xargs": theirs}, setting.repeat)
                what = f"{name} -j {slots} / xargs -P {slots}, in a cgroup"
                yield table.of_ratio("container", what, ratio(found["ours"], found["xargs"]), 1.3)


def _inside(group: str, argv: Sequence[str]) -> list[str]:
    """Returns a command that enters the cgroup and becomes the given one."""
    return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', os.path.join(group, "cgroup.procs"), *argv]


@contextmanager
def _cgroup() -> Iterator[str]:
    group = os.path.join(_folder(), NAME)
    os.makedirs(group, exist_ok=True)
    try:
        yield group
    finally:
        os.rmdir(group)


def _folder() -> str:
    """Returns the folder in which a cgroup has the cpu controller, "" if there is none that we may write to."""
    for folder in FOLDERS:
        # The root of version 1 has shares of its own, that of version 2 says what its children have.
        controls = os.path.join(folder, "cgroup.subtree_control")
        if os.path.exists(controls):
            with open(controls, encoding="ascii") as file:
                has_cpu = "cpu" in file.read().split()
        else:
            has_cpu = os.path.exists(os.path.join(folder, "cpu.shares"))
        if has_cpu and os.access(folder, os.W_OK):
            return folder
    return ""
