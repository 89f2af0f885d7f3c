"""SIGKILL at any moment, then --resume: nothing is lost, nothing is done twice, no line is broken."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.crash import kill_and_resume
from tests.support.tool import Record, read, run, write
from tests.support.watching import Running, until

COUNT = 60
IDS = [str(number) for number in range(COUNT)]


@pytest.mark.parametrize("order", [[], ["--keep-order"]])
def test_run_resumes_after_every_crash(order: list[str], mark: str, tmp_path: Path) -> None:
    file = write(tmp_path / "prompts", *({"id": name, "input": f"0.0{5 + int(name) % 26:02}"} for name in IDS))
    line = f": {mark}; sleep $PROMPT; head -c 30000 /dev/zero | tr '\\0' x"

    def check(records: list[Record]) -> None:
        ids = [record["id"] for record in records]
        assert (ids if order else sorted(ids, key=int)) == IDS
        assert all(record["rawLines"] == ["x" * 30000] and record["exitCode"] == 0 for record in records)

    kill_and_resume(["ae-run", file, "-j", 4, *order, "--shell", line], tmp_path / "raw", mark, check)


def test_grade_resumes_after_every_crash(mark: str, tmp_path: Path) -> None:
    file = write(tmp_path / "results", *({"id": name, "output": "x" * 30000} for name in IDS))
    answer = '{\\"pass\\":true,\\"score\\":1}'
    grader = f"sh -c ': {mark}; cat > /dev/null; sleep 0.01; echo \"{answer}\"'"

    def check(records: list[Record]) -> None:
        assert [record["id"] for record in records] == IDS
        assert all(record["score"] == {"pass": True, "score": 1} and "graderError" not in record for record in records)

    kill_and_resume(["ae-grade", file, "-j", 4, "-g", f"quick={grader}"], tmp_path / "graded", mark, check)


def test_resume_at_once_after_a_crash(mark: str, tmp_path: Path) -> None:
    """While the guardian of the killed tool is still busy, the next one waits for it."""
    file = write(tmp_path / "prompts", *({"id": name, "input": "x"} for name in IDS[:8]))
    line = f": {mark}; [ -e second ] && exit; (trap '' TERM; setsid sleep 60) & (trap '' TERM; setsid sleep 60) & wait"
    for _ in range(3):
        (tmp_path / "second").unlink(missing_ok=True)
        (tmp_path / "raw").unlink(missing_ok=True)
        with Running("ae-run", file, "-j", 8, "-o", "raw", "--shell", line, cwd=tmp_path) as tool:
            until(lambda: (tmp_path / "raw").exists(), "the tool is at work")
            time.sleep(0.15)
            (tmp_path / "second").touch()
            tool.process.kill()
            tool.process.wait()
        run("ae-run", file, "-j", 8, "-o", "raw", "--resume", "--shell", line, cwd=tmp_path).expect(0)
        assert sorted(record["id"] for record in read(tmp_path / "raw")) == sorted(IDS[:8])
