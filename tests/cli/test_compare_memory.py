"""ae-compare keeps a compact row of each record: memory grows slowly with their number."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tool import BIN, Record, write

RUNS = 10


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


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is in kB on Linux only")
@pytest.mark.parametrize("form", ["json", "table", "markdown"])
def test_memory_of_a_record_is_that_of_its_columns(tmp_path: Path, form: str) -> None:
    """As an object each would take about 900 bytes, and more for what a report says of each prompt."""
    peaks = {}
    for count in (500, 3500):
        for run in range(RUNS):
            write(tmp_path / f"{count}-{run}.jsonl", *(result(run, number) for number in range(count)))
        files = [f"{count}-{run}.jsonl" for run in range(RUNS)]
        tool = subprocess.Popen([BIN / "ae-compare", *files, "-f", form], stdout=subprocess.DEVNULL, cwd=tmp_path)
        _, status, used = os.wait4(tool.pid, 0)
        tool.returncode = os.waitstatus_to_exitcode(status)
        assert tool.returncode == 0
        peaks[count] = used.ru_maxrss * 1024
    each = (peaks[3500] - peaks[500]) / (RUNS * 3000)
    assert each < 500, f"{each:.0f} bytes for each record; {peaks}"
