"""bench/results.json: all figures of a run of the bench, with the machine that they were measured on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime

from bench import measure
from bench.baselines import ROOT
from bench.setting import Setting
from bench.table import Finding

PATH = os.path.join(ROOT, "bench", "results.json")


def write(findings: list[Finding], setting: Setting, here: dict[str, object], missing: list[str]) -> None:
    """Writes the findings and the samples that they were computed from, on what machine, and what was not there."""
    document = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _output("git", "-C", ROOT, "rev-parse", "--short", "HEAD"),
        "machine": here,
        "rounds": setting.repeat,
        "quick": setting.quick,
        "missing": missing,
        "findings": [{name: text for name, text in one._asdict().items() if text} for one in findings],
        "runs": measure.measured,
    }
    with open(PATH, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1, ensure_ascii=False)
        file.write("\n")


def machine() -> dict[str, object]:
    """Describes this machine: what the figures depend on."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        memory = int(lines.readline().split()[1]) // (1 << 20)
    with open("/proc/loadavg", encoding="ascii") as file:
        load = float(file.read().split()[0])
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memoryGb": memory,
        "loadBefore": load,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next(
            (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
        )


def _output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True).stdout.strip()
