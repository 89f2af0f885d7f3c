"""The short form of the fault matrix: one kind of obstacle for every path; `make chaos` tries them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.matrix import KINDS, PATHS, check

# For the program at the other end of a named pipe, ten seconds.
WAITING = {"output", "schema", "label file", "shard", "table of ae-prompts", "case of ae-prompts", "grader of a case"}
WAITING |= {
    "run of a history",
    "review",
    "instructions",
    "MCP servers",
    "prompts",
    "results",
    "run that is compared",
    "page",
    "graded output",
}
WAITING |= {"instructions of a judge", "inspect log"}
LARGE = {"skill", "file of a skill", "overlay", "grader file", "label file"}  # read whole, also a sparse file
LARGE |= {"session log", "prompts", "results", "run that is compared", "graded output", "inspect log"}


@pytest.mark.parametrize("at", range(len(PATHS)), ids=list(PATHS))
def test_a_path(at: int, tmp_path: Path) -> None:
    name = list(PATHS)[at]
    slow = {kind for kind, names in {"FIFO": WAITING, "sparse file": LARGE}.items() if name in names}
    kinds = [kind for kind in KINDS if kind not in slow]
    assert check(name, kinds[at % len(kinds)], tmp_path) == []
