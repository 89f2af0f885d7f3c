"""What all rows share: how often, how much, and where the files lie."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from bench import data
from bench.contestants import ROOT, SCRATCH


class Setting(NamedTuple):
    """One call of the bench."""

    repeat: int
    quick: bool
    large: bool

    def size(self, full: int) -> int:
        """So many records, or a tenth with --quick."""
        return max(1, full // 10) if self.quick else full

    def file(self, kind: str, count: int) -> str:
        """A file of made-up records."""
        folder = os.path.join(SCRATCH, "data")
        os.makedirs(folder, exist_ok=True)
        return data.make(folder, kind, count)

    def scratch(self, name: str) -> str:
        """The path of a file to write to."""
        return os.path.join(SCRATCH, name)


def grader(name: str) -> str:
    """One of the trivial graders."""
    return os.path.join(ROOT, "bench", "graders", name)


def loop_grader(setting: Setting) -> str:
    """The grader that loops, as an executable run by this very Python: a shim (pyenv) takes ten times as long."""
    path = setting.scratch("loop")
    with open(grader("loop.py"), encoding="utf-8") as source, open(path, "w", encoding="utf-8") as script:
        script.write(f"#!{sys.executable}\n{source.read()}")
    os.chmod(path, 0o755)
    return path


def seed_schema() -> str:
    """Claude's events in the form that the seed's harness knows: it has no place for what a tool was given or gave."""
    return os.path.join(ROOT, "bench", "claude-seed.json")
