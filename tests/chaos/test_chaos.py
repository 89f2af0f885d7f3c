"""The short form of `make chaos`: a round per tool, and faults that come in every run of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.faults import possible_faults
from tests.chaos.plan import draw
from tests.chaos.rounds import report, run_round

SEED = 17
FAULTS = ["SIGKILL", "full disk", "SIGTERM", "closed pipe", "agents killed"]


@pytest.mark.parametrize(("number", "fault"), list(enumerate(FAULTS)))
def test_a_round(number: int, fault: str, tmp_path: Path) -> None:
    if fault not in possible_faults():
        fault = "file size limit"
    tmp_path.chmod(0o755)
    this = run_round(draw(SEED, number, faults=[fault]), tmp_path)
    assert not this.problems, report(this)
