"""ae-compare keeps a compact row of each record: memory grows slowly with their number."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.tool import BIN, Record, peak_memory, write

RUNS = 10
FEW, MANY = 300, 2000  # prompts


def result(run: int, number: int) -> Record:
    """A graded result with everything that a comparison reads."""
    passed = (number * 7 + run * number // 3) % 10 < 6
    timing = {"total": 1000 + number * 3 + run, "inputTokens": 4000 + number, "outputTokens": run, "costUsd": 0.01}
    return {
        "id": f"case-{number:06}",
        "input": f"question {number}",
        "output": "answer",
        "metadata": {"category": ("code", "web", "data")[number % 3]},
        "timing": timing,
        "score": {"pass": passed, "score": 0.25 + 0.5 * passed},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runs")
    for count in (FEW, MANY):
        for run in range(RUNS):
            write(made / f"{count}-{run}.jsonl", *(result(run, number) for number in range(count)))
    return made


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is in kB on Linux only")
@pytest.mark.parametrize("form", ["json", "table", "markdown"])
def test_memory_of_a_record_is_that_of_its_columns(folder: Path, form: str) -> None:
    """As an object each would take about 900 bytes, and more for what a report says of each prompt."""
    peaks = {}
    for count in (FEW, MANY):
        files = [f"{count}-{run}.jsonl" for run in range(RUNS)]
        peaks[count] = peak_memory(BIN / "ae-compare", *files, "-f", form, cwd=folder)
    each = 1024 * (peaks[MANY] - peaks[FEW]) / (RUNS * (MANY - FEW))
    assert 0 < each < 500, f"{each:.0f} bytes for each record; {peaks}"
