"""The short form of the fault matrix: one kind of obstacle for every path; `make chaos` tries them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.matrix import KINDS, PATHS, check

WAITING = {"output", "schema", "label file", "shard"}  # for the program at the other end of a named pipe, ten seconds


@pytest.mark.parametrize("at", range(len(PATHS)), ids=list(PATHS))
def test_a_path(at: int, tmp_path: Path) -> None:
    name = list(PATHS)[at]
    kinds = [kind for kind in KINDS if kind != "FIFO" or name not in WAITING]
    assert check(name, kinds[at % len(kinds)], tmp_path) == []
