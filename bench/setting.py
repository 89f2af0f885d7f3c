"""Settings shared by all rows: number of rounds, data size, file locations."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from bench import data
from bench.baselines import ROOT, SCRATCH


class Setting(NamedTuple):
    """The options of one invocation of the bench."""

    repeat: int
    quick: bool
    large: bool

    def size(self, full: int) -> int:
        """Returns the number of records to use: `full`, or a tenth of it with --quick."""
        return max(1, full // 10) if self.quick else full

    def file(self, kind: str, count: int) -> str:
        """Returns the path of a file with `count` generated records."""
        return data.make(self.data_folder(), kind, count)

    def data_folder(self) -> str:
        """Returns the folder of generated data."""
        folder = os.path.join(SCRATCH, "data")
        os.makedirs(folder, exist_ok=True)
        return folder

    def scratch(self, name: str) -> str:
        """Returns the path of a scratch file to write to."""
        return os.path.join(SCRATCH, name)


def grader(name: str) -> str:
    """Returns the path of a trivial grader."""
    return os.path.join(ROOT, "bench", "graders", name)


def loop_grader(setting: Setting) -> str:
    """Writes the looping grader with this interpreter in its #! line: a pyenv shim starts ten times as slowly."""
    path = setting.scratch("loop")
    with open(grader("loop.py"), encoding="utf-8") as source, open(path, "w", encoding="utf-8") as script:
        script.write(f"#!{sys.executable}\n{source.read()}")
    os.chmod(path, 0o755)
    return path


def harness_schema() -> str:
    """Returns the claude adapter schema for agent-eval-harness, which has no fields for tool input and output."""
    return os.path.join(ROOT, "bench", "claude-agent-eval-harness.json")
